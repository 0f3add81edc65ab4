package llm

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

//go:embed prices.json
var builtinPrices []byte

// maxPrice bounds a price in a table, in micro-USD per million tokens (a million dollars).
// With maxTokens it keeps every cost well inside ±2⁵³.
const maxPrice = 1_000_000_000_000

// maxAudioPrice bounds a price in micro-USD per minute (a thousand dollars), and maxMilliseconds the
// length of a recording (eleven days): the product of both is below 2⁶³.
const (
	maxAudioPrice   = 1_000_000_000
	maxMilliseconds = 1_000_000_000
)

// price is what one million tokens of a model cost, in micro-USD, or a minute of a recording.
type price struct {
	Input       *int64 `json:"input_microusd_per_mtok"`
	CachedInput *int64 `json:"cached_input_microusd_per_mtok"`
	Output      *int64 `json:"output_microusd_per_mtok"`
	Write       *int64 `json:"cache_write_microusd_per_mtok"`    // nil: as Input
	WriteHour   *int64 `json:"cache_write_1h_microusd_per_mtok"` // nil: as Write
	Audio       *int64 `json:"audio_microusd_per_minute"`
}

// Prices is a price table: one strict JSON document
//
//	{"version":"2026-11-01","note":"…","models":{"gpt-4o":{
//	   "input_microusd_per_mtok":2500000,
//	   "cached_input_microusd_per_mtok":1250000,
//	   "output_microusd_per_mtok":10000000}}}
//
// with every price in micro-USD per million tokens. A model that writes down recordings and is billed by
// their length has one price instead, in micro-USD per minute:
//
//	"whisper-1":{"audio_microusd_per_minute":6000}
//
// A model whose provider has a price for writing to its cache of prompts, as Anthropic has, may have
// cache_write_microusd_per_mtok and cache_write_1h_microusd_per_mtok, for what is kept for an hour. Without them it costs
// as other input.
//
// Model names match exactly: a dated snapshot may have another price than the name without a date. The
// zero value knows no model.
type Prices struct {
	version string
	digest  string
	models  map[string]price
}

// BuiltinPrices returns the table that ships with the program.
func BuiltinPrices() Prices {
	p, err := ParsePrices(builtinPrices)
	if err != nil {
		panic("llm: the embedded price table does not parse: " + err.Error())
	}
	return p
}

// ParsePrices reads a price table. It refuses unknown and duplicate members, missing prices, prices
// that are not integers from 0 to a million dollars per million tokens (a thousand dollars per minute),
// models with both kinds of price, and tables without version, note or models.
func ParsePrices(b []byte) (Prices, error) {
	var table struct {
		Version *string          `json:"version"`
		Note    *string          `json:"note"`
		Models  map[string]price `json:"models"`
	}
	if err := json.Unmarshal(b, &table, json.RejectUnknownMembers(true)); err != nil {
		return Prices{}, fmt.Errorf("reading price table: %s", tableFault(b, err))
	}
	if table.Version == nil || *table.Version == "" {
		return Prices{}, fmt.Errorf("reading price table: %q is missing or empty", "version")
	}
	if table.Note == nil {
		return Prices{}, fmt.Errorf("reading price table: %q is missing", "note")
	}
	if len(table.Models) == 0 {
		return Prices{}, fmt.Errorf("reading price table: %q is missing or empty", "models")
	}
	for _, name := range slices.Sorted(maps.Keys(table.Models)) { // of several faults always the same is reported
		m := table.Models[name]
		if name == "" {
			return Prices{}, fmt.Errorf("reading price table: a model has no name")
		}
		if m.Audio != nil {
			switch {
			case m.Input != nil || m.CachedInput != nil || m.Output != nil || m.Write != nil || m.WriteHour != nil:
				return Prices{}, fmt.Errorf("reading price table: model %q has prices of tokens and a price of minutes", name)
			case *m.Audio < 0 || *m.Audio > maxAudioPrice:
				return Prices{}, fmt.Errorf("reading price table: model %q has a price outside 0 to %d micro-USD per minute", name, int64(maxAudioPrice))
			}
			continue
		}
		for i, p := range []*int64{m.Input, m.CachedInput, m.Output, m.Write, m.WriteHour} {
			if p == nil && i < 3 {
				return Prices{}, fmt.Errorf("reading price table: model %q lacks one of its three prices", name)
			}
			if p != nil && (*p < 0 || *p > maxPrice) {
				return Prices{}, fmt.Errorf("reading price table: model %q has a price outside 0 to %d micro-USD per million tokens", name, int64(maxPrice))
			}
		}
	}
	return Prices{version: *table.Version, digest: canonical.Digest(b), models: table.Models}, nil
}

// tableFault says what a table's JSON breaks, and where, in words that no release of a
// library changes.
func tableFault(b []byte, err error) string {
	var offset int64
	var place jsontext.Pointer
	what := "is not JSON"
	if wrong, is := errors.AsType[*json.SemanticError](err); is {
		offset, place, what = wrong.ByteOffset, wrong.JSONPointer, "is not of the form that docs/formats.md states"
		switch last := place.LastToken(); {
		case errors.Is(err, json.ErrUnknownName):
			what = "is an unknown member"
		case strings.Contains(last, "_microusd_per_"):
			what = "is not an integer"
		}
	} else if broken, is := errors.AsType[*jsontext.SyntacticError](err); is {
		offset, place = broken.ByteOffset, broken.JSONPointer
		if errors.Is(err, jsontext.ErrDuplicateName) {
			what = "is there twice"
		}
	}
	line := 1 + bytes.Count(b[:min(max(int(offset), 0), len(b))], []byte("\n"))
	if place == "" {
		return fmt.Sprintf("line %d: the table %s", line, what)
	}
	return fmt.Sprintf("line %d: %q %s", line, string(place), what)
}

// Version returns what the table calls itself, commonly the date its prices are of. It is text of whoever
// wrote the table.
func (p Prices) Version() string { return p.version }

// Digest returns "sha256:" and the hex SHA-256 of the bytes the table was read from.
func (p Prices) Digest() string { return p.digest }

// Lookup reports whether the table has a price for exactly this model name.
func (p Prices) Lookup(model string) bool {
	_, found := p.models[model]
	return found
}

// Models returns the names that the table has a price for, sorted.
func (p Prices) Models() []string { return slices.Sorted(maps.Keys(p.models)) }

// Cost returns what the tokens cost in micro-USD, computed exactly and rounded up to a whole
// micro-USD. It is nil, never 0, where the cost is unknown: no price for the model, or no usable
// usage. Cached and written tokens are part of the input tokens, reasoning tokens part of the output tokens.
func (p Prices) Cost(model string, u Usage) *int64 {
	m, ok := p.models[model]
	if !ok || m.Audio != nil || !u.Reported || !u.plausible() {
		return nil
	}
	sum := new(big.Int)
	for _, part := range [][2]int64{
		{u.In - u.Cached - u.Written - u.WrittenHour, *m.Input},
		{u.Cached, *m.CachedInput},
		{u.Written, *cmp.Or(m.Write, m.Input)},
		{u.WrittenHour, *cmp.Or(m.WriteHour, m.Write, m.Input)},
		{u.Out, *m.Output},
	} {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
	}
	const perMillion = 1_000_000
	sum.Add(sum, big.NewInt(perMillion-1))
	cost := sum.Div(sum, big.NewInt(perMillion)).Int64()
	return &cost
}

// Bound returns what so many tokens cost at most, in micro-USD, where none is written to a cache, which may cost more: none of
// them is taken for cached. It is nil where the table has no prices of tokens for the model, or a count is not one of tokens.
func (p Prices) Bound(model string, in, out int64) *int64 {
	return p.Cost(model, Usage{Reported: true, In: in, Out: out})
}

// CostOfAudio returns what a recording of so many milliseconds costs, in micro-USD, rounded up. It is
// nil, never 0, where the cost is unknown: no price of minutes for the model, or no usable length.
func (p Prices) CostOfAudio(model string, ms int64) *int64 {
	perMinute := p.models[model].Audio
	if perMinute == nil || ms <= 0 || ms > maxMilliseconds {
		return nil
	}
	const minute = 60_000
	cost := (*perMinute*ms + minute - 1) / minute
	return &cost
}
