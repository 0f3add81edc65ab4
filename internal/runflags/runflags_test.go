package runflags

import (
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/spf13/cobra"
)

// parse returns the settings of a command line of run, and whether a flag was given.
func parse(t *testing.T, args ...string) (*Settings, func(string) bool) {
	t.Helper()
	s, cmd := &Settings{}, &cobra.Command{}
	s.AddRunFlags(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return s, cmd.Flags().Changed
}

// TestCheckFlags: a value that no run can have is an error of usage that names the flag.
func TestCheckFlags(t *testing.T) {
	for line, want := range map[string]string{
		"":                                              "",
		"--max-turns 0":                                 "--max-turns is 0, which leaves no turn",
		"--max-tool-calls 0":                            "--max-tool-calls is 0, which leaves no call",
		"--concurrency 0":                               `--concurrency is "0"`,
		"--concurrency 1025":                            `--concurrency is "1025"`,
		"--rpm -1":                                      "--rpm is -1",
		"--api soap":                                    `--api is "soap"`,
		"--images maybe":                                `--images is "maybe"`,
		"--voting-attempts 101":                         "--voting-attempts is 101",
		"--dataset nowhere":                             `unknown dataset "nowhere"`,
		"--dataset dir:":                                `unknown dataset "dir:"`,
		"--seed 1":                                      "--seed has no effect without --sample",
		"--sample 0":                                    "--sample is 0, which leaves no task",
		"--approve rm":                                  `--approve names "rm", and there is no such tool`,
		"--on-unsubmittable wait":                       `--on-unsubmittable is "wait"`,
		"--api responses":                               "",
		"--dataset hub --revision abc":                  "",
		"--dataset fixtures --limit 2":                  "",
		"--served-as a,b --max-cost 2":                  "",
		"--context-window 100 --max-tokens 100":         "--context-window is 100, which leaves no room beside completions of 100 tokens",
		"--dataset fixtures --revision abc":             "--revision is of the hub's dataset, not of fixtures",
		"--api responses --stop-sequence END":           "--stop-sequence is of the chat interface, and --api is responses",
		"--submit-intent --unsafe-local-python":         "--unsafe-local-python runs code that nothing confines, so such a run cannot be submitted",
		"--submit-intent --record-evidence=false":       "a run without evidence cannot be submitted",
		"--submit-intent --cassette replay:tape":        "--cassette replay:tape asks no model, so such a run cannot be submitted",
		"--evidence-full-bodies --record-evidence=true": "",
	} {
		s, changed := parse(t, strings.Fields(line)...)
		err := s.CheckFlags(changed)
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", line, err)
			}
			continue
		}
		if err == nil || err.Error() != want || exit.Of(err).Code != exit.Usage {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
}

// TestCompletionsAreBounded: with a budget for the whole run, a completion has a bound.
func TestCompletionsAreBounded(t *testing.T) {
	s, changed := parse(t, "--max-cost", "2")
	if err := s.CheckFlags(changed); err != nil || s.Plan.Model.MaxTokens != BoundedTokens || s.Plan.Evidence != plan.EvidenceHeads {
		t.Errorf("%v: %d tokens, evidence %q", err, s.Plan.Model.MaxTokens, s.Plan.Evidence)
	}
}

// TestResumeLine: the command that resumes a run has what its plan does not hold, quoted for a shell.
func TestResumeLine(t *testing.T) {
	s, _ := parse(t, "--dataset", "dir:my data", "--rpm", "60", "--concurrency", "2", "--key", "k", "--model", "gpt-4o", "--recheck")
	if got, want := s.ResumeLine("runs/A"), "gaia resume runs/A --recheck --concurrency 2 --rpm 60 --dataset 'dir:my data' --key k"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s, _ = parse(t, "--dataset", "hub")
	if got, want := s.ResumeLine("runs/A"), "gaia resume runs/A"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s.Plan.Rehearsal, s.Key = true, "k"
	if got, want := s.ResumeLine("runs/A"), "gaia resume runs/A"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTake: the settings that follow from a plan are those that made it.
func TestTake(t *testing.T) {
	s, changed := parse(t, "--evidence-full-bodies", "--judge-model", "j", "--no-judge-cache", "--images", "on")
	if err := s.CheckFlags(changed); err != nil {
		t.Fatal(err)
	}
	s.Plan.Model.Images, s.Plan.Approved = true, []string{"python"}
	s.Plan.Tasks = []plan.PlannedTask{{TaskID: "a"}, {TaskID: "b"}}
	var again Settings
	again.Take(s.Plan)
	again.TakeTasks(s.Plan)
	if !again.bodies || !again.record || !again.NoJudgeCache || again.Images != ImagesOn || again.Vision != NoVision || again.Plan.Approved != nil {
		t.Errorf("took %+v", again)
	}
	if got := strings.Join(again.Filter.IDs, " "); got != "a b" || again.JudgeModel() != "j" {
		t.Errorf("tasks %q, judge %q", got, again.JudgeModel())
	}
}
