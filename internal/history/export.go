package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

const (
	exportSchema = "gaia.ledger/2"
	exportType   = "application/vnd.gaia-harness.ledger+json"

	// EnvelopeSuffix ends the name of the envelope of a Parquet file, which is beside it.
	EnvelopeSuffix = ".dsse.json"

	// MaxExport bounds a Parquet file of run events, MaxEnvelope an envelope, in bytes.
	MaxExport   = 256 << 20
	MaxEnvelope = 1 << 20
)

// Export is the payload of the DSSE envelope of a file of run events.
type Export struct {
	Attempts string `json:"attempts"` // digest of the Parquet file
	Events   int64  `json:"events"`
	Key      string `json:"key"` // OpenSSH line of the key that signs
	Schema   string `json:"schema"`
}

// SealExport returns run events, ascending by their ids, as a Parquet file and its envelope.
func SealExport(events []rundir.RunEvent, key sign.Key) (data, envelope []byte, err error) {
	if err := checkEvents(events); err != nil {
		return nil, nil, err
	}
	if data, err = encodeAttempts(events, ""); err != nil {
		return nil, nil, err
	}
	payload, err := canonical.Encode(Export{Attempts: canonical.Digest(data), Events: int64(len(events)), Key: key.Public().Line(), Schema: exportSchema})
	if err != nil {
		return nil, nil, err
	}
	envelope, err = sign.Seal(key, exportType, payload)
	return data, envelope, err
}

// OpenEnvelope reads the envelope of an export and returns the key that signed it, which the caller
// still has to trust. name is what the envelope is called in a *trajectory.Fault.
func OpenEnvelope(name string, envelope []byte) (Export, sign.PublicKey, error) {
	var x Export
	var key sign.PublicKey
	_, err := sign.UnsealBy(envelope, exportType, func(payload []byte) (sign.PublicKey, error) {
		if err := canonical.Decode(payload, &x); err != nil || x.Schema != exportSchema {
			return key, fmt.Errorf("its payload is not of the schema %s", exportSchema)
		}
		var err error
		if key, err = sign.ParsePublicKey(x.Key); err == nil && key.Line() != x.Key {
			err = errors.New("its key is not one ssh-ed25519 key")
		}
		return key, err
	})
	if err != nil {
		return Export{}, sign.PublicKey{}, trajectory.Faultf(name, "%v", err)
	}
	return x, key, nil
}

// Check returns a *trajectory.Fault unless data is the file that the envelope is of.
func (x Export) Check(name string, data []byte) error {
	if canonical.Digest(data) != x.Attempts {
		return trajectory.Faultf(name, "is not the file that its envelope is of")
	}
	return nil
}

// Convert reads a Parquet file of run events from in and writes each as a line of canonical JSON. It is
// for a process with limits: what is wrong with the file is a last line that is a JSON string.
func Convert(in io.Reader, out io.Writer) error {
	data, err := io.ReadAll(io.LimitReader(in, MaxExport+1))
	if err == nil && len(data) > MaxExport {
		err = fmt.Errorf("it is larger than %d bytes", MaxExport)
	}
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	events, _, err := openAttempts(data)
	if err == nil {
		for e, failed := range events {
			if err = failed; err != nil {
				break
			}
			line, err := canonical.Encode(e)
			if err != nil {
				return err
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				return err
			}
		}
	}
	if err != nil {
		line, err := json.Marshal(err.Error())
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Converted gives the run events that Convert wrote, and wants as many as the envelope says. Each is
// checked again, since the process that wrote it may have been taken over by what it read.
func Converted(name string, from io.Reader, x Export) iter.Seq2[rundir.RunEvent, error] {
	return func(yield func(rundir.RunEvent, error) bool) {
		lines := bufio.NewScanner(from)
		lines.Buffer(make([]byte, 1<<16), 1<<24)
		last, n := "", int64(0)
		for lines.Scan() {
			line := lines.Bytes()
			var e rundir.RunEvent
			var reason string
			if bytes.HasPrefix(line, []byte{'"'}) {
				if json.Unmarshal(line, &reason) != nil {
					reason = "cannot be read"
				}
			} else if err := canonical.Decode(line, &e); err != nil {
				reason = "is not a file of run events"
			} else if err := checkAfter(last, e); err != nil {
				reason = err.Error()
			}
			if reason != "" {
				yield(rundir.RunEvent{}, trajectory.Faultf(name, "%s", reason))
				return
			}
			n++
			if last = e.ID; !yield(e, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil || n != x.Events {
			yield(rundir.RunEvent{}, trajectory.Faultf(name, "cannot be read whole within the limits of memory and time"))
		}
	}
}
