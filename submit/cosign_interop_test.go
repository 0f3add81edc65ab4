package submit

import (
	"bytes"
	"github.com/gaia-harness/gaia/internal/rundir"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/trajectory"
)

// cosign is how docs/verifying.md has a package verified with one program.
type cosign struct {
	program, dir    string // dir is the package
	prepare, verify string // the lines of the page
	refusals        int
}

// newCosign takes the lines from the page and lets them name any file and any
// bundle.
func newCosign(t *testing.T, program, dir string) *cosign {
	t.Helper()
	const bundle, blob = " attestation.sigstore.json ", " results.jsonl\n"
	lines := documented(t, "### cosign", "```sh tested-by TestInteropCosign")
	prepare, verify, found := strings.Cut(lines, "cosign verify-blob-attestation ")
	if !found || strings.Count(lines, bundle) != 1 || strings.Count(lines, blob) != 1 {
		t.Fatalf("the lines do not call cosign with bundle and file:\n%s", lines)
	}
	verify = strings.NewReplacer(bundle, ` "$BUNDLE" `, blob, ` "$BLOB"`+"\n").Replace(verify)
	return &cosign{program: program, dir: dir, prepare: prepare, verify: `"$COSIGN" verify-blob-attestation ` + verify}
}

// run runs lines where there is no network: the proxy is a port at which
// no one listens.
func (c *cosign) run(t *testing.T, lines, bundle, blob string) (bool, string) {
	t.Helper()
	cmd := exec.Command("sh", "-euc", lines)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "COSIGN="+c.program, "BUNDLE="+bundle, "BLOB="+blob, "HOME="+filepath.Dir(c.dir),
		"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1")
	return accepts(t, cmd)
}

func (c *cosign) trust(t *testing.T, key string) {
	t.Helper()
	if ok, out := c.run(t, strings.ReplaceAll(c.prepare, "KEY.pub", key), "", ""); !ok {
		t.Fatalf("key and root cannot be prepared: %s", out)
	}
}

func (c *cosign) accepted(t *testing.T, bundle, blob string) {
	t.Helper()
	if ok, out := c.run(t, c.verify, bundle, blob); !ok || !strings.Contains(out, "Verified OK") {
		t.Errorf("%s is refused: %s", blob, out)
	}
}

func (c *cosign) refused(t *testing.T, what, bundle, blob string) {
	t.Helper()
	c.refusals++
	if ok, out := c.run(t, c.verify, bundle, blob); ok || strings.Contains(out, "Verified OK") {
		t.Errorf("%s: accepted\n%s", what, out)
	}
}

// holds wants each file that a package's statement is about accepted, and refused
// when it is changed.
func (c *cosign) holds(t *testing.T, names []string) {
	t.Helper()
	files, changed := load(t, c.dir), filepath.Join(filepath.Dir(c.dir), "changed")
	for _, name := range names {
		c.accepted(t, BundleFile, name)
		for _, at := range []int{0, len(files[name]) / 2, len(files[name]) - 1} {
			put(t, changed, flipped(files[name], at))
			c.refused(t, name+" changed", BundleFile, changed)
		}
	}
	c.refused(t, "a file that the statement is not about", BundleFile, AttestationFile)
}

// TestInteropCosign runs the lines of docs/verifying.md with each program that
// GAIA_COSIGN lists, as PATH lists folders, on a package and on the public one of
// the same run.
func TestInteropCosign(t *testing.T) {
	p := interopPackage(t)
	of := config(t, two)
	of.Public, of.Out = true, filepath.Dir(p.Path)
	public := mustBuild(t, of)
	programs := filepath.SplitList(os.Getenv("GAIA_COSIGN"))
	if len(programs) == 0 {
		t.Skip("SKIPPED: no cosign was named, so no bundle was verified with it: run make interop, or set GAIA_COSIGN")
	}
	files, changed := load(t, p.Path), filepath.Join(filepath.Dir(p.Path), "changed")
	whole := files[BundleFile]
	signature := whole[bytes.Index(whole, []byte(`{"keyid"`)):bytes.Index(whole, []byte(`]},"mediaType"`))]
	for _, program := range programs {
		t.Run(filepath.Base(filepath.Dir(program)), func(t *testing.T) {
			c := newCosign(t, program, p.Path)
			c.trust(t, "KEY.pub")
			c.holds(t, signedFiles(Files()))
			for at := range whole {
				if !passedOver(whole, at) {
					put(t, changed, flipped(whole, at))
					c.refused(t, "bundle changed at the end of "+string(whole[max(0, at-20):at+1]), changed, ReadmeFile)
				}
			}
			for what, bundle := range map[string][]byte{
				"no signature":        bytes.Replace(whole, signature, nil, 1),
				"an empty bundle":     nil,
				"the envelope itself": files[AttestationFile],
			} {
				put(t, changed, bundle)
				c.refused(t, what, changed, ReadmeFile)
			}
			c.trust(t, "OTHER.pub")
			c.refused(t, "another key", BundleFile, ReadmeFile)
			c.trust(t, "KEY.pub")
			put(t, changed, whole)
			c.accepted(t, changed, ReadmeFile)
			c.verify = strings.Replace(c.verify, "/submission/v1", "/submission/v2", 1)
			c.refused(t, "another type of statement", BundleFile, ReadmeFile)
			shown := newCosign(t, program, public.Path)
			shown.holds(t, signedFiles(publicPackageFiles(nil)))
			for _, name := range []string{trajectory.JournalFile, audit.ReportFile, LeaderboardFile, rundir.TrajectoriesFile, rundir.ResultsFile, ReadmeFile} {
				shown.refused(t, "the full package's "+name, BundleFile, filepath.Join(p.Path, name))
			}
			c.trust(t, "OTHER.pub")
			shown.refused(t, "the public package, by another key", BundleFile, leavesFile)
			t.Logf("%d files accepted, %d changes refused", len(signedFiles(Files()))+len(signedFiles(publicPackageFiles(nil))), c.refusals+shown.refusals)
		})
	}
}

// passedOver reports whether cosign does not look at a byte of a bundle, or
// whether it is one of the many of the payload that are not tried: each trial
// is a process.
func passedOver(bundle []byte, at int) bool {
	within := func(before, after string) bool {
		from := bytes.Index(bundle, []byte(before)) + len(before)
		return at >= from && at < from+bytes.Index(bundle[from:], []byte(after))
	}
	return within(`"hint":"`, `"`) || within(`bundle.v0.`, `+json"`) ||
		bundle[at+min(1, len(bundle)-1-at)] == '=' || // unused bits
		within(`"payload":"`, `"`) && at%61 != 0
}
