package render

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/google/jsonschema-go/jsonschema"
)

// published reads the schema as others do: from the file.
func published(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "audit-report.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// follows holds an encoded report against the schema.
func follows(t *testing.T, s *jsonschema.Resolved, report []byte) error {
	t.Helper()
	var v any
	if err := json.Unmarshal(report, &v); err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// TestSchemaOfCorpus: every report of the corpus follows the schema, and is valid
// SARIF. It takes every sixth case, in the thorough run all.
func TestSchemaOfCorpus(t *testing.T) {
	long.NotRaced(t)
	s := published(t)
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "*", "*.txt"))
	if err != nil || len(paths) < 100 {
		t.Fatalf("%d cases, %v", len(paths), err)
	}
	for i, path := range paths {
		if i%long.Step(6) != 0 {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := runs.Parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		dir := filepath.Join(t.TempDir(), "run")
		if err := c.Write(dir); err != nil {
			t.Fatal(err)
		}
		r, _, err := audit.Run(os.DirFS(dir), audit.Options{})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		b, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := follows(t, s, b); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		sarif, err := SARIF(r, "run")
		if err != nil {
			t.Fatal(err)
		}
		if len(Findings(r))+len(r.Attestation.HarnessGaps) > 0 {
			valid(t, sarif)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := published(t)
	r := someReport()
	r.Attestation.Clean = false
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := follows(t, s, b); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"an unknown member":           {`"clean":false`, `"clean":false,"cleaner":true`},
		"an unknown member inside":    {`"seq":11`, `"seq":11,"column":12`},
		"a member left out":           {`"planned":3,`, ``},
		"an unknown status":           {`"status":"fail"`, `"status":"failed"`},
		"an unknown severity":         {`"severity":"CRITICAL"`, `"severity":"critical"`},
		"an unknown outcome":          {`"outcome":"exploited"`, `"outcome":"used"`},
		"an unknown decision":         {`"decision":"void"`, `"decision":"forget"`},
		"an unknown way to be closed": {`"closed":"dismiss"`, `"closed":""`},
		"another schema":              {`"schema":"gaia.audit/1"`, `"schema":"gaia.audit/2"`},
		"null for a list":             {`"warn_failures":[]`, `"warn_failures":null`},
		"a line before the first":     {`"seq":11`, `"seq":-1`},
		"a broken line":               {`"seq":11`, `"seq":1.5`},
		"no digest":                   {`"events_sha256":"sha256:1`, `"events_sha256":"sha1:1`},
		"no digest in a list":         {`"inputs":{"adjudications":["sha256:`, `"inputs":{"adjudications":["`},
		"no digest of a finding":      {`"finding":"sha256:c`, `"finding":"sha256:x`},
		"no time":                     {`"audited_at":"2031-02-03T`, `"audited_at":"2031-02-03 `},
		"text for a count":            {`"high":0`, `"high":"0"`},
	} {
		changed := strings.Replace(string(b), change[0], change[1], 1)
		if changed == string(b) {
			t.Fatalf("%s: %q does not stand in the report", name, change[0])
		}
		if err := follows(t, s, []byte(changed)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
