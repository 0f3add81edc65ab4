package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/run"
	"golang.org/x/crypto/ssh"
)

// longBase64 finds what could be a payload, a signature or a key.
var longBase64 = regexp.MustCompile(`[A-Za-z0-9+/]{40,}={0,2}`)

// TestPackagesArePrivate makes packages of a real run, planned from a dataset and
// a directory of this machine, and looks into every byte of them, payloads decoded,
// for what is nobody's business: the signing key, secrets of the environment, what
// commits to the gold answers, and where and as whom it was run.
func TestPackagesArePrivate(t *testing.T) {
	long(t)
	t.Parallel()
	p := newProgram(t)
	dataset := filepath.Join(p.dir, "dataset-of-zwyrrl")
	if err := os.CopyFS(dataset, fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"API key": "sk-zwyrrl-8f14e45fceea167a5a36dedd4bea2543", "hub token": "hf_zwyrrlAbCdEfGhIjKlMnOpQrStUvWxYz", "password": "zwyrrl-hunter2-correct-horse",
		"user name": "zwyrrl-user", "where the program ran": p.dir}
	p.env = append(p.env, "GAIA_API_KEY="+secrets["API key"], "OPENAI_API_KEY="+secrets["API key"], "HF_TOKEN="+secrets["hub token"], "DB_PASSWORD="+secrets["password"],
		"USER="+secrets["user name"], "LOGNAME="+secrets["user name"])
	if host, err := os.Hostname(); err == nil && len(host) >= 6 {
		secrets["host name"] = host
	}
	tasks := offlineTasks
	p.want(exitOK, "run", "--submit-intent", "--source", "dir:"+dataset, "--base-url", serveModel(t), "--model", fixtures.Model, "--judge-model", fixtures.JudgeModel,
		"--out", filepath.Join(p.dir, "runs"), "--task", tasks)
	dir := p.runDir()
	_, salt, err := run.ReadGold(dir)
	if err != nil {
		t.Fatal(err)
	}
	secrets["salt"] = salt
	addKey(t, secrets, filepath.Join(p.dir, ".config", "gaia", "keys", "signing"))

	p.want(exitOK, "submit", "--out", filepath.Join(p.dir, "full"), dir)
	if err := os.WriteFile(filepath.Join(dir, "unsubmittable"), []byte("recording failed"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.want(exitOK, "submit", "--allow-dirty", "--out", filepath.Join(p.dir, "dirty"), dir)
	files, err := filepath.Glob(filepath.Join(p.dir, "[df]*", "submission-*", "*"))
	if err != nil || len(files) != 26 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	decoded := 0
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts := [][]byte{data}
		for _, encoded := range longBase64.FindAll(data, -1) {
			if payload, err := base64.StdEncoding.DecodeString(string(encoded)); err == nil {
				texts = append(texts, payload)
				decoded++
			}
		}
		for what, secret := range secrets {
			for _, text := range texts {
				if bytes.Contains(text, []byte(secret)) {
					t.Errorf("%s holds the %s", filepath.Base(path), what)
				}
			}
		}
	}
	if decoded < 20 {
		t.Errorf("only %d payloads were decoded", decoded)
	}
}

// addKey adds the secret part of a signing key in the forms that it could be
// written in.
func addKey(t *testing.T, secrets map[string]string, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ssh.ParseRawPrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	seed := raw.(*ed25519.PrivateKey).Seed()
	secrets["key"], secrets["key in hexadecimal"], secrets["key in base64"] = string(seed), hex.EncodeToString(seed), base64.StdEncoding.EncodeToString(seed)
	secrets["key file"] = path
}
