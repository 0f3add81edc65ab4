package judge

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// batteryDigest is what outcomes of the battery are remembered under: another
// battery has every judge tried again.
const batteryDigest = "sha256:0b3b72034e53ff7ebbb34e8f7af91eba0125e4dbdb6d56ce26ec73009c979993"

// TestBattery: each item is one that only a judge can pay, and is told apart by
// its name.
func TestBattery(t *testing.T) {
	names := map[string]bool{}
	for _, n := range Battery() {
		if names[n.Name] || !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(n.Name) {
			t.Errorf("name %q", n.Name)
		}
		names[n.Name] = true
		if QuestionScorer(&n.Candidate, n.Expected) || !QuestionScorer(&n.Expected, n.Expected) {
			t.Errorf("%s: the official scorer pays it, or does not pay its gold answer", n.Name)
		}
		if Blank(n.Candidate) || n.Question == "" || len(n.Candidate) > MaxCandidateBytes {
			t.Errorf("%s: nothing that would reach a judge", n.Name)
		}
		if strings.Contains(strings.ToLower(n.Candidate), strings.ToLower(n.Expected)) {
			t.Errorf("%s: holds the expected answer", n.Name)
		}
	}
	if got := BatteryDigest(); got != batteryDigest {
		t.Errorf("the battery is %s now: if that is meant, write its digest here", got)
	}
}

// judging answers every request by its candidate.
type judging struct {
	say   func(candidate string) (string, error)
	asked []Request
}

func (j *judging) Ask(_ context.Context, r Request) (Reply, error) {
	j.asked = append(j.asked, r)
	for _, n := range Battery() {
		if s := (&scripted{replies: []any{sayIncorrect}}); r.User == userOf(s, n) {
			text, err := j.say(n.Candidate)
			return Reply{Text: text}, err
		}
	}
	return Reply{}, errors.New("asked about what is no item of the battery")
}

// userOf is the message that an answer to the same question as an item's gets the
// judge to see.
func userOf(s *scripted, n Null) string {
	Judge{Asker: s}.Score(context.Background(), Item{Question: n.Question, Gold: n.Expected, Answer: &n.Candidate})
	return s.asked[0].User
}

// TestTry: a judge is asked as about any answer, and withstands the battery if it
// calls all of it incorrect.
func TestTry(t *testing.T) {
	items := len(Battery())
	gone := errors.New("gone")
	for _, c := range []struct {
		name      string
		say       func(candidate string) (string, error)
		withstood bool
		want      Trial
	}{
		{"incorrect, all of it", func(string) (string, error) { return sayIncorrect, nil }, true, Trial{Put: items, Tries: items}},
		{"one is paid", func(c string) (string, error) {
			if c == ":" {
				return sayCorrect, nil
			}
			return sayIncorrect, nil
		}, false, Trial{Put: items, Tries: items, Paid: []string{"colon"}}},
		{"one is unreadable", func(c string) (string, error) {
			if c == "." {
				return "incorrect", nil
			}
			return sayIncorrect, nil
		}, false, Trial{Put: items, Tries: items + defaultMaxTries - 1, Unreadable: []string{"full-stop"}}},
		{"the third cannot be put", func(c string) (string, error) {
			if c == Battery()[2].Candidate {
				return "", gone
			}
			return sayIncorrect, nil
		}, false, Trial{Put: 2, Tries: 3, Err: "the judge could not be asked"}},
		{"nothing can be put", func(string) (string, error) { return "", gone }, false, Trial{Tries: 1, Err: "the judge could not be asked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &judging{say: c.say}
			got := Judge{Asker: j, Known: func(Item) (bool, bool) { return true, true }, Fit: func(context.Context) bool { return false }}.Try(t.Context())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("trial (-want +got):\n%s", diff)
			}
			if got.Withstood() != c.withstood || len(j.asked) != got.Tries {
				t.Errorf("withstood %v; asked %d times, says %d", got.Withstood(), len(j.asked), got.Tries)
			}
		})
	}
	if (Trial{}).Withstood() || (Trial{Put: items - 1}).Withstood() {
		t.Error("withstands what was not put to it")
	}
}

// TestWithheld: no verdict of a judge that did not withstand the battery counts,
// not one that it gave before either, and it is not asked.
func TestWithheld(t *testing.T) {
	long := strings.Repeat("a", MaxCandidateBytes+1)
	var told []string
	known := func(Item) (bool, bool) { told = append(told, "known"); return true, true }
	fit := func(fit bool) func(context.Context) bool {
		return func(context.Context) bool { told = append(told, "fit"); return fit }
	}
	for _, c := range []struct {
		name string
		item Item
		fit  bool
		path string
		told []string
	}{
		{"unfit", Item{Gold: "quartz", Answer: new("basalt")}, false, PathWithheld, []string{"fit"}},
		{"fit", Item{Gold: "quartz", Answer: new("basalt")}, true, PathJudge, []string{"fit", "known"}},
		{"unfit, official yes", Item{Gold: "quartz", Answer: new("Quartz")}, false, PathOfficial, nil},
		{"unfit, no answer", Item{Gold: "quartz", Answer: new(" ")}, false, PathNoAnswer, nil},
		{"question too long", Item{Question: strings.Repeat("q", maxQuestionBytes+1), Gold: "quartz", Answer: new("basalt")}, true, PathWithheld, nil},
		{"question as long as may be", Item{Question: strings.Repeat("q", maxQuestionBytes), Gold: "quartz", Answer: new("basalt")}, true, PathJudge, []string{"fit", "known"}},
		{"expected answer too long", Item{Gold: long, Answer: new("basalt")}, true, PathWithheld, nil},
		{"expected answer too long and given", Item{Gold: long, Answer: &long}, true, PathOfficial, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			told = nil
			v := Judge{Asker: &scripted{}, Known: known, Fit: fit(c.fit)}.Score(t.Context(), c.item)
			if v.Path != c.path || v.Tries != 0 || (v.Judged == nil) != (c.path == PathWithheld) || (v.Err == "") != (c.path != PathWithheld) {
				t.Errorf("verdict %+v", v)
			}
			if !slices.Equal(told, c.told) {
				t.Errorf("asked %v, want %v", told, c.told)
			}
		})
	}
}
