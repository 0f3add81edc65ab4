package audit_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// Example audits a run directory without its gold answers and reads the report: which
// checks failed, what they could not see, and the conclusion.
func Example() {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	dir = filepath.Join(dir, "run")
	if err := runs.Good()["lookup"].Write(dir); err != nil { // what gaia run writes
		log.Fatal(err)
	}

	report, _, err := audit.Run(os.DirFS(dir), audit.Options{})
	if err != nil {
		log.Fatal(err) // the evidence does not verify
	}
	for _, check := range report.Checks {
		for _, finding := range check.Findings {
			if finding.Severity == audit.Critical || finding.Severity == audit.High {
				fmt.Println(finding.RuleID, finding.TaskID, finding.Got)
			}
		}
		if check.Status == audit.Skip {
			fmt.Println(check.ID, check.Name, "could not see everything")
		}
	}
	fmt.Println("clean:", report.Attestation.Clean)

	// The report is canonical JSON, which a reader decodes and checks.
	encoded, err := report.Encode()
	if err != nil {
		log.Fatal(err)
	}
	again, err := audit.DecodeReport(encoded)
	fmt.Println(again.Schema, err)
	// Output:
	// AUD-1 answer-leakage could not see everything
	// AUD-3 oracle-leakage could not see everything
	// AUD-5 normalization-collision could not see everything
	// AUD-12 trajectory-integrity could not see everything
	// AUD-19 scorer-parity could not see everything
	// clean: false
	// gaia.audit/1 <nil>
}
