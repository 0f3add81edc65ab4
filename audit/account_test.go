package audit_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
)

// TestSaysWhy: what a case leads to is told in these words.
func TestSaysWhy(t *testing.T) {
	for _, tt := range []struct{ name, check, want string }{
		{"AUD-12/near-torn-twice.txt", "AUD-12", "REVIEW AUD-12.torn-tail: got an unfinished last line of 41 bytes, cut when the run was taken up again, want a journal that ends with a whole line; " +
			"REVIEW AUD-12.torn-tail: got an unfinished last line of 7 bytes, cut when the run was taken up again, want a journal that ends with a whole line"},
		{"AUD-13/fires-totals-higher.txt", "AUD-13", "HIGH AUD-13.totals-differ: got 9000 tokens in the export, want the 560 of the journal"},
		{"AUD-13/fires-two-for-a-failed-try.txt", "AUD-13", `HIGH AUD-13.request-unrecorded: got 2 of 3 requests of the export are not in the journal, such as "gen-0002", want at most the 1 that the journal has no id of`},
		{"AUD-13/near-last-reply-without-id.txt", "AUD-13", "REVIEW AUD-13.request-id-missing: got 1 of 2 replies to the agent have no id of their request, want an id in every reply, as in the others"},
		{"AUD-13/gap-journal-without-ids.txt", "AUD-13", "the export names requests, and the journal has no ids of them"},
		{"AUD-13/near-ids-of-another-kind.txt", "AUD-13", `REVIEW AUD-13.export-unrelated: got 1 requests in the export, such as "gen-0001", and none of them in the journal, want the export of the key that the run was made with; ` +
			"no request that the export names is in the journal: their ids are of another kind, or the export is of something else"},
		{"AUD-13/gap-usage-not-reported.txt", "AUD-13", "INFO AUD-13.usage-missing: got 1 of 2 replies to the agent have no count of their tokens, want one in every reply, as in the others; the export has 9620 tokens and the journal 560, which has none of 1 requests: these can be the difference"},
		{"AUD-14/fires-one-of-two.txt", "AUD-14", `HIGH AUD-14.model-undeclared: got "stand-in" answered the agent, in one reply, want the planned "sample-model"`},
		{"AUD-14/near-judge-is-agent.txt", "AUD-14", `REVIEW AUD-14.judge-is-agent: got the model "sample-model" judged answers of "sample-model", want another model as the judge`},
		{"AUD-14/gap-no-model-named.txt", "AUD-14", "the endpoint of the agent names no model in its replies"},
		{"AUD-14/gap-one-names-no-model.txt", "AUD-14", "1 of 2 replies to the agent name no model"},
		{"AUD-14/gap-judge-names-no-model.txt", "AUD-14", "the endpoint of the judge names no model in its replies"},
	} {
		c := parsed(t, tt.name, texts(t, tt.name)[tt.name])
		if got := reasons(check(t, audited(t, c, true), tt.check)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestWithoutExport: without an export AUD-13 has nothing to look at, and with one
// the report names it.
func TestWithoutExport(t *testing.T) {
	const name = "AUD-13/near-as-recorded.txt"
	c := parsed(t, name, texts(t, name)[name])
	export, err := audit.ParseUsageExport(c.Usage)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		export *audit.UsageExport
		status audit.Status
		sha256 string
	}{{nil, audit.NotApplicable, ""}, {export, audit.Pass, export.SHA256}} {
		r, _, err := audit.Run(os.DirFS(dir), audit.Options{Usage: tt.export})
		if err != nil {
			t.Fatal(err)
		}
		got := check(t, r, "AUD-13")
		skipped := slices.Contains(r.Attestation.Skipped, "AUD-13") || len(got.Gaps) > 0
		if got.Status != tt.status || r.Inputs.UsageExportSHA256 != tt.sha256 || skipped || (got.Absent != "") != (tt.export == nil) {
			t.Errorf("%s %q, %q, inputs %q", got.Status, got.Absent, got.Gaps, r.Inputs.UsageExportSHA256)
		}
		if _, err := audit.DecodeReport(encoded(t, r)); err != nil || !strings.HasPrefix(export.SHA256, "sha256:") {
			t.Errorf("reading the report back: %v", err)
		}
	}
}
