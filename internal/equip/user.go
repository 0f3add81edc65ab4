package equip

import (
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
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

// XDG returns a base directory of the XDG specification, which ignores relative ones;
// "" if there is no home either.
func (u *User) XDG(name, below string) string {
	if base := u.Getenv(name); filepath.IsAbs(base) {
		return base
	}
	if home := u.Getenv("HOME"); home != "" {
		return filepath.Join(home, below)
	}
	return ""
}

// Keyring returns the keys that the environment names.
func (u *User) Keyring() keyring.Ring {
	r := keyring.Ring{Content: u.Getenv(keyring.FromContent), File: u.Getenv(keyring.FromFile),
		Notice: func(text string) { fmt.Fprintf(u.Stderr, "gaia: %s\n", text) }}
	if base := u.XDG("XDG_CONFIG_HOME", ".config"); base != "" {
		r.Dir = filepath.Join(base, "gaia", "keys")
	}
	return r
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
	paths := []string{executable, "runs", s.Runs, u.Hub().Cache(), u.Hub().Home(), u.Hub().Expand(u.Getenv("HF_TOKEN_PATH")), s.Key, u.Getenv("GAIA_SIGNING_KEY_FILE")}
	for _, base := range []string{u.XDG("XDG_CONFIG_HOME", ".config"), u.XDG("XDG_CACHE_HOME", ".cache"), u.XDG("XDG_DATA_HOME", ".local/share")} {
		if base != "" {
			paths = append(paths, filepath.Join(base, "gaia"))
		}
	}
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
	path, err := exec.LookPath(name)
	if err != nil { // also one in the current folder, which is not to be trusted
		return ""
	}
	path, err = filepath.Abs(path)
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
		name = strings.ToUpper(name)
		for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"} {
			if strings.Contains(name, word) {
				values = append(values, value)
				break
			}
		}
	}
	return values
}

// OwnTrust returns whom the user trusts without flags.
func (u *User) OwnTrust() (keyring.Trust, error) { return u.Keyring().Own("") }
