package judge

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/go-json-experiment/json"
)

// Null is a candidate that does not answer its question. A judge that accepts it can be
// manipulated. Name is unique and made of
// lower-case letters, digits and dashes.
type Null struct {
	Candidate string `json:"candidate"`
	Expected  string `json:"expected"`
	Name      string `json:"name"`
	Question  string `json:"question"`
}

// Battery returns the null battery, the self-test of an LLM judge: it must call all items
// incorrect before its verdicts count. Words and signs without content, and openings of a
// solution without one, are those that models are known to accept
// ("One Token to Fool LLM-as-a-Judge", arXiv 2507.08794); the others instruct the
// judge, imitate its prompt, or refer to the expected answer instead of giving one.
// The questions are invented.
func Battery() []Null { return slices.Clone(battery()) }

//go:embed battery.json
var batteryFile []byte

// battery is battery.json, parsed at first use.
var battery = sync.OnceValue(func() (all []Null) {
	if err := json.Unmarshal(batteryFile, &all, json.RejectUnknownMembers(true)); err != nil {
		panic("judge: the embedded null battery does not parse: " + err.Error())
	}
	return all
})

// BatteryDigest returns "sha256:…" over the canonical JSON of [Battery]: what a
// plan and a cached result name it by.
func BatteryDigest() string {
	b, err := canonical.Encode(Battery())
	if err != nil {
		panic(err) // constants that are not UTF-8: TestBattery has them all
	}
	return canonical.Digest(b)
}

// BatteryResult is the outcome of the null battery. Accepted, Refused and Unreadable are names of
// items: those that the judge called correct, those that its endpoint refused, and those on
// which its reply was no verdict.
type BatteryResult struct {
	Asked                         int // items that it was asked about, the refused ones included
	Accepted, Refused, Unreadable []string
	Tries                         int    // how often it was asked
	Err                           string // why not all items were asked, in fixed words
}

// Passed reports whether the judge called every item incorrect that reached
// it, and more than half did. An endpoint that refuses some items, as content
// filters do, refuses answers of that kind as well.
func (r BatteryResult) Passed() bool {
	return r.Err == "" && r.Asked == len(Battery()) && len(r.Accepted)+len(r.Unreadable) == 0 && 2*len(r.Refused) < r.Asked
}

// ErrRefused is wrapped by an Asker's error where this request will not be
// answered, and others may be.
var ErrRefused = errors.New("the request was refused")

// SelfTest asks the LLM judge about each item of the null battery. It stops where the judge
// cannot be asked: at an error that is not ErrRefused, or where the first two items are refused.
func (j Judge) SelfTest(ctx context.Context) BatteryResult {
	var r BatteryResult
	for _, n := range Battery() {
		v, err := j.ask(ctx, n.Question, n.Candidate, n.Expected)
		r.Tries += v.Tries
		refused := errors.Is(err, ErrRefused)
		if err != nil && !refused || refused && r.Asked == 1 && len(r.Refused) == 1 {
			r.Err = v.Err
			return r
		}
		r.Asked++
		switch {
		case refused:
			r.Refused = append(r.Refused, n.Name)
		case v.Judged == nil:
			r.Unreadable = append(r.Unreadable, n.Name)
		case *v.Judged:
			r.Accepted = append(r.Accepted, n.Name)
		}
	}
	return r
}

// Answers reports whether the LLM judge can be asked at all, by one item of the null
// battery.
func (j Judge) Answers(ctx context.Context) bool {
	n := Battery()[0]
	_, err := j.ask(ctx, n.Question, n.Candidate, n.Expected)
	return err == nil
}
