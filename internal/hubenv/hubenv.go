// Package hubenv finds where the Hugging Face hub's own tools look: the endpoint, the token, the cache and the switches of
// the environment.
//
// The environment is read through a function, and the token from a regular file within a limit. [Environment.Token] also
// says where the token is from, or where one was looked for, for messages about access (TestHubEnvironment).
package hubenv

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
)

// Environment is the environment of the program.
type Environment struct {
	Getenv func(string) string
	Caches string // base directory of caches, as the XDG specification has it; "" if there is none
}

// Endpoint is the hub that is asked.
func (v Environment) Endpoint() string { return cmp.Or(v.Getenv("HF_ENDPOINT"), loader.HubEndpoint) }

// Token returns the token for the hub and where it is from, or where one was
// looked for.
func (v Environment) Token() (token, from string, err error) {
	if v.IsSet("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
		return "", "HF_HUB_DISABLE_IMPLICIT_TOKEN is set", nil
	}
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if token := strings.TrimSpace(v.Getenv(name)); token != "" {
			return token, name, nil
		}
	}
	path := v.Expand(v.Getenv("HF_TOKEN_PATH"))
	if path == "" && v.Home() != "" {
		path = filepath.Join(v.Home(), "token")
	}
	if path == "" {
		return "", "HF_TOKEN is not set, and there is no home to look in", nil
	}
	b, err := regular.ReadUpTo(path, keyring.MaxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Sprintf("neither in HF_TOKEN nor in %s", view.Quote(path)), nil
	}
	if err != nil {
		return "", "", exit.New(exit.Failure, fmt.Errorf("reading the hub's token in %q: %w", path, err), "fix that, or set HF_TOKEN")
	}
	if token = strings.TrimSpace(string(b)); token == "" {
		return "", view.Quote(path) + " is empty", nil
	}
	return token, view.Quote(path), nil
}

// Cache is where the hub's tools keep what they download; "" if there is no
// such place.
func (v Environment) Cache() string {
	for _, name := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"} {
		if dir := v.Expand(v.Getenv(name)); dir != "" {
			return dir
		}
	}
	if home := v.Home(); home != "" {
		return filepath.Join(home, "hub")
	}
	return ""
}

// Home is the folder of the hub's tools; "" if there is none.
func (v Environment) Home() string {
	if home := v.Expand(v.Getenv("HF_HOME")); home != "" {
		return home
	}
	if v.Caches != "" {
		return filepath.Join(v.Caches, "huggingface")
	}
	return ""
}

// InHome puts the home for a leading ~, where a shell does not.
func (v Environment) InHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		return v.Getenv("HOME") + rest
	}
	return path
}

// Expand makes a path of the environment absolute, as the hub's tools do.
func (v Environment) Expand(path string) string {
	path = v.InHome(path)
	if absolute, err := filepath.Abs(path); err == nil && path != "" {
		return absolute
	}
	return path
}

// IsSet reads a switch of the environment as the hub's tools do.
func (v Environment) IsSet(name string) bool {
	return slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(v.Getenv(name)))
}
