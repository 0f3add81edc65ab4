package transcript

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

var update = flag.Bool("update", false, "write the golden files")

// payloads has one of each type.
var payloads = []trajectory.Payload{
	trajectory.RunStarted{}, trajectory.RunResumed{}, trajectory.RunCompleted{}, trajectory.TaskStarted{}, trajectory.TurnStarted{}, trajectory.TurnCompleted{},
	trajectory.ContextCompiled{}, trajectory.ContextCondensed{}, trajectory.ModelCallStarted{}, trajectory.ModelCallCompleted{}, trajectory.ToolProposed{},
	trajectory.PolicyDecision{}, trajectory.PolicyViolation{}, trajectory.ApprovalRequested{}, trajectory.ApprovalResolved{}, trajectory.CheckpointSaved{},
	trajectory.Rollback{}, trajectory.ToolExecuted{}, trajectory.SecurityEvent{}, trajectory.JudgeBattery{}, trajectory.LimitChanged{}, trajectory.Preflight{},
	trajectory.RequestRefused{}, trajectory.ExchangeStarted{}, trajectory.ExchangeCompleted{}, trajectory.Error{}, trajectory.AnswerCommitted{},
	trajectory.AttemptEnded{}, trajectory.Judgment{}, trajectory.TaskCommitted{}, trajectory.TaskSealed{}, trajectory.ShardMerged{},
}

// filled returns a payload with a value in each member: texts are text(n), lists have size elements.
func filled(p trajectory.Payload, size int, text func(n int) string) (trajectory.Payload, []string) {
	var texts []string
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			texts = append(texts, text(len(texts)))
			v.SetString(texts[len(texts)-1])
		case reflect.Int, reflect.Int64, reflect.Int32:
			v.SetInt(7)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), size, size))
			for i := range size {
				fill(v.Index(i))
			}
		case reflect.Map:
			v.Set(reflect.MakeMap(v.Type()))
			for range size {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				fill(key)
				fill(value)
				v.SetMapIndex(key, value)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		default:
			panic(v.Kind())
		}
	}
	v := reflect.New(reflect.TypeOf(p)).Elem()
	fill(v)
	return v.Interface().(trajectory.Payload), texts
}

// TestEveryType: each type of event has a kind and a title, with or without members, and an item of it shows every text
// that the event has.
func TestEveryType(t *testing.T) {
	var seen []trajectory.Type
	for _, p := range payloads {
		seen = append(seen, p.Type())
		if i := item(trajectory.Event{Payload: p}, nil, ""); i.Title == "" || i.Kind == "" {
			t.Errorf("%s: %+v", p.Type(), i)
		}
		whole, texts := filled(p, 2, func(n int) string { return fmt.Sprintf("text-%03d.png", n) })
		switch p := whole.(type) {
		case trajectory.ToolProposed: // a call whose arguments are malformed has none
			texts = slices.DeleteFunc(texts, func(s string) bool { return s == p.Malformed })
			p.Malformed = ""
			whole = p
		case trajectory.ContextCompiled: // the digests of heads are those of messages
			texts = slices.DeleteFunc(texts, func(s string) bool { return s == p.MessageHeads[0].SHA256 || s == p.MessageHeads[1].SHA256 })
		}
		i := item(trajectory.Event{Payload: whole}, nil, "")
		shown := fmt.Sprintln(i.Title, i.Facts, i.Text, i.Call, i.BodyOf)
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				t.Errorf("%s: %s is not in %s", p.Type(), text, shown)
			}
		}
	}
	slices.Sort(seen)
	if !slices.Equal(seen, trajectory.Types()) {
		t.Errorf("the types are %q, tested are %q", trajectory.Types(), seen)
	}
}

// checkBounds checks that an item is as short as it has to be.
func checkBounds(t *testing.T, i Item) {
	t.Helper()
	if len(i.Title) > maxTitle || strings.Contains(i.Title, "\n") || len(i.Text) > maxText || len(i.Facts) > maxFacts || len(i.Pictures) > maxPictures ||
		len(i.Call) > maxTitle || len(i.Tool) > maxTitle || len(i.Cut) > maxFact {
		t.Errorf("%s: title %d, text %d, %d facts, %d pictures", i.Kind, len(i.Title), len(i.Text), len(i.Facts), len(i.Pictures))
	}
	for _, f := range i.Facts {
		if len(f[1]) > maxFact || len(f[0]) > 100 || f[0] == "" {
			t.Errorf("fact %.200q of %d bytes", f[0], len(f[1]))
		}
	}
	for _, p := range i.Pictures {
		if len(p.Name) > maxFact || len(p.SHA256) > maxTitle || !strings.HasPrefix(p.Type, "image/") {
			t.Errorf("picture %.300q", p.Name)
		}
	}
}

// TestHostileItems: however long the texts and lists of an event are, its item is short.
func TestHostileItems(t *testing.T) {
	long := strings.Repeat("\u202e<b>\n", 40_000) + ".png"
	for _, p := range payloads {
		whole, _ := filled(p, 60, func(int) string { return long })
		i := item(trajectory.Event{Payload: whole}, nil, long)
		checkBounds(t, i)
		if i.Text != "" && i.Cut == "" {
			t.Errorf("%s: the cut of its text is not said", p.Type())
		}
	}
	urls := make([]trajectory.URL, 10_000)
	for n := range urls {
		urls[n].URL = fmt.Sprint("http://a.example/", n)
	}
	i := item(trajectory.Event{Payload: trajectory.ToolExecuted{URLs: urls}}, nil, "web_fetch")
	checkBounds(t, i)
	if !slices.Contains(i.Facts, [2]string{"url", "and 9980 more"}) {
		t.Errorf("facts %q", i.Facts)
	}
}

// TestHostileRun: a run with hostile text in all places has items like any other.
func TestHostileRun(t *testing.T) {
	files, err := runs.Hostile(func(n int, _ string) string { return runs.Payloads[n%len(runs.Payloads)] })
	if err != nil {
		t.Fatal(err)
	}
	j := read(t, os.DirFS(write(t, files)))
	for at := range j.attempts {
		for _, i := range all(t, j, at.task, at.attempt, Filter{}) {
			checkBounds(t, i)
		}
	}
}

// own is a run of an own agent with what only such runs have.
const own = `An own agent.

-- plan --
{"agent":{"network":"record"}}

-- task fab1e951-0000-4000-8000-000000000453 --
question: In which town did the clockmaker Odile Varn build the tower clock of the harbour museum?
gold: Brellin
level: 1

-- workspace plan.png --
a picture

-- exchange GET http://almanac.example/people/odile-varn --
Odile Varn kept a workshop in Brellin, where the tower clock was built.

-- refused rule_refused GET http://huggingface.co/datasets/gaia-benchmark/GAIA --

-- reply --
She kept a workshop in Brellin.

-- refused budget_spent --

-- scaffold calculate {"expression":"2+2"} --
4

-- reply --
Brellin it is.

-- gives answer-file.v1 Brellin --
`

// parsed returns the files of the run of a text.
func parsed(t testing.TB, text string) map[string][]byte {
	t.Helper()
	c, err := runs.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	files, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestGolden compares all items of a run of the built-in agent, and of one of an own agent, with testdata.
func TestGolden(t *testing.T) {
	for name, files := range map[string]map[string][]byte{"builtin": varied(t), "own": parsed(t, own)} {
		j := read(t, os.DirFS(write(t, files)))
		var b strings.Builder
		for n, task := range append([]string{""}, planned(j)...) {
			for attempt := range 3 {
				if j.attempts[place{task, attempt}] == nil {
					continue
				}
				fmt.Fprintf(&b, "## task %d, attempt %d\n", n, attempt)
				for _, i := range all(t, j, task, attempt, Filter{}) {
					writeItem(&b, i)
				}
			}
		}
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || string(want) != b.String() {
			t.Errorf("%s: the items are others than in %s, %v (-update writes it)", name, golden, err)
		}
	}
}

func planned(j *Journal) (ids []string) {
	for _, task := range j.run.Tasks {
		ids = append(ids, task.Plan.TaskID)
	}
	return ids
}

func writeItem(b *strings.Builder, i Item) {
	bad := ""
	if i.Bad {
		bad = " bad"
	}
	fmt.Fprintf(b, "e%d turn %d %s%s %s %s: %s\n", i.Line, i.Turn, i.Kind, bad, i.Tool, i.Call, i.Title)
	for _, f := range i.Facts {
		fmt.Fprintf(b, "    %s: %s\n", f[0], f[1])
	}
	for _, p := range i.Pictures {
		fmt.Fprintf(b, "    picture %+v\n", p)
	}
	for line := range strings.Lines(i.Text) {
		fmt.Fprintf(b, "    | %s\n", strings.TrimSuffix(line, "\n"))
	}
	if i.Cut != "" {
		fmt.Fprintf(b, "    cut: %s\n", i.Cut)
	}
}

// FuzzItem: any payload that a journal can have gives an item within the bounds.
func FuzzItem(f *testing.F) {
	for n, p := range payloads {
		whole, _ := filled(p, 2, func(n int) string { return fmt.Sprint("text ", n) })
		for _, p := range []trajectory.Payload{p, whole} {
			data, err := canonical.Encode(p)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(n, data)
		}
	}
	f.Fuzz(func(t *testing.T, n int, data []byte) {
		v := reflect.New(reflect.TypeOf(payloads[uint(n)%uint(len(payloads))]))
		if json.Unmarshal(data, v.Interface()) != nil {
			return
		}
		i := item(trajectory.Event{Payload: v.Elem().Interface().(trajectory.Payload)}, map[string]string{"R001": "a rule"}, "tool")
		checkBounds(t, i)
		if i.Title == "" {
			t.Error("no title")
		}
	})
}
