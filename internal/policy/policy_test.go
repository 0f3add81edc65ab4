package policy

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// free allows everything that no rule refuses.
var free = Policy{Mode: Autonomous, Allow: []string{EveryTool}, MaxToolCalls: Unlimited, MaxCostMicroUSD: Unlimited}

func TestBuiltin(t *testing.T) {
	for _, tc := range []struct {
		mode  Mode
		calls int
		cost  int64
	}{{Restricted, 50, 10_000}, {Approved, 200, 100_000}, {Autonomous, 500, 1_000_000}} {
		p, err := Builtin(tc.mode)
		if err != nil || p.Mode != tc.mode || p.MaxToolCalls != tc.calls || p.MaxCostMicroUSD != tc.cost || len(p.Deny) != 0 {
			t.Errorf("%s: %+v, %v", tc.mode, p, err)
		}
	}
	_, err := Builtin("Autonomous")
	if err == nil || err.Error() != `unknown governance mode "Autonomous": it is one of restricted, approved, autonomous` {
		t.Errorf("error %v", err)
	}
}

// Every mode against every kind of tool.
func TestModes(t *testing.T) {
	const onlyRead = `tool "python" is not on the allow list of mode restricted`
	for _, tc := range []struct {
		mode     Mode
		tool     string
		unknown  bool
		approved bool
		deny     []string
		want     Verdict
		class    Denial
		reason   string
	}{
		{mode: Restricted, tool: "read_file", want: Allow},
		{mode: Restricted, tool: "web_fetch", approved: true, want: Allow},
		{mode: Restricted, tool: "python", want: Deny, class: DeniedByMode, reason: onlyRead},
		{mode: Restricted, tool: "python", approved: true, want: Deny, class: DeniedByMode, reason: onlyRead},
		{mode: Restricted, tool: "read_file", deny: []string{"read_file"}, want: Deny, class: DeniedByList, reason: `tool "read_file" is on the deny list`},
		{mode: Restricted, tool: "read_file", unknown: true, want: Deny, reason: `there is no tool "read_file"`},
		{mode: Approved, tool: "python", want: Confirm, reason: "every call needs a person's approval in mode approved"},
		{mode: Approved, tool: "python", approved: true, want: Allow},
		{mode: Approved, tool: "python", approved: true, deny: []string{"python"}, want: Deny, class: DeniedByList, reason: `tool "python" is on the deny list`},
		{mode: Approved, tool: "nothing", approved: true, unknown: true, want: Deny, reason: `there is no tool "nothing"`},
		{mode: Autonomous, tool: "python", want: Allow},
		{mode: Autonomous, tool: "python", deny: []string{"x", "python"}, want: Deny, class: DeniedByList, reason: `tool "python" is on the deny list`},
		{mode: Autonomous, tool: "python", deny: []string{EveryTool}, want: Deny, class: DeniedByList, reason: `tool "python" is on the deny list`},
		{mode: Autonomous, tool: "Python", deny: []string{"python"}, want: Allow},
		{mode: Autonomous, tool: "", unknown: true, want: Deny, reason: `there is no tool ""`},
		{mode: Autonomous, tool: "nothing", unknown: true, deny: []string{"nothing"}, want: Deny, class: DeniedByList, reason: `tool "nothing" is on the deny list`},
		{mode: "", tool: "python", want: Deny, class: DeniedByMode, reason: `unknown governance mode ""`},
		{mode: "AUTONOMOUS", tool: "python", approved: true, want: Deny, class: DeniedByMode, reason: `unknown governance mode "AUTONOMOUS"`},
	} {
		p, err := Builtin(tc.mode)
		if err != nil {
			p = free
			p.Mode = tc.mode
		}
		p.Deny = tc.deny
		got := Decide(p, Call{Tool: tc.tool, Known: !tc.unknown, Approved: tc.approved})
		if diff := cmp.Diff(Decision{Verdict: tc.want, Class: tc.class, Reason: tc.reason}, got); diff != "" {
			t.Errorf("%+v: %s", tc, diff)
		}
	}
	if d := Decide(Policy{}, Call{Tool: "read_file", Known: true}); d.Verdict != Deny {
		t.Errorf("the zero policy: %+v", d)
	}
	wide := free
	wide.Mode = Restricted
	for _, tool := range []string{"python", "docs__find", EveryTool} {
		wide.Allow = []string{EveryTool, tool}
		if d := Decide(wide, Call{Tool: tool, Known: true, Approved: true}); d.Verdict != Deny || !strings.HasSuffix(d.Reason, "is not on the allow list of mode restricted") {
			t.Errorf("restricted that allows %s: %+v", tool, d)
		}
	}
	if d := Decide(Policy{Mode: Autonomous, MaxToolCalls: 1, MaxCostMicroUSD: 1}, Call{Tool: "read_file", Known: true}); d.Verdict != Deny {
		t.Errorf("an empty allow list: %+v", d)
	}
}

func TestBudgets(t *testing.T) {
	const calls, money = "R006 budget: the 3 tool calls of the task are used up", "R006 budget: the 100 micro-USD of the task are used up"
	for _, tc := range []struct {
		maxCalls int
		maxCost  int64
		calls    int
		cost     int64
		reason   string // "" = allowed
	}{
		{3, 100, 0, 0, ""},
		{3, 100, 2, 99, ""},
		{3, 100, 3, 0, calls},
		{3, 100, 4, 0, calls},
		{3, 100, 0, 100, money},
		{3, 100, 3, 100, calls},
		{Unlimited, 100, 1 << 40, 99, ""},
		{3, Unlimited, 2, 1 << 60, ""},
		{0, 100, 0, 0, "R006 budget: the 0 tool calls of the task are used up"},
		{3, 0, 0, 0, "R006 budget: the 0 micro-USD of the task are used up"},
		{-2, 100, 0, 0, "R006 budget: the 0 tool calls of the task are used up"},
		{3, -2, 0, 0, "R006 budget: the 0 micro-USD of the task are used up"},
		{3, 100, -1, 0, calls},
		{3, 100, 0, -1, money},
	} {
		p := Policy{Mode: Autonomous, Allow: []string{EveryTool}, MaxToolCalls: tc.maxCalls, MaxCostMicroUSD: tc.maxCost}
		want := Decision{Verdict: Allow}
		if tc.reason != "" {
			want = Decision{Verdict: Deny, Class: DeniedByBudget, RuleIDs: []string{"R006"}, Reason: tc.reason}
		}
		if diff := cmp.Diff(want, Decide(p, Call{Tool: "t", Known: true, ToolCalls: tc.calls, CostMicroUSD: tc.cost})); diff != "" {
			t.Errorf("%+v: %s", tc, diff)
		}
		if p.Exhausted(tc.calls, tc.cost) != (tc.reason != "") {
			t.Errorf("%+v: Exhausted says otherwise", tc)
		}
	}
}

// Rules hold in every mode, also for approved calls; all that fired are named.
func TestRulesInDecisions(t *testing.T) {
	const source = "https://huggingface.co/datasets/gaia-benchmark/GAIA"
	const r001 = "R001 answer sources: this leads to a known source of the benchmark's answers (A01)"
	const r002 = "R002 grader surfaces: this names the run's own records or verdicts (judgments.jsonl)"
	for _, mode := range []Mode{Restricted, Approved, Autonomous} {
		for _, tc := range []struct {
			name   string
			call   Call
			rules  []string
			reason string
		}{
			{"url", Call{URLs: []string{"https://example.com/", source}}, []string{"R001"}, r001},
			{"path", Call{Paths: []string{"/hub/datasets--gaia-benchmark--GAIA/refs"}}, []string{"R001"}, strings.Replace(r001, "A01", "A02", 1)},
			{"record", Call{Paths: []string{"../../judgments.jsonl"}}, []string{"R002"}, r002},
			{"record in text", Call{Texts: []string{"print(open('judgments.jsonl').read())"}}, []string{"R002"}, r002},
			{"both", Call{URLs: []string{source}, Texts: []string{"judgments.jsonl"}}, []string{"R001", "R002"}, r001},
			{"and budget", Call{Paths: []string{"judgments.jsonl"}, ToolCalls: 500}, []string{"R002", "R006"}, r002},
		} {
			p, err := Builtin(mode)
			if err != nil {
				t.Fatal(err)
			}
			tc.call.Tool, tc.call.Known, tc.call.Approved = "read_file", true, true
			want := Decision{Verdict: Deny, Class: DeniedByRule, RuleIDs: tc.rules, Reason: tc.reason}
			if diff := cmp.Diff(want, Decide(p, tc.call)); diff != "" {
				t.Errorf("%s, %s: %s", mode, tc.name, diff)
			}
			p.Deny = []string{"read_file"}
			want.Reason = `tool "read_file" is on the deny list`
			if diff := cmp.Diff(want, Decide(p, tc.call)); diff != "" {
				t.Errorf("%s, %s, denied: %s", mode, tc.name, diff)
			}
		}
	}
}

func TestDecideURL(t *testing.T) {
	for _, tc := range []struct {
		url   string
		mode  Mode
		want  Verdict
		class Denial
		rules []string
	}{
		{"https://example.com/", Approved, Allow, "", nil},
		{"https://arxiv.org/abs/2311.12983", Autonomous, Allow, "", nil},
		{"https://mirror.example/datasets/gaia-benchmark/GAIA", Autonomous, Deny, DeniedByRule, []string{"R001"}},
		{"file:///srv/runs/x/judgments.jsonl", Autonomous, Deny, DeniedByRule, []string{"R002"}},
		{"https://example.com/", "", Deny, DeniedByMode, nil},
	} {
		got := DecideURL(Policy{Mode: tc.mode}, "fab1e101-0000-4000-8000-000000000001", tc.url)
		if got.Verdict != tc.want || got.Class != tc.class || !slices.Equal(got.RuleIDs, tc.rules) || (got.Reason == "") != (tc.want == Allow) {
			t.Errorf("%s: %+v", tc.url, got)
		}
	}
}

func TestGraderSurfaces(t *testing.T) {
	for _, tc := range []struct {
		call Call
		want string // the record that is named, "" = none
	}{
		{Call{Paths: []string{"judgments.jsonl"}}, "judgments.jsonl"},
		{Call{Paths: []string{`..\..\Judgments.JSONL`}}, "judgments.jsonl"},
		{Call{Paths: []string{"trajectories.jsonl"}}, "trajectories.jsonl"},
		{Call{Paths: []string{"../results.jsonl"}}, "results.jsonl"},
		{Call{Paths: []string{"/srv/out/results.jsonl"}}, "results.jsonl"},
		{Call{Paths: []string{"~/out/events.jsonl"}}, "events.jsonl"},
		{Call{Paths: []string{"C:\\out\\summary.json"}}, "summary.json"},
		{Call{Paths: []string{"runs/2026-11-01/leaderboard.jsonl"}}, "leaderboard.jsonl"},
		{Call{Paths: []string{"/home/x/.cache/gaia/judge_cache/ab/cd.json"}}, "judge_cache"},
		{Call{Paths: []string{"judgecache"}}, "judgecache"},
		{Call{Paths: []string{"/home/x/.config/gaia/keys/mine.pub"}}, "gaia/keys"},
		{Call{Paths: []string{`C:\Users\x\AppData\Local\gaia\Judgments`}}, "gaia/judgments"},
		{Call{Paths: []string{"../../manifest.json"}}, "manifest.json"},
		{Call{Paths: []string{"/srv/runs/x/manifest.dsse.json"}}, "manifest.dsse.json"},
		{Call{Paths: []string{"runs/x/checkpoint"}}, "checkpoint"},
		{Call{Paths: []string{"../attestations"}}, "attestations"},
		{Call{Texts: []string{"os.remove('../../unsubmittable')"}}, "unsubmittable"},
		{Call{Texts: []string{`open(os.path.expanduser("~/.local/share/gaia/judgments/ab.json"))`}}, "gaia/judgments"},
		{Call{URLs: []string{"FILE:///out/results.jsonl"}}, "results.jsonl"},
		{Call{URLs: []string{"file:///out/%6audgments.jsonl"}}, "judgments.jsonl"},
		{Call{Texts: []string{`import os; os.system("cat ../results.jsonl|head")`}}, "results.jsonl"},
		{Call{Texts: []string{"read /srv/runs/x/events.jsonl."}}, "events.jsonl"},
		{Call{Texts: []string{`{"path":"judge-cache/x"}`}}, "judge-cache"},
		{Call{Texts: []string{"file:///x/judgments.jsonl"}}, "judgments.jsonl"},

		{Call{}, ""},
		{Call{Paths: []string{"", "/", ".", "..", "~", ":"}}, ""},
		{Call{Paths: []string{"results.jsonl", "data/results.jsonl", "./summary.json"}}, ""}, // an attachment
		{Call{Paths: []string{"metadata.jsonl", "judge.txt", "judgments.csv", "manifest.json"}}, ""},
		{Call{Paths: []string{"checkpoint", "data/checkpoint", "gaia.csv", "gaia/catalogue/keys", "museum/manifest.json", "unsubmittable"}}, ""},
		{Call{URLs: []string{"https://museum.example/iiif/manifest.json", "https://border.example/runs/1989/checkpoint"}}, ""},
		{Call{Texts: []string{"https://code.example/gaia/keys", "checkpoint charlie, manifest.json of a museum", "gaia keys and judgments"}}, ""},
		{Call{Paths: []string{"runs.csv", "runs/results.csv"}}, ""},
		{Call{URLs: []string{"https://museum.example/runs/2023/results.jsonl"}}, ""},
		{Call{Texts: []string{"https://museum.example/runs/2023/results.jsonl"}}, ""},
		{Call{Texts: []string{"supreme court judge cache county witness"}}, ""},
		{Call{Texts: []string{"a judge-cache is what? and judge_cache"}}, ""},
		{Call{Texts: []string{"what does results.jsonl mean", "/srv/results.jsonl"}}, ""},
		{Call{Texts: []string{`os.getcwd(); os.environ.get("HOME"); subprocess.run(["wc", "table.csv"])`}}, ""},
		{Call{Texts: []string{"the events.jsonl of the runs", "read runs/x/events.jsonl."}}, ""}, // in the workspace
	} {
		if got := graderSurface(tc.call); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.call, got, tc.want)
		}
	}
}

// Each name of a record is found in a text however it is written, as in the words of the text one by one.
func TestNamesOfRecordsInTexts(t *testing.T) {
	l := &data().Lists
	for _, name := range slices.Concat(l.OwnFolders, l.VerdictFolders, l.OwnRecords, l.CommonRecords) {
		for _, path := range []string{"/srv/runs/x/" + name, `C:\srv\runs\x\` + strings.ReplaceAll(name, "/", `\`), "/srv/runs/x/" + strings.ReplaceAll(name, "/", "/./"),
			"/srv/runs/x/" + strings.ReplaceAll(name, "/", "/y/../"), "file:///srv/runs/x/" + strings.ToUpper(name), "/srv/runs/x/" + strings.ReplaceAll(name, "k", "\u212a")} {
			text := "Łąka \xff, read (" + path + ") first"
			words := firstWord(text, betweenPaths, func(word string) string { return surface(word, false) })
			if got := graderSurface(Call{Texts: []string{text}}); got != name || words != name {
				t.Errorf("%q: %q, and word by word %q, want %q", text, got, words, name)
			}
		}
	}
}

// Folders of a workspace may be called anything: only the benchmark's own places count in paths.
func TestPathsOfTheWorkspace(t *testing.T) {
	for path, want := range map[string]string{
		"gaia/metadata.csv":        "",
		"gaia_validation.csv":      "",
		"2023/validation/x.png":    "",
		"datasets/gaia-benchmark":  "A01",
		"2023/test/metadata.jsonl": "A04",
	} {
		if got := Source(Policy{}, Read(Call{Paths: []string{path}})); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestRules(t *testing.T) {
	var ids []string
	for _, r := range Rules() {
		ids = append(ids, r.ID)
		if r.Title == "" || r.Version < 1 {
			t.Errorf("%+v", r)
		}
	}
	if diff := cmp.Diff([]string{"R001", "R002", "R003", "R004", "R005", "R006"}, ids); diff != "" {
		t.Error(diff)
	}
}

// The rules are those of RulesVersion: where this fails, raise it and fix the hash.
func TestRulesVersion(t *testing.T) {
	p, err := Builtin(Autonomous)
	if err != nil {
		t.Fatal(err)
	}
	const version, want = "2026-11-24", "81510116227aa43f"
	if got := GuidanceHash(Constitution(p)); got != want || RulesVersion != version {
		t.Errorf("guidance hash %s of the rules %s, want %s of %s", got, RulesVersion, want, version)
	}
}

// Constitutions are the same bytes exactly for policies that mean the same; the bytes are canonical,
// say every list, and their policy is what the policy hash is of.
func TestConstitution(t *testing.T) {
	base := Policy{Mode: Autonomous, Allow: []string{"a", "b"}, MaxToolCalls: 3, MaxCostMicroUSD: 4}
	same := base
	same.Allow = []string{"b", "a", "b"}
	if !bytes.Equal(Constitution(base), Constitution(same)) {
		t.Error("policies that mean the same have other constitutions")
	}
	seen := map[string]string{GuidanceHash(Constitution(base)): "the policy"}
	for name, change := range map[string]func(*Policy){
		"mode": func(p *Policy) { p.Mode = Approved }, "allow": func(p *Policy) { p.Allow = []string{"a"} }, "deny": func(p *Policy) { p.Deny = []string{"a"} },
		"confirm": func(p *Policy) { p.Confirm = []string{"a"} }, "calls": func(p *Policy) { p.MaxToolCalls++ }, "cost": func(p *Policy) { p.MaxCostMicroUSD++ },
		"answer sources": func(p *Policy) { p.AnswerSources = []string{"a.example"} }, "commands": func(p *Policy) { p.Commands = []string{"git"} },
		"packages": func(p *Policy) { p.Packages = []string{"git"} },
	} {
		p := base
		change(&p)
		b := Constitution(p)
		hash := GuidanceHash(b)
		if other, there := seen[hash]; there {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[hash] = name
		var got struct {
			Policy   jsontext.Value
			Denylist struct{ Entries []struct{ ID string } }
			Lists    map[string]jsontext.Value
			Rules    []struct{ ID string }
		}
		if err := json.Unmarshal(b, &got, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		if hash := fmt.Sprintf("%x", sha256.Sum256(got.Policy))[:16]; hash != p.Hash() {
			t.Errorf("%s: the hash of .policy is %s, not %s", name, hash, p.Hash())
		}
		for list, value := range got.Lists {
			if len(value) < len(`["x"]`) {
				t.Errorf("%s: the list %s is %s", name, list, value)
			}
		}
		if len(got.Denylist.Entries) != len(builtin().Entries) || len(got.Rules) != len(p.Rules()) {
			t.Errorf("%s: %d entries, %d rules", name, len(got.Denylist.Entries), len(got.Rules))
		}
		again := jsontext.Value(bytes.Clone(b))
		if err := again.Canonicalize(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: not canonical, %v", name, err)
		}
	}
}

func TestAddedRules(t *testing.T) {
	var ids []string
	for _, r := range (Policy{AnswerSources: []string{"a.example"}, Packages: []string{"p"}}).Rules() {
		ids = append(ids, r.ID)
		if r.Title == "" || r.Version < 1 {
			t.Errorf("%+v", r)
		}
	}
	if diff := cmp.Diff([]string{"R001", "R001.policy", "R002", "R003", "R004", "R005", "R005.policy", "R006"}, ids); diff != "" {
		t.Error(diff)
	}
}

func TestNamed(t *testing.T) {
	p := Policy{Allow: []string{"b", EveryTool}, Deny: []string{"c", "b"}, Confirm: []string{"a"}}
	if diff := cmp.Diff([]string{"a", "b", "c"}, p.Named()); diff != "" {
		t.Error(diff)
	}
	if names := free.Named(); len(names) != 0 {
		t.Errorf("%q", names)
	}
	for tool, want := range map[string]string{"Bash": "python", "Grep": "read_file", "python": "python", "docs__find": "docs__find", "": ""} {
		if got := ToolName(tool); got != want {
			t.Errorf("%s: %q", tool, got)
		}
	}
}

func TestHash(t *testing.T) {
	for mode, want := range map[Mode]string{Restricted: "07262fad8f9f8ae7", Approved: "ce3abc95ad8158c4", Autonomous: "3a350daeeda12703"} {
		p, err := Builtin(mode)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Hash(); got != want {
			t.Errorf("%s: hash %s, want %s", mode, got, want)
		}
	}
	form := regexp.MustCompile(`^[0-9a-f]{16}$`)
	if got := (Policy{Mode: "\xff", Allow: []string{"\xff"}, MaxCostMicroUSD: -1 << 63}).Hash(); !form.MatchString(got) {
		t.Errorf("hash %q", got)
	}
}

// Policies hash alike exactly if they mean the same.
func TestHashProperty(t *testing.T) {
	names := rapid.SliceOfN(rapid.StringN(0, 6, -1), 0, 4)
	policies := rapid.Custom(func(t *rapid.T) Policy {
		return Policy{
			Mode:  Mode(rapid.StringN(0, 4, -1).Draw(t, "mode")),
			Allow: names.Draw(t, "allow"), Deny: names.Draw(t, "deny"),
			MaxToolCalls: rapid.Int().Draw(t, "calls"), MaxCostMicroUSD: rapid.Int64().Draw(t, "cost"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		p := policies.Draw(t, "policy")
		q := p
		q.Allow, q.Deny = slices.Clone(p.Allow), slices.Clone(p.Deny)
		slices.Reverse(q.Allow)
		q.Deny = append(q.Deny, p.Deny...)
		if p.Hash() != q.Hash() {
			t.Fatalf("equal policies, other hashes")
		}
		other := rapid.StringN(7, 9, -1).Draw(t, "new name")
		for i, change := range []func(*Policy){
			func(c *Policy) { c.Mode += "x" },
			func(c *Policy) { c.Allow = append(slices.Clone(c.Allow), other) },
			func(c *Policy) { c.Deny = append(slices.Clone(c.Deny), other) },
			func(c *Policy) { c.MaxToolCalls++ },
			func(c *Policy) { c.MaxCostMicroUSD-- },
			func(c *Policy) { c.Allow, c.Deny = append(slices.Clone(c.Deny), other), c.Allow },
		} {
			changed := p
			change(&changed)
			if changed.Hash() == p.Hash() {
				t.Fatalf("change %d does not move the hash", i)
			}
		}
	})
}

// Decide answers for every input, never allows what is denied, unknown or over budget, and its
// denials say why.
func TestDecideIsTotal(t *testing.T) {
	tools := rapid.SampledFrom([]string{"", SubmitAnswer, "read_file", "python", EveryTool, "\xff"})
	modes := rapid.SampledFrom([]Mode{"", Restricted, Approved, Autonomous, "root"})
	texts := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"/", "judgments.jsonl", "https://hf.co/datasets/gaia-benchmark/GAIA", "file:x", "%%%", "..", "a:",
	})), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Mode: modes.Draw(t, "mode"), Allow: rapid.SliceOf(tools).Draw(t, "allow"), Deny: rapid.SliceOfN(tools, 0, 2).Draw(t, "deny"),
			MaxToolCalls: rapid.IntRange(-3, 5).Draw(t, "max calls"), MaxCostMicroUSD: rapid.Int64Range(-3, 5).Draw(t, "max cost"),
		}
		c := Call{
			Tool: tools.Draw(t, "tool"), Known: rapid.Bool().Draw(t, "known"), Approved: rapid.Bool().Draw(t, "approved"),
			URLs: texts.Draw(t, "urls"), Paths: texts.Draw(t, "paths"), Texts: texts.Draw(t, "texts"),
			ToolCalls: rapid.IntRange(-1, 5).Draw(t, "calls"), CostMicroUSD: rapid.Int64Range(-1, 5).Draw(t, "cost"),
		}
		d := Decide(p, c)
		if diff := cmp.Diff(d, Decide(p, c)); diff != "" {
			t.Fatalf("two decisions: %s", diff)
		}
		if c.Tool == SubmitAnswer {
			if allowed := c.Known && known(p.Mode); (d.Verdict == Allow) != allowed || allowed && !cmp.Equal(d, Decision{Verdict: Allow}) || p.Offers(c.Tool) != known(p.Mode) {
				t.Fatalf("an answer: %+v under %+v gives %+v", c, p, d)
			}
			return
		}
		denied := slices.Contains(p.Deny, c.Tool) || slices.Contains(p.Deny, EveryTool)
		allowed := (p.Mode != Restricted || slices.Contains(readers(), c.Tool)) && (slices.Contains(p.Allow, c.Tool) || slices.Contains(p.Allow, EveryTool))
		if d.Verdict != Deny && (denied || !allowed || !c.Known || !known(p.Mode) || len(d.RuleIDs) > 0 || p.Exhausted(c.ToolCalls, c.CostMicroUSD)) {
			t.Fatalf("%s: %+v under %+v", d.Verdict, c, p)
		}
		if d.Verdict == Allow && p.Mode == Approved && !c.Approved {
			t.Fatal("allowed without approval")
		}
		if (d.Verdict == Allow) != (d.Reason == "") || d.Verdict != Allow && d.Verdict != Deny && d.Verdict != Confirm {
			t.Fatalf("%+v", d)
		}
		rule := slices.ContainsFunc(d.RuleIDs, func(id string) bool { return id != Budget })
		switch {
		case d.Verdict != Deny && d.Class != "", d.Class != "" && !slices.Contains(Denials(), d.Class),
			rule != (d.Class == DeniedByRule), d.Class == "" && denied, !rule && c.Known && d.Verdict == Deny && d.Class == "",
			d.Class == DeniedByBudget && !slices.Equal(d.RuleIDs, []string{Budget}), d.Class == DeniedByMode && known(p.Mode) && len(d.RuleIDs) > 0:
			t.Fatalf("%+v under %+v gives %+v", c, p, d)
		}
		if offered := p.Offers(c.Tool); offered != (known(p.Mode) && !denied && allowed) || d.Verdict != Deny && !offered {
			t.Fatalf("%+v under %+v gives %+v; offered is %v", c, p, d, offered)
		}
		if fmt.Sprint(DecideURL(p, "t", "x").Verdict) == string(Confirm) {
			t.Fatal("a redirect cannot be confirmed")
		}
	})
}
