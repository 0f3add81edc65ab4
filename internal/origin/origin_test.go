package origin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// page is an invented text of some length.
func page(topic string, sentences int) string {
	var s strings.Builder
	for i := range sentences {
		fmt.Fprintf(&s, "The %s of harbour %d was painted by Odile Marchetti in %d, and its keeper kept %d goats.\n", topic, i, 1700+i*7%300, i*i%977)
	}
	return s.String()
}

func TestDivide(t *testing.T) {
	result := page("lighthouse", 20)
	question := "Which lamp in the harbour of Vells is the highest one?"
	exchange := `<html><head><title>Vells &amp; its lamps</title></head><body><p>The <b>lamp</b> of Caf&eacute; Orlo stands <a href="/x">sixty feet</a> above the sea, says the <i>keeper</i>.</p></body></html>`
	filled := func() *Index {
		x := New()
		x.Add(Question, question)
		x.Add(Result, result)
		x.Add(Exchange, exchange)
		x.Add(Workspace, "name,feet\nOrlo lamp of the northern pier,61\nVells lamp of the southern pier,42\n")
		x.Add(Result, "42")
		x.Add(Reply, "I should look at the table of all lamps, and then compare their heights.")
		x.Add(Reply, "?!")
		return x
	}
	quoted, _ := json.Marshal(result)
	twice, _ := json.Marshal(string(quoted))
	for _, c := range []struct {
		name, text string
		by         map[Source]int
		rest       []string
	}{
		{"the question", question, map[Source]int{Question: len(question)}, nil},
		{"with a frame", "Task: " + question + "\nGo.", map[Source]int{Question: len(question) + 1}, []string{"Task: ", "Go."}},
		{"a short result", "Observation: 42\nThought:", map[Source]int{Result: 3}, []string{"Observation: ", "Thought:"}},
		{"not in a number", "Observation: 1420", nil, []string{"Observation: 1420"}},
		{"in JSON", string(quoted), map[Source]int{Result: len(quoted)}, nil},
		{"in JSON twice", string(twice), map[Source]int{Result: len(twice)}, nil},
		{"in other lines", strings.Join(strings.Fields(result), "\n  "), map[Source]int{Result: len(strings.Join(strings.Fields(result), "\n  "))}, nil},
		{"cut within a word", result[100:905], map[Source]int{Result: 805}, nil},
		{"text of a page", "Vells & its lamps\n\nThe lamp of Café Orlo stands sixty feet above the sea, says the keeper.", map[Source]int{Exchange: 91}, nil},
		{"precedence", "name,feet\nOrlo lamp of the northern pier,61", map[Source]int{Workspace: 43}, nil},
		{"punctuation alone", "?!", map[Source]int{Reply: 2}, nil},
		{"other punctuation", "!!", nil, []string{"!!"}},
		{"a word between", "I should look at the table of all lamps, Zanzibar, and then compare their heights.", map[Source]int{Reply: 72}, []string{"Zanzibar, "}},
		{"in a tag", "I should look at the table of <b zanzibar> all lamps, and then compare their heights.", nil, []string{"b zanzibar> "}},
		{"in an escape", `I should look at the table of \nZanzibar all lamps, and then compare their heights.`, nil, []string{"Zanzibar "}},
		{"its own", "The answer is Zanzibar.", nil, []string{"The answer is Zanzibar."}},
		{"nothing", "", nil, nil},
	} {
		by, rest := filled().Divide(c.text)
		if !slices.Equal(rest, c.rest) {
			t.Errorf("%s: the rest is %q, want %q", c.name, rest, c.rest)
		}
		sum := int64(0)
		for s, n := range by {
			if sum += n; c.by != nil && int64(c.by[s]) != n {
				t.Errorf("%s: %s has %d bytes, want %d", c.name, s, n, c.by[s])
			}
		}
		for _, piece := range rest {
			sum += int64(len(piece))
		}
		if sum != int64(len(c.text)) || c.by != nil && len(by) != len(c.by) {
			t.Errorf("%s: %v and %q are %d of %d bytes", c.name, maps.Collect(maps.All(by)), rest, sum, len(c.text))
		}
	}
}

// TestSeen: an answer is found as the official scorer compares, as whole words, by its value, and by its parts.
func TestSeen(t *testing.T) {
	x := New()
	x.Add(Question, "Which sea gull did R2D2 see in 1,420 m?")
	x.Add(Result, `{"city":"New\nYork","price":"$1,250.50","list":[3,14,15],"code":"a\n7"}`)
	x.Add(Workspace, "<p><b>Odile</b> Marchetti</p> and .5 of 2024-05-01 in section 4.25")
	x.Add(Reply, "It is Paris, or Lyon; 42nd street. Is it C++?")
	x.Add(Definition, "The Wren reads 99 pages")
	x.Add(Exchange, "Nice, Metz and -12 degrees. 東京都に行く")
	for _, c := range []struct {
		answer string
		in     string
		shares bool
	}{
		{"seagull", "question", false}, {"Sea Gull.", "question", false}, {"gull see", "question", false}, {"ull", "", false},
		{"1420", "question", false}, {"$1,420.00", "question", false}, {"142", "", false}, {"420", "", false}, {"2", "", false},
		{"1250.5", "result", false}, {"3", "result", false}, {"7", "result", false}, {"3, 14", "result", false}, {"14; 15; 1420", "question result", false},
		{"new york", "result", false}, {"odile marchetti", "workspace", false}, {"Marchetti Odile", "workspace", false}, {"0.5", "workspace", false}, {"4.25", "workspace", false}, {"25", "", false},
		{"Paris, Nice, Metz", "exchange reply", false}, {"Paris, Nancy", "", true}, {"Lyon Metz", "exchange reply", false},
		{"42", "reply", false}, {"12", "exchange", false}, {"c++", "reply", false}, {"++", "reply", false}, {"++?", "reply", false}, {"", "", false}, {"--", "", false},
		{"東京", "exchange", false}, {"京東", "exchange", false}, {"大阪", "", false}, {"The Wren", "", false}, {"99", "", false}, {"wren", "", false}, {"inf", "", false},
	} {
		in, shares := x.Seen(c.answer)
		names := []string{}
		for _, s := range in {
			names = append(names, string(s))
		}
		if got := strings.Join(names, " "); got != c.in || shares != c.shares {
			t.Errorf("%q stands in %q (shares a word: %t), want %q, %t", c.answer, got, shares, c.in, c.shares)
		}
	}
}

// TestBounds: an index that is given too much forgets the oldest, counts that, and keeps the question.
func TestBounds(t *testing.T) {
	x := New()
	const question = "Which lamp in the harbour of Vells is the highest one?"
	x.Add(Question, question)
	const size = 1 << 20
	nth := func(i int) string {
		return strings.Repeat(fmt.Sprintf("lamp%d of the outer harbour wall, ", i), size/32)[:size]
	}
	const n = 12
	for i := range n {
		x.Add(Result, nth(i))
		x.Add(Result, nth(i)) // is known
	}
	for i := range n {
		by, rest := x.Divide(nth(i)[:5000])
		if known := i >= n-8; known != (len(rest) <= 1) || known != (by[Result] > 4900) {
			t.Errorf("text %d of %d: %v, and %d pieces that nothing explains", i, n, by, len(rest))
		}
	}
	if by, rest := x.Divide(question); by[Question] != int64(len(question)) || rest != nil {
		t.Errorf("the question is no longer known: %v", by)
	}
	if got := x.Forgotten(); got != (n-8)*size {
		t.Errorf("%d bytes are forgotten, want %d", got, (n-8)*size)
	}
	x.Add(Workspace, strings.Repeat("a ", 5<<20)) // of more than can be read
	held := 0
	for _, s := range x.shelves() {
		if held += s.bytes + 4*len(s.slots); s.used > len(s.slots)*3/4 {
			t.Errorf("%d of %d slots are used", s.used, len(s.slots))
		}
	}
	if held > 36<<20 {
		t.Errorf("the index has %d MiB", held>>20)
	}
}

func TestPassages(t *testing.T) {
	p, other := NewPassages([]byte("a key")), NewPassages([]byte("another"))
	const advice, hint = "Answer with a number.", "It is 42."
	for i := range 70 {
		if key, _, report := p.Sent(fmt.Sprint("task ", i%35), advice, false); report || key != "" {
			t.Fatal("a passage without gold is recorded")
		}
	}
	key, tasks, report := p.Sent("task 99", advice, true)
	if tasks != 35 || !report || len(key) != 32 {
		t.Errorf("%q, %d tasks, %t", key, tasks, report)
	}
	if again, tasks, report := p.Sent("task 1", advice, false); again != key || tasks != 35 || !report {
		t.Errorf("a passage with the gold of another task: %q, %d tasks, %t", again, tasks, report)
	}
	if _, tasks, report := p.Sent("task 1", hint, true); tasks != 0 || !report {
		t.Errorf("a passage that no other task sent: %d tasks, %t", tasks, report)
	}
	if mine, _, _ := other.Sent("task 1", advice, true); mine == key {
		t.Error("the key of a passage does not depend on the run")
	}
	if resumed, tasks, _ := NewPassages([]byte("a key")).Sent("task 1", advice, true); resumed != key || tasks != 0 {
		t.Errorf("after the run was resumed: %q, %d tasks, before %q", resumed, tasks, key)
	}
	if got := slices.Collect(Split("One. Two.\n\n  Three 3.14 \n")); !slices.Equal(got, []string{"One.", "Two.", "Three 3.14"}) {
		t.Errorf("%q", got)
	}
}

// FuzzDivide: the sums are the length of a text, the rest stands in it in order, and what was added is found.
func FuzzDivide(f *testing.F) {
	f.Add("Observation: the lamp of the outer harbour wall &amp; caf\\u00e9 <b>x</b>", "the lamp of the outer harbour wall", "harbour")
	f.Add("\\\\\\n&#x41;<", "東京都 \xff\u0301", "1,234.5")
	f.Fuzz(func(t *testing.T, text, given, answer string) {
		x := New()
		x.Add(Result, given)
		x.Add(Question, answer)
		by, rest := x.Divide(text)
		sum, from := int64(0), 0
		for s, n := range by {
			if sum += n; n <= 0 || s != Result && s != Question {
				t.Errorf("%s has %d bytes", s, n)
			}
		}
		for _, piece := range rest {
			at := strings.Index(text[from:], piece)
			if at < 0 || piece == "" {
				t.Fatalf("%q does not follow in %q", piece, text)
			}
			sum, from = sum+int64(len(piece)), from+at+len(piece)
		}
		if sum != int64(len(text)) {
			t.Errorf("%d of %d bytes", sum, len(text))
		}
		for _, all := range []string{given, answer} {
			if _, rest := x.Divide(all); len(rest) != 0 {
				t.Errorf("of %q %q is not found", all, rest)
			}
		}
		if w := read(given, false); len(w.ends) > 0 {
			if _, rest := x.Divide("... " + given + " !"); len(rest) != 0 {
				t.Errorf("of %q %q is not found in a frame", given, rest)
			}
		}
		x.Seen(answer)
		x.Seen(text)
	})
}

// BenchmarkDivide divides prompts of 100 kB, of which half is witnessed, by an index of 2 MB.
func BenchmarkDivide(b *testing.B) {
	x := New()
	var prompts []string
	for i := range 20 {
		text := page(fmt.Sprint("lamp", i), 1200)[:100_000]
		if x.Add(Result, text); i%2 == 0 {
			prompts = append(prompts, text[:50_000]+page(fmt.Sprint("wall", i), 1200)[:50_000])
		}
	}
	b.SetBytes(100_000)
	n := 0
	for b.Loop() {
		x.Divide(prompts[n%len(prompts)])
		n++
	}
}

func BenchmarkAdd(b *testing.B) {
	b.SetBytes(100_000)
	var x *Index
	n := 0
	for b.Loop() {
		if n%40 == 0 {
			x = New()
		}
		x.Add(Result, page(fmt.Sprint("lamp", n), 1200)[:100_000])
		n++
	}
}

// BenchmarkSeen looks for an answer in 4 MB.
func BenchmarkSeen(b *testing.B) {
	x := New()
	for i := range 40 {
		x.Add(Result, page(fmt.Sprint("lamp", i), 1200)[:100_000])
	}
	for b.Loop() {
		x.Seen("Odile Zanzibar, 12")
	}
}

// TestAtOnce: an index can be used by several goroutines at once.
func TestAtOnce(t *testing.T) {
	x, p := New(), NewPassages(nil)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 5 {
				text := page(fmt.Sprint("lamp", i, "x", j), 40)
				x.Add(Exchange, text, x.Rest("painted by "+text[:50]))
				if _, rest := x.Divide(text); len(rest) > 1 {
					t.Errorf("%q is not found", rest)
				}
				x.Seen("Odile Marchetti")
				x.Holds(Exchange, "goats")
				p.Sent(fmt.Sprint(j), text[:20], j%2 == 0)
			}
		})
	}
	all.Wait()
}
