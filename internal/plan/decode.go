package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/selection"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// Decode reads manifest.json. It returns a *trajectory.Fault for bytes that Encode does not write, and for a plan that
// is not valid.
func Decode(data []byte) (Plan, error) {
	var m Plan
	err := canonical.Decode(data, &m)
	if err != nil || m.Schema != manifestSchema {
		if older := checkSchema(data); older != nil {
			return Plan{}, older
		}
	}
	if err != nil {
		return Plan{}, trajectory.Faultf(ManifestFile, "%v", err)
	}
	if err := m.Validate(); err != nil {
		return Plan{}, err
	}
	// They grow with the split: a list that was decoded has room for more, and ids are most often in the same order.
	m.Tasks, m.SplitIDs = slices.Clone(m.Tasks), slices.Clone(m.SplitIDs)
	at := 0
	for i, id := range m.SplitIDs {
		if at < len(m.Tasks) && m.Tasks[at].TaskID == id {
			m.SplitIDs[i], at = m.Tasks[at].TaskID, at+1
		}
	}
	return m, nil
}

// checkSchema names the version that reads a plan of an earlier schema, whose members are not those of this one. It
// reads the schema only.
func checkSchema(data []byte) error {
	const earlier, reader = "gaia.manifest/1", "gaia 0.1.0"
	var plan struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &plan); err != nil || plan.Schema != earlier {
		return nil // the strict decoder refuses what is not a plan
	}
	return &trajectory.Fault{
		File:   ManifestFile,
		Reason: fmt.Sprintf("schema is %q, which %s reads and this version does not", earlier, reader),
		Hint:   fmt.Sprintf("build %s from the commit that 'jq -r .harness.commit %s' prints", reader, ManifestFile),
	}
}

// Validate returns a *trajectory.Fault for a signed plan whose members contradict each other or exceed a limit.
func (m Plan) Validate() error {
	for _, check := range []func(Plan) string{membersFault, policyFault, toolsFault, agentFault, limitsFault, tasksFault} {
		if reason := check(m); reason != "" {
			return trajectory.Faultf(ManifestFile, "%s", reason)
		}
	}
	return nil
}

// IsSet reports whether a list is sorted and has each member once.
func IsSet(list []string) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			return false
		}
	}
	return true
}

// MaxVotingAttempts bounds how many answers to a task a plan can gather.
const MaxVotingAttempts = 100

func membersFault(m Plan) string {
	id, err := ulid.ParseStrict(m.RunID)
	votes, served := m.Voting, m.Model.ServedAs
	switch {
	case m.Schema != manifestSchema:
		return fmt.Sprintf("schema is %q, not %q", m.Schema, manifestSchema)
	case err != nil || id.String() != m.RunID: // it becomes part of file names
		return "run_id is not a ULID"
	case !slices.Contains([]string{EvidenceHeads, EvidenceBodies, EvidenceHashes}, m.Evidence):
		return fmt.Sprintf("evidence is %q", m.Evidence)
	case m.Evidence == EvidenceHashes && m.SubmitIntent:
		return "is of a run to be submitted that records hashes only"
	case !slices.Contains([]string{"", CassetteRecord, CassetteReplay}, m.Cassette):
		return fmt.Sprintf("cassette is %q", m.Cassette)
	case m.Cassette == CassetteReplay && m.SubmitIntent:
		return "is of a run to be submitted that asks no model"
	case m.Shards < 0 || m.Shards > min(MaxShards, len(m.Tasks)):
		return fmt.Sprintf("is divided into %d shards, not into 1 for each task at most, or %d", m.Shards, MaxShards)
	case votes.Attempts < 1 || votes.Attempts > MaxVotingAttempts:
		return fmt.Sprintf("votes with %d attempts, not with 1 to %d", votes.Attempts, MaxVotingAttempts)
	case votes.Rule != VoteFirst && votes.Rule != VoteMajority:
		return fmt.Sprintf("votes by the rule %q, which this version does not know", votes.Rule)
	case (votes.Rule == VoteFirst) != (votes.Attempts == 1):
		return fmt.Sprintf("votes by the rule %q with %d attempts", votes.Rule, votes.Attempts)
	case !IsSet(served):
		return "served_as is not sorted"
	case slices.Contains(served, ""):
		return "served_as has an empty name"
	}
	for _, p := range m.Prompts {
		if p.SHA256 != canonical.Digest([]byte(p.Text)) {
			return fmt.Sprintf("the digest of the template %q is not that of its text", p.ID)
		}
	}
	return ""
}

// policyFault checks that the policy has its one form, and is the policy that the other members name.
func policyFault(m Plan) string {
	form, err := canonical.Encode(m.Policy.Canonical())
	if err != nil {
		return fmt.Sprintf("policy: %v", err)
	}
	stored, err := canonical.Encode(m.Policy)
	switch digest := m.ConstitutionSHA256; {
	case err != nil || !bytes.Equal(stored, form):
		return "the lists of the policy are not sorted"
	case m.Policy.Hash() != m.PolicyHash || string(m.Policy.Mode) != m.PolicyMode:
		return "policy_hash or policy_mode is not that of the policy"
	case !canonical.IsDigest(digest) || m.GuidanceHash != strings.TrimPrefix(digest, "sha256:")[:16]:
		return "guidance_hash is not the beginning of constitution_sha256, a digest"
	case !IsSet(m.Unconfined):
		return "unconfined is not sorted"
	case !IsSet(m.Approved):
		return "approved is not sorted"
	case m.SubmitIntent && len(m.Unconfined) > 0:
		return "is of a run to be submitted with tools outside of the sandbox"
	}
	return ""
}

// EnvName matches what a variable of a server may be called.
var EnvName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`) })

// toolsFault checks the tools of servers. Of a server that is a program, and of no other tool, the plan has the network
// and the names of its variables.
func toolsFault(m Plan) string {
	for _, t := range m.Tools {
		program := t.Server != "" && !t.Remote()
		switch {
		case !program && (t.Network != "" || len(t.Env) > 0):
			return fmt.Sprintf("the tool %q has a network or variables and is not of a server that is a program", t.Name)
		case program && t.Network != NetworkNone && t.Network != NetworkHost:
			return fmt.Sprintf("the network of the tool %q is %q", t.Name, t.Network)
		case program && t.Network != NetworkHost && slices.Contains(m.Unconfined, t.Server):
			return fmt.Sprintf("the tool %q is of a server outside of the sandbox that has no network", t.Name)
		case t.Network == NetworkHost && m.SubmitIntent:
			return "is of a run to be submitted with a server that has the network"
		case !IsSet(t.Env):
			return fmt.Sprintf("the variables of the tool %q are not sorted", t.Name)
		case slices.ContainsFunc(t.Env, func(name string) bool { return !EnvName().MatchString(name) }):
			return fmt.Sprintf("the tool %q is given a variable that is no name", t.Name)
		case (t.Schema != "") != (t.Server != ""), t.Schema != "" && canonical.Digest([]byte(t.Schema)) != t.SchemaSHA256:
			return fmt.Sprintf("the schema of the tool %q is not what its digest is of, or not that of a server's tool", t.Name)
		}
	}
	return ""
}

// Limits of a plan. They bound what an audit of it costs: it looks for each task in each template that is not of its version.
const (
	MaxTasks     = 150_000
	MaxTools     = 1024
	MaxPrompts   = 64
	MaxTemplates = 1 << 20   // bytes of all templates
	maxLookups   = 128 << 20 // bytes of all templates above ownTemplates, times the number of tasks
	ownTemplates = 4 << 10   // this program's, in which the audit looks for nothing, have 3.5 kB
)

// limitsFault checks the signs of the budgets, the numbers of members, and the sizes of texts.
func limitsFault(m Plan) string {
	b, model := m.Budgets, m.Model
	if min(b.CostMicroUSD, b.RunCostMicroUSD, b.Tokens, b.WallMs) < 0 || min(b.ToolCalls, b.Turns, model.ContextWindow,
		model.MaxTokens, m.Retry.AttemptsPerTask, m.Retry.CallTries, m.Retry.FreeReattempts) < 0 {
		return "has a limit below 0"
	}
	templates := 0
	for _, p := range m.Prompts {
		templates += len(p.Text)
	}
	for _, is := range []struct {
		n, most int
		what    string
	}{
		{len(m.Tasks), MaxTasks, "tasks"},
		{len(m.Tools), MaxTools, "tools"},
		{len(m.Prompts), MaxPrompts, "templates"},
		{templates, MaxTemplates, "bytes of templates"},
		{max(0, templates-ownTemplates) * len(m.Tasks), maxLookups, fmt.Sprintf("bytes of templates above %d, times tasks", ownTemplates)},
	} {
		if is.n > is.most {
			return fmt.Sprintf("has %d %s, and at most %d are verified", is.n, is.what, is.most)
		}
	}
	return ""
}

// tasksFault checks the dataset, and that each planned task is one of the split and is planned once.
func tasksFault(m Plan) string {
	d, left := m.Dataset, m.Dataset.Levels
	ids, err := IDsDigest(m.SplitIDs)
	switch {
	case len(m.Tasks) == 0:
		return "plans no task"
	case err != nil || ids != d.IDsSHA256 || len(m.SplitIDs) != d.SplitSize:
		return "split_ids are not those that ids_sha256 is of"
	case min(left[0], left[1], left[2]) < 0 || left[0]+left[1]+left[2] != d.SplitSize:
		return fmt.Sprintf("levels %d do not add up to the %d tasks of the split", left, d.SplitSize)
	case slices.Contains(m.SplitIDs, "") || !IsSet(slices.Sorted(slices.Values(m.SplitIDs))):
		return "split_ids has an empty id or one twice"
	}
	seen := make(map[string]bool, len(m.Tasks))
	for _, t := range m.Tasks {
		switch {
		case t.TaskID == "" || seen[t.TaskID]:
			return fmt.Sprintf("task %q is planned twice or has no id", t.TaskID)
		case t.Level < 1 || t.Level > 3 || left[t.Level-1] == 0:
			return fmt.Sprintf("task %q is of level %d, of which the split has no more", t.TaskID, t.Level)
		case !canonical.IsDigest(t.QuestionSHA256):
			return fmt.Sprintf("question_sha256 of task %q is not a digest", t.TaskID)
		case t.FileSHA256 != "" && (!canonical.IsDigest(t.FileSHA256) || t.FileName == ""), t.FileBytes < 0,
			t.FileBytes > 0 && t.FileSHA256 == "":
			return fmt.Sprintf("file_sha256 or file_bytes of task %q is not that of an attachment", t.TaskID)
		}
		left[t.Level-1]--
		seen[t.TaskID] = true
	}
	if err := CheckDatasetName(d.Name); err != nil {
		return err.Error()
	}
	f, err := selection.Parse(d.Selection)
	if err != nil {
		return fmt.Sprintf("selection %q is not a label that this version knows: %v", d.Selection, err)
	}
	return errorsFault(m, f.ErrorsOf)
}

// errorsFault checks that errors_of and the label of the selection name the same run, and that the plan is of no run to be
// submitted: its tasks were chosen by their outcome.
func errorsFault(m Plan, labelled string) string {
	of := m.Dataset.ErrorsOf
	if of == (ErrorsOf{}) && labelled == "" {
		return ""
	}
	id, err := ulid.ParseStrict(of.RunID)
	switch {
	case of.RunID != labelled:
		return fmt.Sprintf("errors_of names the run %q, and selection %q", of.RunID, labelled)
	case err != nil || id.String() != of.RunID:
		return "the run_id of errors_of is not a ULID"
	case of.RunID == m.RunID:
		return "errors_of names its own run"
	case !canonical.IsDigest(of.ManifestSHA256):
		return "the manifest_sha256 of errors_of is not a digest"
	case of.Planned < len(m.Tasks) || of.Planned > MaxTasks:
		return fmt.Sprintf("plans %d tasks of a run of %d", len(m.Tasks), of.Planned)
	case m.SubmitIntent:
		return "is of a run to be submitted whose tasks were chosen by their outcome in another run"
	}
	return ""
}

// CheckSelection checks that the planned tasks, in their order, are those that the label of the selection gives, as far
// as the plan's split_ids and levels show it.
func CheckSelection(m Plan) error {
	d := m.Dataset
	f, err := selection.Parse(d.Selection)
	if err != nil {
		return trajectory.Faultf(ManifestFile, "selection %q: %v", d.Selection, err)
	}
	planned := make([]selection.Task, len(m.Tasks))
	for i, t := range m.Tasks {
		planned[i] = selection.Task{ID: t.TaskID, Level: t.Level}
	}
	if err := f.Admits(planned, m.SplitIDs, d.Levels); err != nil {
		return trajectory.Faultf(ManifestFile, "the planned tasks are not those of selection %q: %v", d.Selection, err)
	}
	return nil
}
