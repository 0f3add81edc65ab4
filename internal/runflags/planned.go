package runflags

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/gaia-harness/gaia/internal/agentdir"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
)

// NotPlanned returns the error of usage of a plan that cannot be made: its budget buys nothing, it holds a secret, which
// everyone could read, or its agent's folders change; an interruption as it is; nil for other errors.
func NotPlanned(err error, limit int64) error {
	var money *budget.LimitError
	var secret *plan.SecretError
	var folder *agentdir.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &folder):
		return exit.Usagef(folder.Hint, "%s", folder)
	case errors.As(err, &money):
		return exit.Usagef("give "+view.Dollars(&money.Need)+" at least, or bound completions with --max-tokens: what a request may cost is reserved before it is sent",
			"--max-cost is %s, which is not enough for a single attempt", view.Dollars(&limit))
	case errors.As(err, &secret):
		fix := "take it out of the flag, the settings or the policy file"
		if strings.Contains(secret.Where, " of mcp:") {
			fix = "fix the server, or leave the tool out by the list 'tools' of the server in the settings"
		}
		return exit.New(exit.Usage, err, fix, "secret are the keys of models, search engines and the hub, headers of MCP servers, whatever looks like a key, "+
			"and values of variables with KEY, TOKEN, SECRET, PASSWORD or CREDENTIAL in the name")
	}
	return nil
}

// PlannedSource settles where a run that continues has its tasks from: the dataset of the hub that the plan names, or the
// directory that only the user knows. hub is the endpoint of the hub here.
func (s *Settings) PlannedSource(d plan.Dataset, hub string) error {
	if d.Hub == "" {
		if !strings.HasPrefix(s.Source, SourceDir) {
			return exit.Usagef("give --dataset dir:PATH, as the run was started with", "the source of the tasks is not recorded in the run")
		}
		return nil
	}
	planned := SourceRepo + d.Name
	if s.Source != "" && s.Source != planned && (s.Source != SourceHub || d.Name != loader.GAIA) {
		return exit.Usagef("leave --dataset out", "the run is of %s on the hub, not of %s", d.Name, s.Source)
	}
	// What is no URL, or holds credentials, is refused with the source.
	if at, err := url.Parse(hub); err == nil && at.User == nil && at.Scheme+"://"+at.Host != d.Hub {
		return exit.Usagef("set HF_ENDPOINT to it, if you trust it with your token", "the run is of a dataset of the hub %s, not of %s://%s", d.Hub, at.Scheme, at.Host)
	}
	s.Source, s.Revision = planned, d.Revision
	return nil
}

// Unplanned returns the flags for what a run needs and its plan does not hold.
func Unplanned(m plan.Plan) (flags string) {
	if m.Rehearsal {
		return ""
	}
	if m.Dataset.Hub == "" {
		flags += " --dataset dir:PATH"
	}
	if !strings.HasPrefix(DefaultBaseURL, m.Model.Origin+"/") {
		flags += " --base-url URL (at " + view.Line(m.Model.Origin) + ")"
	}
	return flags
}

// StopHints returns what helps a run that a model's endpoint stopped; kind is what was asked there. Another name for the model is another plan.
func (s *Settings) StopHints(kind string, stopped error, dir string) []string {
	resume := s.ResumeLine(dir)
	otherwise := "when the endpoint answers: " + resume
	var asked *llm.Error
	if !errors.As(stopped, &asked) || asked.Retryable || asked.Status == http.StatusPaymentRequired || asked.Status == http.StatusTooManyRequests {
		return []string{otherwise}
	}
	if known := remote.Remedy(asked, resume); known != "" {
		return []string{known}
	}
	if s.Folder != nil {
		return []string{"to name another model, plan again: gaia plan --like " + view.Quote(filepath.Join(s.PlanDir, plan.ManifestFile)), otherwise}
	}
	flag := map[string]string{trajectory.PreflightJudge: "--judge-model", trajectory.PreflightVision: "--vision-model",
		trajectory.PreflightTranscription: "--transcription-model"}[kind]
	return []string{"to name another model: " + s.CommandLine("gaia run --like "+view.Quote(dir), [2]string{cmp.Or(flag, "--model"), "NAME"}), otherwise}
}
