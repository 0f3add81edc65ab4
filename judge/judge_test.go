package judge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

const (
	sayCorrect   = `{"verdict":"correct"}`
	sayIncorrect = `{"verdict":"incorrect"}`
)

// scripted answers from a list and keeps what it was asked.
type scripted struct {
	replies []any // a string is a reply, an error an error
	asked   []Request
}

func (s *scripted) Ask(_ context.Context, r Request) (Reply, error) {
	s.asked = append(s.asked, r)
	if len(s.asked) > len(s.replies) {
		return Reply{}, errors.New("asked more often than scripted")
	}
	switch next := s.replies[len(s.asked)-1].(type) {
	case error:
		return Reply{}, next
	default:
		id := fmt.Sprintf("req-%d", len(s.asked))
		return Reply{Text: next.(string), RequestID: id, TokensIn: 7, TokensOut: 2}, nil
	}
}

func TestScore(t *testing.T) {
	const gold = "quartz harbour"
	yes, no := new(true), new(false)
	unreadable := func(tries int) Verdict {
		return Verdict{Path: PathUnreadable, Tries: tries, Err: "the judge's reply is not a verdict"}
	}
	broken := func(tries int, words string) Verdict {
		return Verdict{Path: PathError, Tries: tries, Err: words}
	}
	judged := func(verdict *bool, tries int) Verdict {
		return Verdict{Judged: verdict, Path: PathJudge, Tries: tries}
	}
	for _, c := range []struct {
		name     string
		answer   *string
		replies  []any
		maxTries int
		want     Verdict
		lastID   string // request id of the reply in the verdict
	}{
		{"official yes asks no judge", new("Quartz Harbour."), nil, 0, Verdict{Official: true, Judged: yes, Path: PathOfficial}, ""},
		{"correct", new("harbour of quartz"), []any{sayCorrect}, 0, judged(yes, 1), "req-1"},
		{"incorrect", new("basalt"), []any{sayIncorrect}, 0, judged(no, 1), "req-1"},
		{"white space around", new("basalt"), []any{" {\n \"verdict\" : \"correct\" }\n"}, 0, judged(yes, 1), "req-1"},
		{"garbage, then correct", new("basalt"), []any{"Thought process:", sayCorrect}, 0, judged(yes, 2), "req-2"},
		{"garbage twice", new("basalt"), []any{"correct", ""}, 0, unreadable(2), "req-2"},
		{"garbage once, one try", new("basalt"), []any{"correct"}, 1, unreadable(1), "req-1"},
		{"third try", new("basalt"), []any{"", "", sayIncorrect}, 3, judged(no, 3), "req-3"},
		{"extra key", new("basalt"), []any{`{"verdict":"correct","reason":"x"}`, `{"reason":"x","verdict":"correct"}`}, 0, unreadable(2), "req-2"},
		{"duplicate key", new("basalt"), []any{`{"verdict":"incorrect","verdict":"correct"}`, `{"verdict":"correct","verdict":"correct"}`}, 0, unreadable(2), "req-2"},
		{"error", new("basalt"), []any{errors.New("500: the request was: expected " + gold)}, 0, broken(1, "the judge could not be asked"), ""},
		{"garbage, then error", new("basalt"), []any{"?", errors.New("gone")}, 0, broken(2, "the judge could not be asked"), "req-1"},
		{"interrupted", new("basalt"), []any{fmt.Errorf("post: %w", context.Canceled)}, 0, broken(1, "asking the judge was interrupted"), ""},
		{"too slow", new("basalt"), []any{fmt.Errorf("post: %w", context.DeadlineExceeded)}, 0, broken(1, "asking the judge took too long"), ""},
		{"no answer", nil, nil, 0, Verdict{Judged: no, Path: PathNoAnswer}, ""},
		{"empty answer", new(""), nil, 0, Verdict{Judged: no, Path: PathNoAnswer}, ""},
		{"nothing to be seen", new(" \n\u200b\ufeff\u202e\x1f\u00ad\u0301"), nil, 0, Verdict{Judged: no, Path: PathNoAnswer}, ""},
		{"a full stop is to be seen", new("."), []any{sayIncorrect}, 0, judged(no, 1), "req-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scripted{replies: c.replies}
			got := Judge{Asker: s, MaxTries: c.maxTries}.Score(t.Context(), Item{TaskID: "t", Question: "Which?", Gold: gold, Answer: c.answer})
			gotID := ""
			if got.Reply != nil {
				gotID = got.Reply.RequestID
			}
			got.Reply = nil
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if gotID != c.lastID {
				t.Errorf("reply %q, want %q", gotID, c.lastID)
			}
			if len(s.asked) != len(c.replies) || len(s.asked) != got.Tries {
				t.Errorf("asked %d times and says %d, scripted %d", len(s.asked), got.Tries, len(c.replies))
			}
			if strings.Contains(got.Err, gold) {
				t.Errorf("the error %q holds the gold answer", got.Err)
			}
		})
	}
}

func TestScoreWithoutJudge(t *testing.T) {
	for _, c := range []struct {
		answer *string
		want   Verdict
	}{
		{new("7.0"), Verdict{Official: true, Path: PathOfficial}},
		{new("8"), Verdict{Path: PathNoJudge}},
		{nil, Verdict{Path: PathNoAnswer}},
	} {
		got := Judge{}.Score(t.Context(), Item{Gold: "7", Answer: c.answer})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q: verdict (-want +got):\n%s", show(c.answer), diff)
		}
	}
}

// Every try sends the same request, with a schema that the replies which count
// are the only ones to fit.
func TestRequest(t *testing.T) {
	s := &scripted{replies: []any{"?", sayCorrect}}
	Judge{Asker: s}.Score(t.Context(), Item{Question: "Which?", Gold: "x", Answer: new("y")})
	if len(s.asked) != 2 {
		t.Fatalf("asked %d times", len(s.asked))
	}
	if diff := cmp.Diff(s.asked[0], s.asked[1]); diff != "" {
		t.Errorf("the tries differ:\n%s", diff)
	}
	var schema struct {
		Type       string `json:"type"`
		Properties struct {
			Verdict struct {
				Type string   `json:"type"`
				Enum []string `json:"enum"`
			} `json:"verdict"`
		} `json:"properties"`
		Required             []string `json:"required"`
		AdditionalProperties bool     `json:"additionalProperties"`
	}
	schema.AdditionalProperties = true
	if err := json.Unmarshal(s.asked[0].Schema, &schema, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if schema.AdditionalProperties || cmp.Diff([]string{"verdict"}, schema.Required) != "" ||
		cmp.Diff([]string{"correct", "incorrect"}, schema.Properties.Verdict.Enum) != "" {
		t.Errorf("schema %s", s.asked[0].Schema)
	}
	for _, verdict := range schema.Properties.Verdict.Enum {
		if correct, ok := readVerdict(`{"verdict":"` + verdict + `"}`); !ok || correct != (verdict == "correct") {
			t.Errorf("%q is read as %v, %v", verdict, correct, ok)
		}
	}
}

func TestLongCandidateIsCut(t *testing.T) {
	for _, c := range []struct{ answer, want string }{
		{strings.Repeat("a", maxCandidateBytes), strings.Repeat("a", maxCandidateBytes)},
		{strings.Repeat("a", maxCandidateBytes+1), strings.Repeat("a", maxCandidateBytes)},
		{"a" + strings.Repeat("\U0001f600", maxCandidateBytes), "a" + strings.Repeat("\U0001f600", maxCandidateBytes/4-1)},
		{strings.Repeat("日", maxCandidateBytes), strings.Repeat("日", maxCandidateBytes/3)},
	} {
		s := &scripted{replies: []any{sayIncorrect}}
		Judge{Asker: s}.Score(t.Context(), Item{Gold: "x", Answer: &c.answer})
		_, object := caseOf(t, s.asked[0].User)
		if object["candidate"] != c.want {
			t.Errorf("%d bytes became %d, want %d", len(c.answer), len(object["candidate"]), len(c.want))
		}
		if !strings.Contains(s.asked[0].System, fmt.Sprint(maxCandidateBytes)) {
			t.Error("the judge is not told of the cut")
		}
	}
	stray := strings.Repeat("\x80", 2*maxCandidateBytes)
	if got := head(stray); len(got) > maxCandidateBytes || len(got) < maxCandidateBytes-utf8.UTFMax {
		t.Errorf("stray bytes cut to %d", len(got))
	}

	// The official scorer reads what the judge is not shown.
	long := strings.Repeat("a", maxCandidateBytes)
	if v := (Judge{}).Score(t.Context(), Item{Gold: long + "b", Answer: new(long + "c")}); v.Official {
		t.Error("official verdict on a cut answer")
	}
}

func TestReadVerdict(t *testing.T) {
	for _, text := range []string{
		"", "correct", `"correct"`, "null", "[]", "{}", `["correct"]`, `{"verdict":null}`, `{"verdict":true}`, `{"verdict":"Correct"}`,
		`{"verdict":" correct"}`, `{"verdict":""}`, `{"Verdict":"correct"}`, `{"verdict":["correct"]}`, `{"verdict":"correct"`,
		`{"verdict":"correct"}{"verdict":"correct"}`, `{"verdict":"correct"} ok`, "```json\n" + sayCorrect + "\n```",
		"\ufeff" + sayCorrect, `{"verdict":"correct",}`, `{'verdict':'correct'}`, `{"verdict":"correct"}` + "\x00", "{\"verdict\":\"correct\xff\"}",
		"\u00a0" + sayCorrect, `{"verdict":"correct","":""}`, `{"verdict":{"verdict":"correct"}}`,
	} {
		if correct, ok := readVerdict(text); correct || ok {
			t.Errorf("%q is read as %v, %v", text, correct, ok)
		}
	}
}

func FuzzReadVerdict(f *testing.F) {
	for _, text := range []string{sayCorrect, sayIncorrect, " { \"verdict\" : \"correct\" } ", `{"verdict":"correct","verdict":"correct"}`, `{"verdict":"c\u006frrect"}`, "x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		correct, ok := readVerdict(text)
		var generic map[string]any
		err := json.Unmarshal([]byte(text), &generic)
		one := err == nil && len(generic) == 1
		if want := one && (generic["verdict"] == "correct" || generic["verdict"] == "incorrect"); ok != want {
			t.Errorf("%q: read %v, want %v", text, ok, want)
		}
		if want := one && generic["verdict"] == "correct"; correct != want {
			t.Errorf("%q: correct %v, want %v", text, correct, want)
		}
	})
}
