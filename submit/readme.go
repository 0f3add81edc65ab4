package submit

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
)

//go:embed readme.md.tmpl
var readmeTemplate string

//go:embed readme_public.md.tmpl
var publicTemplate string

//go:embed check.sh
var checkScript string

// readme is what the template is given.
type readme struct {
	Predicate
	Plan      plan.Plan
	Checks    []audit.CheckReport
	Rulings   []audit.Adjudicated
	Judge     *rundir.JudgeSummary  // nil: no judge
	Shards    *rundir.ShardsSummary // nil: the run was not merged
	Later     []laterJudgment       // of other judges, after the run
	Additions []string              // files of a full package that not each has
	Script    string
	KeyID     string
}

// newReadme gathers what README.md is made of beside a report, which a public package withholds.
func newReadme(p Predicate, plan plan.Plan, s rundir.Summary, key sign.PublicKey) readme {
	return readme{Predicate: p, Plan: plan, Judge: s.Judge, Shards: s.Shards, Script: checkScript, KeyID: key.ID()}
}

// laterJudgment is what a README shows of a later judgment. A nil Score says that none of
// its verdicts counts.
type laterJudgment struct {
	audit.Rejudgment
	Score *stats.Rate
}

// of adds what a full package's shows of its report and of the later judgments.
func (r readme) of(report audit.Report, run *rundir.Run, later []audit.SealedRejudgment) readme {
	r.Checks, r.Rulings = report.Checks, report.Adjudications
	r.Additions = present(run.Manifest, report, len(later))
	for _, l := range later {
		r.Later = append(r.Later, laterJudgment{l.Rejudgment, l.Score(run)})
	}
	return r
}

// names lists names as code, or says that there are none.
func names(all []string) string {
	quoted := make([]string, len(all))
	for i, name := range all {
		quoted[i] = code(name)
	}
	return cmp.Or(strings.Join(quoted, ", "), "none")
}

// harnessText names a harness, and whether it was built from a clean commit.
func harnessText(h trajectory.Harness) string {
	text := code(h.Version)
	switch {
	case h.Commit == "":
		return text + ", of an unknown commit"
	case h.Dirty:
		return text + ", commit " + code(h.Commit) + " with changes"
	}
	return text + ", built from the clean commit " + code(h.Commit)
}

// render returns README.md. What comes from the run is shown as code,
// with everything escaped that could end the code or steer a terminal.
func (r readme) render() ([]byte, error) {
	text := readmeTemplate
	if r.Public {
		text = publicTemplate
	}
	t, err := template.New(ReadmeFile).Funcs(template.FuncMap{
		"code":    code,
		"percent": view.Percent,
		"count":   view.Count,
		"harness": harnessText,
		"names":   names,
		"ruled":   ruled,
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, r)
	return b.Bytes(), err
}

// rebuilt checks that README.md is what the package's files give. Another version of the
// program may word it otherwise: of what another one wrote, why says that it was not
// rebuilt.
func (r readme) rebuilt(digests map[string]string, o Options) (why string, err error) {
	text, err := r.render()
	if err != nil || canonical.Digest(text) == digests[ReadmeFile] {
		return "", err
	}
	if o.Harness != nil {
		switch here, err := o.Harness(); {
		case err != nil:
			return fmt.Sprintf("whether it was written by this program cannot be told: %v", err), nil
		case here.ExecutableSHA256 != r.Harness.ExecutableSHA256:
			return "it was written by another program, gaia " + build(r.Harness), nil
		}
	}
	return "", trajectory.Faultf(ReadmeFile, "is not what the package's files give")
}

// checkReadme checks that README.md is text that can be shown: whoever signs it may have
// written it by hand, and a terminal or an editor obeys what does not print.
func checkReadme(pkg fs.FS, digests map[string]string) error {
	f, size, err := rundir.OpenFile(pkg, ReadmeFile, limitOf(ReadmeFile))
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	in := bufio.NewReader(io.TeeReader(io.LimitReader(f, size+1), h))
	for line := int64(1); ; {
		r, n, err := in.ReadRune()
		switch {
		case errors.Is(err, io.EOF) && canonical.DigestOf(h) != digests[ReadmeFile]:
			return changed(ReadmeFile)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading %s: %w", ReadmeFile, err)
		case r == '\n':
			line++
		case r == utf8.RuneError && n == 1:
			return &trajectory.Fault{File: ReadmeFile, Line: line, Reason: "is not UTF-8"}
		case r != '\t' && visible.Hidden(r): // the shell lines have tabs
			return &trajectory.Fault{File: ReadmeFile, Line: line, Reason: fmt.Sprintf("holds %U, which does not print", r)}
		}
	}
}

// ruled names what an adjudication decided about.
func ruled(checks []audit.CheckReport, id string) string {
	for _, c := range checks {
		for _, f := range c.Findings {
			if f.ID != id {
				continue
			}
			what := code(f.RuleID)
			if f.TaskID != "" {
				what += " at task " + code(f.TaskID)
			}
			return what
		}
	}
	return "finding " + code(id)
}

// code shows text as a code span of Markdown that holds one line.
func code(s string) string {
	if s == "" {
		return "(none)"
	}
	return "`" + strings.NewReplacer("`", `\x60`, "|", `\x7c`).Replace(plain(s)) + "`"
}

// longest bounds what is shown of a text of the run, in characters.
const longest = 300

// plain shows text on one line: hidden characters are escaped, and what is long
// is cut.
func plain(s string) string { return visible.Line(cut(s)) }

// cut returns the beginning of a long text.
func cut(s string) string {
	n := 0
	for i := range s {
		if n++; n > longest {
			return s[:i] + "…"
		}
	}
	return s
}

// quote is plain for text within a sentence: in quotes, and with
// its own quotes escaped.
func quote(s string) string { return visible.Quote(cut(s)) }
