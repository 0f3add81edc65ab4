package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
)

// Where adjudications are kept: in a run directory each in a file of its own
// below AttestationsDir, in a package all of them in AdjudicationsFile, an
// envelope a line, by the ids of their findings. A countersignature is an envelope,
// too, and follows its decision.
const (
	AttestationsDir   = "attestations"
	AdjudicationsFile = "adjudications.jsonl"
)

// Limits, in bytes, of one adjudication and of all in a package. A reason of 2 KiB
// makes an envelope of some 8 KiB.
const (
	maxAdjudication  = 64 << 10
	MaxAdjudications = 32 << 20
)

// maxAttestations bounds the adjudications of a run, and its later judgments, in bytes.
const maxAttestations = 32 << 20

const (
	adjudicationPrefix = "adjudication-"
	attestationSuffix  = ".dsse.json"
)

// File returns the name of the adjudication's file in a run directory.
func (r Ruling) File() string {
	hex := strings.TrimPrefix(r.Finding, "sha256:")
	return path.Join(AttestationsDir, adjudicationPrefix+hex[:min(16, len(hex))]+attestationSuffix)
}

// CollectAdjudications reads the adjudications of a run directory and their
// countersignatures as they are: the names of their files, in the order of a package's
// lines, and their envelopes. A file of an adjudication's name that cannot be one is a
// *trajectory.Fault; files of other names are passed over.
func CollectAdjudications(dir fs.FS) (files []string, envelopes [][]byte, err error) {
	files, envelopes, err = collect(dir, adjudicationPrefix, "an adjudication", maxAdjudication)
	if err != nil {
		return nil, nil, err
	}
	named, sealed, err := collect(dir, countersignaturePrefix, "a countersignature", maxAdjudication)
	for i, name := range named {
		hex := strings.TrimPrefix(path.Base(name), countersignaturePrefix)
		at := len(files)
		for j, file := range files {
			if _, other, _ := strings.Cut(path.Base(file), "-"); other > hex {
				at = j
				break
			}
		}
		files, envelopes = slices.Insert(files, at, name), slices.Insert(envelopes, at, sealed[i])
	}
	return files, envelopes, err
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
	named, whole := regexp.MustCompile(`^[0-9a-f]{16}$`), 0
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
		if whole += len(envelope); whole > maxAttestations {
			return nil, nil, trajectory.Faultf(AttestationsDir, "holds more than %d bytes of %s files", maxAttestations, strings.TrimSuffix(prefix, "-"))
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
		if all, err = appendDecision(all, envelopes[i], run); err != nil {
			return nil, trajectory.Faultf(name, "%v", err)
		}
		if why := all[len(all)-1].misnamed(name, envelopes[i]); why != "" {
			return nil, trajectory.Faultf(name, "%s", why)
		}
	}
	return all, nil
}

// misnamed says why a file of a run directory has not the name of its envelope, which is
// that of decision a or its countersignature; "" if it has.
func (a Adjudication) misnamed(file string, envelope []byte) string {
	switch is := isCountersignature(envelope); {
	case is && file != a.CountersignatureFile():
		return fmt.Sprintf("countersigns the decision about finding %s, which its name is not of", a.Finding)
	case !is && file != a.File():
		return fmt.Sprintf("decides about finding %s, which its name is not of", a.Finding)
	}
	return ""
}

// DecodeAdjudications reads the file of adjudications in a package. Anything but
// good ones about this run, one a finding and in the order of the findings' ids, each
// with its countersignature behind it, is a *trajectory.Fault.
func DecodeAdjudications(data []byte, run *ledger.Run) ([]Adjudication, error) {
	var all []Adjudication
	n := int64(0)
	for line := range bytes.Lines(data) {
		n++
		refuse := func(err error) ([]Adjudication, error) {
			return nil, &trajectory.Fault{File: AdjudicationsFile, Line: n, Reason: err.Error()}
		}
		envelope, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			return refuse(errors.New("has no newline at its end"))
		}
		before, err := len(all), error(nil)
		if all, err = appendDecision(all, envelope, run); err != nil {
			return refuse(err)
		}
		if before > 0 && len(all) > before && all[before-1].Finding >= all[before].Finding {
			return refuse(errors.New("is not in the order of the findings' ids, each once"))
		}
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
