package viewer

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// The names of what a server leaves in Config.Control: a lock that it holds as long as it runs, and beside it the
// address. A file of a server that was killed has a lock that no one holds.
const (
	lockPattern   = "view-*.lock"
	lockSuffix    = ".lock"
	addressSuffix = ".json"
	maxAddress    = 4 << 10 // bytes of the file
)

// Running is a viewer that runs.
type Running struct {
	Address string    `json:"address"` // with a token that was not used
	Started time.Time `json:"started"`
}

// leaveAddress leaves the address for NewAddresses, and another one whenever its token is used. The function that it
// returns removes it.
func (s *Server) leaveAddress() (forget func(), err error) {
	if s.c.Control == "" {
		return func() {}, nil
	}
	forget = func() {}
	if err := ownFolder(s.c.Control); err != nil {
		return forget, err
	}
	lock, err := newLock(s.c.Control)
	if err != nil {
		return forget, err
	}
	file := strings.TrimSuffix(lock.Path(), lockSuffix) + addressSuffix
	started := time.Now().UTC().Truncate(time.Second)
	write := func() error {
		data, err := json.Marshal(Running{s.Address(), started})
		if err != nil {
			return err
		}
		return renameio.WriteFile(file, data, 0o600, renameio.WithTempDir(s.c.Control))
	}
	s.door.renewing.Lock()
	defer s.door.renewing.Unlock()
	s.door.renewed = func() {
		if err := write(); err != nil {
			s.c.Log("--new-token has an address that was used: " + err.Error())
		}
	}
	return func() {
		s.door.renewing.Lock() // no write follows the removal
		defer s.door.renewing.Unlock()
		s.door.renewed = nil
		os.Remove(file)
		os.Remove(lock.Path())
		lock.Close()
	}, write()
}

// ownFolder makes a folder that only this user can read, and rejects one that others can.
func ownFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && (!info.IsDir() || info.Mode().Perm()&0o077 != 0) {
		err = fmt.Errorf("%q is not a folder of this user alone: it has mode %s", dir, info.Mode())
	}
	return err
}

// newLock makes a lock file and takes its lock. NewAddresses may remove a file that is not locked yet.
func newLock(dir string) (*flock.Flock, error) {
	for range 10 {
		f, err := os.CreateTemp(dir, lockPattern)
		if err != nil {
			return nil, err
		}
		f.Close()
		lock := flock.New(f.Name())
		taken, err := lock.TryLock()
		if err != nil {
			return nil, err
		}
		if taken && sameFile(lock) {
			return lock, nil
		}
		lock.Close()
	}
	return nil, errors.New("another program removes what is in " + dir)
}

// sameFile reports whether the locked file still has its name.
func sameFile(lock *flock.Flock) bool {
	held, err := lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(lock.Path())
	return err == nil && os.SameFile(held, named)
}

// NewAddresses returns the addresses of the viewers of this user that run, by what they left in the folder control, the
// latest first. Each has a token that was not used. What a viewer that was killed has left is removed.
func NewAddresses(control string) ([]Running, error) {
	const hint = "start one with 'gaia view'"
	if err := ownFolder(control); err != nil {
		return nil, fmt.Errorf("looking for viewers that run: %w", err)
	}
	locks, err := filepath.Glob(filepath.Join(control, lockPattern))
	if err != nil {
		return nil, fmt.Errorf("looking for viewers that run: %w", err)
	}
	var all []Running
	for _, path := range locks {
		file := strings.TrimSuffix(path, lockSuffix) + addressSuffix
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		lock := flock.New(path)
		free, err := lock.TryRLock()
		if err != nil {
			return nil, fmt.Errorf("looking for viewers that run: %w", err)
		}
		if free {
			os.Remove(file)
			os.Remove(path)
			lock.Close()
			continue
		}
		r, err := readAddress(file)
		if errors.Is(err, fs.ErrNotExist) { // it starts or ends just now
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the address of a viewer: %w", err)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, exit.Usagef(hint, "no viewer of this user runs")
	}
	slices.SortStableFunc(all, func(a, b Running) int { return b.Started.Compare(a.Started) })
	return all, nil
}

// readAddress reads what a viewer left, and rejects what none would leave.
func readAddress(file string) (r Running, err error) {
	data, err := regular.Read(file, maxAddress)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%q: %w", file, err)
	}
	u, err := url.Parse(r.Address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Path != tokenPath || u.User != nil {
		return r, fmt.Errorf("%q holds no address of a viewer", file)
	}
	return r, nil
}
