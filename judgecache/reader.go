package judgecache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
)

// Place is the name for the directory itself.
const Place = "."

// Reader looks through a cache and makes nothing: no directory, no entry, no key.
type Reader struct {
	dir     string
	shut    string // why nothing in the directory counts; "" if it does
	trusted map[string]sign.PublicKey
}

// Entry describes a file in a cache.
type Entry struct {
	Name     string // as hostile as whoever put it there: quote it
	Reason   string // why it is bad, in fixed words; "" if it is not
	Legacy   bool   // of the form without a signature, and never used
	Leftover bool   // of a write that was killed, or is going on
}

// Look takes a directory as a cache to be looked through. Entries by any of the
// trusted keys are good. The only error is a fs.ErrNotExist, where nothing is there.
func Look(dir string, trusted []sign.PublicKey) (*Reader, error) {
	dir = filepath.Clean(dir)
	r := newReader(dir, trusted)
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("opening the judge cache: %w", err)
	case err != nil:
		r.shut = NotRead
	default:
		if r.shut = shutFor(info); r.shut == "" {
			r.shut = unlisted(dir)
		}
	}
	return r, nil
}

func newReader(dir string, trusted []sign.PublicKey) *Reader {
	r := &Reader{dir: dir, trusted: map[string]sign.PublicKey{}}
	for _, key := range trusted {
		r.trusted[key.ID()] = key
	}
	return r
}

// unlisted tries to list a directory, and returns why it is shut if that fails.
func unlisted(dir string) (shut string) {
	f, err := os.Open(dir)
	if err != nil {
		return NotRead
	}
	defer f.Close()
	if _, err := f.Readdirnames(1); err != nil && !errors.Is(err, io.EOF) {
		return NotRead
	}
	return ""
}

// shutFor says why nothing in a directory counts, "" if it does.
func shutFor(dir fs.FileInfo) string {
	// Whose it is, systems say or not. The field is asked for by name, since the type's package can do far more than
	// this one may.
	var owner reflect.Value
	if stat := reflect.Indirect(reflect.ValueOf(dir.Sys())); stat.Kind() == reflect.Struct {
		owner = stat.FieldByName("Uid")
	}
	switch {
	case dir.Mode().Type() == fs.ModeSymlink:
		return Linked
	case !dir.IsDir():
		return NotDirectory
	case owner.IsValid() && owner.CanUint() && int(owner.Uint()) != os.Geteuid():
		return NotOwned
	case dir.Mode().Perm()&0o022 != 0:
		return Writable
	}
	return ""
}

// Shut says why nothing in the cache counts, "" if it does.
func (r *Reader) Shut() string { return r.shut }

// Each calls visit for every entry and leftover in the order of their names,
// what cannot be read among them: it is bad. Of a cache that is shut, or that cannot
// be listed any more, it visits Place alone. What else lies in the directory is passed
// over. It holds the names in memory, but no contents.
func (r *Reader) Each(visit func(Entry)) {
	if r.shut != "" {
		visit(Entry{Name: Place, Reason: r.shut})
		return
	}
	files, err := os.ReadDir(r.dir)
	if err != nil {
		visit(Entry{Name: Place, Reason: NotRead})
		return
	}
	for _, f := range files {
		if e, found := r.entry(f.Name()); found {
			visit(e)
		}
	}
}

// entry describes the file called name; found is false for one that is not of
// the cache, or went since it was listed.
func (r *Reader) entry(name string) (e Entry, found bool) {
	hidden, ok := strings.CutPrefix(name, ".")
	digits, number, cut := strings.Cut(hidden, suffix)
	if ok && cut && canonical.IsDigest(digestPrefix+digits) && number != "" && strings.Trim(number, "0123456789") == "" {
		return Entry{Name: name, Leftover: true}, true
	}
	if !strings.HasSuffix(name, suffix) {
		return Entry{}, false
	}
	read, found, reason, err := r.read(name)
	if err != nil {
		reason = unreadable
	}
	if !found && reason == noReason {
		return Entry{}, false
	}
	return Entry{Name: name, Reason: reason, Legacy: reason == noReason && read == entry{}}, true
}

// read reads and checks the file called name, a regular one of at most maxEntry bytes. found is
// false where there is none, or it cannot be reached. An entry of the old form comes back as the zero
// entry, without a reason.
func (r *Reader) read(name string) (e entry, found bool, reason string, err error) {
	path := filepath.Join(r.dir, name)
	info, err := os.Lstat(path) // before it is opened: opening a pipe waits for a writer
	found = err == nil
	if found && !info.Mode().IsRegular() {
		return entry{}, true, notRegular, nil
	}
	var data []byte
	if found {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			data, err = io.ReadAll(io.LimitReader(f, maxEntry+1))
			_ = f.Close()
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // also a file that was removed since it was listed
		return entry{}, false, noReason, nil
	case errors.Is(err, fs.ErrPermission):
		return entry{}, found, unreadable, nil
	case err != nil:
		return entry{}, found, noReason, fmt.Errorf("reading a judgment: %w", err)
	case len(data) > maxEntry:
		return entry{}, true, tooLarge, nil
	}
	e, reason = verify(name, data, r.trusted)
	if reason == malformed && isLegacy(data) {
		reason = noReason
	}
	return e, true, reason, nil
}
