package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"github.com/gaia-harness/gaia/internal/keyring"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
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
func (a *app) checkBundle(ctx context.Context, path string, v verifying) (*checked, error) {
	if v.dataset != "" {
		packaged := "PACKAGE"
		if v.packaged != "" {
			packaged = quoteArg(v.packaged)
		}
		return nil, usage(fmt.Sprintf("a bundle has no scores; of the run's package: gaia verify --dataset %s %s", quoteArg(v.dataset), packaged),
			"--dataset is for packages, which it scores and audits again")
	}
	trusted, err := a.trustedKeys(v.trusted)
	if err != nil {
		return nil, err
	}
	var verifiers []sign.Verifier
	for _, key := range trusted.All() { // whether it is trusted now is asked later
		verifiers = append(verifiers, key)
	}
	if v.hmacKey != "" {
		key, err := sharedKey(v.hmacKey)
		if err != nil {
			return nil, err
		}
		verifiers = append(verifiers, key)
	}
	published, err := v.published()
	if err != nil {
		return nil, err
	}
	var of *heldAgainst
	if v.packaged != "" {
		if of, err = a.openPackage(ctx, v.packaged); err != nil {
			return nil, err
		}
		defer of.Close()
	}
	data, err := readAtMost(path, trajectory.MaxBundle)
	if err != nil {
		return nil, fmt.Errorf("reading the evidence bundle %q: %w", path, unwrapPath(err))
	}
	if err := looksLikeBundle(path, data); err != nil {
		return nil, err
	}
	d, err := rundir.VerifyBundle(data, verifiers...)
	unknown := (*rundir.UnknownSignerError)(nil)
	if err != nil && !errors.As(err, &unknown) {
		return nil, bundleFault(path, err)
	}
	if published != nil && d.Bundle.Checkpoint != string(published) {
		return nil, bundleFault(path, trajectory.Faultf("checkpoint", "is not the one in %q", v.checkpoint))
	}
	switch by := d.Bundle.Signature; {
	case by.Alg == sign.AlgHMAC && v.hmacKey == "":
		return nil, usage("give the key that you share with the signer by --hmac-key-file", "%s is signed with an HMAC key: %s", path, by.KeyID)
	case by.Alg != sign.AlgHMAC && v.hmacKey != "":
		return nil, fail(exitEvidence, errors.New("the bundle is not signed with the HMAC key that was given, but by "+by.KeyID),
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
	case unsigned != nil && classify(unsigned).Code == exitEvidence:
		untrusted = firstOf(unsigned, untrusted)
	}
	var open error
	if of != nil && of.full != nil {
		open = uncounted(reportDismissals(trusted, of.full.Report, of.full.Run))
	}
	out := bundleResult(d, v, word, of)
	out.Findings = findings(open)
	return &checked{kind: "evidence bundle", shown: out, print: func() error { return a.printBundle(out, d, v, told, of) }, digest: canonical.Digest(data), err: firstOf(untrusted, open),
		commitment: rundir.Signed{Complete: true, Events: d.Head.Journal.Events, Head: out.JournalHead, KeyID: out.KeyID, ManifestSHA256: out.ManifestSHA256, Root: out.Root, RunID: out.RunID}}, nil
}

// signerTrust is trust.of of who signed the bundle itself.
func signerTrust(path string, d *rundir.Disclosure, trusted keyring.Trust) (string, error) {
	by := d.Bundle.Signature
	key, public := d.Signer.(sign.PublicKey)
	switch {
	case public:
		return trusted.Of(key)
	case d.Signer != nil: // the key that was given by --hmac-key-file
		return keyring.OK, nil
	case by.Alg == sign.AlgHMAC:
		return keyring.Unknown, fail(exitEvidence, fmt.Errorf("%s is signed with another HMAC key than the one given: %s", path, by.KeyID),
			"give the key that the signer used")
	}
	// The plan's key signed all that the bundle shows. Only the bundle's own signature
	// stays unchecked, so nothing speaks for tampering.
	return keyring.Unknown, fail(exitUntrusted, fmt.Errorf("%s holds together, but names as its signer a key you do not trust: %s", path, by.KeyID),
		"if you know who holds that key, put its public line into a file and give it as --trusted-key, or to 'gaia key trust'")
}

// maxPublished bounds a checkpoint file, in bytes.
const maxPublished = 4 << 10

// looksLikeBundle says of what is no bundle at all what it is, as far as its
// beginning tells: a package may have been packed by another program.
func looksLikeBundle(path string, data []byte) error {
	const magicAt, whole = 257, "ask for the package as 'gaia submit' wrote it, a folder or a .tar.gz"
	is := func(what, hint string) error { return fail(exitEvidence, trajectory.Faultf(path, "%s", what), hint) }
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
		return fail(exitEvidence, err, verifiable)
	}
	return err
}

// signatureUnchecked is what integrity comes to where all of a bundle holds but its
// own signature, which without the signer's key nobody can check.
const signatureUnchecked = "signature not checked"

// bundleResult is what --json prints of a bundle; trusted is the word for its keys.
func bundleResult(d *rundir.Disclosure, v verifying, trusted string, of *heldAgainst) bundleVerification {
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
	case v.checkpoint != "":
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

// printBundle prints what a bundle shows; told is what the table says of its keys.
func (a *app) printBundle(out bundleVerification, d *rundir.Disclosure, v verifying, told string, of *heldAgainst) error {
	integrity := "ok"
	if d.Signer == nil {
		integrity = signatureUnchecked + ": without the signer's key that cannot be done; all else holds"
	}
	checkpoint := "the bundle's own; compare it with the one that was published, by --checkpoint"
	switch {
	case v.checkpoint != "" && of != nil:
		checkpoint = "the one given, and the one in the package"
	case v.checkpoint != "":
		checkpoint = "the one given"
	case of != nil:
		checkpoint = "the one in the package"
	}
	rows := append(disclosureRows(d), of.row(d)...)
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
	return a.printRows(append(rows, [2]string{"shows", shows(d)}))
}
