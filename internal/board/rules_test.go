package board

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// TestRulesRefused: each mistake in board.yaml is an error of usage that names its place.
func TestRulesRefused(t *testing.T) {
	line := runs.Key().Public().Line()
	for _, tc := range []struct{ text, want string }{
		{"titel: x", "board.yaml:1:1: titel: unknown field"},
		{"title: a\ntitle: b", "board.yaml:2:1: mapping key"},
		{"- title", "board.yaml:1:1: this is no mapping"},
		{"title: {a: b}", "board.yaml:1:8: \"{\" is more than settings need"},
		{"title: &a x\ndescription: *a", "board.yaml:1:8: \"&\" is more"},
		{"rehearsal: maybe", "board.yaml:1:12: rehearsal: cannot unmarshal"},
		{"checks: AUD-1", "board.yaml:1:9: checks: "},
		{"checks: [AUD-1, AUD-99]", `board.yaml:1:17: there is no check "AUD-99"`},
		{"dataset: gaia-benchmark/GAlA", "board.yaml:1:1: "},
		{"selection: some", "board.yaml:1:1: "},
		{"exclude:\n  - package: x", "board.yaml:2:5: reason is missing"},
		{"exclude:\n  - package: x\n    reason: '  '", "board.yaml:2:5: reason is missing"},
		{"exclude:\n  - reason: x", "board.yaml:2:5: package is missing"},
		{"exclude:\n  - package: sha256:12\n    reason: x", "board.yaml:2:5: package is no digest"},
		{"exclude:\n  - package: x\n    reason: y\n    by: z", "board.yaml:4:5: exclude: unknown field"},
		{"trusted-keys:\n  - " + line + "\n  - ssh-ed25519 AAAA", "board.yaml:3:5: not one OpenSSH public key line"},
		{"trusted-keys: [missing.pub]", "board.yaml:1:16: reading the trusted key"},
		{"allowed-signers: [board.yaml]", "board.yaml:1:19: reading allowed signers"},
		{"title: \"" + strings.Repeat("x", maxText+1) + "\"", "board.yaml:1:1: title is longer than 4000 bytes"},
		{strings.Repeat("#", maxRules+1), "are larger than 65536 bytes"},
		{"title: a\x00b", "board.yaml:1:9: this is a control character"},
	} {
		folder := t.TempDir()
		put(t, filepath.Join(folder, RulesFile), tc.text)
		_, _, _, err := readRules(folder, "", keyring.Trust{})
		if err == nil || exit.Of(err).Code != exit.Usage || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.40q: %v, want %q", tc.text, err, tc.want)
		}
	}
	if _, _, _, err := readRules(t.TempDir(), "none.yaml", keyring.Trust{}); exit.Of(err).Code != exit.Usage {
		t.Errorf("a named file that is not there: %v", err)
	}
}

// TestRules: what board.yaml says, and the defaults where there is none.
func TestRules(t *testing.T) {
	folder := t.TempDir()
	_, r, _, err := readRules(folder, "", keyring.Trust{})
	if err != nil || !r.Default || !r.Keyring || r.Dataset != "gaia-benchmark/GAIA" || r.Split != "validation" || r.Selection != "all" || r.Rehearsal || len(r.Checks) != 0 || len(r.KeyIDs) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	put(t, filepath.Join(folder, "signers", "..", "carol.pub"), otherKey(t, 4).Public().Line()+"\n")
	put(t, filepath.Join(folder, "list"), "dora@lab.example namespaces=\"gaia\" "+otherKey(t, 5).Public().Line()+"\nemil "+"valid-before=\"20200101Z\" "+otherKey(t, 6).Public().Line()+"\n")
	put(t, filepath.Join(folder, RulesFile), "# a comment\ntitle: A title\ndataset: invented-tasks\nsplit: test\nselection: level=1,2\nrehearsal: true\nfull-only: true\nchecks: []\n"+
		"trusted-keys:\n  - "+runs.Key().Public().Line()+" bob smith\n  - carol.pub\nallowed-signers: [list]\nexclude:\n  - package: a\n    reason: Because.\n")
	ring := keyring.Ring{Notice: func(string) {}}
	own, err := ring.Own("")
	if err != nil {
		t.Fatal(err)
	}
	s, r, trust, err := readRules(folder, "", own)
	if err != nil {
		t.Fatal(err)
	}
	if s.Title != "A title" || r.Dataset != "invented-tasks" || r.Split != "test" || r.Selection != "level=1,2" || !r.Rehearsal || !r.FullOnly || len(r.Checks) != 0 || r.Default || r.Keyring ||
		len(r.Exclude) != 1 || r.Exclude[0] != (Exclusion{"a", "Because."}) || len(r.KeyIDs) != 3 {
		t.Errorf("%+v %+v", s, r)
	}
	for letter, want := range map[byte]string{4: "carol", 5: "dora@lab.example", 6: "emil"} {
		if name := trust.NameOf(otherKey(t, letter).Public()); name != want {
			t.Errorf("the key %d is called %q, not %q", letter, name, want)
		}
	}
	if name := trust.NameOf(runs.Key().Public()); name != "bob smith" || trust.Trusts(otherKey(t, 6).Public()) || !trust.Trusts(otherKey(t, 5).Public()) {
		t.Errorf("the names or the trust are others: %q", name)
	}
}

// TestRulesAreDocumented: the hint and docs/formats.md name every key, and the dataset of a rehearsal is that of one.
func TestRulesAreDocumented(t *testing.T) {
	_, doc, _ := strings.Cut(mustRead(t, "../../docs/formats.md"), "\n## `board.yaml`\n")
	doc, _, _ = strings.Cut(doc, "\n## ")
	for i := range reflect.TypeFor[settingsOf]().NumField() {
		key := reflect.TypeFor[settingsOf]().Field(i).Tag.Get("yaml")
		if !strings.Contains(rulesHint, key) || !strings.Contains(doc, "`"+key+"`") {
			t.Errorf("the key %s is not named", key)
		}
	}
	folder := t.TempDir()
	put(t, filepath.Join(folder, RulesFile), "rehearsal: true\n")
	if _, r, _, err := readRules(folder, "", keyring.Trust{}); err != nil || r.Dataset != fixtures.Name {
		t.Errorf("%+v, %v", r, err)
	}
}

// FuzzRules: no bytes of board.yaml make reading it panic, and what is read holds to its limits.
func FuzzRules(f *testing.F) {
	for _, text := range []string{"", "title: x\nchecks: [AUD-1]\n", "exclude:\n  - package: a\n    reason: b\n", "trusted-keys:\n- ssh-ed25519 AAAA", "title: \"\\u202e\"\n", "a: [b, {c: d}]", "exclude: [[x]]", "checks: null\nrehearsal: true"} {
		f.Add([]byte(text))
	}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(folder, RulesFile)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, r, _, err := readRules(folder, "", keyring.Trust{})
		if err != nil {
			if exit.Of(err).Code != exit.Usage {
				t.Errorf("%q: exit code %d: %v", data, exit.Of(err).Code, err)
			}
			return
		}
		for _, e := range r.Exclude {
			if e.Package == "" || strings.TrimSpace(e.Reason) == "" || len(e.Reason) > maxText {
				t.Errorf("%q excludes %+v", data, e)
			}
		}
		if r.Dataset == "" || r.Split == "" || r.Selection == "" {
			t.Errorf("%q: %+v", data, r)
		}
	})
}
