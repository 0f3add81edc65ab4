package audit

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var usageReconciliation = Check{
	ID: "AUD-13", Name: "usage-reconciliation", Severity: High,
	Title: "the provider was paid for the requests of the journal and for no others",
	Why: "who asks a model outside of the journal can try a task until the answer is right and record that one try; " +
		"the provider's account has all of them",
	Fix: "export the usage of the run's own key, from its first request to its last: an export also holds other work under the same key, and what lies before " +
		"and after the run is yours to cut; void the run if what is left was asked for it",
	Skips:  "the export names requests and the journal none, or none of the same, or requests whose tokens the journal does not have could be what the export has more",
	Absent: "no usage export was given; without one, only tokens that are too few or missing, ids that are missing and costs that differ are found",
	Rules: []Rule{
		{"totals-differ", High, 2, "tokens of an export that differ from the journal's by more than 5 % of the export and by more than 5000, and by more than requests can account for of which the journal has no tokens", ""},
		{"request-unrecorded", High, 1, "more requests of the export that the journal does not have than the journal has requests without an id, where it has others of the export", ""},
		{"export-unrelated", ToReview, 1, "an export that names requests of which the journal, which has ids too, has none", "the export of the key that the run was made with"},
		{"request-id-missing", ToReview, 2, "replies without the id of their request, where others to the same asker have one; no export is needed", "an id in every reply, as in the others"},
		{"token-count-too-low", ToReview, 1, "replies of the agent's model with more than 20 bytes of the request (of at least 1000), or of the reply (of at least 2000), for each of its tokens; no export is needed", ""},
		{"cost-inconsistent", ToReview, 1, "a reply that cost more than one with as many tokens of each kind or more, or more than 2000 micro-USD a token; no export is needed", "a cost that prices of tokens give"},
		{"usage-missing", Info, 1, "replies without a count of their tokens, where others to the same asker have one; no export is needed", "one in every reply, as in the others"},
	},
	run: func(e *evidence, n *notes) {
		tokens, tooFew := tokensTooFew(n)
		costs, costsDiffer := costsDiffer(e, n)
		ids, idsMissing := missing(n, "request-id-missing", "id of their request", func(u use) bool { return u.id != "" })
		counts, countsMissing := missing(n, "usage-missing", "count of their tokens", func(u use) bool { return u.unmeasured == 0 })
		e.uses(func(u use) {
			ids(u)
			counts(u)
		}, tokens, costs)
		tooFew()
		costsDiffer()
		idsMissing()
		countsMissing()
		if e.Usage == nil {
			n.absent("no usage export was given; the tokens and costs of the journal agree with its texts")
			return
		}
		// Where the journal does not have the tokens of requests, the export may have more: at most the largest request for each.
		var journal, export, largest, unmeasured int64
		e.uses(func(u use) {
			journal, unmeasured = journal+u.tokens, unmeasured+int64(u.unmeasured)
			largest = max(largest, u.tokens)
		})
		for _, u := range e.Superseded {
			journal, unmeasured, largest = journal+u.tokens, unmeasured+int64(u.unmeasured), max(largest, u.tokens)
		}
		for _, r := range e.Usage.Requests {
			export += r.In + r.Out
			if tokens := r.In + r.Out; len(r.IDs) > 0 && tokens <= mostOfRequest {
				largest = max(largest, tokens)
			}
		}
		differ := func(by int64) bool { return by > 5000 && by > export/20 }
		lost := e.lostTasks()
		switch {
		case !differ(max(export-journal, journal-export)):
		case export > journal && lost > 0:
			n.gap("the export has %d tokens and the journals %d, which do not have all that was asked for %s: the journals of lost shards and of lost tasks are gone", export, journal, view.Count(lost, "task"))
		case export > journal && unmeasured > 0 && largest == 0,
			export > journal && !differ(export-journal-min(unmeasured, export/max(largest, 1)+1)*largest):
			n.gap("the export has %d tokens and the journal %d, which has none of %d requests: these can be the difference", export, journal, unmeasured)
		default:
			n.find("totals-differ", place{}, fmt.Sprintf("%d tokens in the export", export), fmt.Sprintf("the %d of the journal", journal))
		}
		unrecorded(e, n)
	},
}

// mostOfRequest bounds the tokens of one request: the largest windows of models.
const mostOfRequest = 2_000_000

// unrecorded looks for requests of the export that the journal does not have. Of tries that came to nothing, and of
// the null battery, it has no ids.
func unrecorded(e *evidence, n *notes) {
	known, nameless := map[string]bool{}, 0
	e.uses(func(u use) {
		if u.id != "" {
			known[u.id] = true
		}
		nameless += u.nameless
	})
	for _, u := range e.Superseded {
		known[u.id], nameless = true, nameless+u.nameless
	}
	delete(known, "")
	var missing []string
	named := 0
	for _, r := range e.Usage.Requests {
		if len(r.IDs) == 0 {
			continue
		}
		if named++; !slices.ContainsFunc(r.IDs, func(id string) bool { return known[id] }) {
			missing = append(missing, r.IDs[0])
		}
	}
	switch {
	case named == 0:
	case len(known) == 0:
		n.gap("the export names requests, and the journal has no ids of them")
	case len(missing) == named:
		n.gap("no request that the export names is in the journal: their ids are of another kind, or the export is of something else")
		n.find("export-unrelated", place{}, fmt.Sprintf("%d requests in the export, such as %q, and none of them in the journal", named, missing[0]))
	case len(missing) > nameless && e.lostTasks() > 0:
		n.gap("%d of %d requests of the export are not in the journals, which do not have all that was asked for lost tasks", len(missing), named)
	case len(missing) > nameless:
		n.find("request-unrecorded", place{}, fmt.Sprintf("%d of %d requests of the export are not in the journal, such as %q", len(missing), named, missing[0]),
			fmt.Sprintf("at most the %d that the journal has no id of", nameless))
	}
}

// missing looks for replies without something among those with it to whom the same asked. A provider that does not
// say it once says it never. Each takes a use, and found is for when all were taken.
func missing(n *notes, rule, what string, has func(use) bool) (each func(use), found func()) {
	type replies struct {
		all, without int
		first        place // of those without
	}
	asked, order := map[string]*replies{}, []string(nil)
	each = func(u use) {
		if !u.answered {
			return
		}
		r := asked[u.who]
		if r == nil {
			r = &replies{}
			asked[u.who], order = r, append(order, u.who)
		}
		if r.all++; has(u) {
			return
		}
		if r.without++; r.without == 1 {
			r.first = u.at
		}
	}
	return each, func() {
		for _, who := range order {
			r := asked[who]
			n.findIf(r.without > 0 && r.without < r.all, rule, r.first, fmt.Sprintf("%d of %d replies to %s have no %s", r.without, r.all, who, what))
		}
	}
}

const (
	mostBytesOfToken = 20   // of text for a token, over a whole message: far more than in any language or code
	fewestAsked      = 1000 // bytes of the messages of a request whose tokens are looked at
	fewestBytes      = 2000 // of a reply likewise
	highestPrice     = 2000 // of a token, in micro-USD
	mostPrices       = 500  // different counts of tokens that are compared
)

// tokensTooFew looks for counts of tokens that are too small for the bytes of what was sent or received. There can
// be more: of tools, pictures and reasoning. Each takes an attempt, and found is for when all were taken.
func tokensTooFew(n *notes) (each func(*taskEvidence, *attemptEvidence), found func()) {
	replies, few := 0, 0
	var first place
	var got string
	each = func(t *taskEvidence, a *attemptEvidence) {
		for _, m := range a.Models {
			if !m.UsageReported {
				continue
			}
			replies++
			in := m.Asked >= fewestAsked && (m.In+m.Cached)*mostBytesOfToken < m.Asked
			if !in && (m.Bytes < fewestBytes || m.Out*mostBytesOfToken >= m.Bytes) {
				continue
			}
			if few++; few > 1 {
				continue
			}
			first, got = t.at(a, m.Seq), fmt.Sprintf("%d tokens for the %d bytes of a reply", m.Out, m.Bytes)
			if in {
				got = fmt.Sprintf("%d tokens for the %d bytes of a request", m.In, m.Asked)
			}
		}
	}
	return each, func() {
		n.findIf(few > 0, "token-count-too-low", first, fmt.Sprintf("%s; so %d of %d replies", got, few, replies), fmt.Sprintf("at least one token for %d bytes", mostBytesOfToken))
	}
}

// priced is a reply by what it is paid for.
type priced struct {
	fresh, cached, out, cost int64
	at                       place
}

// costsDiffer looks for costs that no table of prices gives: a reply that cost less than one with no more tokens of
// any kind, or more than any price makes it. Prices are the plan's; only an endpoint that says itself what a reply
// costs can ask for more at one time than at another. Each takes an attempt, and found is for when all were taken.
func costsDiffer(e *evidence, n *notes) (each func(*taskEvidence, *attemptEvidence), found func()) {
	var all []priced
	seen := map[[4]int64]bool{}
	each = func(t *taskEvidence, a *attemptEvidence) {
		for _, m := range a.Models {
			if m.CostMicroUSD == nil || !m.UsageReported || m.Cached > m.In {
				continue
			}
			p := priced{m.In - m.Cached, m.Cached, m.Out, *m.CostMicroUSD, t.at(a, m.Seq)}
			key := [4]int64{p.fresh, p.cached, p.out, p.cost}
			if !seen[key] && len(all) < mostPrices {
				seen[key] = true
				all = append(all, p)
			}
		}
	}
	return each, func() {
		slices.SortStableFunc(all, func(a, b priced) int { return cmp.Compare(a.at.seq, b.at.seq) })
		for i, p := range all {
			if tokens := p.tokens(); p.cost > 1 && (p.cost-1)/highestPrice > tokens {
				n.find("cost-inconsistent", p.at, fmt.Sprintf("%d micro-USD for %d tokens", p.cost, tokens))
				return
			}
			for _, q := range all[:i] {
				if e.Manifest.Agent == nil && (q.under(p) || p.under(q)) { // models of an own agent differ, and what they write to caches costs, too
					n.find("cost-inconsistent", p.at, fmt.Sprintf("a reply of %d tokens cost %d micro-USD, and one of %d tokens %d", p.tokens(), p.cost, q.tokens(), q.cost), "costs by one table of prices")
					return
				}
			}
		}
	}
}

func (p priced) tokens() int64 { return p.fresh + p.cached + p.out }

// under reports whether p has no more tokens of any kind than q and cost more, but for what rounding makes.
func (p priced) under(q priced) bool {
	return p.fresh <= q.fresh && p.cached <= q.cached && p.out <= q.out && p.cost > q.cost+1
}

// use is what one event of the journal says of requests to a model.
type use struct {
	at         place
	who        string // asked it: agent, judge or the name of a tool
	planned    string // the model that the plan has; "" for none
	answered   bool   // there was a reply
	model      string // that it names; "" for none
	id         string // of its request; "" for none
	tokens     int64  // in and out, as far as they were reported
	nameless   int    // requests of which the journal has no id
	unmeasured int    // requests of which it has no tokens
}

// Who asks a model, besides tools.
const (
	theAgent = "the agent"
	theJudge = "the judge"
)

// uses calls visit with all that the journal says of requests to models: before the tasks, attempt by attempt, and
// then of the null battery, whose requests the journal adds up. Others are called with each attempt in the same walk.
func (e *evidence) uses(visit func(use), others ...func(*taskEvidence, *attemptEvidence)) {
	for _, p := range e.Preflight {
		usesOfPreflight(e.Manifest, place{seq: p.Seq, given: true}, p.Event, visit)
	}
	asked := func(at place, who string) use { return use{at: at, who: who, planned: plannedModel(e.Manifest, who)} }
	e.each(func(t *taskEvidence, a *attemptEvidence) {
		for _, other := range others {
			other(t, a)
		}
		for _, m := range a.Models {
			u := asked(t.at(a, m.Seq), theAgent)
			u.planned = answersAs(e.Manifest, m.Requested)
			u.answered, u.model, u.id, u.tokens = true, m.Responded, m.RequestID, m.In+m.Out
			visit(u.of(1, m.UsageReported))
		}
		if a.Unheard > 0 {
			visit(asked(t.at(a, a.Begun), theAgent).of(a.Unheard, false))
		}
		for _, c := range a.Calls {
			if c.Result != nil && c.Result.Model != nil {
				m, u := *c.Result.Model, asked(t.at(a, c.Result.Seq), c.Result.Name)
				u.answered, u.model, u.id, u.tokens = !c.Result.IsError, m.ResponseModel, m.RequestID, m.Tokens.In+m.Tokens.Out
				visit(u.of(max(m.Tries, 1), m.UsageReported))
			}
		}
		if j := a.Judgment; j != nil && j.Tries > 0 {
			u := asked(t.at(a, a.Judged), theJudge)
			u.answered = j.Path == judge.PathJudge || j.Path == judge.PathUnreadable
			u.model, u.id, u.tokens = j.ResponseModel, j.RequestID, j.TokensIn+j.TokensOut
			visit(u.of(j.Tries, u.tokens > 0))
		}
	})
	for _, b := range e.Batteries {
		u := asked(place{seq: b.Seq}, theJudge)
		u.tokens = b.Event.TokensIn + b.Event.TokensOut
		visit(u.of(b.Event.Tries, u.tokens > 0))
	}
}

// usesOfPreflight calls visit with what a model was asked before the tasks: the tokens of all its requests, and each
// reply that has an id.
func usesOfPreflight(m plan.Plan, at place, p trajectory.Preflight, visit func(use)) {
	who := cmp.Or(map[string]string{trajectory.PreflightJudge: theJudge, trajectory.PreflightVision: "describe_image",
		trajectory.PreflightTranscription: "transcribe_audio"}[p.Kind], theAgent)
	u := use{at: at, who: who, planned: plannedModel(m, who), answered: p.Error == nil, model: p.ResponseModel}
	if p.Requests > 0 {
		all := u
		all.tokens, all.nameless = p.Tokens.In+p.Tokens.Out, max(p.Requests-len(p.RequestIDs), 0)
		if !p.UsageReported {
			all.unmeasured = p.Requests
		}
		if len(p.RequestIDs) > 0 {
			all.id = p.RequestIDs[0]
		}
		visit(all)
	}
	for _, id := range p.RequestIDs[min(1, len(p.RequestIDs)):] {
		u.id = id
		visit(u)
	}
}

// of is u of so many requests, one of which may have an id, and whose tokens may be reported.
func (u use) of(requests int, reported bool) use {
	u.nameless = requests
	if u.id != "" {
		u.nameless--
	}
	if !reported {
		u.unmeasured = requests
	}
	return u
}

// MaxUsageExport bounds a usage export, in bytes.
const MaxUsageExport = 64 << 20

// UsageExport is what a provider says of the requests that it was paid for.
type UsageExport struct {
	Requests []ExportedRequest // each once, in the order of the export
	SHA256   string            // of the export
}

// ExportedRequest is one request of an export, or the sum of several where the provider tells no more. IDs are all
// that the export has for it; Model is "" where it does not say.
type ExportedRequest struct {
	IDs     []string
	Model   string
	In, Out int64 // tokens
}

// ParseUsageExport reads a provider's export: a JSON list of objects, an object with such a list in it, JSON lines,
// or CSV with a header. An entry needs its input and output tokens, as whole numbers under one of the names that
// providers have for them, and may have ids and a model; what else it has is not read. Of a JSON entry, tokens may
// stand in a member "usage". An entry that stands there again is counted once; two that differ under the same ids
// are refused.
func ParseUsageExport(data []byte) (*UsageExport, error) {
	if len(data) > MaxUsageExport {
		return nil, fmt.Errorf("the usage export is larger than %d bytes", MaxUsageExport)
	}
	p := exportParser{text: bytes.TrimPrefix(data, []byte("\ufeff")), seen: map[string]ExportedRequest{}}
	read := p.csv
	if start := bytes.TrimLeft(p.text, " \t\r\n"); len(start) > 0 && (start[0] == '[' || start[0] == '{') {
		read = p.json
	}
	if !utf8.Valid(p.text) {
		return nil, errors.New("the usage export is not UTF-8 text")
	}
	if err := read(); err != nil {
		return nil, fmt.Errorf("reading the usage export: %w", err)
	}
	if len(p.requests) == 0 {
		return nil, errors.New("the usage export has no entry")
	}
	return &UsageExport{Requests: p.requests, SHA256: canonical.Digest(data)}, nil
}

// exportNames are the names that providers use, the first ones before the others where an entry has several.
var exportNames = struct{ ids, in, out, model []string }{
	ids:   []string{"request_id", "x_request_id", "generation_id", "response_id", "completion_id", "id"},
	in:    []string{"native_tokens_prompt", "prompt_tokens", "input_tokens", "tokens_prompt", "tokens_input", "tokens_in"},
	out:   []string{"native_tokens_completion", "completion_tokens", "output_tokens", "tokens_completion", "tokens_output", "tokens_out"},
	model: []string{"model", "model_id", "model_name", "model_permaslug"},
}

// exportName is a name as exportNames has it.
func exportName(name string) string {
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(name)))
}

// maxExported bounds the tokens of an entry, which may be a month's.
const maxExported = 100_000_000_000

// exportParser gathers the entries of an export.
type exportParser struct {
	text     []byte
	requests []ExportedRequest
	seen     map[string]ExportedRequest // by ids
}

// add takes an entry, whose values are under the names of exportNames.
func (p *exportParser) add(values map[string]string) error {
	tokens := func(what string, names []string) (int64, error) {
		for _, name := range names {
			value, there := values[name]
			if !there {
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 || n > maxExported {
				return 0, fmt.Errorf("%s is %q, which is no number of tokens", name, value)
			}
			return n, nil
		}
		return 0, fmt.Errorf("there are no %s tokens, such as %s", what, names[1])
	}
	var r ExportedRequest
	var err error
	if r.In, err = tokens("input", exportNames.in); err != nil {
		return err
	}
	if r.Out, err = tokens("output", exportNames.out); err != nil {
		return err
	}
	for _, name := range exportNames.ids {
		if id := values[name]; id != "" && !slices.Contains(r.IDs, id) {
			r.IDs = append(r.IDs, id)
		}
	}
	for _, name := range exportNames.model {
		r.Model = cmp.Or(r.Model, values[name])
	}
	if len(r.IDs) > 0 {
		key := fmt.Sprintf("%q", r.IDs)
		before, again := p.seen[key]
		same := before.In == r.In && before.Out == r.Out && before.Model == r.Model
		switch {
		case again && same:
			return nil
		case again:
			return fmt.Errorf("the id %q stands there before, with something else", r.IDs[0])
		}
		p.seen[key] = r
	}
	p.requests = append(p.requests, r)
	return nil
}

func (p *exportParser) csv() error {
	r := csv.NewReader(bytes.NewReader(p.text))
	r.ReuseRecord = true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	if err != nil {
		return err
	}
	columns := make([]string, len(header))
	for i, name := range header {
		if columns[i] = exportName(name); columns[i] != "" && slices.Contains(columns[:i], columns[i]) {
			return fmt.Errorf("line 1: there are two columns %q", columns[i])
		}
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		values := map[string]string{}
		for i, value := range row {
			values[columns[i]] = strings.TrimSpace(value)
		}
		if err := p.add(values); err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// maxExportDepth bounds how far a list of entries stands inside of others.
const maxExportDepth = 4

// json reads values after one another: JSON lines, or one value.
func (p *exportParser) json() error {
	for d := jsontext.NewDecoder(bytes.NewReader(p.text)); ; {
		value, err := d.ReadValue()
		if errors.Is(err, io.EOF) {
			return nil
		}
		at := d.InputOffset() - int64(len(value))
		if wrong := (*jsontext.SyntacticError)(nil); errors.As(err, &wrong) {
			at, err = wrong.ByteOffset, fmt.Errorf("it is not JSON: %w", err)
		}
		if err == nil {
			err = p.value(value.Clone(), 0)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", 1+bytes.Count(p.text[:at], []byte("\n")), err)
		}
	}
}

// value reads an entry, or what holds a list of them: the list itself, or an object that has no tokens and one
// list.
func (p *exportParser) value(value jsontext.Value, depth int) error {
	if depth > maxExportDepth {
		return errors.New("lists stand too deep inside of others")
	}
	switch value.Kind() {
	case '[':
		var all []jsontext.Value
		if err := json.Unmarshal(value, &all); err != nil {
			return err
		}
		for i, entry := range all {
			if err := p.value(entry, depth+1); err != nil && entry.Kind() != '[' {
				return fmt.Errorf("entry %d: %w", i+1, err)
			} else if err != nil {
				return err
			}
		}
		return nil
	case '{':
	default:
		return errors.New("there is neither an object nor a list")
	}
	values := map[string]string{}
	lists, err := keepMembers(values, value, false)
	if err != nil {
		return err
	}
	counts := func(name string) bool { _, there := values[name]; return there }
	if len(lists) == 1 && !slices.ContainsFunc(exportNames.in, counts) && !slices.ContainsFunc(exportNames.out, counts) {
		return p.value(lists[0], depth+1)
	}
	return p.add(values)
}

// keepMembers takes the texts and numbers of an entry, and those of its member "usage" but an id. It returns the
// lists of the entry.
func keepMembers(values map[string]string, object jsontext.Value, inUsage bool) (lists []jsontext.Value, err error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		key, member := exportName(name), members[name]
		text := string(member)
		switch kind := member.Kind(); {
		case kind == '[':
			lists = append(lists, member)
			continue
		case kind == '{' && key == "usage" && !inUsage:
			_, err = keepMembers(values, member, true)
		case kind == '"':
			err = json.Unmarshal(member, &text)
		}
		if err != nil {
			return nil, err
		}
		if kind := member.Kind(); kind != '"' && kind != '0' || inUsage && key == "id" {
			continue
		}
		if before, twice := values[key]; twice && before != text {
			return nil, fmt.Errorf("%q stands there twice, with something else", key)
		}
		values[key] = text
	}
	return lists, nil
}
