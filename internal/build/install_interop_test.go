package build_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/pages"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const path, version = "github.com/gaia-harness/gaia", "v0.9.9"

// output runs a program in a folder and returns what it prints; env is added to the environment.
func output(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", cmd, err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// checkout returns a clone of this repository in which the newest commit has the version as its tag.
func checkout(t *testing.T) (dir, commit string) {
	t.Helper()
	if os.Getenv("GAIA_INTEROP") == "" {
		t.Skip("make interop builds what users install")
	}
	dir = filepath.Join(t.TempDir(), "gaia")
	output(t, "", nil, "git", "clone", "-q", output(t, "", nil, "git", "rev-parse", "--show-toplevel"), dir)
	output(t, dir, nil, "git", "tag", version)
	return dir, output(t, dir, nil, "git", "rev-parse", "HEAD")
}

// names checks that a program names its version and commit, also in the plan of a rehearsal, which it solves.
func names(t *testing.T, program, commit string) {
	t.Helper()
	dir := t.TempDir()
	env := []string{"HOME=" + dir, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_DATA_HOME="}
	said, known := output(t, dir, env, program, "version"), commit
	if known == "" {
		known = "unknown"
	}
	if want := "gaia " + version + "\ncommit " + known; said != want {
		t.Errorf("%s version prints %q, want %q", program, said, want)
	}
	output(t, dir, env, program, "run", "--submit-intent")
	output(t, dir, env, program, "verify", "latest")
	plans, err := filepath.Glob(filepath.Join(dir, "runs", "*", "manifest.json"))
	if err != nil || len(plans) != 1 {
		t.Fatalf("plans %q, %v", plans, err)
	}
	var plan struct{ Harness trajectory.Harness }
	if err := json.Unmarshal(read(t, plans[0]), &plan); err != nil {
		t.Fatal(err)
	}
	if h := plan.Harness; h.Version != version || h.Commit != commit || h.Dirty {
		t.Errorf("the signed plan names %+v", h)
	}
}

func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// script runs lines of a shell in a folder, and returns what they print; env is added to the environment.
func script(t *testing.T, dir, text string, env []string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// blocks returns the lines of a page that a test runs.
func blocks(t *testing.T, page string) (all []string) {
	t.Helper()
	for _, b := range pages.Read(t, "../..", page).Blocks {
		if b.Info == "sh tested-by "+t.Name() {
			all = append(all, b.Text)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no lines for this test", page)
	}
	return all
}

// TestInteropInstall: 'go install' of a version from a module proxy.
func TestInteropInstall(t *testing.T) {
	root, _ := checkout(t)
	dir := t.TempDir()
	at := filepath.Join(dir, "proxy", path, "@v")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	packed, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	if err := zip.CreateFromVCS(packed, module.Version{Path: path, Version: version}, root, version, ""); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"list": version + "\n", version + ".mod": string(read(t, root, "go.mod")), version + ".info": `{"Version":"` + version + `","Time":"2031-02-03T04:05:06Z"}`} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output(t, dir, []string{"GOPROXY=file://" + dir + "/proxy,file://" + output(t, root, nil, "go", "env", "GOMODCACHE") + "/cache/download",
		"GOSUMDB=off", "GOFLAGS=-mod=mod -modcacherw -trimpath", "GOMODCACHE=" + dir + "/modules", "GOBIN=" + dir, "CGO_ENABLED=0"},
		"go", "install", path+"/cmd/gaia@"+version)
	names(t, filepath.Join(dir, "gaia"), "")
}

// TestInteropWheel: 'make wheel', and pip in a fresh environment. The same program gives the same wheel.
func TestInteropWheel(t *testing.T) {
	root, commit := checkout(t)
	made := output(t, root, []string{"GOFLAGS="}, "make", "-s", "wheel", "PLATFORMS="+runtime.GOOS+"/"+runtime.GOARCH)
	first := read(t, root, made)
	program := "build/programs/gaia_" + runtime.GOOS + "_" + runtime.GOARCH
	if repeated := output(t, root, nil, "python3", ".github/packaging/wheel.py", "--out", "build/wheels", program); repeated != made || !slices.Equal(read(t, root, made), first) {
		t.Errorf("the same program gives another wheel, %s after %s", repeated, made)
	}
	again, _ := checkout(t)
	if said, err := script(t, again, blocks(t, "docs/install.md")[0], []string{"GOFLAGS="}); err != nil {
		t.Fatal(said, err)
	}
	if !slices.Equal(read(t, root, program), read(t, again, "gaia")) {
		t.Error("the documented flags give another executable")
	}
	venv := filepath.Join(t.TempDir(), "venv")
	output(t, "", nil, "python3", "-m", "venv", venv)
	output(t, root, nil, filepath.Join(venv, "bin", "pip"), "install", "-q", "--disable-pip-version-check", "--no-index", made)
	names(t, filepath.Join(venv, "bin", "gaia"), commit)
}

// TestInteropRelease: the files of a release, signed with a throwaway key, verified as users are shown. GAIA_GORELEASER
// says that archives and bills of materials are made, too; else the signed files are the wheel alone.
func TestInteropRelease(t *testing.T) {
	root, commit := checkout(t)
	keys := t.TempDir()
	if said, err := script(t, keys, blocks(t, "docs/releasing.md")[0], nil); err != nil {
		t.Fatal(said, err)
	}
	env := []string{"GOFLAGS=", "RELEASE_KEY=" + keys + "/release.key", "RELEASE_PUB=" + keys + "/release.pub"}
	here := runtime.GOOS + "/" + runtime.GOARCH
	dir, wheels, archives := filepath.Join(root, "build", "wheels"), 1, 0
	if os.Getenv("GAIA_GORELEASER") != "" {
		output(t, root, env, "make", "-s", "release", "RELEASE=--skip=publish,announce")
		dir, wheels, archives = filepath.Join(root, "build", "release"), 4, 4
		files, err := filepath.Glob(filepath.Join(root, "build", "wheels", "*.whl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files { // as a release has them beside the archives
			if err := os.Rename(f, filepath.Join(dir, filepath.Base(f))); err != nil {
				t.Fatal(err)
			}
		}
	} else {
		t.Log("SKIPPED: goreleaser was not asked for, so only a wheel is signed")
		output(t, root, env, "make", "-s", "wheel", "PLATFORMS="+here)
		if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(output(t, dir, nil, "bash", "-c", "sha256sum *.whl")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		output(t, root, env, ".github/packaging/sign.sh", filepath.Join(dir, "SHA256SUMS"), filepath.Join(dir, "SHA256SUMS.sig"))
	}
	sums := string(read(t, dir, "SHA256SUMS"))
	if w, a, b := strings.Count(sums, ".whl\n"), strings.Count(sums, ".tar.gz\n"), strings.Count(sums, ".cdx.json\n"); w != wheels || a != archives || b != archives {
		t.Errorf("%d wheels, %d archives and %d bills of materials are signed, want %d and %d:\n%s", w, a, b, wheels, archives, sums)
	}
	if archives > 0 {
		name := "gaia_" + version[1:] + "_" + strings.ReplaceAll(here, "/", "_")
		output(t, dir, nil, "tar", "-xzf", name+".tar.gz")
		names(t, filepath.Join(dir, name, "gaia"), commit)
		if !slices.Equal(read(t, dir, name, "gaia"), read(t, root, "build/programs/gaia_"+strings.ReplaceAll(here, "/", "_"))) {
			t.Error("the archive has another executable than the wheel")
		}
		if bill := string(read(t, dir, name+".cdx.json")); !strings.Contains(bill, "pkg:golang/"+path+"@"+version) || !strings.Contains(bill, "pkg:golang/golang.org/x/mod@") {
			t.Errorf("the bill of materials names neither gaia nor its modules: %.300s", bill)
		}
	}
	if err := os.Link(keys+"/release.pub", dir+"/release.pub"); err != nil {
		t.Fatal(err)
	}
	programs := filepath.SplitList(os.Getenv("GAIA_COSIGN"))
	verify := func() (all []error) {
		for _, cosign := range append(programs, "") {
			env := []string{"HOME=" + keys, "PATH=" + filepath.Dir(cosign) + ":" + os.Getenv("PATH")}
			for _, text := range blocks(t, "docs/install.md") {
				if strings.HasPrefix(text, "cosign ") == (cosign != "") {
					said, err := script(t, dir, text, env)
					t.Logf("%s: %v\n%s", cosign, err, said)
					all = append(all, err)
				}
			}
		}
		return all
	}
	for _, err := range verify() {
		if err != nil {
			t.Errorf("a signed release is refused: %v", err)
		}
	}
	// What the workflow does before it publishes wheels, which were those of a draft.
	published := func() (string, error) {
		_, verify, ok := strings.Cut(string(read(t, root, ".github/workflows/release.yml")), "- name: Verify")
		_, verify, found := strings.Cut(verify, "run: |\n")
		verify, _, ends := strings.Cut(verify, "\n      - ")
		if !ok || !found || !ends {
			t.Fatal("the workflow verifies no wheels")
		}
		return script(t, root, verify, nil)
	}
	if err := errors.Join(os.Link(keys+"/release.pub", root+"/.github/packaging/release.pub"), os.Symlink(dir, root+"/dist")); err != nil {
		t.Fatal(err)
	}
	if said, err := published(); err != nil || strings.Count(said, ".whl\n") != wheels {
		t.Errorf("signed wheels are not published: %v\n%s", err, said)
	}
	added := filepath.Join(dir, "added.whl")
	if err := os.WriteFile(added, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := published(); err == nil {
		t.Errorf("a wheel without a signed digest is published:\n%s", said)
	}
	if err := os.Remove(added); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(strings.Replace(sums, " ", "  ", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range verify() {
		if err == nil {
			t.Error("a release that was changed is accepted")
		}
	}
	other := t.TempDir()
	if said, err := script(t, other, blocks(t, "docs/releasing.md")[0], nil); err != nil {
		t.Fatal(said, err)
	}
	signed := filepath.Join(other, "signature")
	if said, err := script(t, root, ".github/packaging/sign.sh LICENSE "+signed, append(env, "RELEASE_KEY="+other+"/release.key")); err == nil || !strings.Contains(said, "is not the key whose public half is") {
		t.Errorf("another key signs: %v\n%s", err, said)
	}
	if _, err := os.Stat(signed); !os.IsNotExist(err) {
		t.Errorf("its signature is left: %v", err)
	}
}

// TestInteropContainer: 'make container' by GAIA_CONTAINER, which is podman, docker or buildah. The image runs a rehearsal
// as an ordinary user.
func TestInteropContainer(t *testing.T) {
	program := os.Getenv("GAIA_CONTAINER")
	if program == "" {
		t.Skip("SKIPPED: needs podman, buildah or docker, which make interop looks for")
	}
	root, commit := checkout(t)
	image := "gaia-interop-" + strings.ToLower(filepath.Base(t.TempDir())) + commit[:8]
	output(t, root, []string{"GOFLAGS="}, "make", "-s", "container", "CONTAINER="+program, "IMAGE="+image)
	defer output(t, "", nil, program, "rmi", "-f", image)
	run := []string{"run", "--rm", "--entrypoint", "sh", image}
	if filepath.Base(program) == "buildah" {
		container := output(t, "", nil, program, "from", image)
		defer output(t, "", nil, program, "rm", container)
		run = []string{"run", container, "--", "sh"}
	}
	said := output(t, "", nil, program, append(run, "-euc", "id -u; gaia version; gaia run --submit-intent >/dev/null 2>&1; gaia verify latest | grep '^integrity'")...)
	if want := "1000\ngaia " + version + "\ncommit " + commit + "\nintegrity      ok"; !strings.HasPrefix(said, want) {
		t.Errorf("the image says %q, want %q", said, want)
	}
}
