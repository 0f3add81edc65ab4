package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
)

// batteries returns what a run recorded of null batteries, and the paths of its
// verdicts in the order of the journal.
func batteries(t *testing.T, dir string) (all []trajectory.SecurityEvent, paths []string) {
	t.Helper()
	_, err := ledger.Verify(os.DirFS(dir), ledger.Options{Event: func(e trajectory.Event) error {
		switch p := e.Payload.(type) {
		case trajectory.SecurityEvent:
			if p.Battery != nil {
				all = append(all, p)
			}
		case trajectory.Judgment:
			paths = append(paths, p.Path)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return all, paths
}

// talk stands between a run and its judge: it counts what is asked, and may
// answer itself.
type talk struct {
	agent.Model
	mu    sync.Mutex
	asked int
	say   func(asked int, candidate string) (text string, err error) // "" = as the judge says
}

func (j *talk) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	j.mu.Lock()
	j.asked++
	text, err := "", error(nil)
	if j.say != nil {
		text, err = j.say(j.asked, r.Messages[1].Content)
	}
	j.mu.Unlock()
	if text == "" && err == nil {
		return j.Model.Chat(ctx, r, o)
	}
	return llm.Response{Message: llm.Message{Content: text}}, err
}

// listened puts talk between a run and its judge.
func listened(c Config, say func(int, string) (string, error)) (Config, *talk) {
	l := &talk{Model: c.Judge.Client, say: say}
	c.Judge = &Endpoint{Client: l, Name: c.Judge.Name, Origin: c.Judge.Origin}
	return c, l
}

// TestGullibleJudge: a judge that can be talked into verdicts is found out before
// it is asked about an answer, no verdict of it counts, not one from the cache
// either, and later runs know it.
func TestGullibleJudge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "judgments")
	c, server := judged(t, dir)
	c.Judge.Name = fixtures.GullibleJudgeModel
	r := execute(t, t.TempDir(), c)
	found := verified(t, r.Dir)
	s := found.Summary()
	if j := s.Judge; j.Withheld != 3 || j.Asked != 0 || j.Judged != 0 || j.TokensIn == 0 || *j.CostMicroUSD == 0 || s.JudgeCacheIntegrityEvents != 0 {
		t.Errorf("judge %+v", j)
	}
	if s.Scores.Judged != s.Scores.Official {
		t.Errorf("judged %+v, official %+v", s.Scores.Judged, s.Scores.Official)
	}
	b := s.Judge.Battery
	if b.Withstood || b.Remembered || b.Put != len(judge.Battery()) || len(b.Paid) < 20 || !slices.Contains(b.Paid, "thought-process") || !slices.Contains(b.Paid, "system-role") {
		t.Errorf("battery %+v", b)
	}
	if n := askedAbout(server, c); n != 0 {
		t.Errorf("asked about %d answers", n)
	}
	for _, task := range found.Tasks {
		if res := found.Result(task); res.ScoringPath != judge.PathWithheld || res.JudgedCorrect != nil || res.OfficialCorrect == nil || *res.OfficialCorrect {
			t.Errorf("%s: %+v", task.Plan.TaskID, res)
		}
	}

	c.Verdicts, _ = judgecache.Open(dir, c.Key, nil, c.Now)
	for _, task := range found.Tasks { // as if it had been asked before there were batteries
		plan := found.Manifest.Judge
		err := c.Verdicts.Put(judgecache.Context{TaskID: task.Plan.TaskID, Answer: task.Attempts[0].Answer.Answer, Expected: c.Gold.Map()[task.Plan.TaskID],
			Model: plan.Model, Origin: plan.Origin, PromptDigest: plan.PromptSHA256}, true)
		if err != nil {
			t.Fatal(err)
		}
	}
	again, l := listened(c, nil)
	s = verified(t, execute(t, t.TempDir(), again).Dir).Summary()
	if b := s.Judge.Battery; l.asked != 0 || b.Withstood || !b.Remembered || b.Put != 0 || s.Judge.Withheld != 3 || s.Judge.Cached != 0 || *s.Judge.CostMicroUSD != 0 {
		t.Errorf("asked %d times; judge %+v, battery %+v", l.asked, s.Judge, b)
	}
	elsewhere, l := listened(c, nil)
	elsewhere.Judge.Origin = "https://elsewhere.example"
	s = verified(t, execute(t, t.TempDir(), elsewhere).Dir).Summary()
	if l.asked != len(judge.Battery()) || s.Judge.Battery.Remembered || s.Judge.Withheld != 3 {
		t.Errorf("at another endpoint: asked %d times; judge %+v", l.asked, s.Judge)
	}
}

// TestBatteryOnce: the battery is recorded before the first verdict, is put to a
// judge once, and not where no answer needs it.
func TestBatteryOnce(t *testing.T) {
	c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
	c.Concurrency = 3
	c, l := listened(c, nil)
	r := execute(t, t.TempDir(), c)
	all, paths := batteries(t, r.Dir)
	if len(all) != 1 || !all[0].Battery.Withstood || all[0].Checked != len(judge.Battery()) || l.asked != len(judge.Battery())+3 || !slices.Equal(paths, []string{judge.PathJudge, judge.PathJudge, judge.PathJudge}) {
		t.Errorf("%+v, asked %d times, %v", all, l.asked, paths)
	}
	if b := all[0].Battery; b.Tries != len(judge.Battery()) || b.TokensIn == 0 || *b.CostMicroUSD == 0 || b.Prompt != prompt.JudgeID || b.SHA256 != judge.BatteryDigest() {
		t.Errorf("%+v", b)
	}

	c, l = listened(config(t, goldenTask), nil)
	if s := verified(t, execute(t, t.TempDir(), c).Dir).Summary(); s.Judge.Battery != nil || l.asked != 0 {
		t.Errorf("with right answers alone: asked %d times, %+v", l.asked, s.Judge)
	}
}

// TestBatteryOutlivesAnOutage: a judge that cannot be asked is tried again for the
// next answer, and what it cost is counted every time.
func TestBatteryOutlivesAnOutage(t *testing.T) {
	c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
	c, l := listened(c, func(asked int, _ string) (string, error) {
		if asked == 5 {
			return "", &llm.Error{Status: 503, Code: "overloaded"}
		}
		return "", nil
	})
	r := execute(t, t.TempDir(), c)
	all, paths := batteries(t, r.Dir)
	if len(all) != 2 || all[0].Checked != 4 || all[0].Battery.Tries != 5 || all[0].Battery.ErrorStatus != 503 || all[0].Battery.Problem != "the judge could not be asked" || all[0].Battery.Withstood || !all[1].Battery.Withstood {
		t.Errorf("%+v", all)
	}
	if !slices.Equal(paths, []string{judge.PathWithheld, judge.PathJudge, judge.PathJudge}) || l.asked != 5+len(judge.Battery())+2 {
		t.Errorf("%v, asked %d times", paths, l.asked)
	}
	s := verified(t, r.Dir).Summary().Judge
	if s.Withheld != 1 || s.Judged != 2 || s.Battery.TokensIn != all[0].Battery.TokensIn+all[1].Battery.TokensIn || *s.Battery.CostMicroUSD != *all[0].Battery.CostMicroUSD+*all[1].Battery.CostMicroUSD {
		t.Errorf("judge %+v, battery %+v", s, s.Battery)
	}
}

// TestBatteryUnreadable: what is no verdict does not withstand anything. It is not
// tried again in the run, but in the next one.
func TestBatteryUnreadable(t *testing.T) {
	c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
	garbled, l := listened(c, func(_ int, user string) (string, error) {
		if strings.Contains(user, "Thought process") {
			return "Thought process: it is right.", nil
		}
		return "", nil
	})
	s := verified(t, execute(t, t.TempDir(), garbled).Dir).Summary().Judge
	if b := s.Battery; s.Withheld != 3 || b.Withstood || !slices.Equal(b.Unreadable, []string{"thought-process"}) || l.asked != len(judge.Battery())+1 {
		t.Errorf("judge %+v, battery %+v, asked %d times", s, b, l.asked)
	}
	s = verified(t, execute(t, t.TempDir(), c).Dir).Summary().Judge
	if b := s.Battery; s.Judged != 3 || !b.Withstood || b.Remembered {
		t.Errorf("the next run: judge %+v, battery %+v", s, b)
	}
}

// TestBatteryOnResume: a process that goes on has the outcome from the journal.
func TestBatteryOnResume(t *testing.T) {
	c, _ := judged(t, t.TempDir())
	c.Verdicts = nil
	c, l := listened(c, nil)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	watched := c
	watched.Watch = func(e trajectory.Event) {
		if _, ok := e.Payload.(trajectory.Judgment); ok {
			stop()
		}
	}
	r, err := Create(t.TempDir(), watched)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	r.Close()
	finish(t, r.Dir, c)
	all, paths := batteries(t, r.Dir)
	if len(all) != 1 || len(paths) != 3 || l.asked != len(judge.Battery())+3 {
		t.Errorf("%d batteries, %v, asked %d times", len(all), paths, l.asked)
	}
}

// TestBatteryOfAnOldPlan: a plan that is older than batteries is kept to.
func TestBatteryOfAnOldPlan(t *testing.T) {
	c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
	r, err := Create(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.fold.Manifest.Judge.Battery = ""
	if err := r.samePlan(r.fold.Manifest); err != nil {
		t.Error(err)
	}
	if fit, err := r.fit(t.Context()); !fit || err != nil {
		t.Errorf("fit %v, %v", fit, err)
	}
}

// TestBatteryCutOff: what a battery took that was interrupted is on record, and the
// run puts it to the judge anew.
func TestBatteryCutOff(t *testing.T) {
	c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cut, _ := listened(c, func(asked int, _ string) (string, error) {
		if asked == 4 {
			stop()
			return "", ctx.Err()
		}
		return "", nil
	})
	r, err := Create(t.TempDir(), cut)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	r.Close()
	finish(t, r.Dir, c)
	all, _ := batteries(t, r.Dir)
	if len(all) != 2 || all[0].Checked != 3 || all[0].Battery.Problem != "asking the judge was interrupted" || *all[0].Battery.CostMicroUSD == 0 || !all[1].Battery.Withstood {
		t.Errorf("%+v", all)
	}
}

// TestBatteryWithoutMoney: a judge that the run cannot pay for is not tried, once.
func TestBatteryWithoutMoney(t *testing.T) {
	c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
	prices, err := llm.ParsePrices([]byte(`{"version":"1","note":"","models":{
		"` + fixtures.Model + `":{"input_microusd_per_mtok":0,"cached_input_microusd_per_mtok":0,"output_microusd_per_mtok":0},
		"` + fixtures.JudgeModel + `":{"input_microusd_per_mtok":1000000000,"cached_input_microusd_per_mtok":1000000000,"output_microusd_per_mtok":1000000000}}}`))
	if err != nil {
		t.Fatal(err)
	}
	c.Prices, c.MaxTokens, c.RunCost = prices, 512, 50_000
	c, l := listened(c, nil)
	r := execute(t, t.TempDir(), c)
	all, paths := batteries(t, r.Dir)
	if len(all) != 1 || all[0].Checked != 0 || all[0].Battery.Problem != prompt.RunMoneySpent || l.asked != 0 {
		t.Errorf("%+v, asked %d times", all, l.asked)
	}
	if !slices.Equal(paths, []string{judge.PathWithheld, judge.PathWithheld, judge.PathWithheld}) {
		t.Errorf("paths %v", paths)
	}
}
