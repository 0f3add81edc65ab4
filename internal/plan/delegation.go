package plan

import (
	"fmt"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// DelegationFile is in the folder of a shard: the DSSE envelope of its [Delegation].
const DelegationFile = "delegation.dsse.json"

// DelegationType is the DSSE payload type of a delegation.
const DelegationType = "application/vnd.gaia-harness.delegation+json"

const delegationSchema = "gaia.delegation/1"

// MaxDelegation bounds its envelope, in bytes.
const MaxDelegation = 16 << 10

// MaxShards bounds the shards of a plan, and the journals of a run.
const MaxShards = 4096

// Delegation lets the key of a shard sign the journal of one shard of one run. The key of the plan signs it.
type Delegation struct {
	ManifestSHA256 string           `json:"manifest_sha256"`
	RunID          string           `json:"run_id"`
	Schema         string           `json:"schema"`
	Shard          trajectory.Shard `json:"shard"`
}

// NewDelegation returns the delegation of a shard of the plan with this digest.
func (m Plan) NewDelegation(manifestSHA256 string, s trajectory.Shard) Delegation {
	return Delegation{ManifestSHA256: manifestSHA256, RunID: m.RunID, Schema: delegationSchema, Shard: s}
}

// Sign returns the envelope of a delegation. The key of the plan is delegated to no shard, also not by itself.
func (d Delegation) Sign(key sign.Key) ([]byte, error) {
	if d.Shard.Key == key.Public().Line() {
		return nil, fmt.Errorf("the key of %s is that of the plan", d)
	}
	payload, err := canonical.Encode(d)
	if err != nil {
		return nil, err
	}
	return sign.Seal(key, DelegationType, payload)
}

// ReadDelegation reads the delegation of a shard of the plan with this digest, and returns the key that it names. What
// the key of the plan did not sign, or is of another plan, is a *trajectory.Fault.
func (m Plan) ReadDelegation(envelope []byte, manifestSHA256 string, planKey sign.PublicKey) (d Delegation, key sign.PublicKey, err error) {
	refuse := func(format string, args ...any) (Delegation, sign.PublicKey, error) {
		return Delegation{}, sign.PublicKey{}, trajectory.Faultf(DelegationFile, format, args...)
	}
	payload, err := sign.Unseal(envelope, DelegationType, planKey)
	if err == nil {
		err = canonical.Decode(payload, &d)
	}
	if err != nil {
		return refuse("%v", err)
	}
	switch s := d.Shard; {
	case d != m.NewDelegation(manifestSHA256, s):
		return refuse("is of another plan, or of another version")
	case s.Index < 1 || s.Index > MaxShards, s.Of != 0 && (s.Of != m.Shards || s.Index > s.Of):
		return refuse("is of shard %d of %d, which the plan does not have", s.Index, s.Of)
	}
	if key, err = sign.ParsePublicKey(d.Shard.Key); err != nil || key.Line() != d.Shard.Key {
		return refuse("its key is not one ssh-ed25519 key")
	}
	if key.Equal(planKey) { // whose tree head would pass for the run's
		return refuse("is of the key of the plan")
	}
	return d, key, nil
}

// Has reports whether the task at a place in the plan, from 0, is one of the shard. A worker can have each.
func (d Delegation) Has(task int) bool { return HasTask(d.Shard, task) }

// HasTask is [Delegation.Has] for the shard that a delegation names: tasks are dealt to the shards in turn.
func HasTask(s trajectory.Shard, task int) bool { return s.Of == 0 || task%s.Of == s.Index-1 }

// Part returns what falls to a shard of n that are divided by the number of its tasks: money in micro-USD, for one. What
// is left over goes to the first shards, one each.
func (m Plan) Part(s trajectory.Shard, n int64) int64 {
	if s.Of == 0 || len(m.Tasks) == 0 {
		return n
	}
	tasks := func(index int) int64 { // of a shard
		return int64((len(m.Tasks) - index + s.Of) / s.Of)
	}
	all, rest := int64(len(m.Tasks)), n
	share := func(index int) int64 { return n/all*tasks(index) + n%all*tasks(index)/all }
	for i := 1; i <= s.Of; i++ {
		rest -= share(i)
	}
	own := share(s.Index)
	if int64(s.Index) <= rest {
		own++
	}
	return own
}

// String names a shard for a reader: "shard 3 of 64" or "worker 3".
func (d Delegation) String() string {
	if d.Shard.Of == 0 {
		return fmt.Sprintf("worker %d", d.Shard.Index)
	}
	return fmt.Sprintf("shard %d of %d", d.Shard.Index, d.Shard.Of)
}
