package runlist

import (
	"slices"
	"sync/atomic"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/page"
)

// Watch lists runs again and again, each time quickly: what is unchanged is not read again, and a finished run without a
// record is listed without a score until it was verified in the background, one run at a time. Its methods may be used by
// several goroutines.
type Watch struct {
	folders   []string
	o         Options
	verifying atomic.Bool
}

// NewWatch returns a watch of folders, as List takes them. The reader's runs are read one at a time.
func NewWatch(folders []string, reader ledger.Reader) *Watch {
	reader.AtOnce = 1
	return &Watch{folders: folders, o: Options{Reader: &reader, Quick: true, Seen: new(Seen)}}
}

// Rows returns the runs that there are now, without their paths in pages.
func (w *Watch) Rows() ([]page.RunRow, error) {
	entries, _, err := List(w.folders, w.o)
	if err != nil {
		return nil, err
	}
	rows := []page.RunRow{}
	for _, e := range entries {
		rows = append(rows, e.Row())
	}
	if slices.ContainsFunc(entries, func(e Entry) bool { return e.waits }) && w.verifying.CompareAndSwap(false, true) {
		go func() {
			defer w.verifying.Store(false)
			o := w.o
			o.Quick = false
			_, _, _ = List(w.folders, o) // what it finds is seen
		}()
	}
	return rows, nil
}
