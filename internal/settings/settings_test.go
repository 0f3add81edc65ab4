package settings

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// flags returns flags of every kind that run has.
func flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	for _, name := range []string{"model", "judge-model", "base-url", "out", "settings", "like"} {
		f.String(name, "", "")
	}
	for _, name := range []string{"limit", "max-turns", "max-tokens"} {
		f.Int(name, 0, "")
	}
	f.IntSlice("level", nil, "")
	f.StringSlice("task", nil, "")
	f.Bool("submit-intent", false, "")
	f.Duration("max-task-time", 0, "")
	return f
}

func nothing(string) bool { return false }

func TestMistakes(t *testing.T) {
	for _, tc := range []struct {
		name, file, want string
	}{
		{"unknown key", "limit: 2\nmodle: gpt-4o\n", `s.yaml:2:1: there is no setting "modle"`},
		{"underscores", "base_url: x", `s.yaml:1:1: there is no setting "base_url"`},
		{"far from any key", "colour: red", `s.yaml:1:1: there is no setting "colour"`},
		{"a secret", "  openai_api_key: sk-1", `s.yaml:1:3: "openai_api_key" is no setting: secrets do not belong into the file`},
		{"a search engine's secret", "TAVILY_API_KEY: none", `s.yaml:1:1: "TAVILY_API_KEY" is no setting: secrets do not belong into the file`},
		{"a secret without a name", "model: gpt-4o\nhush\n", `s.yaml:2:1: non-map value is specified`},
		{"a secret for a value", "model: sk-abcdefgh", "s.yaml:1:8: model holds what looks like a key: secrets do not belong into the file"},
		{"a secret in a list", "task: [fab1e001, hf_abcdefgh]", "s.yaml:1:18: task holds what looks like a key: secrets do not belong into the file"},
		{"a secret in a URL", "base-url: https://api.example/v1?Api_Key=5", "s.yaml:1:11: base-url holds what looks like a key: secrets do not belong into the file"},
		{"a secret behind a mistake", "limit: few # hf_abcdefgh", `s.yaml:1:8: limit is "few", which is not a whole number`},
		{"a slip near a secret's name", "max-token: 5", `s.yaml:1:1: there is no setting "max-token"`},
		{"the hub's secret", "hf_token: hf_1", `s.yaml:1:1: "hf_token" is no setting: secrets do not belong into the file`},
		{"of the command line", "like: runs/x", `s.yaml:1:1: "like" is for the command line alone`},
		{"twice", "model: a\nlimit: 1\nmodel: b", "s.yaml:3:1: mapping key \"model\" already defined at [1:1]"},
		{"text for a number", "limit: few", `s.yaml:1:8: limit is "few", which is not a whole number`},
		{"quoted number", `limit: "3"`, `s.yaml:1:8: limit is "3", which is not a whole number`},
		{"octal", "limit: 010", `s.yaml:1:8: limit is "010", which is not a whole number`},
		{"fraction", "max-turns: 1.5", `s.yaml:1:12: max-turns is "1.5", which is not a whole number`},
		{"too large", "limit: 18446744073709551615", `s.yaml:1:8: limit is "18446744073709551615", which is not a whole number: value out of range`},
		{"number for text", "model: 4", `s.yaml:1:8: model is "4", which is not text`},
		{"true for text", "model: true", `s.yaml:1:8: model is "true", which is not text`},
		{"yes for true", "submit-intent: yes", `s.yaml:1:16: submit-intent is "yes", which is not true or false`},
		{"no time", "max-task-time: soon", `s.yaml:1:16: max-task-time is "soon", which is not a time such as 15m: invalid duration "soon"`},
		{"list for text", "model: [a, b]", `s.yaml:1:1: model is a list, and is to be text`},
		{"in a list", "level: [1, two, 3]", `s.yaml:1:12: level is "two", which is not a list of whole numbers`},
		{"in a list of lines", "level:\n  - 1\n  - 1.5", `s.yaml:3:5: level is "1.5", which is not a list of whole numbers`},
		{"empty list", "level: []", `s.yaml:1:1: level names nothing`},
		{"no value", "model:\nlimit: 3", `s.yaml:1:1: model has no value`},
		{"empty", `model: ""`, `s.yaml:1:8: model is empty`},
		{"nested", "model:\n  name: x", `s.yaml:2:7: model is neither a value nor a list of values`},
		{"braces", "{model: x}", `s.yaml:1:1: "{" is more than settings need`},
		{"anchor", "model: &a x\njudge-model: *a", `s.yaml:1:8: "&" is more than settings need`},
		{"tag", "model: !!str 5", `s.yaml:1:8: "!!str" is more than settings need`},
		{"merge", "<<: x", `s.yaml:1:1: "<<" is more than settings need`},
		{"block text", "model: |\n  x", `s.yaml:1:8: "|" is more than settings need`},
		{"list in a list", "level: [[1]]", `s.yaml:1:9: there is a list in a list`},
		{"many lists", "level: " + strings.Repeat("[", 60000), `s.yaml:1:9: there is a list in a list`},
		{"second document", "model: a\n---\nmodel: b\n", `s.yaml:2:1: there is a second document`},
		{"a list", "- a", `s.yaml:1:1: this is no setting`},
		{"a word", "gpt-4o", `s.yaml:1:1: this is no setting`},
		{"tab", "level:\n\t- 1", "s.yaml:2:1: found character '\t' that cannot start any token"},
		{"two values", "model: a: b", `s.yaml:1:8: mapping value is not allowed in this context`},
		{"a long key", strings.Repeat("x", 9000) + ": 1", `s.yaml:1:1: there is no setting "` + strings.Repeat("x", 60) + `"`},
		{"open quote", `model: "a`, `s.yaml:1:8: could not find end character of double-quoted text`},
		{"not UTF-8", "# é\nmodel: \xff", "s.yaml:2:1: the line is not UTF-8"},
		{"control character", "model: a\x1b[2J", `s.yaml:1:9: this is a control character`},
		{"behind wide letters", "out: 漢字 # 漢\nlimit: x", `s.yaml:2:8: limit is "x", which is not a whole number`},
		{"under wide letters", "task: [漢字, 5]", `s.yaml:1:12: task is "5", which is not a list of texts`},
		{"too large a file", strings.Repeat("#", maxSize+1), `the settings "s.yaml" are larger than 65536 bytes`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := Parse("s.yaml", []byte(tc.file))
			if err == nil {
				err = f.Apply(flags(), nothing)
			}
			var got *Error
			if !errors.As(err, &got) || got.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

// TestServers: a mistake in the list of servers has its place, and no secret is shown.
func TestServers(t *testing.T) {
	const one = "mcp:\n- name: a\n  command: [x]\n"
	for file, want := range map[string]string{
		one:                                  "",
		"mcp: yes":                           `s.yaml:1:6: mcp is no list of 1 to 16 servers`,
		"mcp: []":                            `s.yaml:1:6: mcp is no list of 1 to 16 servers`,
		"mcp: [x]":                           `s.yaml:1:7: this is no mapping`,
		one + "mcp:\n- name: b\n":            `s.yaml:4:1: mapping key "mcp" already defined at [1:1]`,
		one + "- name: a\n  command: [y]\n":  `s.yaml:4:3: name: there is another server "a"`,
		"mcp:\n- command: [x]":               `s.yaml:2:10: name: it is to be small letters, digits and dashes, 32 at most, a letter first`,
		"mcp:\n- name: A b\n  command: [x]":  `s.yaml:2:3: name: it is to be small letters, digits and dashes, 32 at most, a letter first`,
		"mcp:\n- name: a":                    `s.yaml:2:7: command: the server "a" has to have either command or url`,
		"mcp:\n- name: a\n  name: b":         `s.yaml:3:3: mapping key "name" already defined at [2:3]`,
		"mcp:\n- name: a\n  command: x":      `s.yaml:3:12: command: string was used where sequence is expected`,
		"mcp:\n- name: a\n  command: [x, 5]": "",
		one + "  sandbox: no":                `s.yaml:4:12: sandbox: cannot unmarshal string into Go struct field Server.Sandbox of type bool`,
		one + "  url: https://a.example":     `s.yaml:3:3: command: the server "a" has to have either command or url`,
		one + "  headers:\n    A: B":         `s.yaml:4:3: headers: a server with command has no headers`,
		one + "  env: [TOKEN, token]\n  network: host\n  start_timeout: 2m\n": "",
		one + "  env: TOKEN":                                                            `s.yaml:4:8: env: string was used where sequence is expected`,
		one + "  env: [a b]":                                                            `s.yaml:4:3: env: it is to have names of variables of the environment`,
		one + "  env: [TOKEN=hush]":                                                     `s.yaml:4:3: env: it is to have names of variables of the environment`,
		one + "  env: [sk-abcdefgh1]":                                                   "s.yaml:4:9: env holds what looks like a key: secrets do not belong into the file",
		one + "  env: [A, A]":                                                           `s.yaml:4:3: env: the variable A is repeated`,
		one + "  env: [LD_PRELOAD]":                                                     `s.yaml:4:3: env: the variable LD_PRELOAD is not for settings`,
		one + "  env: [HF_TOKEN]":                                                       `s.yaml:4:3: env: no server is given HF_TOKEN: it signs runs, or reads the answers of the benchmark`,
		one + "  env: [GAIA_SIGNING_KEY]":                                               `s.yaml:4:3: env: no server is given GAIA_SIGNING_KEY: it signs runs, or reads the answers of the benchmark`,
		one + "  env:\n    TOKEN: hush":                                                 `s.yaml:5:10: env: mapping was used where sequence is expected`,
		one + "  env: {TOKEN: hush}":                                                    `s.yaml:4:8: "{" is more than settings need`,
		one + "  network: some":                                                         `s.yaml:4:3: network: it is "some"`,
		one + "  network: none\n  sandbox: false":                                       `s.yaml:4:3: network: a server outside of the sandbox has the network`,
		one + "  start_timeout: 90":                                                     `s.yaml:4:3: start_timeout: it is not a time from 1s to 10m0s`,
		one + "  start_timeout: soon":                                                   `s.yaml:4:3: start_timeout: it is not a time from 1s to 10m0s`,
		one + "  start_timeout: 11m":                                                    `s.yaml:4:3: start_timeout: it is not a time from 1s to 10m0s`,
		"mcp:\n- name: a\n  url: https://a.example\n  env: [A]":                         `s.yaml:3:3: url: a server with url has no folders, sandbox, env or network`,
		"mcp:\n- name: a\n  url: https://a.example\n  network: host":                    `s.yaml:3:3: url: a server with url has no folders, sandbox, env or network`,
		"mcpServers:\n  notes:\n    command: hush":                                      `s.yaml:1:1: mcpServers is the form of other programs`,
		`{"mcpServers": {"notes": {"env": {"A": "hush"}}}}`:                             `s.yaml:1:2: mcpServers is the form of other programs`,
		"mcp:\n- name: a\n  url: ftp://a.example":                                       `s.yaml:3:3: url: the url of the server "a" cannot be asked`,
		"mcp:\n- name: a\n  url: https://me:hidden@a.example":                           `s.yaml:3:3: url: the url of the server "a" holds credentials, which would be recorded`,
		"mcp:\n- name: a\n  url: https://a.example\n  headers:\n    Host: X":            `s.yaml:4:3: headers: the header Host is not for settings`,
		"mcp:\n- name: a\n  url: https://a.example\n  headers:\n    Word: hush":         `s.yaml:4:3: headers: the header Word is to have the name of a variable of the environment`,
		"mcp:\n- name: a\n  url: https://a.example\n  headers:\n    Word: sk-abcdefgh1": `s.yaml:5:11: Word holds what looks like a key: secrets do not belong into the file`,
	} {
		f, err := Parse("s.yaml", []byte(file))
		if want == "" {
			if err != nil || len(f.Servers) != 1 || f.Servers[0].Name != "a" {
				t.Errorf("%q: %v", file, err)
			}
			continue
		}
		var got *Error
		if !errors.As(err, &got) || got.Error() != want {
			t.Errorf("%q\ngot  %v\nwant %s", file, err, want)
			continue
		}
		for _, secret := range []string{"hidden", "hush", "abcdefgh1"} {
			if strings.Contains(got.Error()+got.Hint, secret) {
				t.Errorf("%q shows %q", file, got)
			}
		}
	}
}

// FuzzParse: whatever the bytes, there are settings or one *Error in a text that a terminal
// can show.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "# x\n", "model: a\nlimit: 3\n", "level: [1, 2]\n", "level:\n- 1\n- 2\n", "a: &b c\nd: *b", "{a: b}", "\t", "model: \"a\\u0000\"", "model: 'x", "? a\n: b",
		"a: |\n b", "%YAML 1.2\n---\na: b", "max-task-cost: 0.5", "a: [[[", "- - -", "\xff", "\ufeffmodel: x", "model: a\r\nlimit: b\r", "model: x # c", "<<: *a", "a: b: c", "mcp:\n- name: a\n  url: https://a.example\n  headers:\n    X: Y\n- name: b\n  command: [c]\n", "---\n---\n", "...\n", "level: [1,,]",
		"agent:\n  folder: a\n  command: [b, c]\n  models:\n    d: e\n  memory: 4 GiB\n  timeout: 5m\n  strip: true\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("s.yaml", data)
		if err == nil {
			err = file.Apply(flags(), nothing)
		}
		if err == nil {
			return
		}
		var got *Error
		if !errors.As(err, &got) {
			t.Fatalf("error %v is no *Error", err)
		}
		if text := got.Error() + got.Hint; !utf8.ValidString(text) || utf8.RuneCountInString(text) > 1000 {
			t.Errorf("shows %q", text)
		}
	})
}

// TestEncodeServers: servers of every kind are read again as they were.
func TestEncodeServers(t *testing.T) {
	f, err := Parse("gaia.yaml", []byte(`model: gpt-4o
mcp:
  - name: notes
    command: [notes-server, --read-only, "a: b # c", "- d", "1", "true", "line\nbreak\t\"quoted\"", "{x: [y]}", "&a *b !c", " spaces ", "%"]
    folders: [./notes, "/srv/a b"]
    tools: [find]
    env: [NOTES_TOKEN, ABC]
    start_timeout: 90s
    network: none
  - name: open
    command: [open]
    sandbox: false
  - name: far
    url: https://notes.example/mcp
    headers:
      Authorization: NOTES_AUTHORIZATION
`))
	if err != nil {
		t.Fatal(err)
	}
	data, err := EncodeServers(f.Servers)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("settings.yaml", data)
	if err != nil || !reflect.DeepEqual(again.Servers, f.Servers) {
		t.Errorf("%s\n%v", data, err)
	}
	if strings.Contains(string(data), "gpt-4o") {
		t.Error("the file has more than the servers")
	}
}
