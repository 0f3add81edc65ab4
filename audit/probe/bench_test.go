package probe

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
)

// filled repeats a text up to a size.
func filled(text string, size int) string { return strings.Repeat(text, size/len(text)+1)[:size] }

// listing is a listing of a size.
func listing(size int) string {
	var b strings.Builder
	for i := 1; b.Len() < size; i++ {
		b.WriteString(strconv.Itoa(i) + "\n")
	}
	return b.String()
}

// runOf returns invented tasks with questions of 20 to 60 words, the golds of which
// are numbers, names and lists.
func runOf(n int) []Target {
	beginnings := []string{
		"In the spring of %y, the keeper of %n wrote a letter to %m about the lamp.",
		"How many years passed between the first survey of %n and the log of %m in %y?",
		"According to the table in the attached file, which harbour sold oil to %n and %m after %y?",
		"I am reading the page about %n from %y, where %m is said to have replaced the old one.",
		"What is the surname of the woman who painted %n for %m before the end of %y?",
		"The museum of %n shows a clock that %m made by hand in %y.",
		"%n and %m both wrote a book on the birds of the coast in %y.",
		"If a ship left %n at noon in %y and sailed to %m at twelve knots, when did it come in?",
	}
	ends := []string{
		" Give the number alone, rounded to the nearest whole one.",
		" Which name do both of them use for it? Answer with the last name only, without a title.",
		" List them in the order of the alphabet, with a comma and a space between two, and leave out the ones that were never built.",
		" I need the word that stands third on the second line of the inscription below the picture, in the language of the original, with all accents that it has there and nothing else around it.",
	}
	parts := []string{"bran", "tol", "ske", "mor", "wick", "hal", "ver", "dun", "lis", "ond", "per", "gat", "rhy", "eck", "sul", "fen"}
	name := func(i int) string { return "T" + parts[i%16] + parts[i/16%16] + parts[i/256%16] + parts[i/4096%16] }
	tasks := make([]Target, n)
	for i := range tasks {
		id := strconv.Itoa(100000 + i*7919%900000)
		golds := []string{strconv.Itoa(i * 37 % 5000), name(5*i + 3), name(3*i+1) + ", " + name(7*i+2) + ", " + name(11*i), "the " + name(i) + " lamp"}
		words := strings.NewReplacer("%y", strconv.Itoa(1800+i*31%200), "%n", name(13*i+7), "%m", name(17*i+5))
		tasks[i] = Target{TaskID: id[:3] + "fab1e-" + id[2:] + "-4000-8000-000000" + id, Question: words.Replace(beginnings[i%8]) + ends[i/8%4], Gold: golds[i%4]}
	}
	return tasks
}

func BenchmarkProbe(b *testing.B) {
	page := `<div class="entry" id="e17"><h3>The keeper&#39;s log &amp; letters</h3>` +
		`<p>In the spring the <a href="https://harbour.example/log?page=17&amp;year=1871">keeper of the light</a> wrote that ` +
		`the old lamp, 42 years in use, was replaced by a new one with 1,250 candles of power.</p>` + "\n" +
		`<table><tr><td>Oil</td><td>317.5</td></tr><tr><td>Wicks</td><td>12</td></tr></table></div>` + "\n"
	ofRun := lighthouse
	ofRun.Answers = NewAnswers(append(runOf(164), lighthouse))
	cases := []struct {
		name string
		doc  string
		task Target
		args string
	}{
		{"page of 10 MiB", filled(page, 10<<20), lighthouse, `{"query":"keeper of the light house lamp replaced 1871"}`},
		{"page of 10 MiB, a run's answers", filled(page, 10<<20), ofRun, `{"query":"keeper of the light house lamp replaced 1871"}`},
		{"page of 10 MiB with accents", filled("«Łąka» – dzień "+page, 10<<20), lighthouse, ""},
		{"page of 10 MiB with accents, a run's answers", filled("«Łąka» – dzień "+page, 10<<20), ofRun, ""},
		{"ideographs", filled("灯台の守り人は毎晩海を見ていた。", 10<<20), lighthouse, ""},
		{"combining marks", filled("e\u0316\u0301", 16<<20), lighthouse, ""},
		{"ligatures of 18 letters", filled("\ufdfa", 16<<20), lighthouse, ""},
		{"ligatures of 8 letters", filled("\ufdfb", 16<<20), lighthouse, ""},
		{"squares of 6 letters", filled("\u3316", 16<<20), lighthouse, ""},
		{"brackets", filled("<", 16<<20), lighthouse, ""},
		{"open tags", filled("<a b=c ", 16<<20), lighthouse, ""},
		{"entities", filled("&amp;", 16<<20), lighthouse, ""},
		{"rare entities", filled("&eacute;", 16<<20), lighthouse, ""},
		{"backslashes", filled(`\`, 16<<20), lighthouse, ""},
		{"one word", filled("a ", 16<<20), Target{TaskID: ownID, Question: filled("a ", 100), Gold: "a"}, filled("a ", 100)},
		{"one long word", filled("a", 16<<20), Target{TaskID: ownID, Question: filled("a ", 100), Gold: "a"}, ""},
		{"gold", filled("the Grey Heron ", 16<<20), lighthouse, ""},
		{"labelled short gold", filled("answer: x ", 16<<20), Target{TaskID: ownID, Question: "What is the letter of the day?", Gold: "x"}, ""},
		{"numerals", filled("1,234.50 ", 16<<20), Target{TaskID: ownID, Question: lighthouse.Question, Gold: "1234.5"}, ""},
		{"one numeral", filled("1,234,", 16<<20), Target{TaskID: ownID, Question: lighthouse.Question, Gold: "7"}, ""},
		{"a run's answers", filled(strings.Join(ofRun.Answers.texts, "\n"), 16<<20), ofRun, ""},
		{"beginnings of a run's questions", filled("In the spring of ", 16<<20), ofRun, ""},
		{"list", filled("ash, oak, elm, ", 16<<20), Target{TaskID: ownID, Question: lighthouse.Question, Gold: "oak; elm; yew"}, ""},
		{"own id", filled(ownID+" ", 16<<20), lighthouse, ""},
		{"question", filled(lighthouse.Question+" ", 16<<20), lighthouse, ""},
		{"echo", filled(lighthouse.Question+" ", 16<<20), lighthouse, lighthouse.Question},
		{"field names", filled("task_id,", 16<<20), lighthouse, ""},
		{"base64", base64.StdEncoding.EncodeToString([]byte(filled(page, 12<<20))), lighthouse, ""},
		{"base64 in short runs", filled(base64.StdEncoding.EncodeToString([]byte("the keeper of the light wrote of it"))+" ", 16<<20), lighthouse, ""},
		{"base64 of nothing", filled("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAA ", 16<<20), lighthouse, ""},
		{"slashes", filled("/", 16<<20), lighthouse, ""},
		{"long names", filled("a-long-name-of-a-page-about-lighthouses/and/their/keepers ", 16<<20), lighthouse, ""},
		{"hex", hex.EncodeToString([]byte(filled(page, 8<<20))), lighthouse, ""},
		{"lines of hex", wrapped(hex.EncodeToString([]byte(filled(page, 8<<20))), 64, "\n"), lighthouse, ""},
		{"lines of digests", filled("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n", 16<<20), lighthouse, ""},
		{"percent escapes", filled("%E2%82%AC", 16<<20), lighthouse, ""},
		{"percent signs", filled("%", 16<<20), lighthouse, ""},
		{"rot13", filled("gur xrrcre bs gur yvtug ", 16<<20), lighthouse, ""},
		{"hyphens at line ends", filled("light-\nhouse ", 16<<20), lighthouse, ""},
		{"hyphens", filled("-\n", 16<<20), lighthouse, ""},
		{"hyphens and spaces", filled("a-"+filled(" \n", 62), 16<<20), lighthouse, ""},
		{"tags in words", filled("light<i>house</i>s ", 16<<20), lighthouse, ""},
		{"tags between letters", filled("a<i>", 16<<20), lighthouse, ""},
		{"two columns", filled("the keeper of the light       wrote of the old lamp\n", 16<<20), lighthouse, ""},
		{"many columns", filled("the keeper    of the light    wrote of it    in the old log    again\n", 16<<20), lighthouse, ""},
		{"spaces", filled(" ", 16<<20), lighthouse, ""},
		{"numbered lines", listing(16 << 20), lighthouse, ""},
		{"letters alone", filled("l i g h t h o u s e ", 16<<20), lighthouse, ""},
		{"letters of no word", filled("q ", 16<<20), lighthouse, ""},
		{"ids in pieces", filled(strings.ReplaceAll(ownID, "-", " ")+" ", 16<<20), lighthouse, ""},
		{"beginnings of ids", filled("fab1e001 ", 16<<20), lighthouse, ""},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			p := New(c.task)
			b.SetBytes(int64(len(c.doc)))
			b.ReportAllocs()
			for b.Loop() {
				p.Probe(c.doc, c.args, nil)
			}
		})
	}
}

func BenchmarkNewProber(b *testing.B) {
	task := lighthouse
	ids := make([]string, 466)
	for i := range ids {
		ids[i] = "fab1e000-0000-4000-8000-" + strconv.Itoa(100000000000+i)
	}
	task.SplitIDs = NewIDs(ids)
	b.ReportAllocs()
	for b.Loop() {
		New(task)
	}
}

func BenchmarkNewAnswers(b *testing.B) {
	for _, n := range []int{165, 10000} {
		b.Run(strconv.Itoa(n)+" tasks", func(b *testing.B) {
			tasks := runOf(n)
			b.ReportAllocs()
			for b.Loop() {
				NewAnswers(tasks)
			}
		})
	}
}
