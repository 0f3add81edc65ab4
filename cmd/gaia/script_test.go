package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/equip"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestMain also is the reader of documents and of exports that commands start which run in this
// process: started with its name, it must not be the tests once more.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && (os.Args[1] == equip.ConvertCommand || os.Args[1] == ledger.ConvertCommand) {
		main()
		return
	}
	if filepath.Base(os.Args[0]) != "gaia" { // not in the program that a test started
		long.Prepare()
	}
	testscript.Main(tests{m}, map[string]func(){"gaia": func() {
		program := build.Harness
		build.Harness = func() (trajectory.Harness, error) { // run only for a run's plan, or a package
			at, err := os.Executable()
			if err != nil {
				return trajectory.Harness{}, err
			}
			digest, err := os.ReadFile(at + digestSuffix)
			if err != nil { // another copy of the program
				return program()
			}
			h := build.Describe()
			h.ExecutableSHA256 = string(digest)
			return h, nil
		}
		if address := os.Getenv(exceptionsOf); address != "" {
			exceptions = map[string]string{}
			for _, host := range strings.Fields(os.Getenv(exceptionHosts)) {
				exceptions[host+":80"] = address
			}
		}
		main()
	}})
}

// digestSuffix ends the name of the file beside the program that holds its digest.
const digestSuffix = ".sha256"

// tests are the tests of this package. They digest the program once: it is this test binary, and a thousand processes
// that each read its 60 MB took a sixth of the time of all tests here.
type tests struct{ *testing.M }

func (m tests) Run() int {
	at, err := exec.LookPath("gaia")
	if err != nil {
		log.Fatal(err)
	}
	h, err := build.Harness()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(at+digestSuffix, []byte(h.ExecutableSHA256), 0o644); err != nil {
		log.Fatal(err)
	}
	return m.M.Run()
}

// executeHere is execute for tests, which run thousands of commands in one process: cobra keeps the flags that the shell
// completes, and those keep all commands that were made with them.
func (a *app) executeHere(args ...string) error {
	root := a.root()
	defer forget(root)
	return a.executeIn(root, args)
}

// forget empties a command that is used no longer, and those below it.
func forget(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		forget(c)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { *f = pflag.Flag{} })
	*cmd = cobra.Command{}
}

// Variables that have the program reach hosts at an address of a test.
const (
	exceptionsOf   = "GAIA_TEST_ADDRESS"
	exceptionHosts = "GAIA_TEST_HOSTS"
)

// noHub is an endpoint at which nothing answers: tests ask no hub but their own.
const noHub = "http://127.0.0.1:9"

// TestScript runs the transcripts of testdata/script against the program, each
// in an empty home; under the race detector those of commands that do several
// things at once.
func TestScript(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("the transcripts are %q, %v", files, err)
	}
	if long.Raced {
		files = nil
		for _, name := range []string{"doctor", "judge", "mcp", "policyasked", "run", "search"} {
			files = append(files, "testdata/script/"+name+".txtar")
		}
	}
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("HF_ENDPOINT", noHub)
			e.Setenv("GOGC", "400") // a quarter of the time of a short command
			return os.Mkdir(filepath.Join(e.WorkDir, "home"), 0o755)
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root": // may write to every directory
				return os.Geteuid() == 0, nil
			case "thorough":
				return long.Thorough(), nil
			case "sandbox":
				_, err := sandbox.New(t.Context(), sandbox.Config{Bwrap: equip.OnPath("bwrap")})
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":     exitCode,
			"rundir":   runDir,
			"package":  packageDir,
			"edit":     edit,
			"body":     keptBody,
			"dataset":  copyDataset,
			"endpoint": serveEndpoint,
		},
	})
}

// serveEndpoint writes COUNT generated tasks and their prices, and sets ENDPOINT to an endpoint for them at which every
// request of each named task fails, and of no other: endpoint DIR COUNT [TASK=FAULT…]. From endpoint heal on, none fails.
func serveEndpoint(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 1 && args[0] == "heal" {
		server, _ := endpoints.Load(ts.Getenv("ENDPOINT"))
		server.(*endpoint.Server).Heal()
		return
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: endpoint dir count [task=fault...], or endpoint heal")
	}
	count, err := strconv.Atoi(args[1])
	ts.Check(err)
	c := endpoint.Config{Tasks: endpoint.Tasks{Count: count}, Always: map[int]endpoint.Kind{}, RetryMs: 1}
	for _, arg := range args[2:] {
		task, kind, _ := strings.Cut(arg, "=")
		n, err := strconv.Atoi(task)
		ts.Check(err)
		c.Always[n] = endpoint.Kind(kind)
	}
	server, err := endpoint.Serve(c)
	ts.Check(err)
	ts.Defer(func() { _ = server.Close() })
	ts.Check(c.Tasks.Write(ts.MkAbs(args[0])))
	ts.Check(os.WriteFile(ts.MkAbs("prices.json"), endpoint.Prices(), 0o600))
	ts.Setenv("ENDPOINT", server.URL)
	endpoints.Store(server.URL, server)
}

var endpoints sync.Map // the servers of serveEndpoint, by their URL

// keptBody sets BODYFILE to a body that a run keeps and BODY to its digest.
func keptBody(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: body run")
	}
	found, err := filepath.Glob(ts.MkAbs(args[0]) + "/" + trajectory.BodiesDir + "/*")
	ts.Check(err)
	if len(found) == 0 {
		ts.Fatalf("%s keeps no bodies", args[0])
	}
	ts.Setenv("BODYFILE", found[0])
	ts.Setenv("BODY", "sha256:"+filepath.Base(found[0]))
}

// copyDataset writes the built-in dataset into a directory, as a copy of GAIA
// would lie there.
func copyDataset(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: dataset dir")
	}
	ts.Check(os.CopyFS(ts.MkAbs(args[0]), fixtures.Dataset()))
}
