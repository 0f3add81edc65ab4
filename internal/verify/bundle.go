package verify

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// bundleVerification is what verify prints of an evidence bundle with --json.
type bundleVerification struct {
	Answer         *string          `json:"answer"` // of the counted attempt; null: none committed, or a whole run
	Attempts       int              `json:"attempts,omitzero"`
	Checkpoint     string           `json:"checkpoint"`
	Complete       bool             `json:"complete"` // always: there are no bundles of other runs
	Events         int              `json:"events"`
	Future         []string         `json:"future,omitempty"`
	Findings       []string         `json:"findings"`  // what alone would have exit code 3
	Integrity      string           `json:"integrity"` // "ok" or "signature not checked"; a bundle with neither is an error
	JournalHead    string           `json:"journal_head"`
	KeyID          string           `json:"key_id"` // signed plan and checkpoint
	Leaf           *trajectory.Leaf `json:"leaf,omitzero"`
	LeafHash       string           `json:"leaf_hash,omitzero"`
	ManifestSHA256 string           `json:"manifest_sha256"`
	Outcome        string           `json:"outcome,omitzero"`
	Package        *shownIn         `json:"package,omitzero"` // left out: none was given
	Rehearsal      bool             `json:"rehearsal,omitzero"`
	Root           string           `json:"root"`
	RunID          string           `json:"run_id"`
	Unsubmittable  string           `json:"unsubmittable,omitzero"` // why recording had failed; a bundle of one task does not have it
	SignerAlg      string           `json:"signer_alg"`             // of the key that signed the bundle, by its own account where that was not checked
	SignerKeyID    string           `json:"signer_key_id"`
	SignerTrusted  bool             `json:"signer_trusted"`
	TaskID         string           `json:"task_id,omitzero"`
	Trust          string           `json:"trust"` // "ok", "unknown key" or "expired key"
}

// shownIn is a package that agrees with a bundle.
type shownIn struct {
	Name   string `json:"name"`
	Public bool   `json:"public,omitzero"`
	Row    string `json:"row"` // "rebuilt"; a package without it is an error
}

// checkBundle verifies an evidence bundle.
func (e Env) checkBundle(path string, v Request) (*Checked, error) {
	if v.Dataset != "" {
		packaged := "PACKAGE"
		if v.Packaged != "" {
			packaged = view.Quote(v.Packaged)
		}
		return nil, exit.Usagef(fmt.Sprintf("a bundle has no scores; of the run's package: gaia verify --dataset %s %s", view.Quote(v.Dataset), packaged),
			"--dataset is for packages, which it scores and audits again")
	}
	var verifiers []sign.Verifier
	for _, key := range e.Trust.All() { // whether it is trusted now is checked later
		verifiers = append(verifiers, key)
	}
	if v.HMAC != nil {
		key, err := v.HMAC()
		if err != nil {
			return nil, err
		}
		verifiers = append(verifiers, key)
	}
	var of *companion
	var err error
	if v.Packaged != "" {
		if of, err = e.openPackage(v.Packaged); err != nil {
			return nil, err
		}
		defer of.Close()
	}
	data, err := regular.Read(path, trajectory.MaxBundle)
	if err != nil {
		return nil, fmt.Errorf("reading the evidence bundle %q: %w", path, err)
	}
	if err := looksLikeBundle(path, data); err != nil {
		return nil, err
	}
	d, err := rundir.VerifyBundle(data, verifiers...)
	unknown := (*rundir.UnknownSignerError)(nil)
	if err != nil && !errors.As(err, &unknown) {
		return nil, bundleFault(path, err)
	}
	if v.Checkpoint != nil && d.Bundle.Checkpoint != string(v.Checkpoint) {
		return nil, bundleFault(path, trajectory.Faultf("checkpoint", "is not the one in %q", v.CheckpointFile))
	}
	by := d.Bundle.Signature
	switch isHMAC := by.Alg == sign.AlgHMAC; {
	case isHMAC && v.HMAC == nil:
		return nil, exit.Usagef("give the key that you share with the signer by --hmac-key-file", "%s is signed with an HMAC key: %s", path, by.KeyID)
	case !isHMAC && v.HMAC != nil:
		return nil, exit.New(exit.Evidence, errors.New("the bundle is not signed with the HMAC key that was given, but by "+by.KeyID),
			"leave --hmac-key-file out to verify it as what it is, or ask for one that is signed with that key")
	}
	if of != nil {
		if err := of.shows(d); err != nil {
			return nil, bundleFault(path, err)
		}
	}
	word, untrusted := e.Trust.Of(d.Key)
	key := d.Key.ID() // that the word is about
	// The run's key is named before the bundle's, which may be the same. A bundle that the given HMAC key did not sign is
	// reported before either.
	switch signer, unsigned := signerTrust(path, d, e.Trust); {
	case untrusted == nil && unsigned != nil:
		word, key, untrusted = signer, by.KeyID, unsigned
	case unsigned != nil && exit.Of(unsigned).Code == exit.Evidence:
		untrusted = exit.First(unsigned, untrusted)
	}
	var open error
	if of != nil && of.full != nil {
		open = uncounted(dismissals(e.Trust, of.full.Report, of.full.Run))
	}
	out := bundleResult(d, v, word, of)
	out.Findings = findings(open)
	return &Checked{kind: "evidence bundle", Result: out, Rows: bundleRows(out, d, v, word+": "+key, of), digest: canonical.Digest(data),
		Err: exit.First(untrusted, open), commitment: rundir.Signed{Complete: true, Events: d.Head.Journal.Events, Head: out.JournalHead,
			KeyID: out.KeyID, ManifestSHA256: out.ManifestSHA256, Root: out.Root, RunID: out.RunID}}, nil
}

// signerTrust is Trust.Of of who signed the bundle itself.
func signerTrust(path string, d *rundir.Disclosure, trusted keyring.Trust) (string, error) {
	by := d.Bundle.Signature
	key, public := d.Signer.(sign.PublicKey)
	switch {
	case public:
		return trusted.Of(key)
	case d.Signer != nil: // the key that was given by --hmac-key-file
		return keyring.OK, nil
	case by.Alg == sign.AlgHMAC:
		return keyring.Unknown, exit.New(exit.Evidence, fmt.Errorf("%s is signed with another HMAC key than the one given: %s", path, by.KeyID),
			"give the key that the signer used")
	}
	// The plan's key signed all that the bundle shows. Only the bundle's own signature
	// stays unchecked, so nothing speaks for tampering.
	return keyring.Unknown, exit.New(exit.Untrusted, fmt.Errorf("%s holds together, but names as its signer a key you do not trust: %s", path, by.KeyID),
		"if you know who holds that key, put its public line into a file and give it as --trusted-key, or to 'gaia key trust'")
}

// looksLikeBundle returns an error for what is no bundle at all, by its first bytes: a package may have been packed by
// another program.
func looksLikeBundle(path string, data []byte) error {
	const magicAt, whole = 257, "ask for the package as 'gaia submit' wrote it, a folder or a .tar.gz"
	is := func(what, hint string) error {
		return exit.New(exit.Evidence, trajectory.Faultf(path, "%s", what), hint)
	}
	switch {
	case bytes.HasPrefix(data, []byte("{")):
		return nil
	case bytes.HasPrefix(data, []byte("PK")):
		return is("is a zip archive, and no evidence bundle", whole)
	case len(data) > magicAt && bytes.HasPrefix(data[magicAt:], []byte("ustar")):
		return is("is a tar archive, and no evidence bundle", whole)
	}
	return is("is not an evidence bundle", verifiable)
}

// bundleFault names the bundle in what is wrong with it.
func bundleFault(path string, err error) error {
	var fault *trajectory.Fault
	if !errors.As(err, &fault) {
		return err
	}
	err = fmt.Errorf("%s: %w", path, err)
	if fault.File == trajectory.WholeBundle {
		return exit.New(exit.Evidence, err, verifiable)
	}
	return err
}

// signatureUnchecked is the integrity of a bundle of which all was verified but its own signature, which cannot be checked
// without the signer's key.
const signatureUnchecked = "signature not checked"

// bundleResult is what --json prints of a bundle; trusted is the word for its keys.
func bundleResult(d *rundir.Disclosure, v Request, trusted string, of *companion) bundleVerification {
	out := bundleVerification{Checkpoint: checkpointOwn, Complete: true, Events: len(d.Bundle.Events), Integrity: "ok", JournalHead: d.Head.Journal.Head,
		KeyID: d.Key.ID(), Leaf: d.Bundle.Leaf, ManifestSHA256: d.ManifestSHA256, Rehearsal: d.Bundle.Rehearsal, Root: d.Head.Root.String(), RunID: d.Manifest.RunID,
		SignerAlg: d.Bundle.Signature.Alg, SignerKeyID: d.Bundle.Signature.KeyID, SignerTrusted: trusted == keyring.OK, Trust: trusted, Unsubmittable: d.NotRecorded}
	if d.Signer == nil {
		out.Integrity = signatureUnchecked
	}
	var last struct {
		Timestamp string `json:"timestamp"`
	}
	if n := len(d.Bundle.Events); n > 0 && json.Unmarshal([]byte(d.Bundle.Events[n-1]), &last) == nil { // which verified
		out.Future = inFuture([2]string{"plan", d.Manifest.Created}, [2]string{"journal", last.Timestamp})
	}
	switch {
	case v.Checkpoint != nil:
		out.Checkpoint = checkpointGiven
	case of != nil:
		out.Checkpoint = checkpointPackage
	}
	if t := d.Task; t != nil {
		out.TaskID, out.Outcome, out.Attempts, out.LeafHash = t.Plan.TaskID, t.Sealed.Outcome, len(t.Attempts), d.Leaf.String()
		if counted := t.Counted(); counted != nil && counted.Answer != nil {
			out.Answer = &counted.Answer.Answer
		}
	}
	if of != nil {
		out.Package = &shownIn{Name: of.name, Public: of.public != nil, Row: "rebuilt"}
	}
	return out
}

// bundleRows describes the verification of a bundle for a person; trust is about the key that is not trusted, if one is not.
func bundleRows(out bundleVerification, d *rundir.Disclosure, v Request, trust string, of *companion) [][2]string {
	rows := view.List(BundleRows(d))
	checkpoint := "the bundle's own; compare it with the one that was published, by --checkpoint"
	switch {
	case v.Checkpoint != nil && of != nil:
		checkpoint = "the one given, and the one in the package"
	case v.Checkpoint != nil:
		checkpoint = "the one given"
	case of != nil:
		checkpoint = "the one in the package"
	}
	if of != nil {
		rows.Add("package", of.name)
		rebuilt := "rebuilt from the disclosed events, as the package says"
		if d.Task == nil {
			rebuilt = fmt.Sprintf("all %d %s", len(d.Tasks), rebuilt)
		}
		rows.Add("row", rebuilt)
	}
	rows.Add("root", out.Root)
	rows.Add("manifest", out.ManifestSHA256)
	rows.Add("checkpoint", checkpoint)
	if d.Signer == nil {
		rows.Add("integrity", signatureUnchecked+": without the signer's key that cannot be done; all else holds")
	} else {
		rows.Add("integrity", "ok")
	}
	rows.Add("trust", trust)
	switch {
	case d.Signer == nil:
		rows.Add("signed by", out.SignerKeyID+", as it says")
	case out.SignerKeyID != out.KeyID:
		rows.Add("signed by", out.SignerKeyID)
	}
	rows.AddNonEmpty("unsubmittable", out.Unsubmittable)
	addFuture(&rows, out.Future)
	rows.Add("shows", Shows(d))
	return rows
}

// BundleRows describe the content of a bundle.
func BundleRows(d *rundir.Disclosure) [][2]string {
	rows := view.List{{"run", d.Manifest.RunID}}
	if d.Bundle.Rehearsal {
		rows.Add("rehearsal", runview.RehearsalNote)
	}
	rows.AddNonEmpty(runview.ErrorsKey, runview.ErrorsNote(d.Manifest.Dataset.ErrorsOf.RunID))
	if d.Task == nil {
		rows.Addf("tasks", "%d: %s", len(d.Tasks), runview.Outcomes(d.Summary().Outcomes))
		rows.Addf("events", "%d", len(d.Bundle.Events))
		return rows
	}
	rows.Add("task", d.Task.Plan.TaskID)
	rows.Add("outcome", d.Task.Sealed.Outcome)
	if t := d.Task.Counted(); t != nil && t.Answer != nil {
		rows.Addf("answer", "%q, committed in attempt %d", t.Answer.Answer, t.Number)
	} else {
		rows.Add("answer", "none")
	}
	rows.Addf("attempts", "%d", len(d.Task.Attempts))
	rows.Addf("events", "%d", len(d.Bundle.Events))
	rows.Addf("leaf", "%s, number %d of %d", d.Leaf, d.Bundle.Inclusion.Index+1, d.Bundle.Inclusion.Size)
	return rows
}

// Shows describes the limits of what a bundle shows.
func Shows(d *rundir.Disclosure) string {
	if d.Task == nil {
		return "the whole journal; the audit's findings are in the package alone"
	}
	return "this task alone; that nothing was left out of the run, only the full package shows"
}
