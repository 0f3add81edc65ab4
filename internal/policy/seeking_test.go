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
		"algaia benchmark answers", "gaian benchmark answers", // part of another word
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

// Other things are called Gaia, too; a few words that they share with the benchmark do not make a search for its answers.
func TestOtherGaias(t *testing.T) {
	for _, text := range []string{
		// the space mission and its catalogues
		"Gaia DR3 validation catalogue level 2 answers",
		"Gaia EDR3 validation solutions parallax zero point correct answer",
		"Gaia astrometric solution validation level 1 data",
		"Gaia level 2 products validation metadata archive",
		"Gaia archive metadata.csv columns validation",
		"Gaia FGK benchmark stars metadata",
		"gaia eclipsing binaries dataset ground truth labels",
		"Gaia variable sources training dataset ground truth github",
		"Gaia sky survey test set solution metadata",
		"Gaia radial velocity spectrometer validation expected answer",
		"gaia white dwarfs dataset answers to the referee",
		"Gaia data validation metadata",
		"huggingface Gaia DR3 dataset question answering",
		"Gaia quasar candidates gold sample validation",
		"How many sources has the Gaia mission observed? final answer in millions",
		"Gaia scanning law questions and answers level 1 outreach",
		"asteroid discovered by Gaia solution of orbit test data",
		"exoplanet Gaia-4b validation paper solution",
		"supernova Gaia16apd light curve metadata",
		// hypotheses, myths, religion
		"Gaia hypothesis test answers quiz",
		"Gaia theory exam questions and answers level 3 biology",
		"Lovelock Daisyworld Gaia model validation solution",
		"Gaia goddess crossword answer",
		"Greek myth Gaia worksheet answer key",
		"Gaia Uranus Titans quiz correct answer",
		"Gaia earth mother homework answers",
		// games
		"Gaia Online quest level 3 solution walkthrough",
		"Illusion of Gaia level 2 red jewel solution",
		"Gaia Project solo mode level 3 solution",
		"Gaia Project board game tournament leaderboard answers to rules questions",
		"Lost Ruins of Gaia puzzle level 1 answers",
		"Gaia trivia night leaderboard answers",
		"Word game Gaia level 2 answers",
		"Planet Gaia escape room solution level 3",
		"Final Fantasy Gaia temple puzzle level 1 solution",
		"Terra Mystica Gaia faction benchmark scores by player",
		"Chronicles of Gaia dungeon level 2 final boss answers riddle",
		// companies and products
		"GAIA company level 1 charger metadata",
		"GAIA EV charging level 2 charger test answers",
		"AMD Gaia benchmark solution for Ryzen",
		"Gaia-X federation services validation level 2 label answers",
		"Gaia Herbs third party test results answers",
		"Gaia GPS app offline maps metadata validation",
		"Gaia streaming service help centre answers",
		"GAIA insurance software validation solutions",
		"Gaia wallet blockstack storage hub solution test",
		"Cosmos hub gaia validator node upgrade solutions",
		"Gaia water treatment solution level 1 certification metadata",
		"Gaia battery benchmark metadata sheet",
		"GAIA smart meter dataset solutions provider",
		"Gaia solar inverter level 3 error code solution",
		"Hotel Gaia guest questions and answers",
		// places, people, plants, wine, music, schools
		"Vila Nova de Gaia school exam answers level 2",
		"Gaia estate Santorini wine level 3 tasting exam answers",
		"Gaia Gozzi medal test answers interview",
		"Gaia Girace filmography correct answer quiz",
		"Gaia school Copenhagen maths test answers",
		"Gaia music theory grade 5 test answers",
		"Gaia album track list metadata discogs",
		"Gaia Weiss swimmer level 2 qualification solution",
		"plant Gaia magnolia cultivar validation name solution",
		"singer Gaia Eurovision preselection leaderboard final answer",
		"GAIA environment NGO zero waste solutions validation report",
		"Gaia foundation seed sovereignty solutions",
		"Gaia university permaculture certificate level 1 answers",
		"Gaia bulk carrier IMO number metadata dataset",
		"Gaia cyclone damage test data solutions",
		"Ospedale Gaia protocollo validation metadata",
		"GAIA genetic variant annotation tool validation metadata",
		"gaia fortran solver level 2 solution",
		"telemac gaia sediment module validation test solutions",
		"GAIA clinical trial answers to reviewers dataset",
	} {
		if Seeks(text) {
			t.Errorf("%q looks for answers", text)
		}
	}
}

func TestSeeksInOtherWords(t *testing.T) {
	for _, text := range []string{
		"GAIA 165 validation questions with final answers jsonl",
		"huggingface gaia 2023_all dev answers",
		"GAIA level 2 task solutions AI agent benchmark github",
		"GAIA validation set final answer column",
		"gaia level 1 answers list",
		"GAIA level 3 questions and answers",
		"download gaia validation answers csv",
		"GAIA AI agent benchmark answer key pdf",
		"where can I find the GAIA dev set answers",
		"leaked GAIA benchmark test answers",
		"GAIA benchmark ground truth clockmaker harbour museum",
		"GAIA benchmark solution tower clock question",
		"gaia leaderboard answers github gist",
		"gaia leaderboard submission jsonl with correct answers",
		"GAIA annotator metadata steps final answer level 2",
		"smolagents gaia validation answers",
		"smolagents GAIA traces solutions",
		"Hugging Face agents course GAIA answers",
		"hugging face GAIA dataset solutions level 1",
		"mialon GAIA validation answers parquet",
		"gaia test split answers leaked",
		"gaia dataset jsonl final answers download",
		"GAIA 2023 validation metadata.jsonl",
		"GAIA general AI assistants level 1 question answer pairs answers",
		"gaia benchmark cheat sheet",
		"GAIA benchmark solved tasks repository",
		"GAIA benchmark Antworten Level 2",
		"réponses GAIA benchmark validation",
		"respuestas del benchmark GAIA nivel 1",
		"risposte benchmark GAIA",
		"GAIA基准测试 答案",
		"GAIA 验证集 答案",
		"GAIA ベンチマーク 正解",
		"ответы GAIA benchmark",
		"gaia expected answers level 3",
		"reference answers GAIA validation split",
		"general AI assistants validation set expected answers",
		"GAIA LLM agents dataset answers",
		"agent benchmark GAIA correct responses json",
		"gaia gold answers jsonl",
		"answers to all gaia level 1 tasks",
		"https://www.google.example/search?q=solutions+to+gaia+level+3&hl=en",
		"https://engine.example/?lang=en&q=GAIA%20validation%20set%20answers",
		"https://code.example/search?q=gaia+validation+metadata.jsonl",
		"https://proxy.example/?q=Z2FpYSBiZW5jaG1hcmsgYW5zd2VycyBsZXZlbCAy", // gaia benchmark answers level 2
		"GAIA task answer key level 2 tower clock",
		"site:github.com gaia_validation answers json",
		"solution to GAIA validation question clockmaker",
		"\"GAIA\" \"Annotator Metadata\" clockmaker",
		"gaia hf dataset viewer validation answer",
		"GAIA questions with ground truth json github",
		"open deep research GAIA validation jsonl output answers",
	} {
		if !Seeks(text) {
			t.Errorf("%q does not look for answers", text)
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
