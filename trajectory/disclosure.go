package trajectory

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/go-json-experiment/json/jsontext"
)

// BundleType is the DSSE payload type that an evidence bundle is signed under.
const BundleType = "application/vnd.gaia-harness.evidence+json"

// MaxBundle bounds an evidence bundle, in bytes. What is larger is handed over as a package.
const MaxBundle = 256 << 20

const bundleVersion = 1

// Bundle is an evidence bundle: events of one task or of a whole run, with what ties them to the run's signed plan and
// tree head, as one canonical JSON value.
//
// Whatever has its own digest or signature is in it byte for byte, as a JSON string: the journal's lines (without their
// newlines), manifest.json, its envelope and the checkpoint. So a reader needs no encoder of ours to check them.
type Bundle struct {
	Contents
	Sealing
}

// Contents is what a bundle says. Leaf and Inclusion are members of a bundle of one task.
type Contents struct {
	Approvals         []Projection `json:"approvals"`
	ChainTransactions []struct{}   `json:"chain_transactions"` // always empty: nothing here is on a chain
	Checkpoint        string       `json:"checkpoint"`
	Events            []string     `json:"events"`
	Inclusion         *Inclusion   `json:"inclusion,omitzero"`
	Leaf              *Leaf        `json:"leaf,omitzero"`
	Manifest          string       `json:"manifest"`
	ManifestEnvelope  string       `json:"manifest_envelope"`
	PolicyVerdicts    []Projection `json:"policy_verdicts"`
	Proposals         []Projection `json:"proposals"`
	Rehearsal         bool         `json:"rehearsal,omitzero"`
	Version           int          `json:"version"`
	WorkflowID        string       `json:"workflow_id"` // run id, or run id, "/" and task id
}

// Sealing fixes a bundle: ContentHash is the digest of the canonical Contents; Signature is over the canonical Contents
// and ContentHash.
type Sealing struct {
	ContentHash string         `json:"content_hash"`
	Signature   sign.Signature `json:"signature"`
}

// Projection repeats an event for readers who look for one kind of them. It follows from the line of its seq.
type Projection struct {
	Attempt int            `json:"attempt,omitzero"`
	Payload jsontext.Value `json:"payload"`
	Seq     int64          `json:"seq"`
	TaskID  string         `json:"task_id,omitzero"`
	Turn    int            `json:"turn,omitzero"`
	Type    Type           `json:"type"`
}

// NewContents begins a bundle about a run, or about one task of it if task is not "".
func NewContents(runID, task string) Contents {
	c := Contents{Version: bundleVersion, WorkflowID: runID}
	if task != "" {
		c.WorkflowID += "/" + task
	}
	return c
}

// Workflow returns the run and the task that a bundle says to be about; task is "" for a whole run.
func (c *Contents) Workflow() (runID, task string) {
	runID, task, _ = strings.Cut(c.WorkflowID, "/")
	return runID, task
}

// Add takes the next event with its line, newline included.
func (c *Contents) Add(e Event, line []byte) error {
	c.Events = append(c.Events, string(bytes.TrimSuffix(line, []byte("\n"))))
	var list *[]Projection
	switch e.Payload.Type() {
	case TypePolicyDecision:
		list = &c.PolicyVerdicts
	case TypeToolProposed:
		list = &c.Proposals
	case TypeApprovalRequested, TypeApprovalResolved:
		list = &c.Approvals
	default:
		return nil
	}
	payload, err := canonical.Encode(e.Payload)
	if err != nil {
		return fmt.Errorf("encoding event %d: %w", e.Seq, err)
	}
	*list = append(*list, Projection{Attempt: e.Attempt, Payload: payload, Seq: e.Seq, TaskID: e.TaskID, Turn: e.Turn, Type: e.Payload.Type()})
	return nil
}

// CheckProjections checks that c repeats exactly the events that were added to again.
func (c *Contents) CheckProjections(again Contents) error {
	same := func(a, b Projection) bool {
		payload := bytes.Equal(a.Payload, b.Payload)
		a.Payload, b.Payload = nil, nil
		return payload && a.Attempt == b.Attempt && a.Seq == b.Seq && a.TaskID == b.TaskID && a.Turn == b.Turn && a.Type == b.Type
	}
	for _, list := range []struct {
		name      string
		got, want []Projection
	}{{"approvals", c.Approvals, again.Approvals}, {"policy_verdicts", c.PolicyVerdicts, again.PolicyVerdicts}, {"proposals", c.Proposals, again.Proposals}} {
		if !slices.EqualFunc(list.got, list.want, same) {
			return Faultf(list.name, "do not repeat what the events say")
		}
	}
	return nil
}

// Seal hashes and signs a bundle and returns the file.
func (c Contents) Seal(signer sign.Signer) ([]byte, error) {
	hash, signed, err := c.signed()
	if err != nil {
		return nil, err
	}
	data, err := canonical.Encode(Bundle{c, Sealing{ContentHash: hash, Signature: sign.SignTyped(signer, BundleType, signed)}})
	if err != nil {
		return nil, err
	}
	if len(data) > MaxBundle {
		return nil, errBundleTooLarge
	}
	return data, nil
}

var errBundleTooLarge = fmt.Errorf("an evidence bundle would have more than %d MiB", MaxBundle>>20)

// signed returns the content hash and the bytes that the signature is over.
func (c Contents) signed() (hash string, payload []byte, err error) {
	contents, err := canonical.Encode(c)
	if err != nil {
		return "", nil, fmt.Errorf("encoding the evidence bundle: %w", err)
	}
	hash = canonical.Digest(contents)
	payload, err = canonical.Encode(struct {
		Contents
		ContentHash string `json:"content_hash"`
	}{c, hash})
	return hash, payload, err
}

// WholeBundle names the file in a *Fault about what is no bundle at all.
const WholeBundle = "evidence bundle"

// DecodeBundle reads an evidence bundle as Seal writes it. What it says is not checked yet, nor who signed it. Anything
// else is a *Fault.
func DecodeBundle(data []byte) (Bundle, error) {
	var b Bundle
	if len(data) > MaxBundle {
		return Bundle{}, Faultf(WholeBundle, "is larger than %d MiB", MaxBundle>>20)
	}
	if err := canonical.Decode(data, &b); err != nil {
		return Bundle{}, Faultf(WholeBundle, "%v", err)
	}
	if b.Version != bundleVersion {
		return Bundle{}, Faultf("version", "is %d, not %d", b.Version, bundleVersion)
	}
	if alg := b.Signature.Alg; alg != sign.AlgEd25519 && alg != sign.AlgHMAC {
		return Bundle{}, Faultf("signature", "is by the unknown algorithm %q", alg)
	}
	if len(b.ChainTransactions) != 0 {
		return Bundle{}, Faultf("chain_transactions", "are not empty")
	}
	return b, nil
}

// CheckHash checks that the content hash is that of the contents.
func (b *Bundle) CheckHash() error {
	hash, _, err := b.signed()
	if err != nil {
		return err
	}
	if hash != b.ContentHash {
		return Faultf("content_hash", "is not that of the contents")
	}
	return nil
}

// CheckSignature checks that the bundle's signature is v's.
func (b *Bundle) CheckSignature(v sign.Verifier) error {
	_, signed, err := b.signed()
	if err != nil {
		return err
	}
	if err := b.Signature.Verify(v, BundleType, signed); err != nil {
		return Faultf("signature", "%v", err)
	}
	return nil
}

// EventsMember is the file that faults in a bundle's events name; their lines are counted in the bundle, from 1.
const EventsMember = "events"

// ReadTask reads the events of a bundle of one task and calls visit with each and its line, newline included. It checks
// each line by itself, that all are of this run and task, and their order; two that followed each other in the journal
// must still be chained. Between others were lines of other tasks, and whether none of this one's is missing the leaf
// must show. After task_committed the lines are those of another journal. It stops at the first *Fault or at visit's
// first error.
func (c *Contents) ReadTask(visit func(Event, []byte) error) error {
	runID, task := c.Workflow()
	var last Event
	var head string // digest of its line
	for i, text := range c.Events {
		refuse := func(format string, args ...any) error {
			return &Fault{File: EventsMember, Line: int64(i + 1), Reason: fmt.Sprintf(format, args...)}
		}
		if len(text) >= MaxLine {
			return refuse("longer than %d bytes", MaxLine)
		}
		line := []byte(text + "\n")
		e, err := decodeEvent(line[:len(line)-1], runID, head)
		switch {
		case err != nil:
			return refuse("%v", err)
		case e.RunID != runID:
			return refuse("belongs to run %q", e.RunID)
		case e.TaskID != task:
			return refuse("belongs to task %q", e.TaskID)
		case e.Seq <= last.Seq || e.ID <= last.ID: // seq 0 is the run's first line, and no task's
			return refuse("does not follow the one before it")
		case e.Seq == last.Seq+1 && head != "" && e.ParentHash != head:
			return refuse("does not follow the line before it: parent_hash differs")
		}
		if err := visit(e, line); err != nil {
			return err
		}
		last, head = e, canonical.Digest(line)
		if _, ends := e.Payload.(TaskCommitted); ends {
			last, head = Event{}, ""
		}
	}
	return nil
}
