package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/tools"
)

// serverSandbox is where MCP servers run; nil, and said, where this machine has
// none.
func (a *app) serverSandbox(ctx context.Context, s settings) (*tools.Sandbox, error) {
	bwrap, err := exec.LookPath("bwrap")
	if err == nil {
		bwrap, err = filepath.Abs(bwrap)
	}
	if err != nil {
		bwrap = "" // which is said below
	}
	sandbox, err := tools.NewSandbox(ctx, tools.SandboxConfig{Bwrap: bwrap, Hidden: a.hiddenFromServers(s)})
	var u *tools.Unusable
	if errors.As(err, &u) {
		a.warn(fmt.Sprintf("there is no sandbox for MCP servers: %s; %s", u.Why, u.Remedy))
		return nil, nil
	}
	return sandbox, err
}

// hiddenFromServers is what no server may see, though it lies in a folder that
// it is given.
func (a *app) hiddenFromServers(s settings) []string {
	hidden := []string{"runs", s.key, a.getenv("GAIA_SIGNING_KEY_FILE")}
	if dir, ok := strings.CutPrefix(s.source, sourceDir); ok {
		hidden = append(hidden, dir)
	}
	if program, err := os.Executable(); err == nil { // it holds the built-in answers
		hidden = append(hidden, program)
	}
	for _, base := range [][2]string{{"XDG_CONFIG_HOME", ".config"}, {"XDG_CACHE_HOME", ".cache"}} {
		if dir := a.xdg(base[0], base[1]); dir != "" {
			hidden = append(hidden, filepath.Join(dir, "gaia"))
		}
	}
	hidden = append(hidden, a.hubHome(), a.hubCache())
	return slices.DeleteFunc(hidden, func(p string) bool { return p == "" })
}
