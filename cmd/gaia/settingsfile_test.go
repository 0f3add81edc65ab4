package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// runFlags returns the flags of run, as the program makes them.
func runFlags(t testing.TB) *pflag.FlagSet {
	t.Helper()
	cmd := (&app{}).runCommand()
	cmd.InitDefaultHelpFlag()
	return cmd.Flags()
}

// nothing is stronger than the file.
func nothing(string) bool { return false }

func TestSettingsMistakes(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		want       string   // the error
		shown      []string // what points at the mistake
		hint       string
	}{
		{"unknown key", "limit: 2\nmodle: gpt-4o\n", `s.yaml:2:1: there is no setting "modle"`, []string{"    2 | modle: …", "      | ^"}, "did you mean model?"},
		{"underscores", "base_url: x", `s.yaml:1:1: there is no setting "base_url"`, []string{"    1 | base_url: …", "      | ^"}, "did you mean base-url?"},
		{"far from any key", "colour: red", `s.yaml:1:1: there is no setting "colour"`, []string{"    1 | colour: …", "      | ^"}, "a setting is called as the flag of 'gaia run' is; see its --help"},
		{"a secret", "  openai_api_key: sk-1", `s.yaml:1:3: "openai_api_key" is no setting: secrets do not belong into the file`, []string{"    1 | openai_api_key: …", "      | ^"}, "set OPENAI_API_KEY in the environment"},
		{"a search engine's secret", "TAVILY_API_KEY: none", `s.yaml:1:1: "TAVILY_API_KEY" is no setting: secrets do not belong into the file`, []string{"    1 | TAVILY_API_KEY: …", "      | ^"}, "set TAVILY_API_KEY in the environment"},
		{"a secret without a name", "model: gpt-4o\nhush\n", `s.yaml:2:1: non-map value is specified`, []string{"    2 | …", "      | ^"}, ""},
		{"a secret for a value", "model: sk-abcdefgh", "s.yaml:1:8: model holds what looks like a key: secrets do not belong into the file", []string{"    1 | model: …", "      | ^"}, "set OPENAI_API_KEY or HF_TOKEN in the environment"},
		{"a secret in a list", "task: [fab1e001, hf_abcdefgh]", "s.yaml:1:18: task holds what looks like a key: secrets do not belong into the file", []string{"    1 | task: …", "      | ^"}, "set OPENAI_API_KEY or HF_TOKEN in the environment"},
		{"a secret in a URL", "base-url: https://api.example/v1?Api_Key=5", "s.yaml:1:11: base-url holds what looks like a key: secrets do not belong into the file", []string{"    1 | base-url: …", "      | ^"}, "set OPENAI_API_KEY or HF_TOKEN in the environment"},
		{"a secret behind a mistake", "limit: few # hf_abcdefgh", `s.yaml:1:8: limit is "few", which is not a whole number`, []string{"    1 | …", "      | ^"}, ""},
		{"a slip near a secret's name", "max-token: 5", `s.yaml:1:1: there is no setting "max-token"`, []string{"    1 | max-token: …", "      | ^"}, "did you mean max-tokens?"},
		{"the hub's secret", "hf_token: hf_1", `s.yaml:1:1: "hf_token" is no setting: secrets do not belong into the file`, []string{"    1 | hf_token: …", "      | ^"}, "set HF_TOKEN in the environment"},
		{"of the command line", "like: runs/x", `s.yaml:1:1: "like" is for the command line alone`, []string{"    1 | like: …", "      | ^"}, ""},
		{"twice", "model: a\nlimit: 1\nmodel: b", `s.yaml:3:1: model stands here again, after line 1`, []string{"    3 | model: b", "      | ^"}, "leave one of them"},
		{"text for a number", "limit: few", `s.yaml:1:8: limit is "few", which is not a whole number`, []string{"    1 | limit: few", "      |        ^"}, ""},
		{"quoted number", `limit: "3"`, `s.yaml:1:8: limit is "3", which is not a whole number`, []string{`    1 | limit: "3"`, "      |        ^"}, ""},
		{"octal", "limit: 010", `s.yaml:1:8: limit is "010", which is not a whole number`, []string{"    1 | limit: 010", "      |        ^"}, ""},
		{"fraction", "max-turns: 1.5", `s.yaml:1:12: max-turns is "1.5", which is not a whole number`, []string{"    1 | max-turns: 1.5", "      |            ^"}, ""},
		{"too large", "limit: 18446744073709551615", `s.yaml:1:8: limit is "18446744073709551615", which is not a whole number: value out of range`, []string{"    1 | limit: 18446744073709551615", "      |        ^"}, ""},
		{"number for text", "model: 4", `s.yaml:1:8: model is "4", which is not text`, []string{"    1 | model: 4", "      |        ^"}, "put it in quotes if it is meant"},
		{"true for text", "model: true", `s.yaml:1:8: model is "true", which is not text`, []string{"    1 | model: true", "      |        ^"}, "put it in quotes if it is meant"},
		{"yes for true", "submit-intent: yes", `s.yaml:1:16: submit-intent is "yes", which is not true or false`, []string{"    1 | submit-intent: yes", "      |                ^"}, ""},
		{"no time", "max-task-time: soon", `s.yaml:1:16: max-task-time is "soon", which is not a time such as 15m: invalid duration "soon"`, []string{"    1 | max-task-time: soon", "      |                ^"}, ""},
		{"list for text", "model: [a, b]", `s.yaml:1:1: model is a list, and is to be text`, []string{"    1 | model: [a, b]", "      | ^"}, ""},
		{"in a list", "level: [1, two, 3]", `s.yaml:1:12: level is "two", which is not a list of whole numbers`, []string{"    1 | level: [1, two, 3]", "      |            ^"}, ""},
		{"in a list of lines", "level:\n  - 1\n  - 1.5", `s.yaml:3:5: level is "1.5", which is not a list of whole numbers`, []string{"    3 |   - 1.5", "      |     ^"}, ""},
		{"empty list", "level: []", `s.yaml:1:1: level names nothing`, []string{"    1 | level: []", "      | ^"}, "give it a value, or leave it out"},
		{"no value", "model:\nlimit: 3", `s.yaml:1:1: model has no value`, []string{"    1 | model:", "      | ^"}, "give it a value, or leave it out"},
		{"empty", `model: ""`, `s.yaml:1:8: model is empty`, []string{`    1 | model: ""`, "      |        ^"}, "give it a value, or leave it out"},
		{"nested", "model:\n  name: x", `s.yaml:2:7: model is neither a value nor a list of values`, []string{"    2 |   name: x", "      |       ^"}, "settings are not nested"},
		{"braces", "{model: x}", `s.yaml:1:1: "{" is more than settings need`, []string{"    1 | {model: x}", "      | ^"}, "write a setting a line, such as model: gpt-4o"},
		{"anchor", "model: &a x\njudge-model: *a", `s.yaml:1:8: "&" is more than settings need`, []string{"    1 | model: &a x", "      |        ^"}, "write a setting a line, such as model: gpt-4o"},
		{"tag", "model: !!str 5", `s.yaml:1:8: "!!str" is more than settings need`, []string{"    1 | model: !!str 5", "      |        ^"}, "write a setting a line, such as model: gpt-4o"},
		{"merge", "<<: x", `s.yaml:1:1: "<<" is more than settings need`, []string{"    1 | <<: x", "      | ^"}, "write a setting a line, such as model: gpt-4o"},
		{"block text", "model: |\n  x", `s.yaml:1:8: "|" is more than settings need`, []string{"    1 | model: |", "      |        ^"}, "write a setting a line, such as model: gpt-4o"},
		{"list in a list", "level: [[1]]", `s.yaml:1:9: there is a list in a list`, []string{"    1 | level: [[1]]", "      |         ^"}, ""},
		{"many lists", "level: " + strings.Repeat("[", 60000), `s.yaml:1:9: there is a list in a list`, []string{"    1 | level: " + strings.Repeat("[", 61), "      |         ^"}, ""},
		{"second document", "model: a\n---\nmodel: b\n", `s.yaml:2:1: there is a second document`, []string{"    2 | ---", "      | ^"}, "leave one of them"},
		{"a list", "- a", `s.yaml:1:1: this is no setting`, []string{"    1 | …", "      | ^"}, "write a setting a line, such as model: gpt-4o"},
		{"a word", "gpt-4o", `s.yaml:1:1: this is no setting`, []string{"    1 | …", "      | ^"}, "write a setting a line, such as model: gpt-4o"},
		{"tab", "level:\n\t- 1", `s.yaml:2:1: the line begins with a tab`, []string{"    2 |  - 1", "      | ^"}, "indent with spaces"},
		{"two values", "model: a: b", `s.yaml:1:8: mapping value is not allowed in this context`, []string{"    1 | model: a: b", "      |        ^"}, ""},
		{"a long key", strings.Repeat("x", 9000) + ": 1", `s.yaml:1:1: there is no setting "` + strings.Repeat("x", 60) + `"`, []string{"    1 | " + strings.Repeat("x", 60) + ": …", "      | ^"}, "a setting is called as the flag of 'gaia run' is; see its --help"},
		{"open quote", `model: "a`, `s.yaml:1:8: could not find end character of double-quoted text`, []string{`    1 | model: "a`, "      |        ^"}, ""},
		{"not UTF-8", "# é\nmodel: \xff", `s.yaml:2:8: this is not UTF-8`, []string{"    2 | model: \ufffd", "      |        ^"}, "save the file as UTF-8"},
		{"control character", "model: a\x1b[2J", `s.yaml:1:9: this is a control character`, []string{`    1 | model: a\u001b[2J`, "      |         ^"}, ""},
		{"behind wide letters", "out: 漢字 # 漢\nlimit: x", `s.yaml:2:8: limit is "x", which is not a whole number`, []string{"    2 | limit: x", "      |        ^"}, ""},
		{"under wide letters", "task: [漢字, 5]", `s.yaml:1:12: task is "5", which is not a list of texts`, []string{"    1 | task: [漢字, 5]", "      |              ^"}, "put it in quotes if it is meant"},
		{"too large a file", strings.Repeat("#", maxSettings+1), `the settings "s.yaml" are larger than 65536 bytes`, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := parseSettings("s.yaml", []byte(tc.file))
			if err == nil {
				err = f.apply(runFlags(t), nothing)
			}
			var got *failure
			if !errors.As(err, &got) || got.Code != exitUsage {
				t.Fatalf("error %v is not one of usage", err)
			}
			if got.Error() != tc.want || !slices.Equal(got.Excerpt, tc.shown) || strings.Join(got.Hints, "; ") != tc.hint {
				t.Errorf("got  %q\n     %q, %q\nwant %q\n     %q, %q", got.Error(), got.Excerpt, got.Hints, tc.want, tc.shown, tc.hint)
			}
		})
	}
}

// TestSettingsOfEveryKind: each flag of run but those of one call can be set,
// and is as if it had been given.
func TestSettingsOfEveryKind(t *testing.T) {
	values := map[string][2]string{ // what is written, and what the flag then holds
		"int": {"3", "3"}, "int64": {"4", "4"}, "bool": {"true", "true"}, "duration": {"15m", "15m0s"}, "string": {"x", "x"},
		"intSlice": {"[1, 2]", "[1,2]"}, "stringSlice": {`[a, "b,c"]`, `[a,"b,c"]`},
		"dollars": {"0.5", "0.5"}, "auto|number": {"8", "8"}, "chat|responses": {"chat", "chat"}, "tavily|brave|serper|searxng|none": {"none", "none"}, "auto|on|off": {`"on"`, "on"},
	}
	var file strings.Builder
	want := map[string]string{}
	runFlags(t).VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notSettings(), f.Name) {
			return
		}
		v, known := values[f.Value.Type()]
		if !known {
			t.Errorf("--%s is %s, of which this test knows no value", f.Name, f.Value.Type())
		}
		file.WriteString(f.Name + ": " + v[0] + " # as the flag\r\n")
		want[f.Name] = v[1]
	})
	f, err := parseSettings("s.yaml", []byte("\ufeff---\r\n"+file.String()))
	if err != nil {
		t.Fatal(err)
	}
	flags := runFlags(t)
	if err := f.apply(flags, nothing); err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if flag := flags.Lookup(name); flag.Value.String() != value || !flag.Changed {
			t.Errorf("--%s is %q, want %q; given: %t", name, flag.Value, value, flag.Changed)
		}
	}
	kept := runFlags(t)
	if err := f.apply(kept, func(name string) bool { return name == "limit" }); err != nil {
		t.Fatal(err)
	}
	if kept.Changed("limit") || !kept.Changed("model") {
		t.Error("what something stronger decides was taken from the file, or the rest was not")
	}
}

// TestSettingsShowNoCredentials: neither of a URL nor behind a long line.
func TestSettingsShowNoCredentials(t *testing.T) {
	f, err := parseSettings("s.yaml", []byte("base-url: https://me:hidden@api.example/v1\n"+"limit: 3 # "+strings.Repeat("long ", 50)+"end"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.apply(runFlags(t), nothing); err != nil {
		t.Fatal(err)
	}
	var got *failure
	if !errors.As(f.point(usage("h", "--base-url is wrong, and --base-url is shown")), &got) || got.Error() != "s.yaml:1:11: base-url is wrong, and base-url is shown" ||
		got.Excerpt[0] != "    1 | base-url: https://…@api.example/v1" || !slices.Equal(got.Hints, []string{"h"}) {
		t.Errorf("got %+v", got)
	}
	if !errors.As(f.point(usage("", "--limit is 3")), &got) || len(got.Excerpt[0]) > 100 || strings.Contains(got.Excerpt[0], "end") {
		t.Errorf("got %+v", got)
	}
	if err := usage("", "--rpm is 3"); f.point(err) != err || (*settingsFile)(nil).point(err) != err {
		t.Error("an error of another flag got a place")
	}
	if err := errors.New("--limit broke"); f.point(err) != err {
		t.Error("an error that is not of usage got a place")
	}
}

// FuzzSettings: whatever the bytes, there are settings or one error of usage
// that points into the file, in lines that a terminal can show.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{"", "# x\n", "model: a\nlimit: 3\n", "level: [1, 2]\n", "level:\n- 1\n- 2\n", "a: &b c\nd: *b", "{a: b}", "\t", "model: \"a\\u0000\"", "model: 'x", "? a\n: b",
		"a: |\n b", "%YAML 1.2\n---\na: b", "max-task-cost: 0.5", "a: [[[", "- - -", "\xff", "\ufeffmodel: x", "model: a\r\nlimit: b\r", "model: x # c", "<<: *a", "a: b: c", "mcp:\n- name: a\n  url: https://a.example\n  headers:\n    X: Y\n- name: b\n  command: [c]\n", "---\n---\n", "...\n", "level: [1,,]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parseSettings("s.yaml", data)
		if err == nil {
			err = file.apply(runFlags(t), nothing)
		}
		if err == nil {
			return
		}
		var got *failure
		if !errors.As(err, &got) || got.Code != exitUsage {
			t.Fatalf("error %v is not one of usage", err)
		}
		if len(data) <= maxSettings && len(got.Excerpt) != 2 {
			t.Errorf("%q points at nothing", got.Error())
		}
		for _, line := range append(append(got.Excerpt, got.Hints...), got.Error()) {
			if strings.ContainsAny(oneLine(line), "\n\x1b\x00") || !utf8.ValidString(line) || utf8.RuneCountInString(line) > 1000 {
				t.Errorf("shows %q", line)
			}
		}
	})
}

// TestFlagsAreDocumented: docs/running.md names every flag of run, and no other but those of other
// commands and programs.
func TestFlagsAreDocumented(t *testing.T) {
	doc := readFile(t, "docs/running.md")
	flags := runFlags(t)
	named := map[string]bool{}
	others := []string{"chat_format", "config", "enable-auto-tool-choice", "evaluators", "follow", "jinja", "n_ctx", "scope", "tool-call-parser", "user"}
	for _, m := range regexp.MustCompile("--([a-z][a-z_-]*)").FindAllStringSubmatch(doc, -1) {
		named[m[1]] = true
		if flags.Lookup(m[1]) == nil && !slices.Contains(others, m[1]) {
			t.Errorf("docs/running.md names --%s, which run does not have", m[1])
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !named[f.Name] {
			t.Errorf("docs/running.md does not name --%s", f.Name)
		}
	})
	_, example, _ := strings.Cut(doc, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	file, err := parseSettings("gaia.yaml", []byte(example))
	if err != nil || len(file.entries) < 5 {
		t.Fatalf("the example: %v, %v", file, err)
	}
	if err := file.apply(flags, nothing); err != nil {
		t.Errorf("the example: %v", err)
	}
}
