package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/hub"
	"github.com/gaia-harness/gaia/loader"
)

// TestDoctorDataset: whether the tasks can be had is asked of whoever has them, and
// nothing is fetched.
func TestDoctorDataset(t *testing.T) {
	server, _ := serveHub(t)
	p := newPatient(t)
	p.env["HF_ENDPOINT"] = server.URL
	flags := []string{"--no-call", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"}
	dataset := func(args ...string) diagnosis { return p.findings(append(flags, args...)...)["dataset"] }
	gated := "is only for those who accepted its terms"
	p.wants(dataset(), stateFailed, gated, "make a token")
	p.wants(dataset("--revision", hubCommit), stateFailed, gated, "accept its terms")
	p.env["HF_TOKEN"] = "hf_terms"
	p.wants(dataset(), stateFailed, gated, "accept its terms")
	p.env["HF_TOKEN"] = hubToken
	p.wants(dataset(), stateOK, loader.GAIA+" at "+hubCommit+", split validation can be had with the token from HF_TOKEN", "")
	p.wants(dataset("--split", "test"), stateOK, "split test can be had", "")
	p.wants(dataset("--split", "training"), stateFailed, "unknown split", "")
	p.wants(dataset("--source", "hub:invented/other"), stateFailed, "no dataset", "check the name")
	server.Fail(hub.Match{}, -1, hub.Hang())
	p.wants(dataset("--wait", "100ms"), stateFailed, "no answer from "+server.URL+" within 100ms", "--wait 2m")
	server.Heal()
	server.Fail(hub.Match{}, -1, hub.Answer(503, "text/plain", "later", "Retry-After", "60"))
	p.wants(dataset("--wait", "2s"), stateFailed, "not had within 2s: "+strings.TrimPrefix(server.URL, "http://")+" answers 503 Service Unavailable for 2023/validation/", "try again later")
	p.env["HF_HUB_OFFLINE"] = "1"
	p.wants(dataset(), stateFailed, "offline, and the cache has no", "HF_HUB_OFFLINE")
	p.untouched()

	data := p.onDisk()[1]
	p.wants(dataset("--source", data), stateOK, "split validation: 1 of 1 task", "")
	p.wants(dataset("--source", data, "--level", "3"), stateFailed, "no task", "gaia tasks list")
	p.wants(dataset("--source", "dir:"+p.home), stateFailed, "has neither", "the folder that holds 2023/")
	p.wants(dataset("--source", "dir:"+filepath.Join(p.home, "none")), stateFailed, "reading the dataset", "")
}

// TestDoctorKeys: a key that a run would refuse is a finding, and none is made.
func TestDoctorKeys(t *testing.T) {
	p := newPatient(t)
	dir := filepath.Join(p.home, ".config", "gaia", "keys")
	key := filepath.Join(dir, "signing")
	init := newProgram(t)
	init.dir = p.home
	init.want(exitOK, "key", "init")
	content, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	found := p.findings()
	p.wants(found["signing key"], stateOK, " from "+key, "")
	p.wants(found["trusted keys"], stateOK, "1 trusted now; ", "")
	if strings.Contains(found["signing key"].Detail, "[redacted]") {
		t.Errorf("%+v", found["signing key"])
	}
	p.wants(p.findings("--key", filepath.Join(p.home, "none"))["signing key"], stateFailed, "there is no signing key", "gaia key init")

	p.write(key, string(content), 0o644)
	found = p.findings()
	p.wants(found["signing key"], stateFailed, "can be read by others (mode 0644)", "chmod 600 "+key)
	p.wants(found["trusted keys"], stateMissing, "your own signing key is left out: see signing key", "gaia key list")
	p.write(key, string(content), 0o600)
	for _, bad := range []struct {
		path          string
		mode          os.FileMode
		state, remedy string
	}{{dir, 0o722, stateFailed, "chmod go-w "}, {key + ".pub", 0o666, stateMissing, "gaia key list"}} {
		before, err := os.Stat(bad.path)
		if err == nil {
			err = os.Chmod(bad.path, bad.mode)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.wants(p.findings()["trusted keys"], bad.state, "others can write to", bad.remedy)
		if err := os.Chmod(bad.path, before.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	p.wants(p.findings()["signing key"], stateFailed, "without its private half", "put the private half beside it")
}

// TestDoctorJudgeCache: a cache with an entry that does not verify keeps a run from
// starting that is to be submitted.
func TestDoctorJudgeCache(t *testing.T) {
	p := newPatient(t)
	dir := filepath.Join(p.home, ".cache", "gaia", "judgments")
	rehearsed := newProgram(t)
	rehearsed.dir = p.home
	rehearsed.want(exitOK, "run", "--limit", "2")
	p.wants(p.findings()["judge cache"], stateOK, " in "+dir, "")
	entry := filepath.Join(dir, strings.Repeat("a", 64)+".json")
	p.write(entry, "{}", 0o600)
	p.wants(p.findings()["judge cache"], stateMissing, "do not verify", "delete the cache: rm -r "+dir)
	p.wants(p.findings("--submit-intent")["judge cache"], stateFailed, "do not verify", "delete the cache: rm -r "+dir)
	p.wants(p.findings("--submit-intent", "--no-judge-cache")["judge cache"], stateOK, "not used", "")
	flags := []string{"--no-call", "--submit-intent", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--source", p.onDisk()[1]}
	p.wants(p.findings(flags...)["judge cache"], stateMissing, "do not verify", "")
	if err := os.Remove(entry); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	p.wants(p.findings("--submit-intent")["judge cache"], stateFailed, "the judge cache", "chmod 700")
}

// TestRoom: too little room is said before a run fills it.
func TestRoom(t *testing.T) {
	p := newPatient(t)
	file := filepath.Join(p.home, "file")
	p.write(file, "", 0o600)
	for _, test := range []struct {
		dir                   string
		free                  int64
		err                   error
		state, detail, remedy string
	}{
		{p.home, 20 << 30, nil, stateOK, "20 GiB free at " + p.home, ""},
		{filepath.Join(p.home, "not", "yet"), littleRoom, nil, stateOK, "1024 MiB free at " + p.home, ""},
		{p.home, littleRoom - 1, nil, stateMissing, "1023 MiB free", "make room, or go elsewhere"},
		{p.home, noRoom - 1, nil, stateFailed, "63 MiB free", "make room, or go elsewhere"},
		{p.home, 0, errors.ErrUnsupported, stateUnknown, "cannot be told", ""},
		{file, 20 << 30, nil, stateFailed, "is not a directory", "go elsewhere"},
		{filepath.Join(file, "runs"), 20 << 30, nil, stateFailed, "not a directory", "go elsewhere"},
	} {
		f := roomFinding("room", "runs", test.dir, "go elsewhere", func(dir string) (int64, error) { return test.free, test.err })
		p.wants(f, test.state, test.detail, test.remedy)
	}
	if n, err := freeBytes(p.home); err != nil || n <= 0 {
		t.Errorf("%d bytes are free: %v", n, err)
	}
	if _, err := freeBytes(filepath.Join(p.home, "none")); err == nil {
		t.Error("there is room in what is not there")
	}
	p.untouched("file")
}
