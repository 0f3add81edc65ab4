package judge

import (
	"context"
	"errors"
	"fmt"
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
		if Blank(n.Candidate) || n.Question == "" || len(n.Candidate) > maxCandidateBytes {
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

// TestSelfTest: a judge is asked as about any answer, and withstands the battery if it
// calls all of it incorrect.
func TestSelfTest(t *testing.T) {
	items := len(Battery())
	gone := errors.New("gone")
	var all []string
	for _, n := range Battery() {
		all = append(all, n.Name)
	}
	for _, c := range []struct {
		name      string
		say       func(candidate string) (string, error)
		withstood bool
		want      BatteryResult
	}{
		{"incorrect, all of it", func(string) (string, error) { return sayIncorrect, nil }, true, BatteryResult{Asked: items, Tries: items}},
		{"one is paid", func(c string) (string, error) {
			if c == ":" {
				return sayCorrect, nil
			}
			return sayIncorrect, nil
		}, false, BatteryResult{Asked: items, Tries: items, Accepted: []string{"colon"}}},
		{"one is unreadable", func(c string) (string, error) {
			if c == "." {
				return "incorrect", nil
			}
			return sayIncorrect, nil
		}, false, BatteryResult{Asked: items, Tries: items + DefaultTries - 1, Unreadable: []string{"full-stop"}}},
		{"the third cannot be put", func(c string) (string, error) {
			if c == Battery()[2].Candidate {
				return "", gone
			}
			return sayIncorrect, nil
		}, false, BatteryResult{Asked: 2, Tries: 3, Err: "the judge could not be asked"}},
		{"some are refused", func(c string) (string, error) {
			if c == "{}" || c == "null" {
				return "", fmt.Errorf("%w: content filter", ErrRefused)
			}
			return sayIncorrect, nil
		}, true, BatteryResult{Asked: items, Tries: items, Refused: []string{"braces", "null"}}},
		{"all but the first are refused", func(c string) (string, error) {
			if c == Battery()[0].Candidate {
				return sayIncorrect, nil
			}
			return "", ErrRefused
		}, false, BatteryResult{Asked: items, Tries: items, Refused: all[1:]}},
		{"the first is refused", func(c string) (string, error) {
			if c == Battery()[0].Candidate {
				return "", ErrRefused
			}
			return sayIncorrect, nil
		}, true, BatteryResult{Asked: items, Tries: items, Refused: all[:1]}},
		{"all are refused", func(string) (string, error) { return "", ErrRefused }, false, BatteryResult{Asked: 1, Tries: 2, Refused: all[:1], Err: "the judge could not be asked"}},
		{"nothing can be put", func(string) (string, error) { return "", gone }, false, BatteryResult{Tries: 1, Err: "the judge could not be asked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &judging{say: c.say}
			got := Judge{Asker: j, Known: func(Item) (bool, bool) { return true, true }, Passed: func(context.Context) (bool, error) { return false, gone }}.SelfTest(t.Context())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if got.Passed() != c.withstood || len(j.asked) != got.Tries {
				t.Errorf("withstood %v; asked %d times, says %d", got.Passed(), len(j.asked), got.Tries)
			}
		})
	}
	if (BatteryResult{}).Passed() || (BatteryResult{Asked: items - 1}).Passed() {
		t.Error("withstands what was not put to it")
	}
}

// TestWithheld: no verdict of a judge that did not withstand the battery counts,
// not one that it gave before either, and it is not asked.
func TestWithheld(t *testing.T) {
	long := strings.Repeat("a", maxCandidateBytes+1)
	var told []string
	known := func(Item) (bool, bool) { told = append(told, "known"); return true, true }
	gone := errors.New("gone")
	battery := func(withstood bool, err error) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) { told = append(told, "battery"); return withstood, err }
	}
	for _, c := range []struct {
		name      string
		item      Item
		withstood bool
		err       error
		path      string
		told      []string
	}{
		{"paid", Item{Gold: "quartz", Answer: new("basalt")}, false, nil, PathWithheld, []string{"battery"}},
		{"withstood", Item{Gold: "quartz", Answer: new("basalt")}, true, nil, PathJudge, []string{"battery", "known"}},
		{"not to be told", Item{Gold: "quartz", Answer: new("basalt")}, false, gone, PathError, []string{"battery"}},
		{"paid, official yes", Item{Gold: "quartz", Answer: new("Quartz")}, false, nil, PathOfficial, nil},
		{"paid, no answer", Item{Gold: "quartz", Answer: new(" ")}, false, nil, PathNoAnswer, nil},
		{"question too long", Item{Question: strings.Repeat("q", maxQuestionBytes+1), Gold: "quartz", Answer: new("basalt")}, true, nil, PathTooLong, nil},
		{"question as long as may be", Item{Question: strings.Repeat("q", maxQuestionBytes), Gold: "quartz", Answer: new("basalt")}, true, nil, PathJudge, []string{"battery", "known"}},
		{"expected answer too long", Item{Gold: long, Answer: new("basalt")}, true, nil, PathTooLong, nil},
		{"expected answer too long and given", Item{Gold: long, Answer: &long}, true, nil, PathOfficial, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			told = nil
			v := Judge{Asker: &scripted{}, Known: known, Passed: battery(c.withstood, c.err)}.Score(t.Context(), c.item)
			judged := slices.Contains([]string{PathJudge, PathOfficial, PathNoAnswer}, c.path)
			if v.Path != c.path || v.Tries != 0 || (v.Judged != nil) != judged || (v.Err == "") != judged {
				t.Errorf("verdict %+v", v)
			}
			if !slices.Equal(told, c.told) {
				t.Errorf("asked %v, want %v", told, c.told)
			}
		})
	}
}
