package submit

import (
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/go-json-experiment/json/jsontext"
)

// leaderboardLine is a line as the leaderboard takes it.
type leaderboardLine struct {
	ModelAnswer    string `json:"model_answer"` // "" where no answer was committed, or the task is void
	ReasoningTrace string `json:"reasoning_trace"`
	TaskID         string `json:"task_id"`
}

// Leaderboard returns leaderboard.jsonl: a line a planned task, in plan order.
// Void tasks have no answer in it, which the leaderboard would pay.
func Leaderboard(run *rundir.Run, void map[string]bool) ([]byte, error) {
	var all []byte
	for _, t := range run.Tasks {
		r := run.Result(t)
		line := leaderboardLine{ReasoningTrace: r.ReasoningTrace, TaskID: r.TaskID}
		if r.ModelAnswer != nil && !void[r.TaskID] {
			line.ModelAnswer = *r.ModelAnswer
		}
		b, err := canonical.Encode(line)
		if err != nil {
			return nil, err
		}
		all = append(append(all, b...), '\n')
	}
	return all, nil
}

// scorecard returns scorecard.json. It is counted as the journal has it, as the summary
// is: that a task is void changes nothing of what it cost.
func scorecard(run *rundir.Run) ([]byte, error) {
	card, err := run.Scorecard()
	if err != nil {
		return nil, err
	}
	return card.Encode()
}

// sums returns SHA256SUMS, in the form that sha256sum -c reads.
func sums(subjects []Subject) []byte {
	var b strings.Builder
	for _, s := range subjects {
		if s.Name != SumsFile {
			b.WriteString(s.Digest.SHA256 + "  " + s.Name + "\n")
		}
	}
	return []byte(b.String())
}

// bundleType is the media type of a Sigstore bundle v0.3.
const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// bundle is a Sigstore bundle of an envelope that was signed with a key that
// the verifier has: no certificate, no log entry.
type bundle struct {
	Envelope             jsontext.Value `json:"dsseEnvelope"`
	MediaType            string         `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey struct {
			Hint string `json:"hint"` // key id
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
}

// sigstoreBundle returns attestation.sigstore.json for attestation.dsse.json.
func sigstoreBundle(envelope []byte, key sign.PublicKey) ([]byte, error) {
	b := bundle{Envelope: slices.Clone(envelope), MediaType: bundleType}
	b.VerificationMaterial.PublicKey.Hint = key.ID()
	return canonical.Encode(b)
}
