package run

import (
	"context"
	"errors"
	"github.com/gaia-harness/gaia/internal/runenv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/llm"
)

// searching is a model whose endpoint says, from its third answer on, that it
// searched by itself.
type searching struct {
	agent.Model
	asked *atomic.Int64
}

func (s searching) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	return s.Model.Chat(ctx, r, telling{o, s.asked})
}

type telling struct {
	llm.Observer
	asked *atomic.Int64
}

func (t telling) TryCompleted(done llm.Try) error {
	if done.Response != nil && t.asked.Add(1) >= 3 {
		done.Response.Channels = []string{"web_search"}
	}
	return t.Observer.TryCompleted(done)
}

// TestUnfit: what keeps a run from being submitted is said once, at once, and
// the spending ends there if that is wanted. Resumed, the run comes to its end.
func TestUnfit(t *testing.T) {
	for _, stops := range []bool{false, true} {
		dir := t.TempDir()
		var asked atomic.Int64
		var mu sync.Mutex
		var warned []string
		configure := func(goOn bool) setup {
			c := config(t, "fab1e001-0000-4000-8000-000000000001", "fab1e002-0000-4000-8000-000000000002", "fab1e003-0000-4000-8000-000000000003", "fab1e004-0000-4000-8000-000000000004")
			c.plan.SubmitIntent, c.env.Continue, c.env.Scratch, c.env.Concurrency = true, goOn, t.TempDir(), 1
			c.env.Model = searching{c.env.Model, &asked}
			c.env.Warn = func(err error) {
				mu.Lock()
				defer mu.Unlock()
				warned = append(warned, err.Error())
			}
			return c
		}
		setup := configure(!stops)
		r, err := Create(dir, setup.plan, setup.env)
		if err != nil {
			t.Fatal(err)
		}
		err = r.Execute(t.Context(), nil)
		var unfit *runenv.UnfitError
		if errors.As(err, &unfit) != stops || !stops && err != nil {
			t.Fatalf("stops %v: %v", stops, err)
		}
		if len(warned) != 1 || !strings.Contains(warned[0], "not submittable any longer: AUD-1 answer-leakage: an unrecorded channel in task ") {
			t.Errorf("stops %v: warned %q", stops, warned)
		}
		spent := asked.Load()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if !stops {
			continue
		}
		if spent > 4 {
			t.Errorf("%d answers were asked for after the third had told", spent-3)
		}
		setup = configure(true)
		if r, err = Resume(r.Dir, setup.plan, setup.env); err != nil {
			t.Fatal(err)
		}
		if err := r.Execute(t.Context(), nil); err != nil || r.State().Completed == nil {
			t.Errorf("resumed: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
