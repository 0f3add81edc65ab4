package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/loader"
	"golang.org/x/crypto/ssh"
)

// longBase64 finds what could be a payload, a signature or a key.
var longBase64 = regexp.MustCompile(`[A-Za-z0-9+/]{40,}={0,2}`)

// TestPackagesArePrivate makes packages and exports of a real run, planned from a
// dataset and a directory of this machine, and looks into every byte of them, payloads
// decoded and archives unpacked, for what is no one's business: the signing key,
// secrets of the environment, gold answers that were not given and what commits to
// them, and where and as whom it was run. Of questions and answers there is in each
// what it is for, and in a public package nothing.
func TestPackagesArePrivate(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	p := newProgram(t)
	dataset := filepath.Join(p.dir, "dataset-of-zwyrrl")
	const gold, steps = "Ottilie Zwyrrl of the Marrow", "ask at the zwyrrl counter"
	questions := plant(t, dataset, gold, steps)
	secrets := map[string]string{"API key": "sk-zwyrrl-8f14e45fceea167a5a36dedd4bea2543", "hub token": "hf_zwyrrlAbCdEfGhIjKlMnOpQrStUvWxYz", "password": "zwyrrl-hunter2-correct-horse",
		"gold answer": gold, "way to an answer": steps,
		"user name": "zwyrrl-user", "where the program ran": p.dir}
	p.env = append(p.env, "GAIA_API_KEY="+secrets["API key"], "OPENAI_API_KEY="+secrets["API key"], "HF_TOKEN="+secrets["hub token"], "DB_PASSWORD="+secrets["password"],
		"USER="+secrets["user name"], "LOGNAME="+secrets["user name"])
	if host, err := os.Hostname(); err == nil && len(host) >= 6 {
		secrets["host name"] = host
	}
	p.want(exit.OK, "run", "--submit-intent", "--dataset", "dir:"+dataset, "--base-url", serveModel(t), "--model", fixtures.Model, "--judge-model", fixtures.JudgeModel,
		"--out", filepath.Join(p.dir, "runs"), "--task", offlineTasks)
	dir := p.runDir()
	_, salts, err := grading.ReadPrivate(dir)
	if err != nil {
		t.Fatal(err)
	}
	secrets["salt"] = salts.Salt
	var first struct{ Secret string }
	private, err := os.ReadFile(filepath.Join(dir, rundir.PrivateFile))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(private, []byte("\n"))
	if err := json.Unmarshal(line, &first); err != nil || len(first.Secret) != 64 {
		t.Fatalf("%+v, %v", first, err)
	}
	secrets["secret of the task salts"] = first.Secret
	addKey(t, secrets, filepath.Join(p.dir, ".config", "gaia", "keys", "signing"))

	place := func(name string) string { return filepath.Join(p.dir, name) }
	p.want(exit.OK, "submit", "--out", place("full"), dir)
	p.want(exit.OK, "submit", "--archive", "--out", place("packed"), dir)
	p.want(exit.OK, "submit", "--public", "--out", place("public"), dir)
	p.want(exit.OK, "submit", "--public", "--archive", "--out", place("publicpacked"), dir)
	p.want(exit.OK, "export", dir, "--format", "leaderboard", "-o", place("leaderboard.jsonl"))
	p.want(exit.OK, "export", dir, "--format", "csv", "-o", place("table.csv"))
	p.want(exit.OK, "export", dir, "--format", "inspect", "-o", place("log.eval"))
	if err := os.WriteFile(filepath.Join(dir, "unsubmittable"), []byte("recording failed"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.want(exit.OK, "submit", "--allow-dirty", "--out", place("dirty"), dir)

	for _, made := range []struct {
		what               string
		files, decoded     int // at least so many files and payloads
		questions, answers bool
	}{
		{"full", 13, 10, true, true}, {"dirty", 13, 10, true, true}, {"packed", 13, 10, true, true},
		{"public", 10, 5, false, false}, {"publicpacked", 10, 5, false, false},
		{"leaderboard.jsonl", 1, 0, false, true}, {"table.csv", 1, 0, false, true}, {"log.eval", 5, 0, true, true},
	} {
		files := unpacked(t, place(made.what))
		if len(files) < made.files {
			t.Fatalf("%s: %d files", made.what, len(files))
		}
		decoded := 0
		var all []byte
		for name, data := range files {
			texts := [][]byte{[]byte(name), data}
			for _, encoded := range longBase64.FindAll(data, -1) {
				if payload, err := base64.StdEncoding.DecodeString(string(encoded)); err == nil {
					texts = append(texts, payload)
					decoded++
				}
			}
			for what, secret := range secrets {
				for _, text := range texts {
					if bytes.Contains(text, []byte(secret)) {
						t.Errorf("%s: %s holds the %s", made.what, name, what)
					}
				}
			}
			all = append(all, bytes.Join(texts, nil)...)
		}
		if decoded < made.decoded {
			t.Errorf("%s: only %d payloads were decoded", made.what, decoded)
		}
		for _, question := range questions {
			if bytes.Contains(all, []byte(question)) != made.questions {
				t.Errorf("%s: that it holds the question %q is not %t", made.what, question, made.questions)
			}
		}
		if regexp.MustCompile(`[",]22559[",]`).Match(all) != made.answers {
			t.Errorf("%s: that it holds an answer is not %t", made.what, made.answers)
		}
	}
}

// plant writes a dataset of offlineTasks into a folder, as JSON lines. The answer of
// the last is one that no model gives, and each has a way to it. It returns
// beginnings of the questions.
func plant(t *testing.T, dir, gold, steps string) (questions []string) {
	t.Helper()
	if err := os.CopyFS(dir, fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	set, answers, err := loader.Load(context.Background(), loader.Dir(fixtures.Dataset(), "", ""), loader.Validation, loader.Filter{IDs: strings.Split(offlineTasks, ",")})
	if err != nil {
		t.Fatal(err)
	}
	var lines []byte
	for i, task := range set.Tasks {
		answer := answers.Map()[task.ID]
		if i == len(set.Tasks)-1 {
			answer = gold
		}
		line, err := json.Marshal(map[string]any{"task_id": task.ID, "Question": task.Question, "Level": task.Level, "Final answer": answer,
			"file_name": task.FileName, "Annotator Metadata": map[string]any{"Steps": steps}})
		if err != nil {
			t.Fatal(err)
		}
		lines, questions = append(append(lines, line...), '\n'), append(questions, task.Question[:min(40, len(task.Question))])
	}
	validation := filepath.Join(dir, "2023", "validation")
	tables, err := filepath.Glob(filepath.Join(validation, "*.parquet"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		if err := os.Remove(table); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(validation, "metadata.jsonl"), lines, 0o644); err != nil {
		t.Fatal(err)
	}
	return questions
}

// unpacked returns the files of what was made, by name: of a folder of packages, of
// an archive among them or of a log what is in it.
func unpacked(t *testing.T, path string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch filepath.Ext(path) {
		case ".gz":
			z, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				return err
			}
			files[z.Name+" of the archive"] = []byte(z.Comment + string(z.Extra))
			for r := tar.NewReader(z); ; {
				h, err := r.Next()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if files[fmt.Sprint(*h)], err = io.ReadAll(r); err != nil {
					return err
				}
			}
		case ".eval":
			z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				return err
			}
			for _, f := range z.File {
				if files[f.Name+f.Comment+string(f.Extra)], err = fs.ReadFile(z, f.Name); err != nil {
					return err
				}
			}
		}
		files[filepath.Base(path)] = data
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
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
