package equip

import (
	"cmp"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
)

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
	base := u.XDG("XDG_CACHE_HOME", ".cache")
	if base == "" {
		return "", exit.New(exit.Failure, errors.New("no place for the judge cache: neither XDG_CACHE_HOME nor HOME is set"), hint)
	}
	return filepath.Join(base, "gaia", "judgments"), nil
}

// JudgeToCheck is the judge that the settings name, or the built-in one, which is
// there until end is called; atOnce bounds the requests that are under way.
func (u *User) JudgeToCheck(s *runflags.Settings, atOnce int) (e *grading.Judge, prices llm.Prices, end func(), err error) {
	if s.Plan.Rehearsal {
		fmt.Fprintln(u.Stderr, "gaia: rehearsal: a scripted judge; this says nothing of a real one")
		return u.scriptedJudge(cmp.Or(s.JudgeModel(), u.Builtin.JudgeModel), atOnce)
	}
	base, err := remote.ParseURL(s.BaseURL)
	if err != nil {
		return nil, prices, nil, err
	}
	apiKey := u.Getenv("OPENAI_API_KEY")
	if apiKey == "" && !remote.IsLocal(base) {
		return nil, prices, nil, remote.NoKey(base)
	}
	if prices, err = remote.Prices(s.Prices); err != nil {
		return nil, prices, nil, err
	}
	return remote.Judge(u.judgeConfig(s.BaseURL, apiKey, prices, atOnce), s.JudgeModel(), s.BaseURL), prices, func() {}, nil
}

func (u *User) scriptedJudge(model string, atOnce int) (e *grading.Judge, prices llm.Prices, end func(), err error) {
	if prices, err = llm.ParsePrices(u.Builtin.Prices()); err != nil {
		return nil, prices, nil, fmt.Errorf("reading the built-in prices: %w", err)
	}
	server, err := u.Builtin.Serve()
	if err != nil {
		return nil, prices, nil, fmt.Errorf("serving the built-in judge: %w", err)
	}
	e = remote.Judge(u.judgeConfig(server.ModelURL, "", prices, atOnce), model, server.ModelURL)
	e.Origin, e.URL = runflags.RehearsalHost+model, ""
	return e, prices, func() { _ = server.Close() }, nil
}

func (u *User) judgeConfig(baseURL, apiKey string, prices llm.Prices, atOnce int) llm.Config {
	limiter := llm.NewLimiter(llm.LimiterConfig{Fixed: atOnce, Now: time.Now})
	limiter.OnUnreachable(func(err error) { u.Warn(err.Error()) })
	return llm.Config{BaseURL: baseURL, APIKey: apiKey, Prices: prices, MaxTries: remote.CallTries, Now: time.Now, Jitter: mathrand.Float64, Limiter: limiter}
}
