package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/doctor"
	"github.com/gaia-harness/gaia/internal/exit"
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
	dataset := func(args ...string) doctor.Finding { return p.findings(append(flags, args...)...)["dataset"] }
	gated := "is only for those who accepted its terms"
	p.wants(dataset(), doctor.Failed, gated, "make a token")
	p.wants(dataset("--revision", hubCommit), doctor.Failed, gated, "accept its terms")
	p.env["HF_TOKEN"] = "hf_terms"
	p.wants(dataset(), doctor.Failed, gated, "accept its terms")
	p.env["HF_TOKEN"] = hubToken
	p.wants(dataset(), doctor.OK, loader.GAIA+" at "+hubCommit+", split validation can be had with the token from HF_TOKEN", "")
	p.wants(dataset("--split", "test"), doctor.OK, "split test can be had", "")
	p.wants(dataset("--split", "training"), doctor.Failed, "unknown split", "")
	p.wants(dataset("--dataset", "hub:invented/other"), doctor.Failed, "no dataset", "check the name")
	server.Fail(hub.Match{}, -1, hub.Hang())
	p.wants(dataset("--wait", "100ms"), doctor.Failed, "no answer from "+server.URL+" within 100ms", "--wait 2m")
	server.Heal()
	server.Fail(hub.Match{}, -1, hub.Answer(503, "text/plain", "later", "Retry-After", "60"))
	p.wants(dataset("--wait", "1s"), doctor.Failed, "not had within 1s: "+strings.TrimPrefix(server.URL, "http://")+" answers 503 Service Unavailable for 2023/validation/", "try again later")
	p.env["HF_HUB_OFFLINE"] = "1"
	p.wants(dataset(), doctor.Failed, "offline, and the cache has no", "HF_HUB_OFFLINE")
	p.untouched()

	data := p.onDisk()[1]
	p.wants(dataset("--dataset", data), doctor.OK, "split validation: 1 of 1 task", "")
	p.wants(dataset("--dataset", data, "--level", "3"), doctor.Failed, "no task", "gaia tasks list")
	p.wants(dataset("--dataset", "dir:"+p.home), doctor.Failed, "has neither", "the folder that holds 2023/")
	p.wants(dataset("--dataset", "dir:"+filepath.Join(p.home, "none")), doctor.Failed, "reading the dataset", "")
}

// TestDoctorKeys: a key that a run would refuse is a finding, and none is made.
func TestDoctorKeys(t *testing.T) {
	p := newPatient(t)
	dir := filepath.Join(p.home, ".config", "gaia", "keys")
	key := filepath.Join(dir, "signing")
	init := newProgram(t)
	init.dir = p.home
	init.want(exit.OK, "key", "init")
	content, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	found := p.findings()
	p.wants(found["signing key"], doctor.OK, " from "+key, "")
	p.wants(found["trusted keys"], doctor.OK, "1 trusted now; ", "")
	if strings.Contains(found["signing key"].Detail, "[redacted]") {
		t.Errorf("%+v", found["signing key"])
	}
	p.wants(p.findings("--key", filepath.Join(p.home, "none"))["signing key"], doctor.Failed, "there is no signing key", "gaia key init")

	p.write(key, string(content), 0o644)
	found = p.findings()
	p.wants(found["signing key"], doctor.Failed, "can be read by others (mode 0644)", "chmod 600 "+key)
	p.wants(found["trusted keys"], doctor.Missing, "your own signing key is left out: see signing key", "gaia key list")
	p.write(key, string(content), 0o600)
	for _, bad := range []struct {
		path          string
		mode          os.FileMode
		state, remedy string
	}{{dir, 0o722, doctor.Failed, "chmod go-w "}, {key + ".pub", 0o666, doctor.Missing, "gaia key list"}} {
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
	p.wants(p.findings()["signing key"], doctor.Failed, "without its private half", "put the private half beside it")
}

// TestDoctorJudgeCache: a cache with an entry that does not verify keeps a run from
// starting that is to be submitted.
func TestDoctorJudgeCache(t *testing.T) {
	p := newPatient(t)
	dir := filepath.Join(p.home, ".cache", "gaia", "judgments")
	rehearsed := newProgram(t)
	rehearsed.dir = p.home
	rehearsed.want(exit.OK, "run", "--limit", "2")
	p.wants(p.findings()["judge cache"], doctor.OK, " in "+dir, "")
	entry := filepath.Join(dir, strings.Repeat("a", 64)+".json")
	p.write(entry, "{}", 0o600)
	p.wants(p.findings()["judge cache"], doctor.Missing, "do not verify", "delete the cache: rm -r "+dir)
	p.wants(p.findings("--submit-intent")["judge cache"], doctor.Failed, "do not verify", "delete the cache: rm -r "+dir)
	p.wants(p.findings("--submit-intent", "--no-judge-cache")["judge cache"], doctor.OK, "not used", "")
	flags := []string{"--no-call", "--submit-intent", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--dataset", p.onDisk()[1]}
	p.wants(p.findings(flags...)["judge cache"], doctor.Missing, "do not verify", "")
	if err := os.Remove(entry); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	p.wants(p.findings("--submit-intent")["judge cache"], doctor.Failed, "the judge cache", "chmod 700")
}
