package rundir

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// readRules checks constitution.json of a run or package against its plan, whose signature the caller has checked, and
// returns the ids of the rules in it. It must be the file that the plan has the digest of, and hold the plan's policy;
// where it has the rules of this version, it must be what policy.Constitution returns. Any other bytes are a
// *trajectory.Fault.
func readRules(dir fs.FS, m plan.Plan) ([]string, error) {
	data, err := ReadFile(dir, plan.ConstitutionFile, plan.MaxConstitution)
	if err != nil {
		return nil, err
	}
	fault := func(reason string) ([]string, error) {
		return nil, trajectory.Faultf(plan.ConstitutionFile, "%s", reason)
	}
	if canonical.Digest(data) != m.ConstitutionSHA256 {
		return fault("is not what constitution_sha256 and guidance_hash of " + plan.ManifestFile + " are of")
	}
	var c struct {
		Policy  jsontext.Value `json:"policy"`
		Rules   []policy.Rule  `json:"rules"`
		Schema  string         `json:"schema"`
		Version string         `json:"version"`
	}
	own, rewritten := bytes.Equal(data, policy.Constitution(m.Policy)), jsontext.Value(bytes.Clone(data)) // own is canonical
	if !own && rewritten.Canonicalize() != nil || !bytes.Equal(rewritten, data) || json.Unmarshal(data, &c) != nil {
		return fault("is not canonical JSON of a constitution")
	}
	if c.Schema != policy.ConstitutionSchema {
		return fault("has another schema than " + policy.ConstitutionSchema)
	}
	if c.Version == policy.RulesVersion && !own {
		return fault("is not what the rules of version " + policy.RulesVersion + " and the plan's policy give")
	}
	if stored, err := canonical.Encode(m.Policy); err != nil || !bytes.Equal(stored, c.Policy) {
		return fault("has another policy than " + plan.ManifestFile)
	}
	ids := []string{}
	for _, r := range c.Rules {
		ids = append(ids, r.ID)
	}
	if len(ids) > maxEventList || !plan.IsSet(ids) || slices.ContainsFunc(ids, func(id string) bool { return id == "" || len(id) > 64 || strings.ContainsAny(id, " \t\n") }) {
		return fault("has no list of rules, by id")
	}
	return ids, nil
}
