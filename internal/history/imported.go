package history

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
)

// importedName begins the names of the files of imported events: an envelope, and the Parquet file that it is of.
const importedName = "imported"

// Imported are the events that were imported from others: a Parquet file in the folder of a [Store], with an
// envelope by the user's key. The envelope is replaced last, so that the events are those before an import or those
// after it.
type Imported struct {
	Dir    string
	Export // zero: there are none
	data   []byte
}

// Path returns the name of the envelope.
func (m Imported) Path() string { return filepath.Join(m.Dir, importedName+EnvelopeSuffix) }

func (m Imported) attempts() string {
	return filepath.Join(m.Dir, importedName+"-"+strings.TrimPrefix(m.Attempts, "sha256:")[:16]+attemptsSuffix)
}

// OpenImported reads the imported events in a folder, if there are any. trusts returns an error for a key
// whose events do not count.
func OpenImported(dir string, trusts func(sign.PublicKey) error) (Imported, error) {
	m := Imported{Dir: dir}
	envelope, err := regular.ReadUpTo(m.Path(), MaxEnvelope)
	if dir == "" || errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	var key sign.PublicKey
	if m.Export, key, err = OpenEnvelope(m.Path(), envelope); err != nil {
		return m, err
	}
	if err := trusts(key); err != nil {
		return m, err
	}
	path := m.attempts()
	if m.data, err = regular.ReadUpTo(path, MaxExport); err != nil {
		return m, err
	}
	return m, m.Check(path, m.data)
}

// Each gives the events in the order of their ids, which is that of their times.
func (m Imported) Each() iter.Seq2[rundir.RunEvent, error] {
	return func(yield func(rundir.RunEvent, error) bool) {
		if m.data == nil {
			return
		}
		events, _, err := openAttempts(m.data)
		if err != nil {
			yield(rundir.RunEvent{}, fmt.Errorf("reading %q: %w", m.attempts(), err))
			return
		}
		events(yield)
	}
}

// RepeatedEvent is the error that an event is in two files, or twice in one.
type RepeatedEvent struct{ ID, First, Second string }

func (e *RepeatedEvent) Error() string {
	return fmt.Sprintf("%s: the event %s is in %q already", e.Second, e.ID, e.First)
}

// Evicted returns how many of so many events go, the oldest, where at most that many are kept: as many
// tenths of most as are needed, so that not each import evicts. 0 is no bound.
func Evicted(events, most int64) int64 {
	if most <= 0 || events <= most {
		return 0
	}
	tenth := max(most/10, 1)
	return min((events-most+tenth-1)/tenth*tenth, events)
}

// Source is a file of events to be imported.
type Source struct {
	Name   string
	Events iter.Seq2[rundir.RunEvent, error]
}

// Add returns the imported events with those of files, ascending by their ids. One that is there twice is a *RepeatedEvent.
func (m Imported) Add(files []Source) ([]rundir.RunEvent, error) {
	var all []rundir.RunEvent
	from := map[string]string{}
	for _, f := range append([]Source{{m.Path(), m.Each()}}, files...) {
		for e, err := range f.Events {
			if err != nil {
				return nil, err
			}
			if first, there := from[e.ID]; there {
				return nil, &RepeatedEvent{ID: e.ID, First: first, Second: f.Name}
			}
			from[e.ID] = f.Name
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b rundir.RunEvent) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Replace makes events, ascending by their ids, the imported ones.
func (m Imported) Replace(events []rundir.RunEvent, key sign.Key) error {
	data, envelope, err := SealExport(events, key)
	if err != nil {
		return err
	}
	s := Store{Dir: m.Dir}
	now := Imported{Dir: m.Dir, Export: Export{Attempts: canonical.Digest(data)}}
	if err := s.write(now.attempts(), data); err != nil {
		return err
	}
	if err := s.write(m.Path(), envelope); err != nil {
		return err
	}
	if m.Attempts != "" && m.Attempts != now.Attempts {
		_ = os.Remove(m.attempts()) // else it is left, and nothing reads it
	}
	return durable.SyncDir(m.Dir)
}

// ClearImported removes all imported events in a folder, also those that are not good.
func ClearImported(dir string) error {
	s := Store{Dir: dir}
	names, err := s.matching(importedName, "")
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}
