package policy

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// RulesVersion names the rules of this program: their versions, their lists and the denylist.
// It changes whenever any of them does (TestRulesVersion).
const RulesVersion = "2026-11-24"

// ConstitutionSchema is the schema of a constitution.
const ConstitutionSchema = "gaia.constitution/1"

// articles are a constitution. See [Constitution].
type articles struct {
	Denylist jsontext.Value `json:"denylist"` // denylist.json, whole
	Lists    lists          `json:"lists"`
	Policy   Policy         `json:"policy"`
	Rules    []Rule         `json:"rules"`
	Schema   string         `json:"schema"`
	Version  string         `json:"version"` // RulesVersion
}

// lists are what the rules match calls against, beside the denylist and what the policy adds.
type lists struct {
	BenchmarkOwner    string       `json:"benchmark_owner"`    // R001
	CodeArguments     []string     `json:"code_arguments"`     // arguments of other tools that are read as code
	CommandArguments  []string     `json:"command_arguments"`  // and as lines for a shell
	Commands          []string     `json:"commands"`           // R004
	CommonRecords     []string     `json:"common_records"`     // R002
	KeyVariables      []string     `json:"key_variables"`      // R003
	LoaderHooks       []string     `json:"loader_hooks"`       // R004
	MetadataAddresses []string     `json:"metadata_addresses"` // R003
	OwnFolders        []string     `json:"own_folders"`        // R002
	OwnRecords        []string     `json:"own_records"`        // R002
	Packages          []string     `json:"packages"`           // R005
	ReadOnlyTools     []string     `json:"read_only_tools"`    // all that mode restricted can allow
	SecretPlaces      []string     `json:"secret_places"`      // R003
	Seeking           seekingWords `json:"seeking"`            // R001
	VerdictFolders    []string     `json:"verdict_folders"`    // R002
}

// Constitution returns all that a run under p is held to, as canonical JSON (RFC 8785): the rules
// with their versions and lists, the denylist with its entries, and the policy. These are the
// bytes of constitution.json. They are the same for policies that mean the same.
func Constitution(p Policy) []byte {
	return canonical(articles{
		Denylist: denylistFile,
		Lists: lists{BenchmarkOwner: benchmark, CodeArguments: codeNames(), CommandArguments: commandNames(), Commands: hostCommands(), CommonRecords: commonRecords(),
			KeyVariables: keyVariables(), LoaderHooks: LoaderHooks(), MetadataAddresses: metadataAddresses(), OwnFolders: ownFolders(), OwnRecords: ownRecords(),
			Packages: harnessPackages(), ReadOnlyTools: readers(), SecretPlaces: secretPlaces(), Seeking: seeking(), VerdictFolders: verdictFolders()},
		Policy: p.Canonical(), Rules: p.Rules(), Schema: ConstitutionSchema, Version: RulesVersion,
	})
}

// GuidanceHash returns the first 16 hex digits of the SHA-256 of a constitution's bytes.
func GuidanceHash(constitution []byte) string { return hash(constitution) }

// Rules returns the rules that a run under p is held to, by id: the built-in ones, and one for each
// list of p that adds to a rule.
func (p Policy) Rules() []Rule {
	rules := Rules()
	for _, added := range []struct {
		list []string
		name string
		to   string
	}{{p.AnswerSources, "answer_sources", AnswerSources}, {p.Commands, "commands", Commands}, {p.Packages, "packages", Packages}} {
		if len(added.list) > 0 {
			rules = append(rules, Rule{added.to + ".policy", added.name + " of the policy, which " + added.to + " refuses, too", 1})
		}
	}
	slices.SortFunc(rules, func(a, b Rule) int { return strings.Compare(a.ID, b.ID) })
	return rules
}
