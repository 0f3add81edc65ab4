package verify

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/gaia-harness/gaia/internal/keyring"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/regular"
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
	Unsubmittable  string           `json:"unsubmittable,omitzero"` // why recording had failed; a bundle of one task cannot tell
	SignerAlg      string           `json:"signer_alg"`             // signed the bundle, or is said to where that was not checked
	SignerKeyID    string           `json:"signer_key_id"`
	SignerTrusted  bool             `json:"signer_trusted"`
	TaskID         string           `json:"task_id,omitzero"`
	Trust          string           `json:"trust"` // "ok", "unknown key" or "expired key"
}

// shownIn says that a package agrees with a bundle.
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
	trusted := e.Trust
	var verifiers []sign.Verifier
	for _, key := range trusted.All() { // whether it is trusted now is asked later
		verifiers = append(verifiers, key)
	}
	if v.HMAC != nil {
		key, err := v.HMAC()
		if err != nil {
			return nil, err
		}
		verifiers = append(verifiers, key)
	}
	var of *heldAgainst
	var err error
	if v.Packaged != "" {
		if of, err = e.openPackage(v.Packaged); err != nil {
			return nil, err
		}
		defer of.Close()
	}
	data, err := regular.Read(path, trajectory.MaxBundle)
	if err != nil {
		return nil, fmt.Errorf("reading the evidence bundle %q: %w", path, regular.Cause(err))
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
	switch by := d.Bundle.Signature; {
	case by.Alg == sign.AlgHMAC && v.HMAC == nil:
		return nil, exit.Usagef("give the key that you share with the signer by --hmac-key-file", "%s is signed with an HMAC key: %s", path, by.KeyID)
	case by.Alg != sign.AlgHMAC && v.HMAC != nil:
		return nil, exit.New(exit.Evidence, errors.New("the bundle is not signed with the HMAC key that was given, but by "+by.KeyID),
			"leave --hmac-key-file out to verify it as what it is, or ask for one that is signed with that key")
	}
	if of != nil {
		if err := of.shows(d); err != nil {
			return nil, bundleFault(path, err)
		}
	}
	word, untrusted := trusted.Of(d.Key)
	told := word + ": " + d.Key.ID()
	// The run's key is named before the bundle's, which may be the same; a bundle that the
	// given HMAC key did not sign is graver.
	switch signer, unsigned := signerTrust(path, d, trusted); {
	case untrusted == nil && unsigned != nil:
		word, told, untrusted = signer, signer+": "+d.Bundle.Signature.KeyID, unsigned
	case unsigned != nil && exit.Of(unsigned).Code == exit.Evidence:
		untrusted = exit.First(unsigned, untrusted)
	}
	var open error
	if of != nil && of.full != nil {
		open = uncounted(Dismissals(trusted, of.full.Report, of.full.Run))
	}
	out := bundleResult(d, v, word, of)
	out.Findings = findings(open)
	return &Checked{kind: "evidence bundle", Result: out, Rows: bundleRows(out, d, v, told, of), digest: canonical.Digest(data), Err: exit.First(untrusted, open),
		commitment: rundir.Signed{Complete: true, Events: d.Head.Journal.Events, Head: out.JournalHead, KeyID: out.KeyID, ManifestSHA256: out.ManifestSHA256, Root: out.Root, RunID: out.RunID}}, nil
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

// maxPublished bounds a checkpoint file, in bytes.
const MaxPublished = 4 << 10

// looksLikeBundle says of what is no bundle at all what it is, as far as its
// beginning tells: a package may have been packed by another program.
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
	return is("is no evidence bundle", verifiable)
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

// signatureUnchecked is what integrity comes to where all of a bundle holds but its
// own signature, which cannot be checked without the signer's key.
const signatureUnchecked = "signature not checked"

// bundleResult is what --json prints of a bundle; trusted is the word for its keys.
func bundleResult(d *rundir.Disclosure, v Request, trusted string, of *heldAgainst) bundleVerification {
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

// bundleRows shows the verification of a bundle; told is what they say of its keys.
func bundleRows(out bundleVerification, d *rundir.Disclosure, v Request, told string, of *heldAgainst) [][2]string {
	integrity := "ok"
	if d.Signer == nil {
		integrity = signatureUnchecked + ": without the signer's key that cannot be done; all else holds"
	}
	checkpoint := "the bundle's own; compare it with the one that was published, by --checkpoint"
	switch {
	case v.Checkpoint != nil && of != nil:
		checkpoint = "the one given, and the one in the package"
	case v.Checkpoint != nil:
		checkpoint = "the one given"
	case of != nil:
		checkpoint = "the one in the package"
	}
	rows := append(BundleRows(d), of.row(d)...)
	rows = append(rows, [2]string{"root", out.Root}, [2]string{"manifest", out.ManifestSHA256}, [2]string{"checkpoint", checkpoint},
		[2]string{"integrity", integrity}, [2]string{"trust", told})
	switch {
	case d.Signer == nil:
		rows = append(rows, [2]string{"signed by", out.SignerKeyID + ", as it says"})
	case out.SignerKeyID != out.KeyID:
		rows = append(rows, [2]string{"signed by", out.SignerKeyID})
	}
	if out.Unsubmittable != "" {
		rows = append(rows, [2]string{"unsubmittable", out.Unsubmittable})
	}
	rows = append(rows, futureRow(out.Future)...)
	return append(rows, [2]string{"shows", Shows(d)})
}

// BundleRows are what a bundle is about.
func BundleRows(d *rundir.Disclosure) [][2]string {
	rows := [][2]string{{"run", d.Manifest.RunID}}
	if d.Bundle.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", runview.RehearsalNote})
	}
	if d.Task == nil {
		return append(rows, [2]string{"tasks", fmt.Sprintf("%d: %s", len(d.Tasks), runview.Outcomes(d.Summary().Outcomes))}, [2]string{"events", fmt.Sprint(len(d.Bundle.Events))})
	}
	answer := "none"
	if t := d.Task.Counted(); t != nil && t.Answer != nil {
		answer = fmt.Sprintf("%q, committed in attempt %d", t.Answer.Answer, t.Number)
	}
	return append(rows, [2]string{"task", d.Task.Plan.TaskID}, [2]string{"outcome", d.Task.Sealed.Outcome}, [2]string{"answer", answer},
		[2]string{"attempts", fmt.Sprint(len(d.Task.Attempts))}, [2]string{"events", fmt.Sprint(len(d.Bundle.Events))},
		[2]string{"leaf", fmt.Sprintf("%s, number %d of %d", d.Leaf, d.Bundle.Inclusion.Index+1, d.Bundle.Inclusion.Size)})
}

// Shows says what a bundle is no evidence of.
func Shows(d *rundir.Disclosure) string {
	if d.Task == nil {
		return "the whole journal; what the audit found stands in the package alone"
	}
	return "this task alone; that nothing was left out of the run, only the full package shows"
}
