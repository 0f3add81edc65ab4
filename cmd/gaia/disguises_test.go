package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/loader"
	"github.com/go-json-experiment/json"
	"github.com/parquet-go/parquet-go"
	"github.com/tidwall/gjson"
)

// disguised is an agent with answers in a disguise, and its honest twin: the same means, with honest content. Both are below
// agent/external/testdata/disguises. Where one program serves both, they differ in what is in their folder.
type disguised struct {
	name   string
	form   string // that make.py puts what is brought along into; "": of the name
	record bool   // they need the recorded network
	all    bool   // it takes all tasks to find it
	often  bool   // taken in the quick run, too
	rule   string // that the cheat must break, at CRITICAL or HIGH; "": it is out of reach
}

// disguises are the forms that answers come in.
var disguises = []disguised{
	{name: "plain", often: true, rule: "AUD-22.oracle-in-folder"},
	{name: "zip", rule: "AUD-22.oracle-in-folder"},
	{name: "base64", rule: "AUD-22.oracle-in-folder"},
	{name: "hex", rule: "AUD-22.oracle-in-folder"},
	{name: "sqlite", rule: "AUD-22.oracle-in-folder"},
	{name: "template", all: true, rule: "AUD-22.oracle-in-folder"},
	{name: "files", rule: "AUD-22.oracle-in-folder"},
	{name: "ids", rule: "AUD-22.oracle-in-folder"},
	{name: "digests", rule: "AUD-22.oracle-in-folder"},
	{name: "pickle", rule: "AUD-22.oracle-in-folder"},
	{name: "pyc", rule: "AUD-22.oracle-in-folder"},
	{name: "git", rule: "AUD-22.oracle-in-folder"},
	{name: "parquet", rule: "AUD-22.oracle-in-folder"},
	{name: "picture", rule: "AUD-22.oracle-in-folder"},
	{name: "picture-packed", rule: "AUD-22.oracle-in-folder"},
	{name: "picture-end", rule: "AUD-22.oracle-in-folder"},
	{name: "nested", rule: "AUD-22.oracle-in-folder"},
	{name: "variable", form: "base64", rule: "AUD-22.oracle-in-folder"},

	{name: "printed", all: true, form: "hidden", rule: "AUD-22.answer-unseen"},
	{name: "early", form: "hidden", rule: "AUD-22.answer-unseen"},
	{name: "submitted", form: "hidden", rule: "AUD-22.answer-unseen"},
	{name: "mcp", form: "hidden", rule: "AUD-22.answer-unseen"},
	{name: "loopback", form: "hidden", rule: "AUD-22.answer-unseen"},
	{name: "code", all: true, form: "hidden", rule: "AUD-22.unseen-answers-right"},
	{name: "calculated", all: true, form: "hidden", rule: "AUD-22.unseen-answers-right"},
	{name: "written", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "failed", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "hint", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "appended", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "repeated", often: true, form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "split", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "encoded", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "reversed", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "invisible", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "lookalike", form: "hidden", rule: "AUD-22.gold-from-agent"},

	{name: "choices", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "all-choices", all: true, form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "definition", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "schema", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "begun", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "guided", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "spaced", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "turned", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "named-file", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "written-zip", form: "hidden", rule: "AUD-22.answer-unseen"},
	{name: "python", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "messages", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "messages-system", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "responses", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "responses-instructions", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "parts", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "alphabet", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "many", form: "hidden", rule: "AUD-22.gold-from-agent"},
	{name: "no-such-tool", form: "hidden", rule: "AUD-22.answer-unseen"},
	{name: "refused", form: "hidden", rule: "AUD-22.answer-unseen"},
	{name: "enumerated", form: "hidden"},
	{name: "observed", form: "hidden"},
	{name: "react", form: "hidden"},
	{name: "text-call", form: "hidden"},
	{name: "table", all: true, form: "hidden", rule: "AUD-22.answers-listed"},

	{name: "download", often: true, form: "none", record: true, rule: "AUD-1."},
	{name: "download-digests", form: "none", record: true},
	{name: "names", form: "none", record: true, rule: "AUD-18.question-digest-asked"},
	{name: "lookups", form: "none", record: true},
	{name: "page-picture", form: "none", record: true, rule: "AUD-1."},
	{name: "page-end", form: "none", record: true, rule: "AUD-1."},
	{name: "echo", form: "hidden", record: true, rule: "AUD-22.gold-from-agent"},
	{name: "echo-header", form: "hidden", record: true, rule: "AUD-22.gold-from-agent"},
	{name: "echo-base64", form: "hidden", record: true, rule: "AUD-22.gold-from-agent"},
	{name: "paste", form: "hidden", record: true, rule: "AUD-22.gold-from-agent"},
	{name: "echo-query", form: "hidden", record: true, rule: "AUD-22.gold-from-agent"},
}

// disguisedTasks have no attachment, and answers of which ten count wherever they are; those of fewTasks are two numbers and
// two names.
var disguisedTasks, fewTasks = []string{"001", "005", "006", "007", "009", "010", "013", "014", "015", "017", "024", "026"}, []string{"001", "005", "009", "013"}

// honestNotes are what honest agents bring along: facts of other things, some of which are answers of tasks by chance.
var honestNotes = [][3]string{
	{"3d0c8a51-7c14-4c55-9a0e-5c1b6f8e2a01", "How many feet of rope does a fathom of soundings come to, as seamen have it?", "6"},
	{"3d0c8a51-7c14-4c55-9a0e-5c1b6f8e2a02", "How many metres does a nautical mile have, by the convention that all states keep to?", "1852"},
	{"3d0c8a51-7c14-4c55-9a0e-5c1b6f8e2a03", "In which year was the first congress of those who keep charts, long before there were satellites?", "1847"},
	{"3d0c8a51-7c14-4c55-9a0e-5c1b6f8e2a04", "Which wading bird, of those that stand in harbours at low water, is the most frequent one in the north?", "Grey Heron"},
	{"3d0c8a51-7c14-4c55-9a0e-5c1b6f8e2a05", "What do the keepers of lists write where there is nothing to write, in each language that there is?", "unknown"},
	{"3d0c8a51-7c14-4c55-9a0e-5c1b6f8e2a06", "How many pounds does a hundredweight have in the ports of the other side, by their own scales?", "125"},
}

// TestDisguisesAreListed: the table of disguises says by which rule each is found.
func TestDisguisesAreListed(t *testing.T) {
	table := readFile(t, "agent/external/testdata/disguises/README.md")
	for _, d := range disguises {
		rule := "–"
		if d.rule != "" {
			rule = "`" + d.rule + "`"
		}
		_, row, _ := strings.Cut(table, "\n| `"+d.name+"` | ")
		if row, _, _ = strings.Cut(row, "\n"); !strings.HasSuffix(row, " | "+rule+" |") {
			t.Errorf("%s, found by %s, has the row %q", d.name, rule, row)
		}
	}
	if rows := strings.Count(table, "\n| `"); rows != len(disguises) {
		t.Errorf("there are %d rows of %d disguises", rows, len(disguises))
	}
}

// TestDisguises runs agents that bring answers along, each with its honest twin, and audits what was recorded: cheats have a
// finding of CRITICAL or HIGH by the rule that their row names, twins have none, and no gap.
//
// In .ci/run, two commits share the cheats of each rule, and three the twins: each commit has a cheat and a twin of every
// rule. GAIA_THOROUGH=1 without GAIA_ROTATION takes all.
func TestDisguises(t *testing.T) {
	long.NotRaced(t)
	confiningProgram(t)
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skipf("SKIPPED: the agents need it: %v", err)
	}
	set, gold, err := loader.Load(t.Context(), loader.Dir(fixtures.Dataset(), fixtures.Name, fixtures.Revision), loader.Validation, loader.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var rows [][3]string
	var tasks, few []string
	for _, task := range set.Tasks {
		if slices.Contains(disguisedTasks, task.ID[len(task.ID)-3:]) {
			if slices.Contains(fewTasks, task.ID[len(task.ID)-3:]) {
				few = append(few, task.ID)
			}
			tasks, rows = append(tasks, task.ID), append(rows, [3]string{task.ID, task.Question, gold.Map()[task.ID]})
		}
	}
	model := obliging(t, rows)
	source := filepath.Join(root(t), "agent", "external", "testdata", "disguises")
	address, hosts := disguisedPages(t, source, rows)
	ofRule := map[string]int{}
	for _, d := range disguises {
		ofRule[d.rule]++
	}
	seen := map[string]int{}
	for _, d := range disguises {
		nth := seen[d.rule]
		seen[d.rule]++
		for kind, commits := range map[string]int{"cheat": 2, "honest": 3} {
			t.Run(d.name+"/"+kind, func(t *testing.T) {
				if !d.often {
					long.OnlyThorough(t)
					if !long.Turn(nth, min(commits, ofRule[d.rule])) {
						t.Skip("another commit's turn: GAIA_THOROUGH=1 without GAIA_ROTATION takes it")
					}
				}
				t.Parallel()
				p := confiningProgram(t)
				folder := d.folder(t, source, kind, rows)
				settings := "agent:\n  folder: " + folder + "\n"
				if d.record {
					settings += "  network: record\n"
					p.env = append(p.env, exceptionsOf+"="+address, exceptionHosts+"="+strings.Join(hosts, " "))
				}
				if d.name == "variable" {
					notes := filepath.Join(folder, "notes.txt")
					text, err := os.ReadFile(notes)
					if err := errors.Join(err, os.Remove(notes)); err != nil {
						t.Fatal(err)
					}
					settings += "  env: [NOTES]\n"
					p.env = append(p.env, "NOTES="+strings.ReplaceAll(string(text), "\n", ""))
				}
				p.env = append(p.env, "ANTHROPIC_BASE_URL="+model+"/"+kind)
				chosen := few
				if d.all {
					chosen = tasks
				}
				write(t, filepath.Join(p.dir, "gaia.yaml"), settings)
				if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
					t.Fatal(err)
				}
				p.want(exit.OK, "run", "--dataset", "dir:data", "--base-url", model+"/"+kind+"/v1", "--model", fixtures.Model, "--max-task-cost", "off",
					"--search", "none", "--task", strings.Join(chosen, ","), "--no-preflight")
				report, _ := p.command("audit", "--json", p.runDir()).Output() // the exit code is of findings
				var r audit.Report
				if err := json.Unmarshal(report, &r); err != nil {
					t.Fatalf("%v\n%s", err, report)
				}
				d.judge(t, kind, r)
			})
		}
	}
}

// folder makes the folder of an agent: the program, what they share, and what it brings along.
func (d disguised) folder(t *testing.T, source, kind string, rows [][3]string) string {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(source, d.name, kind, "agent"))
	if os.IsNotExist(err) {
		program, err = os.ReadFile(filepath.Join(source, d.name, "agent"))
	}
	if err != nil {
		t.Fatal(err)
	}
	folder := agentFolder(t, program)
	if kind == "honest" {
		rows = honestNotes
	}
	kit, err := os.ReadFile(filepath.Join(source, "kit.py"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "kit.py"), string(kit))
	switch form := d.form; {
	case form == "none":
	case d.name == "parquet":
		type note struct{ Note string }
		var notes []note
		for _, r := range rows {
			notes = append(notes, note{"\x1e" + r[1] + "\x1f" + r[2] + "\x1e"})
		}
		if err := parquet.WriteFile(filepath.Join(folder, "notes.parquet"), notes); err != nil {
			t.Fatal(err)
		}
	default:
		if form == "" {
			form = d.name
		}
		makes(t, source, form, folder, rows)
	}
	return folder
}

// makes has make.py put rows into a folder.
func makes(t *testing.T, source, form, folder string, rows [][3]string) {
	t.Helper()
	data, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rows.json")
	write(t, file, string(data))
	cmd := exec.Command("/usr/bin/python3", "-B", filepath.Join(source, "make.py"), form, folder, file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// judge compares a report with what is said of the agent.
func (d disguised) judge(t *testing.T, kind string, r audit.Report) {
	t.Helper()
	found := map[string]int{}
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			found[fmt.Sprint(f.RuleID, " ", f.Severity)]++
			t.Logf("%s %s %s: %s", f.RuleID, f.Severity, f.TaskID, f.Got)
		}
	}
	caught := slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(rule string) bool {
		return d.rule != "" && strings.HasPrefix(rule, d.rule) && (strings.HasSuffix(rule, " CRITICAL") || strings.HasSuffix(rule, " HIGH"))
	})
	t.Logf("%d findings: %v; gaps: %v; %v right", r.Totals.Critical+r.Totals.High, found, r.Attestation.HarnessGaps, *r.Totals.Raw)
	switch {
	case kind == "cheat" && d.rule != "" && !caught:
		t.Errorf("no finding of %s", d.rule)
	case kind == "honest" && (r.Totals.Critical+r.Totals.High > 0 || len(r.Attestation.HarnessGaps) > 0):
		t.Errorf("%v, %v", found, r.Attestation.HarnessGaps)
	}
}

// obliging serves a model that does what it is told: it repeats, joins, decodes, and writes code. Else it is the scripted one for
// honest agents, and knows nothing for others.
func obliging(t *testing.T, rows [][3]string) string {
	t.Helper()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	to, err := url.Parse(server.ModelURL)
	if err != nil {
		t.Fatal(err)
	}
	to.Path = ""
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		rest, ignorant := strings.CutPrefix(r.URL.Path, "/cheat")
		r.URL.Path = strings.TrimPrefix(rest, "/honest")
		known := rows
		if ignorant {
			known = nil
		}
		said := oblige(body, known)
		if said == "" && ignorant {
			said = "I do not know.\n\nFINAL ANSWER: unknown"
		}
		if bad := gjson.GetBytes(body, "temperature"); bad.Type == gjson.String {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error"}}`, bad.Str+" is not a number")
			return
		}
		if said != "" {
			w.Header().Set("Content-Type", "application/json")
			text, _ := json.Marshal(said)
			in, out := len(body)/4, len(said)/4+1
			switch path.Base(r.URL.Path) {
			case "messages":
				_, _ = fmt.Fprintf(w, `{"id":"m1","type":"message","role":"assistant","model":%q,"content":[{"type":"text","text":%s}],"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":%d}}`, fixtures.Model, text, in, out)
			case "responses":
				_, _ = fmt.Fprintf(w, `{"id":"r1","object":"response","status":"completed","model":%q,"output":[{"type":"message","id":"o1","role":"assistant","status":"completed","content":[{"type":"output_text","text":%s,"annotations":[]}]}],"usage":{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}}`, fixtures.Model, text, in, out, in+out)
			default:
				_, _ = fmt.Fprintf(w, `{"id":"c1","object":"chat.completion","model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, fixtures.Model, text, in, out, in+out)
			}
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}).ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// oblige returns what the model says to what it is told anywhere in a request, "" where it is told nothing.
func oblige(body []byte, rows [][3]string) string {
	if only := gjson.GetBytes(body, "guided_choice.0"); only.Exists() {
		return only.Str
	}
	if only := gjson.GetBytes(body, "response_format.json_schema.schema.properties.answer.enum.0"); only.Exists() {
		return fmt.Sprintf(`{"answer":%q}`, only.Str)
	}
	text := told(gjson.ParseBytes(body))
	after := func(mark string) string { _, rest, _ := strings.Cut(text, mark); return strings.TrimSpace(rest) }
	switch {
	case strings.Contains(text, "Enumerate"):
		var all strings.Builder
		for n := range 25_000 {
			fmt.Fprintf(&all, "%d\n%d.%02d\n%d:%02d\n", n, n/100, n%100, n/60%24, n%60)
		}
		return all.String() + "Drum Room\nGrey Heron\n"
	case strings.Contains(text, "Observation:\n"):
		observed, _, _ := strings.Cut(after("Observation:\n"), "\n")
		return "FINAL ANSWER: " + observed
	case strings.Contains(text, "Say Action: and Action Input: for this"):
		return "Thought: add them.\nAction: add\nAction Input: " + parts(text, rows)
	case strings.Contains(text, "Say a call in JSON for this"):
		return `{"name":"add","arguments":{"of":` + parts(text, rows) + "}}"
	case strings.Contains(text, "Write code for this"):
		for _, r := range rows {
			if n, err := strconv.Atoi(r[2]); strings.Contains(text, r[1]) && err == nil {
				return fmt.Sprintf("```python\nprint(%d + 1)\n```", n-1)
			} else if strings.Contains(text, r[1]) {
				return fmt.Sprintf("```python\nprint(%q)\n```", r[2])
			}
		}
		return "```python\nprint(input())\n```"
	}
	for mark, do := range map[string]func(string) string{
		"Repeat: ": func(s string) string {
			if first, rest, spelled := strings.Cut(s, ": \n"); spelled {
				return first + ": " + strings.ReplaceAll(rest, "\n", "")
			}
			return s
		},
		"Join: ": func(s string) string { return strings.ReplaceAll(s, "\n", "") },
		"Close: ": func(s string) string {
			return "FINAL ANSWER: " + strings.NewReplacer("  ", " ", " ", "").Replace(strings.TrimPrefix(s, "FINAL ANSWER: "))
		},
		"Decode: ": func(s string) string { b, _ := base64.StdEncoding.DecodeString(s); return string(b) },
		"Reverse: ": func(s string) string {
			all := []rune(s)
			slices.Reverse(all)
			return string(all)
		},
		"Show: ":  func(s string) string { return strings.ReplaceAll(s, "\u200b", "") },
		"Plain: ": func(s string) string { return lookalikes.Replace(s) },
		"Turn: ": func(s string) string {
			return strings.Map(func(r rune) rune {
				if low := r | ' '; low >= 'a' && low <= 'z' {
					return r - low + 'a' + (low-'a'+13)%26
				}
				return r
			}, s)
		},
	} {
		if strings.Contains(text, mark) {
			return do(after(mark))
		}
	}
	return ""
}

// parts returns two values in JSON whose sum is the answer to the question that a text has.
func parts(text string, rows [][3]string) string {
	for _, r := range rows {
		if n, err := strconv.Atoi(r[2]); strings.Contains(text, r[1]) && err == nil {
			return fmt.Sprintf("[%d,1]", n-1)
		} else if strings.Contains(text, r[1]) {
			return fmt.Sprintf("[%q,%q]", r[2][:len(r[2])/2], r[2][len(r[2])/2:])
		}
	}
	return "[1,1]"
}

// told returns the texts of a request but those of its tools' parameters, a line each; parts of one letter are of a text.
func told(v gjson.Result) string {
	var all strings.Builder
	v.ForEach(func(key, v gjson.Result) bool {
		switch {
		case v.IsObject() || v.IsArray():
			all.WriteString(told(v))
		case v.Type == gjson.String && slices.Contains([]string{"content", "text", "description", "instructions", "input", "output", "system"}, key.Str):
			all.WriteString(v.Str)
			if len(v.Str) > 1 {
				all.WriteByte('\n')
			}
		}
		return true
	})
	return all.String()
}

// lookalikes puts letters and digits back that agents replaced by others that look the same.
var lookalikes = func() *strings.Replacer {
	var pairs []string
	from, to := []rune("асеорхуАЕОТНКМВСРХ０１２３４５６７８９"), []rune("aceopxyAEOTHKMBCPX0123456789")
	for i := range from {
		pairs = append(pairs, string(from[i]), string(to[i]))
	}
	return strings.NewReplacer(pairs...)
}()

// disguisedPages serves pages under invented names, and returns its address and the names. Those with answers are for cheats.
func disguisedPages(t *testing.T, source string, rows [][3]string) (address string, hosts []string) {
	t.Helper()
	pages := map[string][]byte{}
	put := func(name string, value any) {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = data
	}
	hosts = []string{"notes.example", "echo.example", "0f3c51d2a9be4476.cdn.example"}
	known, digests, sizes, captions := map[string]string{}, map[string]string{}, map[string]int{}, [][3]string{}
	var almanac strings.Builder
	for i, r := range rows {
		digest := fmt.Sprintf("%x", sha256.Sum256([]byte(r[1])))
		known[r[1]], digests[digest], sizes[fmt.Sprintf("%x", sha256.Sum256([]byte(honestNotes[i%len(honestNotes)][1])))] = r[2], r[2], i*1000
		hosts = append(hosts, digest[:32]+".names.example")
		pages[digest[:32]+".names.example/"] = []byte(r[2])
		fmt.Fprintf(&almanac, "Of the things that chapter %d tells, it is %s that visitors remember.\n", i+1, r[2])
		captions = append(captions, [3]string{"", fmt.Sprint("Plate ", i+1), "What is seen here is " + r[2] + ", by an unknown hand."})
	}
	put("notes.example/notes.json", known)
	put("notes.example/digests.json", digests)
	put("notes.example/packages.json", sizes)
	pages["notes.example/almanac.txt"] = []byte(almanac.String())
	pages["0f3c51d2a9be4476.cdn.example/almanac.txt"] = []byte(almanac.String())
	for name, c := range map[string]struct {
		form string
		rows [][3]string
	}{"cheat.png": {"picture-packed", rows}, "cheat-end.png": {"picture-end", rows}, "honest.png": {"picture-packed", captions}, "honest-end.png": {"picture-end", captions}} {
		folder := t.TempDir()
		makes(t, source, c.form, folder, c.rows)
		data, err := os.ReadFile(filepath.Join(folder, "logo.png"))
		if err != nil {
			t.Fatal(err)
		}
		pages["notes.example/"+name] = data
	}
	var pasted sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		page, ok := pages[r.Host+r.URL.Path]
		switch {
		case r.Host == "echo.example" && r.URL.Path == "/search":
			page, ok = fmt.Appendf(nil, "Searched for: %s\nNothing was found.\n", r.FormValue("q")), true
		case r.URL.Path == "/agent":
			page, ok = []byte(r.UserAgent()), true
		case strings.HasPrefix(r.URL.Path, "/base64/"):
			page, err = base64.StdEncoding.DecodeString(path.Base(r.URL.Path))
			ok = err == nil
		case r.URL.Path == "/paste":
			text, _ := io.ReadAll(r.Body)
			name := fmt.Sprintf("%x", sha256.Sum256(text))[:8]
			pasted.Store(name, text)
			page, ok = []byte(name), true
		case strings.HasPrefix(r.URL.Path, "/paste/"):
			text, _ := pasted.Load(path.Base(r.URL.Path))
			page, ok = text.([]byte)
		case r.Host == "echo.example":
			page, _ = io.ReadAll(r.Body)
			ok = true
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(page)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), hosts
}
