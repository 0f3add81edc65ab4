package render

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns the JSON Schema (2020-12) of a report, made from its Go types. It is strict: no member that a
// report does not have, no word that is not one of its words. That a conclusion follows from the findings, no
// schema can say; see [audit.DecodeReport].
func Schema() ([]byte, error) {
	words := func(all ...any) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Enum: all} }
	s, err := jsonschema.For[audit.Report](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[audit.Status]():   words(audit.Pass, audit.Fail, audit.Review, audit.Skip, audit.NotApplicable),
		reflect.TypeFor[audit.Severity](): words(audit.Critical, audit.High, audit.ToReview, audit.Info),
		reflect.TypeFor[audit.Outcome]():  words(audit.Exploited, audit.Attempted, audit.Exposure),
		reflect.TypeFor[audit.Decision](): words(audit.Void, audit.Dismiss),
	}})
	if err != nil {
		return nil, fmt.Errorf("making the schema of a report: %w", err)
	}
	strict("", s)
	name := any(audit.Schema)
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "Report of gaia audit"
	s.ID = project + "/blob/main/docs/audit-report.schema.json"
	s.Description = "audit-report.json, canonical JSON. docs/formats.md says what its members mean; gaia audit REPORT.json also checks that its conclusions follow from its findings."
	s.Properties["schema"].Const = &name
	b, err := json.Marshal(s, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("writing the schema of a report: %w", err)
	}
	return append(b, '\n'), nil
}

// digests are the members that hold digests, by their names and those of what they stand in.
var digests = regexp.MustCompile(`sha256$|(findings|adjudications)\.(id|finding)$|inputs\.(adjudications|bodies|countersignatures|rejudgments)$`)

// strict says of what stands at a path what its Go type does not: lists are never null, counts and places not
// negative, digests and times of one form.
func strict(path string, s *jsonschema.Schema) {
	if slices.Contains(s.Types, "array") {
		s.Type, s.Types = "array", nil
	}
	switch zero := 0.0; {
	case s.Type == "integer":
		s.Minimum = &zero
	case s.Type == "string" && digests.MatchString(path):
		s.Pattern = `^sha256:[0-9a-f]{64}$`
	case path == ".audited_at":
		s.Pattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$`
	}
	for member, of := range s.Properties {
		strict(path+"."+member, of)
	}
	if s.Items != nil {
		strict(path, s.Items)
	}
}

// Checks returns docs/checks.md: what the audit looks for, check by check.
func Checks() []byte {
	var out strings.Builder
	out.WriteString(`# The checks of the audit

Written by ` + "`make generate`" + ` from the checks. ` + "`gaia audit --explain AUD-5`" + ` prints one of them.

A run is *clean* if it has no open CRITICAL or HIGH finding, and no check of the gate has a gap: something that the check needed and could not
see. A REVIEW finding makes a run unclean only with ` + "`--strict`" + `. INFO findings are notes.

| check | name | gate | most severe finding | a pass means |
|---|---|---|---|---|
`)
	for _, c := range audit.Checks() {
		gate := ""
		if c.Gate {
			gate = "yes"
		}
		fmt.Fprintf(&out, "| [%s](#%s) | %s | %s | %s | %s |\n", c.ID, anchor(c), c.Name, gate, c.Severity, cell(c.Title))
	}
	for _, c := range audit.Checks() {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| rule | severity | version | it finds |\n|---|---|--:|---|\n", heading(c), sentence(c.Why))
		for _, r := range c.Rules {
			fmt.Fprintf(&out, "| `%s.%s` | %s | %d | %s |\n", c.ID, r.ID, r.Severity, r.Version, cell(r.When))
		}
		out.WriteString("\n- **What to do**: " + sentence(c.Fix) + "\n")
		for _, more := range [][2]string{{"It skips", c.Skips}, {"It does not apply", c.Absent}} {
			if more[1] != "" {
				fmt.Fprintf(&out, "- **%s** when %s\n", more[0], ended(more[1]))
			}
		}
		for _, ref := range c.References {
			out.WriteString("- See " + ref + "\n")
		}
	}
	return []byte(out.String())
}

func heading(c audit.Check) string { return c.ID + " " + c.Name }

// anchor is what GitHub calls the heading of a check.
func anchor(c audit.Check) string {
	return url.PathEscape(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading(c))), " ", "-"))
}

// sentence makes a sentence of a clause.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if s == "" {
		return ""
	}
	return string(unicode.ToUpper(first)) + ended(s[size:])
}

// ended ends a sentence that has begun.
func ended(s string) string {
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// cell keeps a text within its cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
