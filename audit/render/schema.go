package render

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/gaia-harness/gaia/audit"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns the JSON Schema (2020-12) of a report, made from its Go types. It is strict: no member that a
// report does not have, no word that is not one of its words. That a conclusion follows from the findings, no
// schema can say; see [audit.DecodeReport].
func Schema() ([]byte, error) {
	s, err := schema()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(s, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("writing the schema of a report: %w", err)
	}
	return append(b, '\n'), nil
}

func schema() (*jsonschema.Schema, error) {
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
	return s, nil
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
