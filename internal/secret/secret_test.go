package secret

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

const gone = "[redacted]"

// credential is an invented one in its text: secret is what must go.
type credential struct{ rule, name, text, secret string }

func planted(t testing.TB) (all []credential) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "credentials.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue // a comment
		}
		text := strings.NewReplacer("·", "", `\n`, "\n").Replace(fields[2])
		before, rest, _ := strings.Cut(text, "«")
		secret, after, _ := strings.Cut(rest, "»")
		all = append(all, credential{fields[0], fields[1], before + secret + after, secret})
	}
	return all
}

// TestPlanted finds at least 74 kinds of credentials, and one by each own rule, in
// text, JSON and URLs.
func TestPlanted(t *testing.T) {
	// What may stand around a credential; the last ones are JSON.
	around := [][2]string{{"", ""}, {"key: ", ""}, {"(", ")."}, {"KEY=", "\n"}, {"\n", "\n"}, {`"`, `"`}, {"/", "?x"}, {"é", "é"}, {":", ","}, {"next=%2F%3D", "&x"},
		{`{"content":"line\n`, `\nnext"}`}, {`"\t`, `\t"`}, {`"\r`, `"`}, {`{"arguments":"{\"text\":\"a\\n`, `\"}"}`}, {`"\u001b`, `"`}, {`"\u0000`, `"`}}
	tested := map[string]bool{}
	all := planted(t)
	if len(all) < 74 {
		t.Errorf("%d credentials", len(all))
	}
	for _, c := range all {
		tested[c.rule] = true
		for _, a := range around {
			if c.rule == "brave" && a[0] == "/" {
				continue // base64 has such ones
			}
			got, n := Redact(a[0]+c.text+a[1], gone)
			want := a[0] + strings.Replace(c.text, c.secret, gone, 1) + a[1]
			if c.rule == "variable" || strings.Contains(c.text, "_TOKEN=") { // a password can have the characters that follow, too
				got, want = strings.TrimSuffix(got, a[1]), strings.TrimSuffix(want, a[1])
			}
			if got != want || n != 1 {
				t.Errorf("%s, %s: %q with %d redactions, want %q", c.rule, c.name, got, n, want)
			}
		}
		at := slices.IndexFunc(rules().rules, func(r *rule) bool { return r.id == c.rule })
		if at < 0 {
			t.Errorf("there is no rule %q", c.rule)
			continue
		}
		hits := rules().hits(c.text)
		if hits == nil || len(rules().rules[at].find(nil, c.text, hits[at])) != 1 {
			t.Errorf("%s, %s: found by another rule only", c.rule, c.name)
		}
	}
	for _, r := range own {
		if !tested[r.id] {
			t.Errorf("no credential for the rule %q", r.id)
		}
	}
	key := planted(t)[0].text
	if got, n := Redact("a "+key+" b "+key, gone); got != "a [redacted] b [redacted]" || n != 2 {
		t.Errorf("two keys: %q, %d", got, n)
	}
	if got, n := Redact("see -----BEGIN "+"PRIVATE KEY-----\nMC4CAQAw", gone); got != "see [redacted]" || n != 1 {
		t.Errorf("a private key without its end: %q, %d", got, n)
	}
}

// TestRules: each rule of gitleaks still finds what its form describes, in text and
// in JSON in JSON.
func TestRules(t *testing.T) {
	random := rand.New(rand.NewChaCha8([32]byte{5}))
	if n := len(rules().rules) - len(own); n < 180 {
		t.Errorf("%d rules of gitleaks", n)
	}
	for _, r := range rules().rules[:len(rules().rules)-len(own)] {
		form, err := syntax.Parse(r.form, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		missed := 0
		for range 20 {
			text := r.keywords[0] + " " + sample(form, random)
			for _, text := range []string{text, text + "\n", `{"a":"{\"b\":\"` + text + `\"}"}`} {
				if _, n := Redact(text, gone); n == 0 {
					missed++
					if missed == 12 { // samples may be words
						t.Errorf("%s: %q is not found", r.id, text)
					}
				}
			}
		}
	}
}

// sample returns a string that a form matches.
func sample(re *syntax.Regexp, random *rand.Rand) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		total := 0
		for i := 0; i < len(re.Rune); i += 2 {
			total += int(min(re.Rune[i+1], 126) - min(re.Rune[i], 126) + 1)
		}
		for {
			n := random.IntN(total)
			for i := 0; i < len(re.Rune); i += 2 {
				size := int(min(re.Rune[i+1], 126) - min(re.Rune[i], 126) + 1)
				if n < size {
					if c := re.Rune[i] + rune(n); c >= ' ' {
						return string(c)
					}
					break
				}
				n -= size
			}
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpAlternate:
		return sample(re.Sub[random.IntN(len(re.Sub))], random)
	case syntax.OpQuest:
		return ""
	case syntax.OpRepeat, syntax.OpStar, syntax.OpPlus:
		n := re.Min
		if re.Op == syntax.OpPlus || n == 0 && re.Max < 0 {
			n = 1
		} else if re.Min > 0 && re.Max > 0 {
			n = re.Max
		}
		var b strings.Builder
		for range n {
			b.WriteString(sample(re.Sub[0], random))
		}
		return b.String()
	}
	var b strings.Builder
	for _, sub := range re.Sub {
		b.WriteString(sample(sub, random))
	}
	return b.String()
}

// TestCost: what a keyword makes cheap stays cheap where a text is full of keywords and
// of beginnings of credentials: each form reads it a bounded number of times.
func TestCost(t *testing.T) {
	var all strings.Builder
	for _, k := range rules().keywords {
		all.WriteString(k.text + " ")
	}
	for _, piece := range []string{all.String(), "eyJ", "sk-", "sk-sk_", "aeyJ", "eyJ-", "MII", "private key", "-----BEGIN PRIVATE KEY-----", "://", "key=", "token: ", "bearer ", "xox", "%2F"} {
		text := strings.Repeat(piece, 1<<18/len(piece))
		if _, n := Redact(text, gone); n > len(text)/20 {
			t.Errorf("%.20q: %d redactions", piece, n)
		}
	}
}

func FuzzRedact(f *testing.F) {
	for _, c := range planted(f) {
		f.Add("text "+c.text+" text", c.text+c.text)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		clean, n := Redact(a+b, gone)
		if again, m := Redact(clean, gone); m != 0 {
			t.Fatalf("%q has a credential left: %q", clean, again)
		}
		if n == 0 && clean != a+b {
			t.Fatalf("nothing redacted, and %q became %q", a+b, clean)
		}
	})
}
