package equip

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judgecache"
)

// User is the user's environment.
type User struct {
	Getenv  func(string) string
	Environ []string // all variables, as NAME=VALUE
	Stderr  io.Writer
	Began   time.Time // when the program started
	Builtin Builtin
	Splits  *Splits // that were loaded; needed by PlannedSplit alone

	Exceptions map[string]string // what the guard against private addresses lets through; only tests have any
}

// Builtin are the parts of a rehearsal.
type Builtin struct {
	Serve   func() (Served, error) // starts the model and the web, on loopback
	Dataset func() fs.FS
	Prices  func() []byte

	Name, Revision                        string // of the dataset
	Model, JudgeModel, TranscriptionModel string
	SearchURL, ArchiveURL                 string // in the web
}

// Served are the model and the web of a rehearsal.
type Served struct {
	ModelURL string
	Hosts    map[string]string // addresses by host
	Roots    *x509.CertPool    // of the web
	Close    func() error
}

// Warn prints a warning.
func (u *User) Warn(message string) { fmt.Fprintf(u.Stderr, "gaia: warning: %s\n", view.Line(message)) }

// XDG returns a base directory of the XDG specification, which ignores relative ones, or a place in it; "" if there is no
// home either.
func (u *User) XDG(name, below string, in ...string) string {
	base := u.Getenv(name)
	if !filepath.IsAbs(base) {
		if base = u.Getenv("HOME"); base == "" {
			return ""
		}
		base = filepath.Join(base, below)
	}
	return filepath.Join(append([]string{base}, in...)...)
}

// Keyring returns the keys that the environment names.
func (u *User) Keyring() keyring.Ring {
	return keyring.Ring{Content: u.Getenv(keyring.FromContent), File: u.Getenv(keyring.FromFile), Dir: u.XDG("XDG_CONFIG_HOME", ".config", "gaia", "keys"),
		Notice: func(text string) { fmt.Fprintf(u.Stderr, "gaia: %s\n", text) }}
}

// ExistingKey returns the key to sign with, or keyring.ErrNoKey.
func (u *User) ExistingKey(flag string) (sign.Key, error) {
	found, err := u.Keyring().Find(flag)
	return found.Key, err
}

// hidden lists what no program in the sandbox may see: where answers, keys and
// runs are, and this program, which holds the answers of the built-in tasks.
func (u *User) hidden(s *runflags.Settings) ([]string, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to hide it: %w", err)
	}
	paths := []string{executable, "runs", s.Runs, u.Hub().Cache(), u.Hub().Home(), u.Hub().Expand(u.Getenv("HF_TOKEN_PATH")), s.Key, u.Getenv("GAIA_SIGNING_KEY_FILE"),
		u.XDG("XDG_CONFIG_HOME", ".config", "gaia"), u.XDG("XDG_CACHE_HOME", ".cache", "gaia"), u.XDG("XDG_DATA_HOME", ".local/share", "gaia")}
	if dir, found := strings.CutPrefix(s.Source, runflags.SourceDir); found {
		paths = append(paths, dir)
	}
	if s.PlanDir != "" {
		paths = append(paths, s.PlanDir, planfolder.PrivateFile(s.PlanDir), s.ShardKey)
	}
	if c, err := s.Tape(); err == nil {
		paths = append(paths, c.Dir)
	}
	return slices.DeleteFunc(paths, func(p string) bool { return p == "" }), nil
}

// OnPath is the absolute path of a program on PATH, "" if there is none.
func OnPath(name string) string {
	path, err := exec.LookPath(name) // an error, too, for a program in the current folder, which is not to be trusted
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return ""
	}
	return path
}

// ForShims is the environment of a program that was found on PATH and is asked what
// it is. It may be a script of a version manager, which needs no more; keys are none
// of its business.
func (u *User) ForShims() []string {
	return []string{"PATH=" + u.Getenv("PATH"), "HOME=" + u.Getenv("HOME")}
}

// Secrets returns the values of environment variables whose names say that
// they are secret, to be kept out of everything that is written.
func (u *User) Secrets() []string {
	var values []string
	for _, entry := range u.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if slices.ContainsFunc([]string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"}, func(word string) bool { return strings.Contains(strings.ToUpper(name), word) }) {
			values = append(values, value)
		}
	}
	return values
}

// OwnTrust returns whom the user trusts without flags.
func (u *User) OwnTrust() (keyring.Trust, error) { return u.Keyring().Own("") }

// JudgeCache opens the signed cache of the judge's verdicts. Those by the user's
// own key and by the keys in the key directory count. A run that goes on cannot
// do without the cache of its plan.
func (u *User) JudgeCache(key sign.Key, resumed bool) (*judgecache.Cache, error) {
	instead := "fix that, or give --no-judge-cache"
	if resumed {
		instead = "fix that: the run was planned with a judge cache"
	}
	dir, err := u.JudgeCacheDir(instead)
	if err != nil {
		return nil, err
	}
	trusted, err := u.OwnTrust()
	if err != nil {
		return nil, err
	}
	return judgecache.Open(dir, key, trusted.Valid(), time.Now)
}

// JudgeCacheDir is where the judge's verdicts are kept; hint says what to do
// where there is no such place.
func (u *User) JudgeCacheDir(hint string) (string, error) {
	dir := u.XDG("XDG_CACHE_HOME", ".cache", "gaia", "judgments")
	if dir == "" {
		return "", exit.New(exit.Failure, errors.New("no place for the judge cache: neither XDG_CACHE_HOME nor HOME is set"), hint)
	}
	return dir, nil
}
