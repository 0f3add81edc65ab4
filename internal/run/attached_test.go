package run

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// hearing is a run of tasks with recordings, whose transcription model is at the
// endpoint of the other.
func hearing(t *testing.T, count int, url string, change func(*llm.Config)) setup {
	t.Helper()
	c := generated(t, endpoint.Tasks{Count: count, Attached: endpoint.Recording}, url, change)
	client, ok := c.env.Model.(*llm.Client)
	if !ok {
		t.Fatalf("the client is a %T", c.env.Model)
	}
	c.env.Transcriber, c.plan.Transcription = client, &plan.TranscriptionPlan{Model: endpoint.Hearing, Origin: c.plan.Model.Origin}
	return c
}

func listening(t *testing.T, count int) *endpoint.Server {
	t.Helper()
	return serve(t, endpoint.Config{Tasks: endpoint.Tasks{Count: count, Attached: endpoint.Recording}})
}

// heard returns what the journal says of the recordings, and their results' heads.
func (a account) heard() (uses []trajectory.ModelUse, heads []string) {
	for _, e := range a.executed {
		if e.Name == "transcribe_audio" && e.Model != nil {
			uses, heads = append(uses, *e.Model), append(heads, e.Head)
		}
	}
	return uses, heads
}

// clean wants an audit that finds nothing but what is named, and that the answers
// of the split are public.
func (a account) clean(t *testing.T, but ...string) {
	t.Helper()
	but = append(but, "answers-are-public")
	var ids []string
	for _, check := range a.audited.Checks {
		for _, f := range check.Findings {
			_, rule, _ := strings.Cut(f.RuleID, ".")
			if !slices.Contains(ids, rule) {
				ids = append(ids, rule)
			}
			if !slices.Contains(but, rule) {
				t.Errorf("the audit finds %+v", f)
			}
		}
	}
	for _, id := range but {
		if !slices.Contains(ids, id) {
			t.Errorf("the audit does not find %s", id)
		}
	}
}

// charged holds the results and the summary of a run against what the endpoint
// counted.
func (a account) charged(t *testing.T, s *endpoint.Server) {
	t.Helper()
	a.agrees(t, s)
	sum := int64(0)
	for _, task := range a.Tasks {
		r := a.Result(task)
		if r.CostMicroUSD == nil {
			t.Errorf("the cost of task %s is unknown", r.TaskID)
			continue
		}
		sum += *r.CostMicroUSD
	}
	if want := s.Counts().CostMicroUSD; sum != want {
		t.Errorf("the results cost %d, the endpoint counted %d", sum, want)
	}
}

// TestRecordings: a recording is written down by the model that was planned for it,
// whose bill is in the journal and in the cost of the task and of the run.
func TestRecordings(t *testing.T) {
	const count = 20
	server := listening(t, count)
	a := read(t, execute(t, t.TempDir(), hearing(t, count, server.URL, nil)).Dir)
	a.charged(t, server)
	a.clean(t)
	uses, heads := a.heard()
	for i, u := range uses {
		if !strings.Contains(heads[i], "The number of sacks = ") || !strings.HasPrefix(u.RequestID, "hear-") || u.RequestedModel != endpoint.Hearing ||
			u.Tries != 1 || u.CostMicroUSD == nil || *u.CostMicroUSD != 300 {
			t.Errorf("%q was heard by %+v", heads[i], u)
		}
	}
	if s := a.Summary(); len(uses) != count || server.Counts().Heard != count || s.Outcomes.Solved != 18 || s.Outcomes.Failed != 2 {
		t.Errorf("%d recordings in the journal, %d at the endpoint; %+v", len(uses), server.Counts().Heard, s.Outcomes)
	}
	if m := a.Manifest; m.Transcription == nil || m.Transcription.Model != endpoint.Hearing {
		t.Errorf("the plan has %+v", m.Transcription)
	}
}

// TestRecordingNotAfforded: a recording that may cost more than is left is refused
// to the model, and not sent.
func TestRecordingNotAfforded(t *testing.T) {
	const count = 6
	server := listening(t, count)
	expensive := strings.Replace(string(endpoint.Prices()), `"audio_microusd_per_minute":6000`, `"audio_microusd_per_minute":1000000000`, 1)
	prices, err := llm.ParsePrices([]byte(expensive))
	if err != nil {
		t.Fatal(err)
	}
	c := hearing(t, count, server.URL, func(l *llm.Config) { l.Prices = prices })
	c.env.Prices, c.plan.Model.MaxTokens, c.plan.Budgets.RunCostMicroUSD = prices, 200, 1_000_000
	c.plan.Policy.MaxCostMicroUSD = policy.Unlimited
	a := read(t, execute(t, t.TempDir(), c).Dir)
	a.charged(t, server)
	uses, heads := a.heard()
	for i, u := range uses {
		if !strings.Contains(heads[i], prompt.RunMoneySpent) || u.Tries != 0 || u.CostMicroUSD == nil || *u.CostMicroUSD != 0 {
			t.Errorf("%q of %+v", heads[i], u)
		}
	}
	if n := server.Counts().Heard; n != 0 || len(uses) != count || a.Summary().Outcomes.Failed != count {
		t.Errorf("%d recordings were sent, %d are in the journal; %+v", n, len(uses), a.Summary().Outcomes)
	}
}

// TestRecordingsCost: recordings and requests together cost no more than a run may,
// also across a pause.
func TestRecordingsCost(t *testing.T) {
	const count, budget = 40, 60_000
	server := listening(t, count)
	c := hearing(t, count, server.URL, nil)
	c.plan.Model.MaxTokens, c.plan.Budgets.RunCostMicroUSD, c.env.Concurrency = 200, budget, 2
	dir := pausedAfter(t, 4, c)
	if n := server.Counts().Heard; n < 4 {
		t.Fatalf("%d recordings before the pause", n)
	}
	finish(t, dir, c)
	a := read(t, dir)
	a.charged(t, server)
	s := a.Summary()
	if *s.CostMicroUSD > budget || *s.CostMicroUSD < budget/2 || s.Outcomes.Skipped == 0 || s.Outcomes.Solved == 0 || s.Outcomes.Error != 0 {
		t.Errorf("cost %d of %d; %+v", *s.CostMicroUSD, budget, s.Outcomes)
	}
}

// pausedAfter begins a run and drains it when so many attempts have ended.
func pausedAfter(t *testing.T, attempts int, c setup) (dir string) {
	t.Helper()
	drain := make(chan struct{})
	c.env.Watch = func(e trajectory.Event) {
		if _, ended := e.Payload.(trajectory.AttemptEnded); ended {
			if attempts--; attempts == 0 {
				close(drain)
			}
		}
	}
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(context.Background(), drain); !errors.Is(err, ErrDrained) {
		t.Fatal(err)
	}
	return r.Dir
}

// TestRecordingsReplayed: a cassette holds the transcriptions, too. A run that is
// replayed asks no one and comes to the same answers at the same cost.
func TestRecordingsReplayed(t *testing.T) {
	const count = 6
	server := listening(t, count)
	tape := filepath.Join(t.TempDir(), "tape")
	taped := func(mode string, carrier http.RoundTripper, err error) account {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		c := hearing(t, count, server.URL, func(l *llm.Config) { l.Transport = carrier })
		c.plan.Cassette, c.plan.SubmitIntent = mode, false // what is replayed is not submitted
		return read(t, execute(t, t.TempDir(), c).Dir)
	}
	recorder, err := llm.NewRecorder(tape, nil)
	first := taped(plan.CassetteRecord, recorder, err)
	first.charged(t, server)
	asked := server.Counts()
	player, err := llm.NewPlayer(tape)
	second := taped(plan.CassetteReplay, player, err)
	if now := server.Counts(); now.Requests != asked.Requests || now.Heard != asked.Heard || now.Heard != count {
		t.Errorf("the replay asked: %+v, then %+v", asked, now)
	}
	for i, task := range first.Tasks {
		r, s := first.Result(task), second.Result(second.Tasks[i])
		if s.TaskID != r.TaskID || *s.ModelAnswer != *r.ModelAnswer || *s.CostMicroUSD != *r.CostMicroUSD {
			t.Errorf("%+v became %+v", r, s)
		}
	}
}

// TestPictures: a model that sees is shown the picture that comes with a question,
// and the journal lists it; a large one is scaled, which the audit notes. The model
// of the endpoint knows what to begin with from the pixels alone.
func TestPictures(t *testing.T) {
	long.NotRaced(t)
	for _, tt := range []struct {
		attached endpoint.Attachment
		sees     bool
		solved   int
		notes    []string
	}{
		{endpoint.Picture, true, 9, nil},
		{endpoint.Poster, true, 9, []string{"picture-scaled"}},
		{endpoint.Picture, false, 0, nil},
	} {
		t.Run(string(tt.attached), func(t *testing.T) {
			tasks := endpoint.Tasks{Count: 10, Attached: tt.attached}
			server := serve(t, endpoint.Config{Tasks: tasks})
			c := generated(t, tasks, server.URL, nil)
			c.plan.Model.Images = tt.sees
			a := read(t, execute(t, t.TempDir(), c).Dir)
			a.charged(t, server)
			a.clean(t, tt.notes...)
			if s := a.Summary(); s.Outcomes.Solved != tt.solved || s.Outcomes.Solved+s.Outcomes.Failed != tasks.Count {
				t.Errorf("%+v", s.Outcomes)
			}
			shown := map[string]int{}
			for _, p := range a.pictures {
				shown[p.Path]++
				n := slices.IndexFunc(a.Tasks, func(task *rundir.Task) bool { return task.Plan.FileName == p.Path })
				file, err := tasks.File(n)
				if err != nil {
					t.Fatal(err)
				}
				if p.MediaType != "image/png" || (p.SHA256 == canonical.Digest(file)) != (tt.attached == endpoint.Picture) {
					t.Errorf("%+v was shown", p)
				}
			}
			if want := map[bool]int{true: tasks.Count}[tt.sees]; len(shown) != want || len(a.pictures) != want*3 {
				t.Errorf("pictures are listed %d times, of tasks %v", len(a.pictures), shown)
			}
		})
	}
}
