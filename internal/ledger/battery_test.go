package ledger

import (
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
)

// TestBatteryCounts: a null battery is taken only from the plan's judge, and only
// where what it says goes together.
func TestBatteryCounts(t *testing.T) {
	plan := JudgePlan{Battery: "sha256:b", Cache: true, Model: "umpire-1", Prompt: "judge.v1"}
	withstood := func() trajectory.SecurityEvent {
		return trajectory.SecurityEvent{Checked: 5, Kind: trajectory.JudgeBattery, Battery: &trajectory.Battery{
			CostMicroUSD: new(int64(50)), Model: "umpire-1", Prompt: "judge.v1", SHA256: "sha256:b", TokensIn: 700, TokensOut: 10, Tries: 5, Withstood: true}}
	}
	for _, c := range []struct {
		name    string
		change  func(*trajectory.SecurityEvent)
		refused bool
	}{
		{"withstood", func(*trajectory.SecurityEvent) {}, false},
		{"paid", func(e *trajectory.SecurityEvent) {
			e.Bad, e.Battery.Paid, e.Battery.Withstood = 1, []string{"colon"}, false
		}, false},
		{"unreadable", func(e *trajectory.SecurityEvent) {
			e.Battery.Unreadable, e.Battery.Withstood = []string{"colon"}, false
		}, false},
		{"not all of it", func(e *trajectory.SecurityEvent) {
			e.Checked, e.Battery.Problem, e.Battery.Withstood = 2, "the judge could not be asked", false
		}, false},
		{"cost unknown", func(e *trajectory.SecurityEvent) { e.Battery.CostMicroUSD = nil }, false},
		{"remembered", remember, false},
		{"remembered as paid", func(e *trajectory.SecurityEvent) { remember(e); e.Battery.Withstood = false }, false},

		{"no battery", func(e *trajectory.SecurityEvent) { e.Battery = nil }, true},
		{"another kind", func(e *trajectory.SecurityEvent) { e.Kind = trajectory.JudgeCacheSweep }, true},
		{"another judge", func(e *trajectory.SecurityEvent) { e.Battery.Model = "umpire-2" }, true},
		{"another prompt", func(e *trajectory.SecurityEvent) { e.Battery.Prompt = "judge.v0" }, true},
		{"another battery", func(e *trajectory.SecurityEvent) { e.Battery.SHA256 = "sha256:c" }, true},
		{"paid and withstood", func(e *trajectory.SecurityEvent) { e.Bad, e.Battery.Paid = 1, []string{"colon"} }, true},
		{"paid and not counted", func(e *trajectory.SecurityEvent) { e.Battery.Paid, e.Battery.Withstood = []string{"colon"}, false }, true},
		{"counted and not paid", func(e *trajectory.SecurityEvent) { e.Bad, e.Battery.Withstood = 1, false }, true},
		{"unreadable and withstood", func(e *trajectory.SecurityEvent) { e.Battery.Unreadable = []string{"colon"} }, true},
		{"more unreadable than put", func(e *trajectory.SecurityEvent) {
			e.Checked, e.Battery.Unreadable, e.Battery.Withstood = 1, []string{"colon", "comma"}, false
		}, true},
		{"withstood with a problem", func(e *trajectory.SecurityEvent) { e.Battery.Problem = "gone" }, true},
		{"withstood nothing", func(e *trajectory.SecurityEvent) { e.Checked, e.Battery.Tries = 0, 0 }, true},
		{"fewer tries than items", func(e *trajectory.SecurityEvent) { e.Battery.Tries = 4 }, true},
		{"remembered and asked", func(e *trajectory.SecurityEvent) { e.Battery.Remembered = true }, true},
		{"remembered at a price", func(e *trajectory.SecurityEvent) { remember(e); e.Battery.CostMicroUSD = new(int64(1)) }, true},
		{"less than no tokens", func(e *trajectory.SecurityEvent) { e.Battery.TokensIn = -1 }, true},
		{"more bad than checked", func(e *trajectory.SecurityEvent) { e.Bad = 6 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewManifest()
			m.Judge = &plan
			f := NewFold(m, "", nil)
			e := withstood()
			c.change(&e)
			if reason := f.security(e); (reason != "") != c.refused {
				t.Errorf("reason is %q", reason)
			}
			if f.IntegrityEvents() != 0 && !c.refused {
				t.Errorf("%d integrity events of the judge cache", f.IntegrityEvents())
			}
		})
	}
	for name, judge := range map[string]*JudgePlan{"no judge": nil, "a plan older than batteries": {Model: "umpire-1", Prompt: "judge.v1"}} {
		m := NewManifest()
		m.Judge = judge
		if reason := NewFold(m, "", nil).security(withstood()); reason == "" {
			t.Errorf("%s: taken", name)
		}
	}
}

func remember(e *trajectory.SecurityEvent) {
	e.Checked = 0
	b := e.Battery
	b.CostMicroUSD, b.Remembered, b.TokensIn, b.TokensOut, b.Tries = new(int64), true, 0, 0, 0
}

// TestBatteryAddsUp: every time that the battery was put to the judge is paid for,
// and the last one says how it stood.
func TestBatteryAddsUp(t *testing.T) {
	m := NewManifest()
	m.Judge = &JudgePlan{Battery: "sha256:b", Model: "umpire-1", Prompt: "judge.v1"}
	f := NewFold(m, "", nil)
	for i, put := range []int{2, 5} {
		b := &trajectory.Battery{CostMicroUSD: new(int64(10 * put)), Model: "umpire-1", Prompt: "judge.v1", SHA256: "sha256:b", TokensIn: 100, TokensOut: 1, Tries: put, Withstood: i == 1}
		if i == 0 {
			b.Problem = "the judge could not be asked"
		}
		if reason := f.security(trajectory.SecurityEvent{Checked: put, Kind: trajectory.JudgeBattery, Battery: b}); reason != "" {
			t.Fatal(reason)
		}
	}
	got := f.Summary().Judge
	if b := got.Battery; !b.Withstood || b.Put != 5 || b.Problem != "" || *b.CostMicroUSD != 70 || b.TokensIn != 200 || b.TokensOut != 2 {
		t.Errorf("battery %+v", b)
	}
	if *got.CostMicroUSD != 70 || got.TokensIn != 200 || got.TokensOut != 2 || got.Asked != 0 || f.Spent(0) != 70 {
		t.Errorf("judge %+v, spent %d", got, f.Spent(0))
	}
}
