package trajectory_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// ExampleReadJournal reads the journal of a run and prints which tools the agent called. The chain starts at the digest
// of manifest.json; ReadJournal returns a *Fault for the first line that is not what was recorded.
func ExampleReadJournal() {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	dir = filepath.Join(dir, "run")
	if err := runs.Good()["lookup"].Write(dir); err != nil { // what gaia run writes
		log.Fatal(err)
	}

	manifest, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		log.Fatal(err)
	}
	var plan struct {
		RunID string `json:"run_id"`
	}
	if err := json.Unmarshal(manifest, &plan); err != nil {
		log.Fatal(err)
	}
	journal, err := os.Open(filepath.Join(dir, trajectory.JournalFile))
	if err != nil {
		log.Fatal(err)
	}
	defer journal.Close()

	first := fmt.Sprintf("sha256:%x", sha256.Sum256(manifest))
	_, tail, err := trajectory.ReadJournal(journal, plan.RunID, first, func(e trajectory.Event, _ []byte) error {
		if call, ok := e.Payload.(trajectory.ToolProposed); ok {
			fmt.Println(e.TaskID, "called", call.Name)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err) // the evidence does not verify
	}
	fmt.Println("complete:", tail == nil)
	// Output:
	// fab1e901-0000-4000-8000-000000000001 called web_search
	// fab1e901-0000-4000-8000-000000000001 called web_fetch
	// complete: true
}
