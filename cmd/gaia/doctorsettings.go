package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settle settles what a run would be, as run does. Flags and a file that say
// something wrong are an error; that they do not come to a run is a finding.
func (x *exam) settle(cmd *cobra.Command, file *settings.File) error {
	given := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if err := x.applySettings(&x.runSettings, file, x.ofRun.Flags(), func(name string) bool { return given[name] }); err != nil {
		return err
	}
	if err := x.checkFlags(x.ofRun.Flags().Changed); err != nil {
		return err
	}
	x.tries = 1
	x.unsettled = x.complete(&x.runSettings)
	if x.unsettled != nil && !x.plan.Rehearsal && x.plan.Model.Name != "" { // all else is settled before the search engine
		x.noSearch, x.unsettled = x.unsettled, nil
	}
	if file != nil && x.unsettled == nil {
		x.announceSettings(file, &x.runSettings)
	}
	if x.unsettled == nil {
		x.unsettled = x.serverSide(x.warn)
	}
	if x.unsettled == nil {
		x.unsettled = x.secretInPlan()
	}
	if x.unsettled == nil {
		x.noTape = x.taped()
	}
	if x.unsettled == nil && !x.plan.Rehearsal {
		x.unsettled = x.reach()
	}
	return nil
}

// secretInPlan is why no plan would be made of what the user says in it, as far as
// that is in sight.
func (x *exam) secretInPlan() error {
	m := plan.Plan{Policy: x.plan.Policy.Canonical(), Model: plan.ModelPlan{Name: x.plan.Model.Name, ServedAs: x.plan.Model.ServedAs}}
	err := plan.NoSecret(m, x.redactor(x.secrets()))
	return cmp.Or(notPlanned(err, 0), err)
}

// reach finds out what could be asked at the endpoint, and why not. The error is
// that there would be no run at all.
func (x *exam) reach() (err error) {
	base, err := parseBaseURL(x.baseURL)
	if err != nil {
		return err
	}
	apiKey := x.getenv("OPENAI_API_KEY")
	x.noKey = x.keyed(base, apiKey)
	if x.w.Prices, x.noPrices = x.priceTable(); x.noPrices == nil {
		x.noPrices = cmp.Or(x.w.bounded(&x.runSettings, base), x.w.priced(&x.runSettings))
	}
	if x.noTape != nil {
		return nil
	}
	s := x.runSettings
	s.plan.Budgets.RunCostMicroUSD, s.plan.NoPreflight = 0, false // of which nothing is kept to here
	if mode, _, _ := s.tape(); mode == plan.CassetteRecord {
		s.cassette = "" // nothing is recorded here
	}
	return x.w.ask(&s, s.baseURL, apiKey)
}

// taped is why a run could not record its answers, or have them replayed. No
// directory is made for it.
func (x *exam) taped() error {
	mode, dir, err := x.tape()
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); mode == plan.CassetteRecord && errors.Is(err, fs.ErrNotExist) {
		if err := roomy(dir); err != nil {
			return usage(anotherTape, "--cassette %s: %v", x.cassette, err)
		}
		return nil
	}
	_, err = x.transport() // which makes nothing where there is a directory
	return err
}

// roomy is why nothing could be kept in a directory that is still to be made.
func roomy(dir string) error {
	place, err := makeable(dir)
	if err != nil {
		return err
	}
	if n, err := freeBytes(place); err == nil && n < noRoom { // also of what takes no files, such as /proc
		return fmt.Errorf("%s free at %s", mebibytes(n), quoteArg(place))
	}
	return nil
}

// ofSettings says what a run would be, whether there is a key for it, and what
// bounds its cost.
func (x *exam) ofSettings(context.Context) []diagnosis {
	const settings, use = "settings", "what a run would be"
	const key, keyUse = "model key", "asks the endpoint"
	if x.unsettled != nil {
		const later = "not looked at before the settings come to a run"
		return []diagnosis{troubled(settings, use, x.unsettled, "'gaia run --help' says what a flag takes"), unlooked(key, keyUse, later), unlooked("prices", pricesUse, later)}
	}
	f := fine(settings, use, x.plan.Model.Name+" at "+originOf(x.baseURL)+", tasks of "+x.source)
	if x.plan.Rehearsal {
		f.Detail = "rehearsal: built-in tasks and models, nothing to reach"
	}
	if x.noTape != nil {
		f = troubled(settings, use, x.noTape, anotherTape)
	}
	if x.plan.Rehearsal {
		return []diagnosis{f, fine(key, keyUse, "rehearsal: none is needed"), fine("prices", pricesUse, "rehearsal: nothing costs anything")}
	}
	return []diagnosis{f, x.keyFinding(key, keyUse), x.pricesFinding()}
}

func (x *exam) keyFinding(name, use string) diagnosis {
	mode, _, _ := x.tape()
	switch {
	case x.noKey != nil:
		return troubled(name, use, x.noKey, "set OPENAI_API_KEY")
	case mode == plan.CassetteReplay:
		return fine(name, use, "none is needed: answers are replayed")
	case x.getenv("OPENAI_API_KEY") == "":
		return fine(name, use, "OPENAI_API_KEY is not set; an endpoint on this machine may want none")
	}
	return fine(name, use, "from OPENAI_API_KEY")
}

const pricesUse = "count and bound the cost"

// pricesFinding says of which models the price is known.
func (x *exam) pricesFinding() diagnosis {
	const name = "prices"
	if x.noPrices != nil {
		return troubled(name, pricesUse, x.noPrices, anotherTable)
	}
	table := "table " + x.w.Prices.Version()
	if x.prices == "" {
		table = "built-in " + table
	}
	var known, not []string
	for _, model := range x.models() {
		switch {
		case model == "" || slices.Contains(known, model) || slices.Contains(not, model):
		case x.w.Prices.Lookup(model):
			known = append(known, model)
		default:
			not = append(not, model)
		}
	}
	if len(not) > 0 {
		return lacking(name, pricesUse, fmt.Sprintf("%s: no price of %s, whose cost is unknown unless the endpoint says it", table, strings.Join(not, ", ")),
			"give a table with --prices FILE if it costs something")
	}
	return fine(name, pricesUse, table+": "+strings.Join(known, ", "))
}

// ofSenses says which tools there would be that need another model or a service.
// The models are asked as a run does before its tasks; the search engine is not.
func (x *exam) ofSenses(ctx context.Context) []diagnosis {
	const hear, look, search = "transcription", "vision", "search"
	const hearUse, lookUse, searchUse = "the tool transcribe_audio", "the tool describe_image", "the tool web_search"
	if x.unsettled != nil {
		const later = "not looked at before the settings come to a run"
		return []diagnosis{unlooked(hear, hearUse, later), unlooked(look, lookUse, later), unlooked(search, searchUse, later)}
	}
	found := []diagnosis{
		lacking(hear, hearUse, "no model: the tool is not offered", "name one with --transcription-model"),
		lacking(look, lookUse, "no model: the tool is not offered", "name one with --vision-model"),
		lacking(search, searchUse, "no engine: the tool is not offered", "set TAVILY_API_KEY, BRAVE_API_KEY, SERPER_API_KEY or SEARXNG_URL; --search chooses"),
	}
	given := func(i int, detail string) { found[i].State, found[i].Detail, found[i].Remedy = stateOK, detail, "" }
	switch {
	case x.plan.Rehearsal:
		given(0, "rehearsal: built-in")
	case x.hears() != "":
		found[0] = x.senseFinding(ctx, trajectory.PreflightTranscription, hearUse, x.hears(), "--transcription-model")
	}
	switch {
	case x.vision == noVision:
		given(1, "left out by --vision-model "+noVision)
	case x.plan.Rehearsal:
		given(1, "rehearsal: built-in")
	case x.looks() != "":
		found[1] = x.senseFinding(ctx, trajectory.PreflightVision, lookUse, x.looks(), "--vision-model")
	}
	switch {
	case x.noSearch != nil:
		found[2] = troubled(search, searchUse, x.noSearch, "choose another engine with --search, or --search "+searchNone)
	case x.plan.Rehearsal:
		given(2, "rehearsal: a built-in web")
	case x.search == searchNone:
		given(2, "left out by --search "+searchNone)
	case x.engine.Name == tools.SearXNG:
		given(2, "searxng at "+x.engine.Origin()+", not asked")
	case x.engine.Name != "":
		given(2, x.engine.Name+", with the key from "+x.keyVariable(x.engine.Name)+", not asked")
	}
	return found
}

// senseFinding asks the model that a tool asks.
func (x *exam) senseFinding(ctx context.Context, kind, use, model, flag string) diagnosis {
	if f, not := x.notAsked(kind, use); not {
		f.Detail = model + ", " + f.Detail
		return f
	}
	r, limited := x.asked(ctx, kind)
	if r.Err != nil {
		f := x.untold(limited, kind, use, r)
		f.Remedy = strings.ReplaceAll(f.Remedy, "--model", flag)
		return f
	}
	return billed(fine(kind, use, servedAs(model, r.ResponseModel)), r)
}

// keyVariable is the variable that the key of a search engine is from.
func (a *app) keyVariable(engine string) string {
	for _, k := range searchKeys() {
		for _, name := range k.variables {
			if k.engine == engine && strings.TrimSpace(a.getenv(name)) != "" {
				return name
			}
		}
	}
	return ""
}
