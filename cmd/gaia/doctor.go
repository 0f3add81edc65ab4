package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// States of what doctor looks at, the worst last.
const (
	stateOK      = "ok"
	stateMissing = "missing" // a run goes without it
	stateUnknown = "unknown" // it was not, or could not be, looked at
	stateFailed  = "failed"  // a run would fail by it, or spend without bound
)

// A diagnosis is what doctor says of one thing that a run uses.
type diagnosis struct {
	CostMicroUSD *int64 `json:"cost_microusd,omitzero"` // of asking a model; none where nothing was asked, or its cost is not known
	Detail       string `json:"detail"`                 // what was found, or why it does not work
	Name         string `json:"name"`
	Remedy       string `json:"remedy,omitzero"`
	State        string `json:"state"` // one of the states
	Use          string `json:"use"`   // what gaia does with it
}

// A checkup is what doctor prints with --json; its state is the worst of the
// findings'.
type checkup struct {
	Findings  []diagnosis `json:"findings"`
	Rehearsal bool        `json:"rehearsal,omitzero"`
	State     string      `json:"state"` // one of the states
}

func fine(name, use, detail string) diagnosis {
	return diagnosis{Name: name, Use: use, State: stateOK, Detail: detail}
}

func lacking(name, use, detail, remedy string) diagnosis {
	return diagnosis{Name: name, Use: use, State: stateMissing, Detail: detail, Remedy: remedy}
}

func unlooked(name, use, detail string) diagnosis {
	return diagnosis{Name: name, Use: use, State: stateUnknown, Detail: detail}
}

// troubled is a finding that a run would end with an error. What mends it is what
// the error hints at, else what is given.
func troubled(name, use string, err error, otherwise string) diagnosis {
	f := classify(err)
	return diagnosis{Name: name, Use: use, State: stateFailed, Detail: f.Err.Error(), Remedy: cmp.Or(strings.Join(f.Hints, "; "), otherwise)}
}

// doctorCall is what one call of doctor is told: what a run with the same flags
// would be, and how to look at it.
type doctorCall struct {
	runSettings
	ofRun  *cobra.Command // has run's flags
	noCall bool
	wait   time.Duration // for whatever answers over a network
}

func (a *app) doctorCommand() *cobra.Command {
	c := &doctorCall{ofRun: &cobra.Command{}}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what a run with these settings would lack or fail by, before it spends anything",
		Long: `Doctor takes the flags of "gaia run", the environment and gaia.yaml as run does,
looks at all that such a run would use, and says what to change: keys, models,
prices, the dataset, the sandbox and the programs, MCP servers, room on disk,
signing and trusted keys, the judge cache, and this program itself.

The models are asked what a run asks before its first task, at most 6 short
requests, and doctor says what that cost. --no-call leaves them out. Where
"gaia run" would rehearse, nothing is asked over any network. Doctor changes
nothing and makes nothing, no key and no directory either.

What is missing is optional, what is unknown was not looked at, and the exit code
is 0. What is failed would be refused, make the run fail or spend without bound,
and the exit code is 3.`,
		Example: `  gaia doctor
  OPENAI_API_KEY=… HF_TOKEN=… gaia doctor --submit-intent --model gpt-4o --judge-model gpt-4o-mini --max-cost 50
  gaia doctor --base-url http://localhost:11434/v1 --model llama3.1 --wait 5m
  gaia doctor --no-call --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, slices.DeleteFunc(unemptied(), func(name string) bool { return name == "like" })...); err != nil {
				return err
			}
			file, err := openSettings(c.file)
			if err != nil {
				return err
			}
			return point(file, a.doctor(cmd, c, file))
		},
	}
	c.addRunFlags(c.ofRun)
	c.ofRun.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"help", "like", "dry-run", "json", "no-preflight"}, f.Name) {
			cmd.Flags().AddFlag(f)
		}
	})
	cmd.Flags().BoolVar(&c.noCall, "no-call", false, "ask no model anything")
	cmd.Flags().DurationVar(&c.wait, "wait", 30*time.Second, "how long to wait for a model or a hub to answer")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) doctor(cmd *cobra.Command, c *doctorCall, file *settings.File) error {
	if c.wait <= 0 {
		return usage("give a time such as 2m", "--wait is %s, which is no time to wait", c.wait)
	}
	x := &exam{app: a, doctorCall: c}
	if err := x.settle(cmd, file); err != nil {
		return err
	}
	ctx, stop := untilStopped(cmd.Context())
	defer stop()
	context.AfterFunc(ctx, stop)
	found := x.examine(ctx)
	if ctx.Err() != nil {
		return fail(exitInterrupted, errors.New("interrupted"))
	}
	return a.printCheckup(checkup{Findings: x.withoutSecrets(found), Rehearsal: c.plan.Rehearsal, State: worst(found)}, c.asJSON)
}

// exam is one call of doctor under way.
type exam struct {
	*app
	*doctorCall
	w         world // what a run would ask, as far as it can be told
	unsettled error // why there would be no run; nil if there would be
	noKey     error // for the endpoint
	noPrices  error // by which its cost could be bounded
	noTape    error // of answers that are recorded
	noSearch  error // with the engine that is named
}

// examine looks at everything. What waits for others is done at once; the order of
// what is found is always the same.
func (x *exam) examine(ctx context.Context) []diagnosis {
	one := func(look func(context.Context) diagnosis) func(context.Context) []diagnosis {
		return func(ctx context.Context) []diagnosis { return []diagnosis{look(ctx)} }
	}
	looks := []func(context.Context) []diagnosis{x.ofSettings, one(x.modelFinding), one(x.judgeFinding), x.ofSenses,
		one(x.datasetFinding), x.ofPrograms, x.ofPlaces}
	found := make([][]diagnosis, len(looks))
	var all sync.WaitGroup
	for i, look := range looks {
		all.Go(func() { found[i] = look(ctx) })
	}
	all.Wait()
	return slices.Concat(found...)
}

// worst is the state of a checkup.
func worst(found []diagnosis) string {
	order := []string{stateOK, stateMissing, stateUnknown, stateFailed}
	state := 0
	for _, f := range found {
		state = max(state, slices.Index(order, f.State))
	}
	return order[state]
}

// redactor knows the secrets of the user's that a run would know, and those that
// were found.
func (x *exam) redactor(found []string) trajectory.Redactor {
	secrets := []string{x.getenv("OPENAI_API_KEY"), x.getenv("GAIA_SIGNING_KEY"), x.getenv("HF_TOKEN"), x.getenv("HUGGING_FACE_HUB_TOKEN")}
	if token, _, err := x.hubToken(); err == nil {
		secrets = append(secrets, token)
	}
	for _, k := range searchKeys() {
		for _, name := range k.variables {
			secrets = append(secrets, strings.TrimSpace(x.getenv(name)))
		}
	}
	return trajectory.NewRedactor(found, secrets...)
}

// withoutSecrets takes out of what others said whatever is a secret of the user's.
func (x *exam) withoutSecrets(found []diagnosis) []diagnosis {
	r := x.redactor(nil) // a variable with KEY in its name may also hold the path of a file
	for i, f := range found {
		found[i].Detail, _ = r.Redact(f.Detail)
		found[i].Remedy, _ = r.Redact(f.Remedy)
	}
	return found
}

func (a *app) printCheckup(c checkup, asJSON bool) error {
	var err error
	if asJSON {
		err = a.printJSON(c)
	} else {
		err = a.printFindings(c.Findings)
	}
	var failed []string
	for _, f := range c.Findings {
		if f.State == stateFailed {
			failed = append(failed, f.Name)
		}
	}
	if err != nil || len(failed) == 0 {
		return err
	}
	return fail(exitFindings, fmt.Errorf("what a run would fail by: %s", strings.Join(failed, ", ")))
}

func (a *app) printFindings(found []diagnosis) error {
	t := newTable()
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 3, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft}, {Number: 4, WidthMax: 30, WidthMaxEnforcer: text.WrapSoft}})
	t.AppendHeader(table.Row{"what", "state", "found", "used for"})
	for _, f := range found {
		t.AppendRow(table.Row{f.Name, f.State, oneLine(f.Detail), f.Use})
	}
	if _, err := fmt.Fprintln(a.stdout, visible.Text(t.Render())); err != nil {
		return err
	}
	for _, f := range found {
		if f.Remedy == "" {
			continue
		}
		if _, err := fmt.Fprintf(a.stdout, "%s: %s\n", f.Name, oneLine(f.Remedy)); err != nil {
			return err
		}
	}
	return nil
}
