package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// importable is an event of a sheet with an id of its time, as those of journals have.
func importable(t testing.TB, e ledger.RunEvent) ledger.RunEvent {
	t.Helper()
	id, err := ulid.ParseStrict(e.Session)
	must(t, err)
	at, err := time.Parse(trajectory.TimeFormat, e.Timestamp)
	must(t, err, id.SetTime(ulid.Timestamp(at)))
	e.ID = id.String()
	return e
}

// ledgerFile writes the events of a run as a ledger file.
func ledgerFile(t testing.TB, path string, key sign.Key, run, events int) {
	t.Helper()
	var out bytes.Buffer
	w := ledger.NewLedgerWriter(&out)
	for _, e := range benchSheet(run, events).Events {
		must(t, w.Add(importable(t, e)))
	}
	must(t, w.Seal(key), os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, out.Bytes(), 0o600))
}

// importer is a user with a key, whose store has the events of a run.
func importer(t *testing.T) (*app, sign.Key) {
	t.Helper()
	home := t.TempDir()
	a := &app{began: time.Now(), stdout: io.Discard, stderr: io.Discard, getenv: func(name string) string { return map[string]string{"HOME": home}[name] }}
	key, err := a.signingKey("")
	must(t, err)
	ledgerFile(t, a.storePath(), key, 0, 3)
	return a, key
}

// rewrite changes a file in place, as long as it is.
func rewrite(t *testing.T, path, old, now string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	changed := strings.Replace(string(data), old, now, 1)
	if changed == string(data) || len(old) != len(now) {
		t.Fatalf("%s: %q does not become %q", path, old, now)
	}
	must(t, os.WriteFile(path, []byte(changed), 0o600))
}

// TestChangedSinceVerified: what others write into a file between its verification and
// its reading is found out. Nothing is then imported, and a query fails.
func TestChangedSinceVerified(t *testing.T) {
	for _, which := range []string{"store", "export"} {
		a, key := importer(t)
		path := a.storePath()
		name := filepath.Join(t.TempDir(), "export")
		ledgerFile(t, name, key, 1, 3)
		trusted, err := a.trustedKeys(trustFlags{})
		must(t, err)
		store, err := a.verifiedStore(path)
		must(t, err)
		defer store.Close()
		export, err := openExport(name, trusted)
		must(t, err)
		defer export.Close()
		rewrite(t, map[string]string{"store": path, "export": name}[which], `"tool_calls":7`, `"tool_calls":8`)
		before, err := os.ReadFile(path)
		must(t, err)
		err = writeStore(path, []ledger.LedgerSource{store.source(), export.source()}, 0, key)
		if err == nil || classify(err).Code != exitEvidence || !strings.HasSuffix(err.Error(), ": was changed while it was read") {
			t.Errorf("%s: %v", which, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: imported all the same: %v", which, err)
		}
	}
	a, _ := importer(t)
	store, err := a.verifiedStore(a.storePath())
	must(t, err)
	defer store.Close()
	rewrite(t, a.storePath(), `"tool_calls":7`, `"tool_calls":8`)
	err = store.each(func(ledger.RunEvent) error { return nil })
	if fault := (*trajectory.Fault)(nil); !errors.As(err, &fault) || classify(err).Code != exitEvidence {
		t.Errorf("a query: %v", err)
	}
}
