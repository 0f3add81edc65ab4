package render

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/visible"
)

// hostile texts try to end the place in which they are shown.
var hostile = map[string]string{
	"escape":     "\x1b]0;title\x07\x1b[31mred\u202e\u2028",
	"unseen":     "a\u00ad\u034f\u115f\u180e\u200b\u2800\u3164\ufe0f\ufeff\U000e0041\U000e0100b",
	"command":    "x\n::error title=owned::y\r\n##[set-output name=a]b%0A::stop-commands::t",
	"table":      "a | b |\n|---|\n# head",
	"code":       "`` ` ``` <script>alert(1)</script> ```` [x](https://evil.example) @everyone ![i](//evil.example/i.png)",
	"link":       `[click](https://evil.example) \[click](https://evil.example) {0} {{1}} \`,
	"comma":      "a,line=1::b:c%2C",
	"quote":      `","ruleId":"owned` + "\u0000",
	"blank":      " \t ",
	"html":       "</code></pre><img src=x onerror=y>&lt;",
	"astral":     "\U000e0001\U0001f600",
	"no address": "runs/ü ?#%zz",
}

// withText puts a text wherever a stranger's may stand.
func withText(s string) audit.Report {
	r := someReport()
	r.RunID, r.AuditedAt = s, s
	for i := range r.Adjudications {
		a := &r.Adjudications[i]
		a.Reason, a.Unheard = s, s
	}
	for i := range r.Checks {
		c := &r.Checks[i]
		for j := range c.Gaps {
			c.Gaps[j] = s
		}
		for j := range c.Findings {
			f := &c.Findings[j]
			f.Got, f.Want, f.TaskID = s, s, s
		}
	}
	r.Attestation.HarnessGaps = []audit.Gap{{Check: s, Gap: s}}
	// A check that this version does not know can be called anything.
	r.Checks = append(r.Checks, audit.CheckReport{ID: s, Name: s, Title: s, Absent: s, Gaps: []string{s}, Status: audit.Skip,
		Findings: []audit.Finding{{Check: s, ID: s, Got: s, Want: s, RuleID: s + "." + s, Severity: audit.Info}}})
	return r
}

func TestHostile(t *testing.T) {
	for name, s := range hostile {
		t.Run(name, func(t *testing.T) { harmless(t, s) })
	}
}

func FuzzHostile(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) { // as what JSON holds is
			harmless(t, s)
		}
	})
}

// harmless shows a report in which a text stands in all places of strangers.
func harmless(t *testing.T, s string) {
	t.Helper()
	r := withText(s)
	lines := strings.Split(strings.TrimSuffix(string(GitHub(r, s)), "\n"), "\n")
	form := regexp.MustCompile(`^::(error|warning|notice) (file=[^:,]*,line=[0-9]+,)?title=[^:,]*::.`)
	if want := 4 + 3 + 1; len(lines) != want {
		t.Errorf("%d workflow commands, want %d: %q", len(lines), want, lines)
	}
	for _, line := range lines {
		if !form.MatchString(line) && !strings.HasSuffix(line, "could not see::") { // a gap that says nothing
			t.Errorf("no workflow command: %q", line)
		}
	}
	printable(t, strings.Join(lines, ""))
	if rest := regexp.MustCompile(`%(25|3A|2C)`).ReplaceAllString(strings.Join(lines, ""), ""); strings.Contains(rest, "%") {
		t.Errorf("a percent sign is not escaped: %q", rest)
	}

	for _, line := range strings.Split(string(markdown(r, s, someChecks())), "\n") {
		printable(t, line)
		// Outside of code spans there is nothing of it but letters and digits.
		if strings.ContainsAny(outsideCode(line), "`<>[]&@!\\{}$~") {
			t.Errorf("markup stands outside of code: %q", line)
		}
		if n := strings.Count(line, "|"); strings.HasPrefix(line, "|") && n != 6 && n != 7 {
			t.Errorf("a row of %d bars: %q", n, line)
		}
	}

	b, err := sarif(r, s, someChecks())
	if err != nil {
		t.Fatal(err)
	}
	valid(t, b)
}

func printable(t *testing.T, s string) {
	t.Helper()
	if strings.ContainsFunc(s, visible.Hidden) {
		t.Errorf("what does not print: %q", s)
	}
}

// outsideCode returns what of a line of Markdown is in no code span, by the rules
// of CommonMark: a span ends at a run of backticks as long as the one that began
// it.
func outsideCode(line string) string {
	runs := regexp.MustCompile("`+")
	var out strings.Builder
	for {
		begin := runs.FindStringIndex(line)
		if begin == nil {
			return out.String() + line
		}
		out.WriteString(line[:begin[0]])
		fence, rest := line[begin[0]:begin[1]], line[begin[1]:]
		closed := false
		for _, end := range runs.FindAllStringIndex(rest, -1) {
			if rest[end[0]:end[1]] == fence {
				line, closed = rest[end[1]:], true
				break
			}
		}
		if !closed {
			return out.String() + fence + rest
		}
	}
}

// valid wants what the schema of SARIF 2.1.0 and code scanning want of a log.
func valid(t *testing.T, b []byte) {
	t.Helper()
	type text struct{ Text string }
	var log struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name  string
					Rules []struct {
						ID                                      string
						ShortDescription, FullDescription, Help *text
						DefaultConfiguration                    struct{ Level string }
						Properties                              map[string]any
					}
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Message   text
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
				PartialFingerprints map[string]string
				Suppressions        *[]struct{ Kind, Status string }
			}
		}
	}
	if err := json.Unmarshal(b, &log); err != nil {
		t.Fatalf("no JSON: %v", err)
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 || log.Runs[0].Tool.Driver.Name == "" || len(log.Runs[0].Results) == 0 {
		t.Fatalf("no log of one run with results")
	}
	levels, rules := []string{"error", "warning", "note"}, log.Runs[0].Tool.Driver.Rules
	seen := map[string]bool{}
	for _, r := range rules {
		if r.ID == "" || seen[r.ID] || !slices.Contains(levels, r.DefaultConfiguration.Level) {
			t.Errorf("rule %q is there twice, or of level %q", r.ID, r.DefaultConfiguration.Level)
		}
		seen[r.ID] = true
		for _, d := range []*text{r.ShortDescription, r.FullDescription, r.Help} {
			if d == nil || d.Text == "" {
				t.Errorf("rule %q lacks a description", r.ID)
			}
		}
		if w, ok := r.Properties["security-severity"].(string); !ok || !regexp.MustCompile(`^([0-9]|10)\.[0-9]$`).MatchString(w) {
			t.Errorf("rule %q weighs %v", r.ID, r.Properties["security-severity"])
		}
	}
	told := map[string]bool{}
	for _, r := range log.Runs[0].Results {
		hash := r.PartialFingerprints["primaryLocationLineHash"]
		if told[r.RuleID+" "+hash] || hash == "" {
			t.Errorf("two results of rule %q are one by their fingerprint %q", r.RuleID, hash)
		}
		told[r.RuleID+" "+hash] = true
		if r.RuleIndex < 0 || r.RuleIndex >= len(rules) || rules[r.RuleIndex].ID != r.RuleID || !slices.Contains(levels, r.Level) {
			t.Errorf("a result of rule %q at %d, level %q", r.RuleID, r.RuleIndex, r.Level)
		}
		if r.Message.Text == "" || len(r.Locations) != 1 || len(r.PartialFingerprints) != 2 || r.Suppressions == nil {
			t.Errorf("a result of rule %q without message, place or fingerprint", r.RuleID)
			continue
		}
		printable(t, r.Message.Text)
		// Without its escapes, no bracket or brace is left that begins a link or a placeholder.
		bare := strings.NewReplacer(`\\`, "", `\[`, "", `\]`, "", "{{", "", "}}", "").Replace(r.Message.Text)
		if strings.ContainsAny(bare, `[]{}\`) {
			t.Errorf("a message has links or placeholders: %q", r.Message.Text)
		}
		at := r.Locations[0].PhysicalLocation
		if u, err := url.Parse(at.ArtifactLocation.URI); err != nil || u.Host != "" || u.RawQuery != "" || u.Fragment != "" || at.Region.StartLine < 1 {
			t.Errorf("a result in %q, line %d: %v", at.ArtifactLocation.URI, at.Region.StartLine, err)
		}
	}
}

// TestSarifOfAllChecks: the checks as they are make a valid log, too, and unknown
// ones get rules of their own.
func TestSarifOfAllChecks(t *testing.T) {
	b, err := SARIF(someReport(), ".")
	if err != nil {
		t.Fatal(err)
	}
	valid(t, b)
	for _, c := range audit.Checks() {
		for _, r := range c.Rules {
			if !strings.Contains(string(b), `"id": "`+c.ID+"."+r.ID+`"`) {
				t.Errorf("%s.%s is not listed", c.ID, r.ID)
			}
		}
		if !strings.Contains(string(b), `"id": "`+c.ID+`.could-not-see"`) {
			t.Errorf("%s.could-not-see is not listed", c.ID)
		}
	}
}

// TestSarifPlaces: the journal's path is a URI, whatever the directory is called.
func TestSarifPlaces(t *testing.T) {
	for dir, want := range map[string]string{
		"": "events.jsonl", ".": "events.jsonl", "runs/01J": "runs/01J/events.jsonl", "/data/run": "file:///data/run/events.jsonl",
		"a:b": "./a:b/events.jsonl", "a b%?#": "a%20b%25%3F%23/events.jsonl",
	} {
		if got := at(journal(dir, audit.Finding{Seq: 2}))[0].Physical; got.Artifact["uri"] != want || got.Region["startLine"] != 3 {
			t.Errorf("%q: %+v, want %s", dir, got, want)
		}
	}
}

// TestLongReport: a comment stays below what GitHub takes, and says what it left
// out.
func TestLongReport(t *testing.T) {
	r := someReport()
	f := r.Checks[0].Findings[1]
	f.Got, f.Want = strings.Repeat("w", 500), strings.Repeat("v", 200)
	r.Checks[0].Findings = slices.Repeat([]audit.Finding{f}, 400)
	r.Attestation.HarnessGaps = slices.Repeat([]audit.Gap{{Check: "AUD-1", Gap: strings.Repeat("g", 200)}}, 100)
	md := string(Markdown(r, "runs/01J"))
	if len(md) > 65_536 {
		t.Errorf("%d bytes", len(md))
	}
	for _, want := range []string{"\n361 more findings are in the report.\n", "\n60 more gaps are in the report.\n"} {
		if !strings.Contains(md, want) {
			t.Errorf("it does not say %q", want)
		}
	}
}
