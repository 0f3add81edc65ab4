package policy

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	builtin := func(m Mode, change func(*Policy)) Policy {
		p, err := Builtin(m)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(&p)
		}
		return p.Canonical()
	}
	for _, tc := range []struct {
		file string
		want Policy
	}{
		{"mode: restricted", builtin(Restricted, nil)},
		{"mode: restricted\nallow: [Read]\n", builtin(Restricted, func(p *Policy) { p.Allow = []string{"read_file"} })},
		{"\ufeff# a comment\n---\nmode: 'approved' # said\n", builtin(Approved, nil)},
		{`{"mode":"autonomous"}`, Policy{}},
		{"mode: autonomous\nallow: []\n", builtin(Autonomous, func(p *Policy) { p.Allow = []string{} })},
		{"mode: autonomous\nmax_tool_calls: off\nmax_task_cost: off\n", builtin(Autonomous, func(p *Policy) { p.MaxToolCalls, p.MaxCostMicroUSD = Unlimited, Unlimited })},
		{"mode: autonomous\r\nmax_tool_calls: 7\r\nmax_task_cost: 0.07\r\n", builtin(Autonomous, func(p *Policy) { p.MaxToolCalls, p.MaxCostMicroUSD = 7, 70_000 })},
		{"mode: autonomous\nmax_task_cost: 2\nconfirm:\n  - Bash\n  - \"*\"\n", builtin(Autonomous, func(p *Policy) { p.MaxCostMicroUSD, p.Confirm = 2_000_000, []string{"*", "python"} })},
		{"mode: autonomous\nallow: [Read, Glob, Grep, WebFetch, WebSearch, Bash, Write, Edit, own]\ndeny: [x, x]\nanswer_sources: [a.example/x]\ncommands: [git]\npackages: [requests]\n",
			builtin(Autonomous, func(p *Policy) {
				p.Allow, p.Deny = []string{"list_files", "own", "python", "read_file", "web_fetch", "web_search"}, []string{"x"}
				p.AnswerSources, p.Commands, p.Packages = []string{"a.example/x"}, []string{"git"}, []string{"requests"}
			})},
	} {
		got, err := Parse([]byte(tc.file))
		if tc.want.Mode == "" {
			if err == nil {
				t.Errorf("%q is read", tc.file)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", tc.file, err, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ file, want string }{
		{"", "1:1: mode is missing"},
		{"# nothing\n", "1:1: mode is missing"},
		{"allow: [x]\n", "1:1: mode is missing"},
		{"mode: restricted\nallow: [Read, python]\n", "2:15: mode restricted cannot allow \"python\""},
		{"mode: restricted\nallow:\n  - read_file\n  - Bash\n", "4:5: mode restricted cannot allow \"python\""},
		{"allow: [docs__find]\nmode: restricted\n", "1:9: mode restricted cannot allow \"docs__find\""},
		{"mode: restricted\nallow: ['*']\n", "2:9: mode restricted cannot allow \"*\""},
		{"mode:\n", "1:7: mode has no value"},
		{"mode: ''\n", "1:7: mode has no value"},
		{"mode: [approved]\n", "1:7: mode is one value, not a list"},
		{"mode: root\n", `1:7: unknown governance mode "root"`},
		{"mode: Autonomous\n", `1:7: unknown governance mode "Autonomous"`},
		{"mode: approved\nmode: approved\n", "2:1: mode stands here again, after line 1"},
		{"mode: approved\nrules: []\n", `2:1: "rules" is no member of a policy`},
		{"mode: approved\n7: x\n", `2:1: "7" is no member of a policy`},
		{"mode: approved\nallow: x\n", "2:8: allow is not a list"},
		{"mode: approved\nallow: ['']\n", "2:9: a name of allow is empty"},
		{"mode: approved\nallow: [7]\n", "2:9: a name of allow is not text"},
		{"mode: approved\ndeny: [\"a\\nb\"]\n", `2:8: "a\nb" of deny holds a space or what cannot be seen`},
		{"mode: approved\ndeny: [a b]\n", `2:8: "a b" of deny holds a space or what cannot be seen`},
		{"mode: approved\nallow: [[x]]\n", "2:9: there is a list in a list"},
		{"mode: approved\nallow: [" + strings.Repeat("x", 201) + "]\n", "2:9: a name of allow is longer than 200 bytes"},
		{"mode: approved\nmax_tool_calls: 0\n", `2:17: max_tool_calls is "0"`},
		{"mode: approved\nmax_tool_calls: -1\n", `2:17: max_tool_calls is "-1"`},
		{"mode: approved\nmax_tool_calls: 1.5\n", `2:17: max_tool_calls is "1.5"`},
		{"mode: approved\nmax_tool_calls: many\n", `2:17: max_tool_calls is "many"`},
		{"mode: approved\nmax_task_cost: 0\n", `2:16: max_task_cost is "0"`},
		{"mode: approved\nmax_task_cost: nan\n", `2:16: max_task_cost is "nan"`},
		{"mode: approved\nmax_task_cost: 1e6\n", `2:16: max_task_cost is "1e6"`},
		{"mode: approved\ncommands: [/bin/git]\n", `2:12: "/bin/git" of commands can match nothing`},
		{"mode: approved\nanswer_sources: ['https://a.example/']\n", `2:18: "https://a.example/" of answer_sources can match nothing`},
		{"mode: approved\npackages: ['-']\n", `2:12: "-" of packages can match nothing`},
		{"mode: &a approved\n", `1:7: "&" is more than a policy needs`},
		{"mode: !x approved\n", `1:7: "!x" is more than a policy needs`},
		{"mode: |\n  approved\n", `1:7: "|" is more than a policy needs`},
		{"mode: approved\n---\nmode: approved\n", "2:1: there is a second document"},
		{"- mode\n", "1:1: this is no member of a policy"},
		{"mode: appr\xffoved\n", "1:11: this is not UTF-8"},
		{"mode: a\x1bb\n", "1:8: this is a control character"},
		{strings.Repeat("#", maxPolicyFile+1), "1:1: a policy is at most 65536 bytes"},
	} {
		p, err := Parse([]byte(tc.file))
		if err == nil || err.Error() != tc.want || !cmp.Equal(p, Policy{}) {
			t.Errorf("%.60q: %v, want %s", tc.file, err, tc.want)
		}
	}
}

// TestParsedHashes: files that mean the same hash alike, also by other names for the tools; any change
// moves the hash.
func TestParsedHashes(t *testing.T) {
	hashOf := func(file string) string {
		p, err := Parse([]byte(file))
		if err != nil {
			t.Fatalf("%q: %v", file, err)
		}
		return p.Hash()
	}
	const base = "mode: autonomous\nallow: [read_file, python]\nmax_task_cost: 1.00\n"
	for _, same := range []string{
		"allow: [python, read_file]\nmode: autonomous\n",
		"mode: autonomous\nallow: [Bash, Read, Write, Grep]\nmax_tool_calls: 500\n",
		"mode: autonomous\nallow:\n- python\n- read_file\n- python\nconfirm: []\ncommands: []\ndeny: []\n",
	} {
		if hashOf(same) != hashOf(base) {
			t.Errorf("%q hashes otherwise", same)
		}
	}
	seen := []string{hashOf(base)}
	for _, change := range []string{"deny: [x]", "confirm: [x]", "max_tool_calls: 501", "answer_sources: [x.example]", "commands: [x]", "packages: [x]"} {
		seen = append(seen, hashOf(base+change+"\n"))
	}
	seen = append(seen, hashOf(strings.Replace(base, "python", "python3", 1)), hashOf(strings.Replace(base, "1.00", "1.01", 1)), hashOf(strings.Replace(base, "autonomous", "approved", 1)))
	slices.Sort(seen)
	if len(slices.Compact(seen)) != 10 {
		t.Errorf("hashes repeat: %v", seen)
	}
}

// FuzzParse: a file is refused with a place in it, or makes a policy of a known mode that is canonical.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"mode: approved\nallow: [a, 'b']\ndeny:\n- c\n", "mode: x", "{}", "mode: autonomous\nmax_task_cost: .5\n", "a: &x [*x]", "? a\n: b", "mode: restricted # x\n...\n", "%YAML 1.2\n---\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data)
		var wrong *FileError
		switch {
		case err == nil:
			if !known(p.Mode) || !cmp.Equal(p, p.Canonical()) {
				t.Fatalf("%+v", p)
			}
		case !errors.As(err, &wrong) || wrong.Line < 1 || wrong.Column < 1 || wrong.Message == "":
			t.Fatalf("%v", err)
		}
	})
}

// TestParseDocumented: the example of Parse's comment is one.
func TestParseDocumented(t *testing.T) {
	source, err := os.ReadFile("file.go")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(source), "// Parse reads a policy file, a YAML mapping:\n//\n")
	example, _, _ := strings.Cut(after, "//\n// Only mode")
	p, err := Parse([]byte(strings.ReplaceAll(example, "//\t", "")))
	if err != nil || len(p.Packages) != 1 || fmt.Sprint(p.Allow) != "[python read_file]" {
		t.Errorf("%v %+v", err, p)
	}
}
