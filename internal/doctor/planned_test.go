package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/loader"
)

// wants checks findings, each given as "name state detail" with a part of the detail.
func wants(t *testing.T, found []Finding, want ...string) {
	t.Helper()
	if len(found) != len(want) {
		t.Fatalf("%d findings, want %d: %+v", len(found), len(want), found)
	}
	for i, f := range found {
		name, rest, _ := strings.Cut(want[i], ": ")
		state, detail, _ := strings.Cut(rest, " ")
		if f.Name != name || f.State != state || !strings.Contains(f.Detail, detail) {
			t.Errorf("%+v\nwant %s", f, want[i])
		}
		if f.Remedy == "" && (f.State == Failed || f.State == Missing) {
			t.Errorf("%s has no remedy", f.Name)
		}
	}
}

// TestPlanned: each reason that prevents a part of the run is one finding, and what depends on it is unknown.
func TestPlanned(t *testing.T) {
	broken := exit.New(exit.Usage, errors.New("broken"), "fix it")
	whole := Planned{Model: "m", Judge: "j", Endpoint: "https://api.example", Source: "hub", Prices: "table 1", HasKey: true, NoCall: true,
		Search: "searxng, not asked", HasPrice: func(model string) bool { return model == "m" }}
	for _, c := range []struct {
		name   string
		change func(*Planned)
		want   []string // settings, key, prices, transcription, vision, search, model, judge
	}{
		{"all is there", func(p *Planned) { p.Judge = "" }, []string{"settings: ok m at https://api.example, tasks of hub", "model key: ok OPENAI_API_KEY", "prices: ok table 1: m",
			"transcription: missing not offered", "vision: missing not offered", "search: ok searxng", "model: unknown --no-call", "judge: missing official verdict"}},
		{"invalid settings", func(p *Planned) { p.Invalid = broken }, []string{"settings: failed broken", "model key: unknown see settings", "prices: unknown see settings",
			"transcription: unknown see settings", "vision: unknown see settings", "search: unknown see settings", "model: unknown see settings", "judge: unknown see settings"}},
		{"a rehearsal", func(p *Planned) { p.Rehearsal = true }, []string{"settings: ok rehearsal", "model key: ok rehearsal", "prices: ok rehearsal",
			"transcription: ok rehearsal", "vision: ok rehearsal", "search: ok rehearsal", "model: ok rehearsal", "judge: ok rehearsal"}},
		{"nothing usable", func(p *Planned) {
			p.NoCassette, p.NoKey, p.NoPrices, p.NoSearch, p.Vision = broken, broken, broken, broken, "v"
		}, []string{"settings: failed broken", "model key: failed broken", "prices: failed broken", "transcription: missing not offered",
			"vision: unknown v, not asked: see settings", "search: failed broken", "model: unknown see settings", "judge: unknown see settings"}},
		{"a replay", func(p *Planned) { p.Replay, p.NoVision = "tape", true }, []string{"settings: ok m at", "model key: ok replayed", "prices: missing no price of j",
			"transcription: missing not offered", "vision: ok left out", "search: ok searxng", "model: ok replayed from tape", "judge: ok replayed from tape"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := whole
			c.change(&p)
			found := append(p.CheckSettings(t.Context()), p.CheckSenses(t.Context())...)
			wants(t, append(found, p.CheckModel(t.Context()), p.CheckJudge(t.Context())), c.want...)
		})
	}
}

// TestCheckDataset: a dataset that cannot be read, or only after retries, is reported.
func TestCheckDataset(t *testing.T) {
	d := Dataset{Source: "dir:data", Split: "test", Wait: time.Minute, Load: func(context.Context, func(string)) (loader.Set, error) { return loader.Set{Split: "test"}, nil }}
	wants(t, []Finding{Planned{}.CheckDataset(t.Context(), d)}, "dataset: ok dir:data, split test: 0 of 0 tasks")
	d.Load = func(_ context.Context, notice func(string)) (loader.Set, error) {
		notice("tried again")
		return loader.Set{Split: "test"}, nil
	}
	wants(t, []Finding{Planned{}.CheckDataset(t.Context(), d)}, "dataset: missing 0 tasks; tried again")
	d.Wait, d.Load = time.Nanosecond, func(ctx context.Context, notice func(string)) (loader.Set, error) {
		notice("answers 503; trying again")
		<-ctx.Done()
		return loader.Set{}, ctx.Err()
	}
	wants(t, []Finding{Planned{}.CheckDataset(t.Context(), d)}, "dataset: failed not had within 1ns: answers 503")
	d.OnHub, d.Split = true, "none"
	wants(t, []Finding{Planned{}.CheckDataset(t.Context(), d), Planned{Invalid: errors.New("x")}.CheckDataset(t.Context(), d)},
		"dataset: failed ", "dataset: unknown see settings")
}

// TestCheckServers: servers outside of the sandbox or with the network make a run unfit, and one that does not start fails.
func TestCheckServers(t *testing.T) {
	tools := func(n int, err error) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return n, err }
	}
	for want, servers := range map[string][]Server{
		"MCP servers: ok the settings name none":                 nil,
		"MCP servers: ok a (1 tool), b (not asked)":              {{Name: "a", Tools: tools(1, nil)}, {Name: "b", Skip: true}},
		"MCP servers: missing a (2 tools); a has the network":    {{Name: "a", Tools: tools(2, nil), Network: true}},
		"MCP servers: missing a runs outside of the sandbox, so": {{Name: "a", Tools: tools(2, nil), Outside: true}},
		"MCP servers: failed ended early":                        {{Name: "a", Tools: tools(0, errors.New("ended early"))}},
		"MCP servers: failed refused":                            {{Name: "a", Refused: errors.New("refused"), Skip: true}},
	} {
		wants(t, []Finding{CheckServers(t.Context(), servers, "gaia.yaml")}, want)
	}
}

// TestCheckCache: a cache that cannot be used fails only a run that would be refused for it.
func TestCheckCache(t *testing.T) {
	ring := keyring.Ring{Dir: t.TempDir(), Notice: func(string) {}}
	submits, judged := Planned{Judge: "j", SubmitIntent: true}, Planned{Judge: "j"}
	bad := func(*judgecache.Reader, int, []judgecache.Bad) error { return errors.New("bad") }
	none := Cache{NoDir: exit.New(exit.Failure, errors.New("no place"), "make one")}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	within := Cache{Dir: filepath.Join(file, "cache"), Bad: bad}
	wants(t, []Finding{
		submits.CheckCache(Cache{Off: true}, ring, ""), submits.CheckCache(none, ring, ""), Planned{}.CheckCache(none, ring, ""),
		judged.CheckCache(Cache{Dir: t.TempDir() + "/none", Bad: bad}, ring, ""),
		submits.CheckCache(within, ring, ""), judged.CheckCache(within, ring, ""),
	}, "judge cache: ok not used", "judge cache: failed no place", "judge cache: missing no place", "judge cache: ok none yet",
		"judge cache: failed bad", "judge cache: missing bad")
	wants(t, []Finding{Signing(ring, ""), Trusted(ring, "")}, "signing key: ok none yet", "trusted keys: ok 0 trusted now")
	if _, err := sign.LoadKey(ring.Dir + "/signing"); err == nil {
		t.Error("a key was created")
	}
}
