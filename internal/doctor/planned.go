package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/preflight"
	"github.com/gaia-harness/gaia/trajectory"
)

// Planned is the run that would be, and what prevents it. Its errors carry their hints.
type Planned struct {
	Invalid                               error // why the settings make no run; nil if they do
	NoCassette, NoKey, NoPrices, NoSearch error // why each of these cannot be used; nil if it can
	Rehearsal, SubmitIntent               bool
	NoCall                                bool   // the user wants no request
	HasKey                                bool   // there is a key for the endpoint
	NoVision                              bool   // the user wants no model for pictures
	Replay                                string // directory that answers are replayed from; "" if a model is asked
	Model, Judge, Transcription, Vision   string // names of models; "" is none
	ServedAs                              []string
	Endpoint, Source                      string // origin of the base URL; source of the tasks
	Search                                string // what web_search asks, "" is nothing
	Prices                                string // name of the price table
	HasPrice                              func(model string) bool
	Wait                                  time.Duration
	Preflight                             *preflight.Models
}

// invalid is the detail of what is not checked since there would be no run.
const invalid = "not checked: see settings"

// CheckSettings reports what the run would be, whether there is a key for it, and what bounds its cost.
func (p Planned) CheckSettings(context.Context) []Finding {
	settings := good("settings", "what a run would be", p.Model+" at "+p.Endpoint+", tasks of "+p.Source)
	key := good("model key", "asks the endpoint", "from OPENAI_API_KEY")
	prices := good("prices", "count and bound the cost", p.Prices)
	switch {
	case p.Invalid != nil:
		settings = Fails(settings.Name, settings.Use, p.Invalid, "'gaia run --help' describes the flags")
		return []Finding{settings, unseen(key.Name, key.Use, invalid), unseen(prices.Name, prices.Use, invalid)}
	case p.NoCassette != nil:
		settings = Fails(settings.Name, settings.Use, p.NoCassette, "")
	case p.Rehearsal:
		settings.Detail = "rehearsal: built-in tasks and models, nothing to reach"
	}
	if p.Rehearsal {
		key.Detail, prices.Detail = "rehearsal: none is needed", "rehearsal: nothing costs anything"
		return []Finding{settings, key, prices}
	}
	switch {
	case p.NoKey != nil:
		key = Fails(key.Name, key.Use, p.NoKey, "")
	case p.Replay != "":
		key.Detail = "none is needed: answers are replayed"
	case !p.HasKey:
		key.Detail = "OPENAI_API_KEY is not set; an endpoint on this machine may need none"
	}
	if p.NoPrices != nil {
		return []Finding{settings, key, Fails(prices.Name, prices.Use, p.NoPrices, "")}
	}
	var known, unknown []string
	for _, model := range []string{p.Model, p.Judge, p.Transcription, p.Vision} {
		switch {
		case model == "" || slices.Contains(known, model) || slices.Contains(unknown, model):
		case p.HasPrice(model):
			known = append(known, model)
		default:
			unknown = append(unknown, model)
		}
	}
	prices.Detail += ": " + strings.Join(known, ", ")
	if len(unknown) > 0 {
		detail := fmt.Sprintf("%s: no price of %s; the cost is unknown unless the endpoint reports it", p.Prices, strings.Join(unknown, ", "))
		prices = lacks(prices.Name, prices.Use, detail, "give a table with --prices FILE if it costs something")
	}
	return []Finding{settings, key, prices}
}

// CheckSenses checks the models and the service that tools ask. The models are asked as a run does
// before its tasks; the search engine is not.
func (p Planned) CheckSenses(ctx context.Context) []Finding {
	vision := ""
	if p.NoVision {
		vision = "left out by --vision-model none"
	}
	search := lacks("search", "the tool web_search", "no engine: the tool is not offered",
		"set TAVILY_API_KEY, BRAVE_API_KEY, SERPER_API_KEY or SEARXNG_URL; --search chooses")
	switch {
	case p.Invalid != nil:
		search = unseen(search.Name, search.Use, invalid)
	case p.NoSearch != nil:
		search = Fails(search.Name, search.Use, p.NoSearch, "")
	case p.Rehearsal:
		search = good(search.Name, search.Use, "rehearsal: a built-in web")
	case p.Search != "":
		search = good(search.Name, search.Use, p.Search)
	}
	return []Finding{
		p.checkSense(ctx, trajectory.PreflightTranscription, "the tool transcribe_audio", p.Transcription, "--transcription-model", ""),
		p.checkSense(ctx, trajectory.PreflightVision, "the tool describe_image", p.Vision, "--vision-model", vision),
		search,
	}
}

// checkSense asks the model that a tool asks. leftOut is the reason why the tool is left out, "" if it is not.
func (p Planned) checkSense(ctx context.Context, kind, use, model, flag, leftOut string) Finding {
	switch {
	case p.Invalid != nil:
		return unseen(kind, use, invalid)
	case leftOut != "":
		return good(kind, use, leftOut)
	case p.Rehearsal:
		return good(kind, use, "rehearsal: built-in")
	case model == "":
		return lacks(kind, use, "no model: the tool is not offered", "name one with "+flag)
	}
	if f, not := p.notAsked(kind, use); not {
		f.Detail = model + ", " + f.Detail
		return f
	}
	r, limited := p.ask(ctx, kind)
	if r.Err != nil {
		f := p.failedRequest(limited, kind, use, r)
		f.Remedy = strings.ReplaceAll(f.Remedy, "--model", flag)
		return f
	}
	return withCost(good(kind, use, servedAs(model, r.ResponseModel)), r)
}
