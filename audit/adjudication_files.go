package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
)

// Where adjudications are kept: in a run directory each in a file of its own
// below AttestationsDir, in a package all of them in AdjudicationsFile, an
// envelope a line, by the ids of their findings.
const (
	AttestationsDir   = "attestations"
	AdjudicationsFile = "adjudications.jsonl"
)

// Limits, in bytes, of one adjudication and of all in a package. A reason of 2 KiB
// makes an envelope of some 8 KiB.
const (
	maxAdjudication  = 64 << 10
	MaxAdjudications = 64 << 20
)

const (
	adjudicationPrefix = "adjudication-"
	attestationSuffix  = ".dsse.json"
)

// File returns the name of the adjudication's file in a run directory.
func (r Ruling) File() string {
	hex := strings.TrimPrefix(r.Finding, "sha256:")
	return path.Join(AttestationsDir, adjudicationPrefix+hex[:min(16, len(hex))]+attestationSuffix)
}

// CollectAdjudications reads the adjudications of a run directory as they are:
// the names of their files, in order, and their envelopes. A file of an
// adjudication's name that cannot be one is a *trajectory.Fault; files of other
// names are passed over.
func CollectAdjudications(dir fs.FS) (files []string, envelopes [][]byte, err error) {
	return collect(dir, adjudicationPrefix, "an adjudication", maxAdjudication)
}

// collect reads the attestations of a run directory whose names have a prefix.
func collect(dir fs.FS, prefix, kind string, limit int64) (files []string, envelopes [][]byte, err error) {
	info, err := fs.Lstat(dir, AttestationsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", AttestationsDir, err)
	}
	if !info.IsDir() {
		return nil, nil, trajectory.Faultf(AttestationsDir, "is not a directory")
	}
	entries, err := fs.ReadDir(dir, AttestationsDir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", AttestationsDir, err)
	}
	named := regexp.MustCompile(`^[0-9a-f]{16}$`)
	for _, e := range entries {
		rest, is := strings.CutPrefix(e.Name(), prefix)
		hex, ends := strings.CutSuffix(rest, attestationSuffix)
		if !is || !ends {
			continue
		}
		name := path.Join(AttestationsDir, e.Name())
		if !named.MatchString(hex) {
			return nil, nil, trajectory.Faultf(fmt.Sprintf("%q", name), "is not the name of %s", kind)
		}
		envelope, err := ledger.ReadFile(dir, name, limit)
		if err != nil {
			return nil, nil, err
		}
		if bytes.ContainsRune(envelope, '\n') {
			return nil, nil, trajectory.Faultf(name, "holds more than one line")
		}
		files, envelopes = append(files, name), append(envelopes, envelope)
	}
	return files, envelopes, nil
}

// ReadAdjudications reads the adjudications of a run directory, by the ids of
// their findings. One that the key of the plan did not sign, that is about
// another run or another journal, or that has not the name of its finding is a
// *trajectory.Fault.
func ReadAdjudications(dir fs.FS, run *ledger.Run) ([]Adjudication, error) {
	files, envelopes, err := CollectAdjudications(dir)
	if err != nil {
		return nil, err
	}
	var all []Adjudication
	for i, name := range files {
		a, err := unsealAdjudication(envelopes[i], run)
		if err != nil {
			return nil, trajectory.Faultf(name, "%v", err)
		}
		if a.File() != name {
			return nil, trajectory.Faultf(name, "decides about finding %s, which its name is not of", a.Finding)
		}
		all = append(all, a)
	}
	return all, nil
}

// DecodeAdjudications reads the file of adjudications in a package. Anything but
// good ones about this run, one a finding and in the order of the findings' ids,
// is a *trajectory.Fault.
func DecodeAdjudications(data []byte, run *ledger.Run) ([]Adjudication, error) {
	var all []Adjudication
	for line := range bytes.Lines(data) {
		refuse := func(err error) ([]Adjudication, error) {
			return nil, &trajectory.Fault{File: AdjudicationsFile, Line: int64(len(all) + 1), Reason: err.Error()}
		}
		envelope, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			return refuse(errors.New("has no newline at its end"))
		}
		a, err := unsealAdjudication(envelope, run)
		if err != nil {
			return refuse(err)
		}
		if n := len(all); n > 0 && all[n-1].Finding >= a.Finding {
			return refuse(errors.New("is not in the order of the findings' ids, each once"))
		}
		all = append(all, a)
	}
	if len(all) == 0 {
		return nil, trajectory.Faultf(AdjudicationsFile, "is empty")
	}
	return all, nil
}

// held reads the adjudications and the later judgments where an audit finds them: a
// package has the file of either only if there are any.
func (o Options) held(dir fs.FS, run *ledger.Run) (decided []Adjudication, later []SealedRejudgment, err error) {
	if o.Summary == "" || o.Summary == ledger.SummaryFile {
		if decided, err = ReadAdjudications(dir, run); err == nil {
			later, err = ReadRejudgments(dir, run)
		}
		return decided, later, err
	}
	read := func(name string, limit int64, decode func([]byte) error) error {
		if _, err := fs.Lstat(dir, name); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		data, err := ledger.ReadFile(dir, name, limit)
		if err != nil {
			return err
		}
		return decode(data)
	}
	err = errors.Join(
		read(AdjudicationsFile, MaxAdjudications, func(data []byte) (err error) { decided, err = DecodeAdjudications(data, run); return err }),
		read(RejudgmentsFile, MaxRejudgments, func(data []byte) (err error) { later, err = DecodeRejudgments(data, run); return err }))
	return decided, later, err
}
