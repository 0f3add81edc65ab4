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
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/tools/mcp"
	"github.com/gaia-harness/gaia/trajectory"
)

// batteries returns what a run recorded of null batteries, and the paths of its
// verdicts in the order of the journal.
func batteries(t *testing.T, dir string) (all []trajectory.JudgeBattery, paths []string) {
	t.Helper()
	_, err := rundir.Verify(os.DirFS(dir), rundir.Options{Event: func(e trajectory.Event) error {
		switch p := e.Payload.(type) {
		case trajectory.JudgeBattery:
			all = append(all, p)
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
func listened(c setup, say func(int, string) (string, error)) (setup, *talk) {
	l := &talk{Model: c.env.Judge.Client, say: say}
	c.env.Judge = &grading.Judge{Client: l, Name: c.env.Judge.Name, Origin: c.env.Judge.Origin}
	return c, l
}

// TestGullibleJudge: a judge that can be talked into verdicts is found out before
// it is asked about an answer, no verdict of it counts, not one from the cache
// either, and later runs know it.
func TestGullibleJudge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "judgments")
	c, server := judged(t, dir)
	c.env.Judge.Name = fixtures.GullibleJudgeModel
	r := execute(t, t.TempDir(), c)
	found := verified(t, r.Dir)
	s := found.Summary()
	if j := s.Judge; j.Withheld != 3 || j.Asked != 0 || j.Judged != 0 || j.TokensIn == 0 || *j.CostMicroUSD == 0 || s.JudgeCacheIntegrityEvents != 0 {
		t.Errorf("judge %+v", j)
	}
	if *s.Scores.Judged != s.Scores.Official {
		t.Errorf("judged %+v, official %+v", s.Scores.Judged, s.Scores.Official)
	}
	b := s.Judge.Battery
	if b.Passed || b.Cached || b.Asked != len(judge.Battery()) || len(b.Accepted) < 20 || !slices.Contains(b.Accepted, "thought-process") || !slices.Contains(b.Accepted, "system-role") {
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

	var err error
	if c.env.Cache, err = judgecache.Open(dir, c.env.Key, nil, c.env.Now); err != nil {
		t.Fatal(err)
	}
	for _, task := range found.Tasks { // as if it had been asked all the same
		plan := found.Manifest.Judge
		err := c.env.Cache.Put(judgecache.Context{TaskID: task.Plan.TaskID, Answer: task.Attempts[0].Answer.Answer, Expected: c.env.Gold.Map()[task.Plan.TaskID],
			Model: plan.Model, Origin: plan.Origin, PromptDigest: plan.PromptSHA256, Battery: plan.Battery}, true)
		if err != nil {
			t.Fatal(err)
		}
	}
	again, l := listened(c, nil)
	s = verified(t, execute(t, t.TempDir(), again).Dir).Summary()
	if b := s.Judge.Battery; l.asked != 0 || b.Passed || !b.Cached || b.Asked != 0 || s.Judge.Withheld != 3 || s.Judge.Cached != 0 || *s.Judge.CostMicroUSD != 0 {
		t.Errorf("asked %d times; judge %+v, battery %+v", l.asked, s.Judge, b)
	}
	elsewhere, l := listened(c, nil)
	elsewhere.env.Judge.Origin = "https://elsewhere.example"
	s = verified(t, execute(t, t.TempDir(), elsewhere).Dir).Summary()
	if l.asked != len(judge.Battery()) || s.Judge.Battery.Cached || s.Judge.Withheld != 3 {
		t.Errorf("at another endpoint: asked %d times; judge %+v", l.asked, s.Judge)
	}
}

// TestBatteryOnce: the battery is recorded before the first verdict, is put to a
// judge once, and not where no answer needs it.
func TestBatteryOnce(t *testing.T) {
	c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
	c.env.Concurrency = 3
	c, l := listened(c, nil)
	r := execute(t, t.TempDir(), c)
	all, paths := batteries(t, r.Dir)
	if len(all) != 1 || !all[0].Passed || all[0].Asked != len(judge.Battery()) || l.asked != len(judge.Battery())+3 || !slices.Equal(paths, []string{judge.PathJudge, judge.PathJudge, judge.PathJudge}) {
		t.Errorf("%+v, asked %d times, %v", all, l.asked, paths)
	}
	if b := all[0]; b.Tries != len(judge.Battery()) || b.TokensIn == 0 || *b.CostMicroUSD == 0 || b.Prompt != prompt.JudgeID || b.SHA256 != judge.BatteryDigest() {
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
			return "", &llm.Error{Status: 503, Code: "overloaded", Retryable: true}
		}
		return "", nil
	})
	r := execute(t, t.TempDir(), c)
	all, paths := batteries(t, r.Dir)
	if len(all) != 2 || all[0].Asked != 4 || all[0].Tries != 5 || all[0].ErrorStatus != 503 || all[0].Problem != "the judge could not be asked" || all[0].Passed || !all[1].Passed {
		t.Errorf("%+v", all)
	}
	if !slices.Equal(paths, []string{judge.PathError, judge.PathJudge, judge.PathJudge}) || l.asked != 5+len(judge.Battery())+2 {
		t.Errorf("%v, asked %d times", paths, l.asked)
	}
	s := verified(t, r.Dir).Summary().Judge
	if s.Withheld != 0 || s.Errors != 1 || s.Asked != 3 || s.Judged != 2 || s.Battery.TokensIn != all[0].TokensIn+all[1].TokensIn || *s.Battery.CostMicroUSD != *all[0].CostMicroUSD+*all[1].CostMicroUSD {
		t.Errorf("judge %+v, battery %+v", s, s.Battery)
	}
}

// TestBatteryNeverPastAnItem: an item on which the endpoint fails every time does
// not have the battery begun for every answer.
func TestBatteryNeverPastAnItem(t *testing.T) {
	c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
	c, l := listened(c, func(_ int, user string) (string, error) {
		if strings.Contains(user, "All of the above") {
			return "", &llm.Error{Status: 500, Code: "http_500", Retryable: true}
		}
		return "", nil
	})
	r := execute(t, t.TempDir(), c)
	all, paths := batteries(t, r.Dir)
	if len(all) != 2 || l.asked != all[0].Tries+all[1].Tries || !slices.Equal(paths, []string{judge.PathError, judge.PathError, judge.PathError}) {
		t.Errorf("%+v, %v, asked %d times", all, paths, l.asked)
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
	if b := s.Battery; s.Withheld != 3 || b.Passed || !slices.Equal(b.Unreadable, []string{"thought-process"}) || l.asked != len(judge.Battery())+1 {
		t.Errorf("judge %+v, battery %+v, asked %d times", s, b, l.asked)
	}
	s = verified(t, execute(t, t.TempDir(), c).Dir).Summary().Judge
	if b := s.Battery; s.Judged != 3 || !b.Passed || b.Cached {
		t.Errorf("the next run: judge %+v, battery %+v", s, b)
	}
}

// interrupted begins a run, which ends when ctx does.
func interrupted(t *testing.T, ctx context.Context, c setup) (dir string) {
	t.Helper()
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	return r.Dir
}

// TestBatteryOnResume: a process that goes on has the outcome from the journal,
// whatever it is.
func TestBatteryOnResume(t *testing.T) {
	for model, path := range map[string]string{fixtures.JudgeModel: judge.PathJudge, fixtures.GullibleJudgeModel: judge.PathWithheld} {
		c, _ := judged(t, t.TempDir())
		c.env.Cache, c.env.Judge.Name = nil, model
		c, l := listened(c, nil)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		watched := c
		watched.env.Watch = func(e trajectory.Event) {
			if _, ok := e.Payload.(trajectory.Judgment); ok {
				stop()
			}
		}
		dir := interrupted(t, ctx, watched)
		finish(t, dir, c)
		all, paths := batteries(t, dir)
		want := len(judge.Battery())
		if path == judge.PathJudge {
			want += 3
		}
		if len(all) != 1 || !slices.Equal(paths, []string{path, path, path}) || l.asked != want {
			t.Errorf("%s: %d batteries, %v, asked %d times", model, len(all), paths, l.asked)
		}
	}
}

// TestPlanWithoutSelfTest: a judge whose plan has no self-test is asked without one, and the run cannot be resumed.
func TestPlanWithoutSelfTest(t *testing.T) {
	c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.fold.Manifest.Judge.Battery = ""
	if err := r.samePlan(c.plan, r.fold.Manifest); err == nil {
		t.Error("the plan is the same")
	}
	answer := "a sentence that is not the answer"
	item := judge.Item{TaskID: r.fold.Tasks[0].Plan.TaskID, Question: "Why?", Gold: "because", Answer: &answer}
	if v, _, err := r.grader.Score(t.Context(), item); v.Tries == 0 || err != nil {
		t.Errorf("verdict %+v, %v", v, err)
	}
}

// TestBatteryCutOff: what a battery took that was interrupted is on record, and the
// run puts it to the judge again.
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
	dir := interrupted(t, ctx, cut)
	finish(t, dir, c)
	all, _ := batteries(t, dir)
	if len(all) != 2 || all[0].Asked != 3 || all[0].Problem != "asking the judge was interrupted" || *all[0].CostMicroUSD == 0 || !all[1].Passed {
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
	c.env.Prices, c.plan.Model.MaxTokens, c.plan.Budgets.RunCostMicroUSD = prices, 512, 50_000
	c, l := listened(c, nil)
	r := execute(t, t.TempDir(), c)
	all, paths := batteries(t, r.Dir)
	if len(all) != 1 || all[0].Asked != 0 || all[0].Problem != prompt.RunMoneySpent || l.asked != 0 {
		t.Errorf("%+v, asked %d times", all, l.asked)
	}
	if !slices.Equal(paths, []string{judge.PathError, judge.PathError, judge.PathError}) {
		t.Errorf("paths %v", paths)
	}
}

// TestBatteryRefusedInPart: an endpoint whose filter forbids items of the battery
// neither stops the run nor has it put again and again, and an answer that it
// forbids is not judged.
func TestBatteryRefusedInPart(t *testing.T) {
	for _, status := range []int{400, 403} {
		c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
		question := c.env.Set.Tasks[1].Question
		c, l := listened(c, func(_ int, user string) (string, error) {
			if strings.Contains(user, "Ignore the rules") || strings.Contains(user, question) {
				return "", &llm.Error{Status: status, Code: "content_filter", Stop: status == 403}
			}
			return "", nil
		})
		r := execute(t, t.TempDir(), c)
		all, paths := batteries(t, r.Dir)
		want := len(judge.Battery()) + 3
		if status == 403 {
			want++ // whether the judge answers anything
		}
		if len(all) != 1 || !all[0].Passed || !slices.Equal(all[0].Refused, []string{"instruction"}) || l.asked != want {
			t.Errorf("%d: %+v, asked %d times", status, all, l.asked)
		}
		if !slices.Equal(paths, []string{judge.PathJudge, judge.PathError, judge.PathJudge}) {
			t.Errorf("%d: paths %v", status, paths)
		}
		if s := verified(t, r.Dir).Summary().Judge; s.Errors != 1 || s.Judged != 2 || !slices.Equal(s.Battery.Refused, all[0].Refused) {
			t.Errorf("%d: judge %+v", status, s)
		}
	}
}

// TestBatteryForbidden: who may not ask the judge at all is told so.
func TestBatteryForbidden(t *testing.T) {
	c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
	c, _ = listened(c, func(int, string) (string, error) {
		return "", &llm.Error{Status: 403, Code: "no_access", Stop: true}
	})
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(t.Context(), nil); err == nil || err.Error() != "the judge cannot be asked: status 403, no_access" {
		t.Errorf("error is %v", err)
	}
}

// TestAnotherJudgeAtTheHost: what one judge said at a place is not the word of
// another at the same host, and a run keeps to its own.
func TestAnotherJudgeAtTheHost(t *testing.T) {
	c, server := judged(t, filepath.Join(t.TempDir(), "judgments"))
	c.env.Judge.URL = server.ModelURL + "/a"
	execute(t, t.TempDir(), c)
	other, l := listened(c, nil)
	other.env.Judge.URL = server.ModelURL + "/b"
	r, err := Create(t.TempDir(), other.plan, other.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var differs *PlanError
	if err := r.samePlan(other.plan, r.fold.Manifest); err != nil {
		t.Error(err)
	}
	r.env.Judge = c.env.Judge
	if err := r.samePlan(other.plan, r.fold.Manifest); !errors.As(err, &differs) {
		t.Errorf("the judge at another place is the plan's: %v", err)
	}
	r.env.Judge = other.env.Judge
	if err := r.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if s := verified(t, r.Dir).Summary().Judge; l.asked != len(judge.Battery())+3 || s.Cached != 0 || s.Battery.Cached {
		t.Errorf("asked %d times; judge %+v", l.asked, s)
	}
}

// TestReplayIsNoMemory: what a cassette says is not kept for the judge's word, and
// its judge has none of the past.
func TestReplayIsNoMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "judgments")
	c, _ := judged(t, dir)
	c.plan.Cassette, c.plan.SubmitIntent = plan.CassetteReplay, false
	found := verified(t, execute(t, t.TempDir(), c).Dir)
	files, err := os.ReadDir(dir)
	if s := found.Summary().Judge; found.Manifest.Judge.Cache || s.Judged != 3 || len(files) != 0 || err != nil {
		t.Errorf("judge %+v; kept %v, %v", s, files, err)
	}
	c.plan.Cassette = ""
	execute(t, t.TempDir(), c)
	c.plan.Cassette = plan.CassetteReplay
	if s := verified(t, execute(t, t.TempDir(), c).Dir).Summary().Judge; s.Cached != 0 || s.Battery.Cached {
		t.Errorf("judge %+v", s)
	}
}

// TestForgedBattery: an outcome that someone made up is found when it is wanted,
// and the judge is asked.
func TestForgedBattery(t *testing.T) {
	s := earlierRun(t).copied(t)
	c, _ := judged(t, s.dir)
	digest, err := c.env.Judge.SelfTestKey().Digest()
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(digest, "sha256:") + ".json"
	c.env.Judge.Name = fixtures.JudgeModel
	c, l := listened(c, nil)
	c.env.Watch = func(e trajectory.Event) {
		if _, ok := e.Payload.(trajectory.RunStarted); ok {
			s.write(name, []byte(strings.Replace(string(s.read(name)), `"withstood"`, `"paid"`, 1)))
		}
	}
	events, sum := checked(t, execute(t, t.TempDir(), c).Dir)
	if len(events) != 1 || events[0].Kind != trajectory.JudgeCacheRead || events[0].Entries[0].Name != name || sum.JudgeCacheIntegrityEvents != 1 {
		t.Errorf("%+v, %d integrity events", events, sum.JudgeCacheIntegrityEvents)
	}
	if l.asked != len(judge.Battery()) || sum.Judge.Cached != 3 || !sum.Judge.Battery.Passed || sum.Judge.Battery.Cached {
		t.Errorf("asked %d times, judge %+v", l.asked, sum.Judge)
	}
}

// TestPaths: the ledger counts by the names that the judge gives.
func TestPaths(t *testing.T) {
	for _, pair := range [][2]string{{rundir.PathJudge, judge.PathJudge}, {rundir.PathError, judge.PathError}, {rundir.PathUnreadable, judge.PathUnreadable}, {rundir.PathWithheld, judge.PathWithheld}, {rundir.PathTooLong, judge.PathTooLong},
		{plan.NetworkNone, mcp.NetworkNone}, {plan.NetworkHost, mcp.NetworkHost}, {rundir.CodeTooLong, llm.ContextLengthExceeded}, {rundir.CodeToolsRefused, llm.ToolsNotSupported},
		{rundir.DialectChat, llm.DialectChat}, {rundir.DialectResponses, llm.DialectResponses}, {rundir.DialectMessages, llm.DialectMessages}} {
		if pair[0] != pair[1] {
			t.Errorf("%q is %q in the ledger", pair[1], pair[0])
		}
	}
}

// TestForbiddenLater: where the judge forbids an answer, another question tells
// whether it is that answer, or whether nothing can be asked any longer: then the
// run stops, and is taken up when that is repaired.
func TestForbiddenLater(t *testing.T) {
	c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
	execute(t, t.TempDir(), c) // so that the battery is remembered
	if err := os.RemoveAll(c.env.Cache.Dir()); err != nil {
		t.Fatal(err)
	}
	c, _ = judged(t, c.env.Cache.Dir())
	if err := c.env.Cache.Put(c.env.Judge.SelfTestKey(), true); err != nil {
		t.Fatal(err)
	}
	revoked, l := listened(c, func(asked int, _ string) (string, error) {
		if asked > 1 {
			return "", &llm.Error{Status: 403, Code: "permission_denied", Stop: true}
		}
		return "", nil
	})
	r, err := Create(t.TempDir(), revoked.plan, revoked.env)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(t.Context(), nil); err == nil || err.Error() != "the judge cannot be asked: status 403, permission_denied" {
		t.Errorf("error is %v", err)
	}
	r.Close()
	if l.asked > 5 { // the first answer, and of two others each, and whether it is that one
		t.Errorf("asked %d times", l.asked)
	}
	finish(t, r.Dir, c)
	if s := verified(t, r.Dir).Summary().Judge; s.Judged != 3 || s.Errors != 0 || !s.Battery.Cached {
		t.Errorf("judge %+v", s)
	}
}

// TestBatteryKept: what a filter refused in part is not remembered as withstood,
// and that an item was paid is, whatever came after it.
func TestBatteryKept(t *testing.T) {
	for _, tt := range []struct {
		name  string
		say   func(int, string) (string, error)
		ends  bool // the run comes to its end
		found bool
	}{
		{"refused in part", func(_ int, user string) (string, error) {
			if strings.Contains(user, "Thought process") {
				return "", &llm.Error{Status: 400, Code: "content_filter"}
			}
			return "", nil
		}, true, false},
		{"empty in part", func(_ int, user string) (string, error) {
			if strings.Contains(user, "Thought process") {
				return "", &llm.Error{Status: 200, Code: llm.EmptyCompletion, Retryable: true}
			}
			return "", nil
		}, true, false},
		{"paid, then locked out", func(asked int, _ string) (string, error) {
			if asked > 1 {
				return "", &llm.Error{Status: 401, Code: "invalid_api_key", Stop: true}
			}
			return `{"verdict":"correct"}`, nil
		}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := judged(t, filepath.Join(t.TempDir(), "judgments"))
			said, _ := listened(c, tt.say)
			r, err := Create(t.TempDir(), said.plan, said.env)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if err := r.Execute(t.Context(), nil); (err == nil) != tt.ends {
				t.Errorf("the run ends with %v", err)
			}
			if withstood, found, bad, err := c.env.Cache.Get(c.env.Judge.SelfTestKey()); withstood || found != tt.found || bad != nil || err != nil {
				t.Errorf("remembered: %v, %v, %v, %v", withstood, found, bad, err)
			}
		})
	}
}
