package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// SecretError means that a plan would hold a secret. A plan is signed as it is, so nothing is taken out of it, and
// whoever is given the run reads it.
type SecretError struct {
	Where string // in the plan, itself without secrets
}

func (e *SecretError) Error() string { return "the plan would hold a secret in " + e.Where }

// NoSecret returns a *SecretError if what servers and the user say in a plan has a secret in it that redact knows. What
// else a plan holds is built in, the dataset's, or computed: a commit is no secret, though a variable called KEY may
// have it.
func NoSecret(m Plan, redact trajectory.Redactor) error {
	s := secretSearch{redact}
	for _, t := range m.Tools {
		of := fmt.Sprintf(" of the tool %q of %s", t.Name, cmp.Or(t.Server, "gaia"))
		var schema any
		if t.Schema != "" { // where escapes may hide what it says
			if err := json.Unmarshal([]byte(t.Schema), &schema); err != nil {
				return fmt.Errorf("reading the schema of the tool %q: %w", t.Name, err)
			}
		}
		switch {
		case s.hit(t.Server):
			return s.found("the server" + of)
		case slices.ContainsFunc(t.Env, s.hit):
			return s.found("a name of a variable" + of)
		case s.hit(t.Name):
			return s.found("the name" + of)
		case s.hit(t.Description):
			return s.found("the description" + of)
		case s.hit(t.Schema) || s.below(schema, "") != nil:
			return s.found("the arguments" + of)
		}
	}
	b, err := Plan{Agent: m.Agent, Approved: m.Approved, Dataset: Dataset{Name: m.Dataset.Name, Selection: m.Dataset.Selection}, Judge: m.Judge, Model: m.Model,
		Policy: m.Policy, Search: m.Search, Transcription: m.Transcription, Unconfined: m.Unconfined, Vision: m.Vision}.Encode()
	if err != nil {
		return fmt.Errorf("looking for secrets in the plan: %w", err)
	}
	var said any
	if err := json.Unmarshal(b, &said); err != nil {
		return fmt.Errorf("looking for secrets in the plan: %w", err)
	}
	return s.below(said, "")
}

type secretSearch struct{ redact trajectory.Redactor }

func (s secretSearch) hit(text string) bool {
	_, hidden := s.redact.Redact(text)
	return hidden > 0
}

func (s secretSearch) found(where string) error {
	where, _ = s.redact.Redact(where)
	return &SecretError{where}
}

// below looks at the texts of a JSON value, and at the names of its members.
func (s secretSearch) below(node any, at string) error {
	switch node := node.(type) {
	case string:
		if s.hit(node) {
			return s.found(at)
		}
	case []any:
		for i, element := range node {
			if err := s.below(element, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(node)) {
			place := name
			if at != "" {
				place = at + "." + name
			}
			if s.hit(name) {
				return s.found(place)
			}
			if err := s.below(node[name], place); err != nil {
				return err
			}
		}
	}
	return nil
}
