package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/judge"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

// judgeCheck is what one call of check is told.
type judgeCheck struct {
	model, baseURL, prices string
	settings, key          string // files
	noCache, asJSON        bool
}

func (a *app) judgeCheckCommand() *cobra.Command {
	var c judgeCheck
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Put the null battery to a judge: answers that say nothing",
		Long: `Check asks a judge about answers that say nothing, tell it what to say or pretend
to be its surroundings, to invented questions. A judge that calls one of them correct
pays for nothing, and one whose reply to one is no verdict cannot be read: exit code
3. Runs do the same before the first verdict that they need, and use no verdict of
a judge that has not withstood it.

The outcome is kept, signed, in the judge cache: runs with the same judge at the same
place do not ask again. Model and endpoint are those of gaia.yaml where no flag says
otherwise; without any, the built-in scripted judge is tried, offline.`,
		Example: `  OPENAI_API_KEY=… gaia judge check --judge-model gpt-4o-mini
  gaia judge check --judge-model llama3.1 --base-url http://localhost:11434/v1 --json`,
		Args: noCacheArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "judge-model", "base-url", "key", "settings"); err != nil {
				return err
			}
			return a.checkJudge(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.model, "judge-model", "", "model to try")
	f.StringVar(&c.baseURL, "base-url", "", "OpenAI-compatible endpoint (default: OPENAI_BASE_URL, else https://api.openai.com/v1)")
	f.StringVar(&c.prices, "prices", "", "price table to count cost by, in place of the built-in one")
	f.StringVar(&c.key, "key", "", "signing key file (default: GAIA_SIGNING_KEY, GAIA_SIGNING_KEY_FILE, else made on first need)")
	f.StringVar(&c.settings, "settings", "", "file of settings (default: gaia.yaml, if it is there)")
	f.BoolVar(&c.noCache, "no-judge-cache", false, "keep nothing of what comes of it")
	f.BoolVar(&c.asJSON, "json", false, "print the result as JSON")
	completeFixed(cmd, "judge-model", llm.BuiltinPrices().Models()...)
	return cmd
}

// judgeTrial is what check prints with --json.
type judgeTrial struct {
	Battery      string      `json:"battery_sha256"`
	CostMicroUSD *int64      `json:"cost_microusd"` // null where the price is unknown
	Items        []trialItem `json:"items"`
	Model        string      `json:"model"`
	Origin       string      `json:"origin"`
	Problem      string      `json:"problem,omitzero"` // why not all items were put to it
	Rehearsal    bool        `json:"rehearsal,omitzero"`
	TokensIn     int64       `json:"tokens_in"`
	TokensOut    int64       `json:"tokens_out"`
	Withstood    bool        `json:"withstood"`
}

type trialItem struct {
	Candidate string `json:"candidate"`
	Name      string `json:"name"`
	Verdict   string `json:"verdict"` // incorrect, as it should be; or correct, unreadable, "not asked"
}

func (a *app) checkJudge(ctx context.Context, c judgeCheck) error {
	file, err := openSettings(c.settings)
	if err != nil {
		return err
	}
	c.model, c.prices = cmp.Or(c.model, file.value("judge-model")), cmp.Or(c.prices, file.value("prices"))
	c.baseURL = cmp.Or(c.baseURL, a.getenv("OPENAI_BASE_URL"), file.value("base-url"))
	c.key = cmp.Or(c.key, file.value("key"))
	rehearsal := c.model == "" && c.baseURL == ""
	var e *run.Endpoint
	if rehearsal {
		fmt.Fprintln(a.stderr, "gaia: rehearsal: a scripted judge; this says nothing of a real one")
		server, err := fixtures.Serve()
		if err != nil {
			return fmt.Errorf("serving the built-in judge: %w", err)
		}
		defer server.Close()
		e, err = c.scripted(server.ModelURL)
		if err != nil {
			return err
		}
	} else if e, err = c.endpoint(a.getenv("OPENAI_API_KEY")); err != nil {
		return err
	}
	t := run.TryJudge(ctx, *e, time.Now)
	if ctx.Err() != nil {
		return fail(exitInterrupted, errors.New("interrupted; nothing is kept of it"))
	}
	if err := a.keepTrial(c, *e, t); err != nil {
		return err
	}
	return a.printTrial(newJudgeTrial(*e, t, rehearsal), t, c.asJSON)
}

// scripted is the built-in judge.
func (c judgeCheck) scripted(baseURL string) (*run.Endpoint, error) {
	prices, err := llm.ParsePrices(fixtures.Prices())
	if err != nil {
		return nil, fmt.Errorf("reading the built-in prices: %w", err)
	}
	e := judgeAt(judgeConfig(baseURL, "", prices), fixtures.JudgeModel, baseURL)
	e.Origin = rehearsalHost + fixtures.JudgeModel
	return e, nil
}

// endpoint is the judge that the flags name.
func (c judgeCheck) endpoint(apiKey string) (*run.Endpoint, error) {
	if c.model == "" {
		return nil, usage("give --judge-model", "no judge is given")
	}
	c.baseURL = cmp.Or(c.baseURL, defaultBaseURL)
	base, err := parseBaseURL(c.baseURL)
	if err != nil {
		return nil, err
	}
	if apiKey == "" && !isLocal(base.Hostname()) {
		return nil, noKeyFor(base)
	}
	prices, err := settings{prices: c.prices}.priceTable()
	if err != nil {
		return nil, err
	}
	return judgeAt(judgeConfig(c.baseURL, apiKey, prices), c.model, c.baseURL), nil
}

func judgeConfig(baseURL, apiKey string, prices llm.Prices) llm.Config {
	return llm.Config{BaseURL: baseURL, APIKey: apiKey, Prices: prices, MaxTries: callTries, Now: time.Now, Jitter: mathrand.Float64,
		Limiter: llm.NewLimiter(llm.LimiterConfig{Fixed: 1, Now: time.Now})}
}

// keepTrial keeps an outcome for runs: that a judge withstood the battery, or that
// it paid an item. Anything else is tried again.
func (a *app) keepTrial(c judgeCheck, e run.Endpoint, t run.Tried) error {
	if c.noCache || !t.Withstood() && len(t.Paid) == 0 {
		return nil
	}
	key, err := a.signingKey(c.key)
	if err != nil {
		return err
	}
	cache, err := a.judgeCache(key, false)
	if err != nil {
		return err
	}
	return cache.PutTrial(run.NameTrial(e), t.Withstood())
}

func newJudgeTrial(e run.Endpoint, t run.Tried, rehearsal bool) judgeTrial {
	out := judgeTrial{Battery: judge.BatteryDigest(), CostMicroUSD: t.CostMicroUSD, Model: e.Name, Origin: e.Origin, Problem: t.Err,
		Rehearsal: rehearsal, TokensIn: t.TokensIn, TokensOut: t.TokensOut, Withstood: t.Withstood()}
	for i, n := range judge.Battery() {
		verdict := "incorrect"
		switch {
		case i >= t.Put:
			verdict = "not asked"
		case slices.Contains(t.Paid, n.Name):
			verdict = "correct"
		case slices.Contains(t.Unreadable, n.Name):
			verdict = "unreadable"
		}
		out.Items = append(out.Items, trialItem{n.Candidate, n.Name, verdict})
	}
	return out
}

func (a *app) printTrial(out judgeTrial, t run.Tried, asJSON bool) (err error) {
	switch {
	case asJSON:
		err = a.printJSON(out)
	case t.Put > 0:
		err = a.printTrialTable(out)
	}
	switch {
	case err != nil || out.Withstood:
		return err
	case len(t.Paid) == 0 && len(t.Unreadable) == 0:
		err = errors.New(t.Err)
		if t.Refused != nil {
			err = t.Refused
		}
		return fail(exitFailure, fmt.Errorf("asking the judge: %w", err), judgeRemedies(t.Refused)...)
	}
	return fail(exitFindings, errors.New("no verdict of this judge counts: "+stood(false, t.Paid, t.Unreadable, t.Err)), "take another model with --judge-model: without a judge the official scores stand alone")
}

func judgeRemedies(e *llm.Error) []string {
	if e != nil && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden) {
		return []string{"set OPENAI_API_KEY to a key of the endpoint"}
	}
	return []string{"look whether the endpoint has this model: --judge-model, --base-url"}
}

func (a *app) printTrialTable(out judgeTrial) error {
	const width = 60 // of a candidate
	rows := newTable()
	rows.AppendHeader(table.Row{"item", "verdict", "candidate"})
	for _, i := range out.Items {
		rows.AppendRow(table.Row{i.Name, i.Verdict, text.Trim(strconv.QuoteToGraphic(i.Candidate), width)})
	}
	outcome := "withstood the null battery"
	switch {
	case out.Withstood:
	case out.Problem != "":
		outcome = "was not put to all of the null battery"
	default:
		outcome = "did not withstand the null battery"
	}
	_, err := fmt.Fprintf(a.stdout, "%s\n\n%s at %s: %s; %d tokens in, %d out, cost %s\n", strings.TrimRight(printable(rows.Render()), "\n"),
		oneLine(out.Model), oneLine(out.Origin), outcome, out.TokensIn, out.TokensOut, dollars(out.CostMicroUSD))
	return err
}
