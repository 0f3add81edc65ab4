package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/selection"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// DecodeManifest reads manifest.json, with a *trajectory.Fault if it is not what Encode writes or contradicts itself.
func Decode(data []byte) (Plan, error) {
	var m Plan
	if err := checkSchema(data); err != nil {
		return Plan{}, err
	}
	if err := canonical.Decode(data, &m); err != nil {
		return Plan{}, trajectory.Faultf(ManifestFile, "%v", err)
	}
	if m.Schema != manifestSchema {
		return Plan{}, trajectory.Faultf(ManifestFile, "schema is %q, not %q", m.Schema, manifestSchema)
	}
	if id, err := ulid.ParseStrict(m.RunID); err != nil || id.String() != m.RunID {
		return Plan{}, trajectory.Faultf(ManifestFile, "run_id is not a ULID") // it becomes part of file names
	}
	for _, p := range m.Prompts {
		if p.SHA256 != canonical.Digest([]byte(p.Text)) {
			return Plan{}, trajectory.Faultf(ManifestFile, "the digest of the template %q is not that of its text", p.ID)
		}
	}
	for _, check := range []func(Plan) error{checkPolicy, checkEvidence, checkVoting, checkNames, checkLimits, checkSizes, checkTasks, checkDataset} {
		if err := check(m); err != nil {
			return Plan{}, err
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
		return nil // what is no plan at all is for the strict decoder to refuse
	}
	return &trajectory.Fault{
		File:   ManifestFile,
		Reason: fmt.Sprintf("schema is %q, which %s reads and this version does not", earlier, reader),
		Hint:   fmt.Sprintf("build %s from the commit that 'jq -r .harness.commit %s' prints", reader, ManifestFile),
	}
}

// checkPolicy: the policy is in its one form, and the one that the rest of the plan speaks of.
func checkPolicy(m Plan) error {
	form, err := canonical.Encode(m.Policy.Canonical())
	if err != nil {
		return trajectory.Faultf(ManifestFile, "policy: %v", err)
	}
	if stored, err := canonical.Encode(m.Policy); err != nil || !bytes.Equal(stored, form) {
		return trajectory.Faultf(ManifestFile, "the lists of the policy are not sorted")
	}
	if m.Policy.Hash() != m.PolicyHash || string(m.Policy.Mode) != m.PolicyMode {
		return trajectory.Faultf(ManifestFile, "policy_hash or policy_mode is not that of the policy")
	}
	if digest := m.ConstitutionSHA256; !canonical.IsDigest(digest) || m.GuidanceHash != strings.TrimPrefix(digest, "sha256:")[:16] {
		return trajectory.Faultf(ManifestFile, "guidance_hash is not the beginning of constitution_sha256, a digest")
	}
	if !slices.IsSorted(m.Unconfined) || len(slices.Compact(slices.Clone(m.Unconfined))) < len(m.Unconfined) {
		return trajectory.Faultf(ManifestFile, "unconfined is not sorted")
	}
	if !slices.IsSorted(m.Approved) || len(slices.Compact(slices.Clone(m.Approved))) < len(m.Approved) {
		return trajectory.Faultf(ManifestFile, "approved is not sorted")
	}
	for _, t := range m.Tools {
		if err := checkServer(t, m); err != nil {
			return err
		}
		if (t.Schema != "") != (t.Server != "") || t.Schema != "" && canonical.Digest([]byte(t.Schema)) != t.SchemaSHA256 {
			return trajectory.Faultf(ManifestFile, "the schema of the tool %q is not what its digest is of, or not that of a server's tool", t.Name)
		}
	}
	if m.SubmitIntent && len(m.Unconfined) > 0 {
		return trajectory.Faultf(ManifestFile, "is of a run to be submitted with tools outside of the sandbox")
	}
	return nil
}

// checkServer: the plan says of each server that is a program what it reaches and which variables it is given, and of
// no other tool.
func checkServer(t ToolPlan, m Plan) error {
	program := t.Server != "" && !t.Remote()
	switch {
	case !program && (t.Network != "" || len(t.Env) > 0):
		return trajectory.Faultf(ManifestFile, "the tool %q has a network or variables and is not of a server that is a program", t.Name)
	case program && t.Network != NetworkNone && t.Network != NetworkHost:
		return trajectory.Faultf(ManifestFile, "the network of the tool %q is %q", t.Name, t.Network)
	case program && t.Network != NetworkHost && slices.Contains(m.Unconfined, t.Server):
		return trajectory.Faultf(ManifestFile, "the tool %q is of a server outside of the sandbox that has no network", t.Name)
	case t.Network == NetworkHost && m.SubmitIntent:
		return trajectory.Faultf(ManifestFile, "is of a run to be submitted with a server that has the network")
	case !slices.IsSorted(t.Env) || len(slices.Compact(slices.Clone(t.Env))) < len(t.Env):
		return trajectory.Faultf(ManifestFile, "the variables of the tool %q are not sorted", t.Name)
	}
	for _, name := range t.Env {
		if !regexp.MustCompile(EnvName).MatchString(name) {
			return trajectory.Faultf(ManifestFile, "the tool %q is given a variable that is no name", t.Name)
		}
	}
	return nil
}

// EnvName is what a variable of a server may be called.
const EnvName = `^[A-Za-z_][A-Za-z0-9_]{0,127}$`

func checkEvidence(m Plan) error {
	switch m.Evidence {
	case EvidenceHeads, EvidenceBodies:
	case EvidenceHashes:
		if m.SubmitIntent {
			return trajectory.Faultf(ManifestFile, "is of a run to be submitted that records hashes only")
		}
	default:
		return trajectory.Faultf(ManifestFile, "evidence is %q", m.Evidence)
	}
	switch m.Cassette {
	case "", CassetteRecord:
	case CassetteReplay:
		if m.SubmitIntent {
			return trajectory.Faultf(ManifestFile, "is of a run to be submitted that asks no model")
		}
	default:
		return trajectory.Faultf(ManifestFile, "cassette is %q", m.Cassette)
	}
	return nil
}

// MaxVotingAttempts bounds how many answers to a task a plan can gather.
const MaxVotingAttempts = 100

func checkVoting(m Plan) error {
	v := m.Voting
	switch {
	case v.Attempts < 1 || v.Attempts > MaxVotingAttempts:
		return trajectory.Faultf(ManifestFile, "votes with %d attempts, not with 1 to %d", v.Attempts, MaxVotingAttempts)
	case v.Rule != VoteFirst && v.Rule != VoteMajority:
		return trajectory.Faultf(ManifestFile, "votes by the rule %q, which this version does not know", v.Rule)
	case (v.Rule == VoteFirst) != (v.Attempts == 1):
		return trajectory.Faultf(ManifestFile, "votes by the rule %q with %d attempts", v.Rule, v.Attempts)
	}
	return nil
}

// checkNames wants the other names of models in order, each once.
func checkNames(m Plan) error {
	names := m.Model.ServedAs
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) < len(names) {
		return trajectory.Faultf(ManifestFile, "served_as is not sorted")
	}
	if slices.Contains(names, "") {
		return trajectory.Faultf(ManifestFile, "served_as has an empty name")
	}
	return nil
}

func checkLimits(m Plan) error {
	b, model := m.Budgets, m.Model
	if min(b.CostMicroUSD, b.RunCostMicroUSD, b.Tokens, b.WallMs) < 0 ||
		min(b.ToolCalls, b.Turns, model.ContextWindow, model.MaxTokens, m.Retry.AttemptsPerTask, m.Retry.CallTries, m.Retry.FreeReattempts) < 0 {
		return trajectory.Faultf(ManifestFile, "has a limit below 0")
	}
	return nil
}

// Limits of a plan. They bound what an audit of it costs: it looks for each task in each template.
const (
	MaxTasks     = 50_000
	MaxTools     = 1024
	MaxPrompts   = 64
	MaxTemplates = 1 << 20   // bytes of all templates
	MaxLookups   = 128 << 20 // bytes of all templates, times the number of tasks
)

// checkSizes checks the numbers of members of a plan, and the sizes of its texts.
func checkSizes(m Plan) error {
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
		{templates * len(m.Tasks), MaxLookups, "bytes of templates times tasks"},
	} {
		if is.n > is.most {
			return trajectory.Faultf(ManifestFile, "has %d %s, and at most %d are verified", is.n, is.what, is.most)
		}
	}
	return nil
}

// checkTasks checks that the tasks are of the split and each stands there once.
func checkTasks(m Plan) error {
	if len(m.Tasks) == 0 {
		return trajectory.Faultf(ManifestFile, "plans no task")
	}
	if ids, err := IDsDigest(m.SplitIDs); err != nil || ids != m.Dataset.IDsSHA256 || len(m.SplitIDs) != m.Dataset.SplitSize {
		return trajectory.Faultf(ManifestFile, "split_ids are not those that ids_sha256 is of")
	}
	if l := m.Dataset.Levels; min(l[0], l[1], l[2]) < 0 || l[0]+l[1]+l[2] != m.Dataset.SplitSize {
		return trajectory.Faultf(ManifestFile, "levels %d do not add up to the %d tasks of the split", l, m.Dataset.SplitSize)
	}
	if slices.Contains(m.SplitIDs, "") || len(slices.Compact(slices.Sorted(slices.Values(m.SplitIDs)))) < len(m.SplitIDs) {
		return trajectory.Faultf(ManifestFile, "split_ids has an empty id or one twice")
	}
	seen, left := make(map[string]bool, len(m.Tasks)), m.Dataset.Levels
	for _, t := range m.Tasks {
		if t.TaskID == "" || seen[t.TaskID] {
			return trajectory.Faultf(ManifestFile, "task %q is planned twice or has no id", t.TaskID)
		}
		if t.Level < 1 || t.Level > 3 || left[t.Level-1] == 0 {
			return trajectory.Faultf(ManifestFile, "task %q is of level %d, of which the split has no more", t.TaskID, t.Level)
		}
		if !canonical.IsDigest(t.QuestionSHA256) {
			return trajectory.Faultf(ManifestFile, "question_sha256 of task %q is not a digest", t.TaskID)
		}
		if t.FileSHA256 != "" && (!canonical.IsDigest(t.FileSHA256) || t.FileName == "") || t.FileBytes < 0 || t.FileBytes > 0 && t.FileSHA256 == "" {
			return trajectory.Faultf(ManifestFile, "file_sha256 or file_bytes of task %q is not that of an attachment", t.TaskID)
		}
		left[t.Level-1]--
		seen[t.TaskID] = true
	}
	return nil
}

// checkDataset checks the name of the dataset and the label of the selection.
func checkDataset(m Plan) error {
	d := m.Dataset
	if err := CheckDatasetName(d.Name); err != nil {
		return trajectory.Faultf(ManifestFile, "%v", err)
	}
	if _, err := selection.Parse(d.Selection); err != nil {
		return trajectory.Faultf(ManifestFile, "selection %q is not a label that this version knows: %v", d.Selection, err)
	}
	return nil
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
