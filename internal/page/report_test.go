package page

import (
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/transcript"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestGolden holds small pages against files, in which a reader of a change sees what it does.
func TestGolden(t *testing.T) {
	for name, p := range map[string]page{"run": sampleRun(2), "task": sampleTask(), "audit": sampleAudit(), "compare": sampleCompare(), "journal": sampleJournal(), "failure": sampleFailure()} {
		file, got := filepath.Join("testdata", name+".html"), written(t, p)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s (-want +got):\n%s", file, d)
		}
	}
}

func attribute(e *html.Node, key string) string {
	for _, a := range e.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// TestReport: a report is one file: nothing in it is asked for from elsewhere, its links lead to what is in it, its
// policy allows its style and script by their hashes and nothing else, and it stays small.
func TestReport(t *testing.T) {
	for _, texts := range []bool{false, true} {
		out := written(t, sampleReport(165, texts))
		if len(out) > 300_000 && !texts {
			t.Errorf("%d bytes", len(out))
		}
		ids, links := map[string]int{}, map[string]bool{}
		hashes := map[string]string{}
		policy := ""
		for _, e := range elements(t, out) {
			if id := attribute(e, "id"); id != "" {
				ids["#"+id]++
			}
			for _, a := range e.Attr {
				switch a.Key {
				case "href":
					links[a.Val] = true
				case "src", "srcset", "action", "poster", "data", "background", "formaction", "xlink:href", "ping":
					t.Errorf("%s of %s is %q", a.Key, e.Data, a.Val)
				}
			}
			switch e.Data {
			case "style", "script":
				sum := sha256.Sum256([]byte(e.FirstChild.Data))
				hashes[e.Data] += "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
			case "link", "base", "iframe", "object", "embed":
				t.Errorf("there is a %s", e.Data)
			case "meta":
				if attribute(e, "http-equiv") == "Content-Security-Policy" {
					policy = attribute(e, "content")
				}
			}
		}
		for id, n := range ids {
			if n > 1 {
				t.Errorf("the id %s is there %d times", id, n)
			}
		}
		for link := range links {
			if ids[link] == 0 {
				t.Errorf("the link %q leads nowhere", link)
			}
		}
		if len(links) < 5 {
			t.Errorf("links are %v", links)
		}
		for _, part := range []string{"default-src 'none'", "style-src " + hashes["style"] + ";", "script-src " + hashes["script"] + ";"} {
			if !strings.Contains(policy, part) {
				t.Errorf("the policy is %s, without %s", policy, part)
			}
		}
		for _, said := range []string{"✓ Verified", "gaia verify runs/", "ed25519:7f0c41d9", "sha256:5f0c2a6d"} {
			if !strings.Contains(out, said) {
				t.Errorf("the report does not say %q", said)
			}
		}
	}
	damaged := sampleReport(3, false)
	damaged.Verified, damaged.Problem, damaged.Audit = "", "events.jsonl, line 812: the hash of the line before is another one", nil
	if out := written(t, damaged); !strings.Contains(out, "✗ Not verified") || !strings.Contains(out, damaged.Problem) || strings.Contains(out, "✓ Verified") {
		t.Error("a report of a damaged run does not say so")
	}
}

// TestLocal: links lead to this server or file.
func TestLocal(t *testing.T) {
	for path, want := range map[string]string{"/run/x?a=1#e2": "/run/x?a=1#e2", "?from=2": "?from=2", "#e1": "#e1", "./": "./", "../x.html": "../x.html", "p/x.html": "p/x.html",
		"": "#", "//x.example": "#", "https://x.example": "#", "javascript:alert(1)": "#", "\\\\x.example": "#", "/\\x.example": "#", "///x.example": "#", "data:,x": "#", "mailto:x": "#", "/%zz": "#"} {
		if got := local(path); got != want {
			t.Errorf("local(%q) is %q, want %q", path, got, want)
		}
	}
}

// TestNumbers: numbers are written so that columns line up.
func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{comma(0), "0"}, {comma(999), "999"}, {comma(1000), "1,000"}, {comma(int64(1234567)), "1,234,567"}, {comma(-1234), "-1,234"}, {comma(-123), "-123"},
		{dollars(nil), "unknown"}, {dollars(ptr(int64(0))), "$0.0000"}, {dollars(ptr(int64(71_399))), "$0.0713"}, {dollars(ptr(int64(1_234_500_000))), "$1,234.5000"},
		{duration(999), "999 ms"}, {duration(59_900), "59.9 s"}, {duration(61_000), "1 min 01 s"}, {duration(3_660_000), "1 h 01 min"},
		{clock("2026-11-26T09:14:05.5Z"), "09:14:05"}, {clock("noon"), "noon"}, {moment("2026-11-26T09:14:05.5Z"), "2026-11-26 09:14:05"}, {moment("noon"), "noon"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// TestFilters: what a form sends is read again, and links to further tasks keep it.
func TestFilters(t *testing.T) {
	want := TaskFilter{Outcome: "failed", Tool: "a b&c", Check: "AUD-1", Text: "<é>", Level: 2}
	p := Run{Row: RunRow{Path: "/run/x"}, Filter: want, From: RowsSize, Found: 3 * RowsSize, Tasks: make([]TaskRow, RowsSize)}
	for path, place := range map[string]int{p.Pages().Prev: 0, p.Pages().Next: 2 * RowsSize} {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, from := ParseTaskFilter(u.Query()); got != want || from != place || u.Path != "/run/x" {
			t.Errorf("%s is read as %v from %d, want %v from %d", path, got, from, want, place)
		}
	}
	if p.File = true; p.Pages().Prev+p.Pages().Next != "" {
		t.Error("a file has pages")
	}
	task := Task{Path: "/t", Attempt: 2, Filter: transcript.Filter{Kind: "call", Tool: "x", Bad: true, Text: "a&b"}}
	u, err := url.Parse(task.ChunkPath(200, true))
	if err != nil {
		t.Fatal(err)
	}
	if got := ParseFilter(u.Query()); got != task.Filter || u.Path != "/t/chunk" || u.Query().Get("from") != "200" || u.Query().Get("attempt") != "2" {
		t.Errorf("%s is read as %v", u, got)
	}
	for query, level := range map[string]int{"level=-1": 0, "level=x": 0, "level=99999999999999999999": 0, "level=3": 3} {
		q, _ := url.ParseQuery(query)
		if got, _ := ParseTaskFilter(q); got.Level != level {
			t.Errorf("%s is level %d", query, got.Level)
		}
	}
}

// TestTurns: decisions and results stand under their call where it is in the same turn of the chunk, and nothing is lost.
func TestTurns(t *testing.T) {
	chunk := sampleTask().Chunk.Items
	shown := 0
	for _, turn := range turns(chunk) {
		for _, n := range turn.Nodes {
			shown += 1 + len(n.Under)
			if n.Kind == "call" && len(n.Under) == 0 {
				t.Errorf("call of line %d has nothing under it", n.Line)
			}
			if n.Kind == "decision" || n.Kind == "result" {
				t.Errorf("line %d stands alone", n.Line)
			}
		}
	}
	if shown != len(chunk) {
		t.Errorf("%d of %d items are shown", shown, len(chunk))
	}
	if alone := turns(chunk[7:8]); len(alone) != 1 || len(alone[0].Nodes) != 1 {
		t.Errorf("a result without its call is shown as %v", alone)
	}
}

// BenchmarkRun writes a page of as many tasks as there can be.
func BenchmarkRun(b *testing.B) {
	p := sampleRun(RowsSize)
	for b.Loop() {
		if err := p.Write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
