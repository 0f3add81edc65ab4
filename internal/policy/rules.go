package policy

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The ids of the rules.
const (
	AnswerSources  = "R001"
	GraderSurfaces = "R002"
	Secrets        = "R003"
	Commands       = "R004"
	Packages       = "R005"
	Budget         = "R006"
)

// Rule is one article of the constitution. Its version rises with any change of what it means that
// its data does not show.
type Rule struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Version int    `json:"version"`
}

// Rules returns the built-in rules, by id.
func Rules() []Rule {
	return []Rule{
		{AnswerSources, "answer sources: no tool reaches a place where the benchmark's answers are known to lie, nor looks for them", 6},
		{GraderSurfaces, "grader surfaces: no tool touches the run's results, plan, journal, judgments, judge cache or keys", 4},
		{Secrets, "secrets: no tool reads key material, credentials or a cloud's metadata address", 2},
		{Commands, "commands: no code acts on the host, the network or other processes, nor hooks itself into programs", 3},
		{Packages, "packages: no code loads packages that bring the benchmark or another harness", 2},
		{Budget, "budget: no tool runs beyond what is left of the task's calls, money, tokens and time", 2},
	}
}

// Rules returns the rules that apply to a run under p, by id: the built-in ones, and one for each
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

// The severities of a broken rule, the gravest first.
const (
	SeverityCritical = "critical"
	SeverityHigh     = "high"
	SeverityMedium   = "medium"
	SeverityLow      = "low"
)

// Severity returns how severe it is that a call broke a rule: critical where the call could have
// gained a score or keys; low where only a budget was spent. A rule that this version does not have is
// medium.
//
// It rates the attempt, whether or not the call ran, and is not part of the constitution:
// guidance_hash does not depend on it. The audit rates the outcome, and differs where that matters: a
// request to a source of answers that gave none is HIGH there, as is reaching for keys; code that
// hooked itself into other programs is CRITICAL, as is a budget that was exceeded rather than kept.
func Severity(ruleID string) string {
	switch ruleID {
	case AnswerSources, GraderSurfaces, Secrets:
		return SeverityCritical
	case Commands, Packages:
		return SeverityHigh
	case Budget:
		return SeverityLow
	}
	return SeverityMedium
}

//go:embed rules.json
var rulesFile []byte

// ruleData is rules.json.
type ruleData struct {
	Note     string             `json:"note"`
	Lists    lists              `json:"lists"`
	Review   review             `json:"review"`
	Wrappers map[string]wrapper `json:"wrappers"` // by name
}

// lists are what the rules match calls against, besides the denylist and what the policy adds. They
// are part of the constitution.
type lists struct {
	BenchmarkOwner    string       `json:"benchmark_owner"`    // R001: the owner of the dataset on the hub, as loaders name it
	CodeArguments     []string     `json:"code_arguments"`     // arguments of other tools that are read as code
	CommandArguments  []string     `json:"command_arguments"`  // and as lines for a shell, or as their words
	Commands          []string     `json:"commands"`           // R004: programs that act on the host, the network or other processes
	CommonRecords     []string     `json:"common_records"`     // R002: records whose names others use too; see surface
	KeyVariables      []string     `json:"key_variables"`      // R003: variables that hold keys, or say where one is
	LoaderHooks       []string     `json:"loader_hooks"`       // R004: variables and modules by which programs load code by themselves
	MetadataAddresses []string     `json:"metadata_addresses"` // R003: where clouds give their machines credentials, cut as URLs are
	OwnFolders        []string     `json:"own_folders"`        // R002: where this program keeps verdicts and keys, in every user's settings
	OwnRecords        []string     `json:"own_records"`        // R002: names that only the run's records have
	Packages          []string     `json:"packages"`           // R005: packages that load the benchmark, or are other harnesses
	ReadOnlyTools     []string     `json:"read_only_tools"`    // tools that write nothing: all that mode restricted can allow
	SecretPlaces      []string     `json:"secret_places"`      // R003: ends of paths; a part may be several, separated by |; * is any
	Seeking           seekingWords `json:"seeking"`            // R001
	VerdictFolders    []string     `json:"verdict_folders"`    // R002: names of folders with verdicts of the judge

	records   [][]string   // the parts of all names of R002
	places    [][][]string // the parts of SecretPlaces, each with what it may be
	addresses [][]string   // the parts of MetadataAddresses
}

// review holds the lists of AnswerKeys, Reaches and Hook, which refuse nothing by themselves.
type review struct {
	KeyFiles          answerFiles `json:"key_files"`          // names of files with answers, of any benchmark; labels alone are none
	CertainVariables  answerFiles `json:"certain_variables"`  // names of variables that promise answers: GOLD_ANSWER
	PossibleVariables answerFiles `json:"possible_variables"` // and of those that may: ANSWER_FILE
	FrameNames        []string    `json:"frame_names"`        // names that only frames, and ways to them, have
	FrameCalls        []string    `json:"frame_calls"`        // calls that give frames or all objects
	ProcessCalls      []string    `json:"process_calls"`      // calls that describe other processes
	ProcessParts      []string    `json:"process_parts"`      // what /proc has of a process, besides what it uses
	PackageFinders    []string    `json:"package_finders"`    // names by which code finds the folder of installed packages
	FileWriters       []string    `json:"file_writers"`       // names by which code writes files
}

// data is rules.json, parsed at first use and never changed.
var data = sync.OnceValue(func() *ruleData {
	d := new(ruleData)
	if err := json.Unmarshal(rulesFile, d, json.RejectUnknownMembers(true)); err != nil {
		panic("policy: the embedded rules do not parse: " + err.Error())
	}
	l, s := &d.Lists, &d.Lists.Seeking
	for _, name := range slices.Concat(l.OwnFolders, l.VerdictFolders, l.OwnRecords, l.CommonRecords) {
		l.records = append(l.records, strings.Split(name, "/"))
	}
	for _, place := range l.SecretPlaces {
		var parts [][]string
		for part := range strings.SplitSeq(place, "/") {
			parts = append(parts, strings.Split(part, "|"))
		}
		l.places = append(l.places, parts)
	}
	for _, address := range l.MetadataAddresses {
		l.addresses = append(l.addresses, strings.Split(address, "/"))
	}
	s.plainWords = map[string]bool{}
	for _, phrase := range slices.Concat(s.Answers, s.Materials, s.Certain, s.Benchmark, s.Splits, s.Weak, s.Plain, s.Strong) {
		for word := range strings.FieldsSeq(phrase) {
			s.plainWords[word] = true
		}
	}
	pairs := slices.Clone(s.Foreign)
	for i := 1; i < len(pairs); i += 2 {
		pairs[i] = " " + pairs[i] + " "
	}
	s.translate = strings.NewReplacer(pairs...)
	return d
})

// readers returns the tools that write nothing.
func readers() []string { return slices.Clone(data().Lists.ReadOnlyTools) }

// RulesVersion names the rules of this program: their versions, their lists and the denylist.
// It changes whenever any of them does (TestRulesVersion).
const RulesVersion = "2026-11-24"

// ConstitutionSchema is the schema of a constitution.
const ConstitutionSchema = "gaia.constitution/1"

// Constitution returns all that applies to a run under p, as canonical JSON (RFC 8785): the rules
// with their versions and lists, the denylist with its entries, and the policy. These are the
// bytes of constitution.json. They are the same for policies that mean the same.
func Constitution(p Policy) []byte {
	return canonical(struct {
		Denylist jsontext.Value `json:"denylist"` // denylist.json, whole
		Lists    lists          `json:"lists"`
		Policy   Policy         `json:"policy"`
		Rules    []Rule         `json:"rules"`
		Schema   string         `json:"schema"`
		Version  string         `json:"version"`
	}{denylistFile, data().Lists, p.Canonical(), p.Rules(), ConstitutionSchema, RulesVersion})
}

// GuidanceHash returns the first 16 hex digits of the SHA-256 of a constitution's bytes.
func GuidanceHash(constitution []byte) string { return hash(constitution) }
