package submit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// madePackage makes the archive of a small run, as 'gaia submit --archive' does.
func madePackage(dir string) (string, error) {
	c, err := runs.Parse(`One task, answered.
-- task fab1e901-0000-4000-8000-000000000001 --
question: How many lamps did the lighthouse of Ostrel have?
gold: 14
-- answer 14 --
The almanac counts fourteen lamps.
`)
	if err != nil {
		return "", err
	}
	run := filepath.Join(dir, "run")
	if err := c.Write(run); err != nil {
		return "", err
	}
	p, err := submit.Build(context.Background(), submit.Config{Run: run, Out: dir, Key: runs.Key(), Date: "2031-02-03", AllowDirty: true, Archive: true,
		Harness: trajectory.Harness{ExecutableSHA256: "sha256:" + fmt.Sprintf("%064d", 1), Version: "v1.0.0"}})
	return p.Path, err
}

// A package is verified by its path. Changed evidence is an error; whether to trust the key
// that signed it is the caller's decision.
func ExampleVerifyPath() {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	archive, err := madePackage(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := submit.VerifyPath(archive, submit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	official := result.Statement.Predicate.Scores.Official
	fmt.Println(official.Correct, "of", official.Planned, "correct")
	for _, c := range result.Claims {
		if c.Claim == "evidence-chain" || c.Claim == "model-identity" {
			fmt.Println(c.Claim, c.Status)
		}
	}
	if err := os.WriteFile(archive, []byte("changed"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	_, err = submit.VerifyPath(archive, submit.Options{})
	fmt.Println(err != nil)
	// Output:
	// 1 of 1 correct
	// evidence-chain verified
	// model-identity self_reported
	// true
}
