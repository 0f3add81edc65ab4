package policy

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const ownTask = "fab1e101-0000-4000-8000-00000000000a"

func TestSeeks(t *testing.T) {
	for _, text := range []string{
		"GAIA benchmark answers",
		"answers of the validation questions, gaia",
		"gaia-benchmark/GAIA metadata",
		"solutions to GAIA level 3",
		"gaia hugging face solution",
		"huggingface gaia ground truth of the stars question", // by name: stars are no excuse
		"gaia leaderboard metadata.jsonl",
		"GAIA: a benchmark for general AI assistants, final answer",
		"gaia dataset ground_truth",
		"gaia test set answer key",
		"ＧＡＩＡ　benchmark　answers", // full width
		"http://search.example/?q=gaia+benchmark+answers",
		"http://search.example/?q=gaia%2520benchmark%2520answers",
		"http://code.example/gaia-benchmark-solutions/readme",
		"General AI Assistants benchmark validation set ground truth answers", "general AI assistant benchmark answers",
		"gaiabenchmark validation answers", "gaiabenchmark answers", "gaia2023 validation answers",
		"gaia dev split gold", "GAIA validation gold answers",
		"gaia benchmark asteroid answers", "galaxy stars answers gaia benchmark", "gaia level 2 ground truth of the ESA question", "gaia validation answers spacecraft",
		strings.Repeat("word ", 500) + "gaia benchmark answers" + strings.Repeat(" word", 500),
	} {
		if !Seeks(text) {
			t.Errorf("%.80q does not look for answers", text)
		}
	}
	for _, text := range []string{
		"", "gaia", "benchmark answers", "gaia benchmark", "gaia leaderboard", "gaia dataset",
		"gaia dataset release DR3",
		"gaia dr3 metadata validation",
		"Illusion of Gaia speedrun leaderboard gold", "Gaia Project board game leaderboard gold", "Gaia Girona gold price validation", "Vila Nova de Gaia gold medal marathon validation",
		"Gaia AGIS solution validation Lindegren", "Gaia NSS orbital solutions validation", "Gaia-X hub solution hugging face partnership", "Illusion of Gaia level 3 puzzle solution",
		"Gaia benchmark stars metadata",
		"ESA Gaia validation of astrometric solutions",
		"gaia-x dataset metadata solutions benchmark",
		"Gaia hypothesis questions and answers",
		"gaia dataset metadata",
		"gaia dataset solutions",
		"amd gaia benchmark solutions",
		"algaia benchmark answers", "gaian benchmark answers", // no word of its own
		"GAIA benchmark paper authors", "General AI Assistants benchmark paper", "general AI assistants give the correct answer", "a general benchmark with answers",
		"Gaia benchmark stars ground truth metallicity", "Gaia DR3 validation set ground truth", "gaia gold", "gaia gold catalogue benchmark", "ESA Gaia mission frequently asked questions answers",
		"Gaia-X benchmark solutions", "gaia x federation answers",
		"https://gea.esac.esa.int/archive/documentation/GDR3/gaia_validation/solutions.html",
		"https://www.cosmos.esa.int/web/gaia/dr3-validation-metadata",
		"what is the answer to the question about the benchmark of the lighthouse?",
		"gaia " + strings.Repeat("word ", 21) + "benchmark answers",
	} {
		if Seeks(text) {
			t.Errorf("%.80q looks for answers", text)
		}
	}
}

func TestNamesTask(t *testing.T) {
	bare := strings.ReplaceAll(ownTask, "-", "")
	for text, want := range map[string]bool{
		ownTask:                                 true,
		"what is " + strings.ToUpper(ownTask):   true,
		bare:                                    true,
		strings.ReplaceAll(ownTask, "-", "_"):   true,
		"http://a.example/?q=" + ownTask + "&p": true,
		"http://a.example/?q=" + url.QueryEscape(strings.ReplaceAll(ownTask, "-", "%2D")): true,
		"http://a.example/task-" + ownTask + ".json":                                      true,
		ownTask[:len(ownTask)-1] + "b":                                                    false,
		ownTask[:13]:                                                                      false,
		"fab1e101 0000 4000 8000 00000000000a":                                            true,
		"id fab1e101 / 0000 / 4000 / 8000 / 00000000000a":                                 true,
		"fab1e101 0000 4000 8000 00000000000b":                                            false,
		"question fab1e101-0000-4000-8000":                                                true,
		"fab1e101-0000-4000-8000 answer":                                                  true,
		"fab1e101-0000-4000-8000-0000":                                                    true,
		"fab1e101-0000-4000":                                                              false,
		"fab1e101-0000-4000-8001":                                                         false,
		"":                                                                                false,
	} {
		if got := NamesTask(text, ownTask); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	for id, want := range map[string]bool{"task-0007": true, "harbours": false, "t-1": false, "": false} {
		if got := NamesTask("what is "+id+" about?", id); got != want {
			t.Errorf("id %q: %v", id, got)
		}
	}
	if NamesTask("see task-00071", "task-0007") {
		t.Error("a short id is found in a longer one")
	}
}

// Only what goes out is looked at: files are named by the task's id, and code and notes may speak of
// the benchmark.
func TestSeekingCalls(t *testing.T) {
	const looks, names = "R001 answer sources: this looks for the benchmark's answers", "R001 answer sources: this looks for the task by its id"
	for _, tc := range []struct {
		tool   string
		args   map[string]string
		reason string // "" = allowed
	}{
		{"web_search", map[string]string{"query": "gaia benchmark answers"}, looks},
		{"web_search", map[string]string{"query": "gaia dr3 parallax"}, ""},
		{"web_search", map[string]string{"query": ownTask}, names},
		{"web_search", map[string]string{"query": strings.Replace(ownTask, "a", "b", 2)}, ""},
		{"web_fetch", map[string]string{"url": "http://search.example/?q=gaia+benchmark+answers"}, looks},
		{"web_fetch", map[string]string{"url": "http://notes.example/" + ownTask}, names},
		{"web_fetch", map[string]string{"url": "http://hub.example/datasets/gaia-benchmark/GAIA"}, "R001 answer sources: this leads to a known source of the benchmark's answers (A01)"},
		{"notes__find", map[string]string{"query": "gaia benchmark answers"}, looks},
		{"notes__find", map[string]string{"ask": `{"for":"gaia benchmark answers"}`}, looks},
		{"notes__read", map[string]string{"path": ownTask + ".csv"}, ""},
		{"notes__read", map[string]string{"path": "file:///workspace/" + ownTask + ".csv"}, ""},
		{"notes__read", map[string]string{"note": "open file:///workspace/" + ownTask + ".csv"}, ""},
		{"notes__read", map[string]string{"note": "open http://notes.example/" + ownTask}, names},
		{"read_file", map[string]string{"path": ownTask + ".csv"}, ""},
		{"python", map[string]string{"code": "print(open('" + ownTask + ".csv'))  # gaia benchmark answers"}, ""},
		{"calculate", map[string]string{"expression": "gaia benchmark answers"}, ""},
	} {
		c := CallOf(tc.tool, tc.args)
		c.TaskID = ownTask
		want := Decision{Verdict: Allow}
		if tc.reason != "" {
			want = Decision{Verdict: Deny, Class: DeniedByRule, RuleIDs: []string{AnswerSources}, Reason: tc.reason}
		}
		if diff := cmp.Diff(want, Decide(free, c)); diff != "" {
			t.Errorf("%s %v: %s", tc.tool, tc.args, diff)
		}
	}
	if d := DecideURL(free, ownTask, "http://notes.example/"+ownTask); d.Reason != names {
		t.Errorf("a redirect to the task's id: %+v", d)
	}
	if d := DecideURL(free, ownTask, "http://notes.example/?about=gaia+benchmark+answers"); d.Reason != looks {
		t.Errorf("a redirect to a search: %+v", d)
	}
}

func TestTold(t *testing.T) {
	for _, tc := range []struct {
		tool string
		args map[string]string
		want []string
	}{
		{"notes__find", map[string]string{"query": "clocks"}, []string{"clocks"}},
		{"web_fetch", map[string]string{"url": "http://notes.example/"}, nil},
		{"web_fetch", map[string]string{"note": "clocks", "url": "http://notes.example/"}, []string{"clocks"}},
		{"web_search", map[string]string{"query": "clocks"}, nil},
		{"python", map[string]string{"code": "clocks"}, nil},
	} {
		if diff := cmp.Diff(tc.want, CallOf(tc.tool, tc.args).Told(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s %v: %s", tc.tool, tc.args, diff)
		}
	}
}

// Long texts full of the word are read in time linear in their length: with the square of it this
// would not end.
func FuzzSeeks(f *testing.F) {
	f.Add("gaia%2520benchmark answers", ownTask)
	f.Add(strings.Repeat("gaia ", 1000), "task-0007")
	f.Fuzz(func(t *testing.T, text, id string) {
		if Seeks(text) && !strings.Contains(strings.Join(forms(text), " "), "gaia") && !strings.Contains(strings.Join(forms(text), " "), "general") {
			t.Errorf("%q looks for answers without the benchmark's name", text)
		}
		if NamesTask(id, id) != NamesTask("q="+id, id) && len(forms(id)) == 1 && !strings.ContainsFunc(id, func(r rune) bool { return r > 0x7f }) {
			t.Errorf("id %q is found by itself or in a query alone", id)
		}
	})
}

func BenchmarkSeeks(b *testing.B) {
	text := strings.Repeat("gaia ", 50_000)
	for b.Loop() {
		if Seeks(text) {
			b.Fatal("it looks for answers")
		}
	}
	b.SetBytes(int64(len(text)))
}
