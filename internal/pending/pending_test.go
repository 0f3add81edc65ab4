package pending

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestWait: a wait ends with the record, and else with its bounds and its context. Only what is usable is waited for.
func TestWait(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply func(s *Set, r *Reply)
		want  time.Duration
	}{
		{"nothing", func(*Set, *Reply) {}, 0},
		{"nothing usable", func(_ *Set, r *Reply) { r.Came(false) }, 0},
		{"recorded before", func(_ *Set, r *Reply) { r.Came(true); r.Recorded(); r.Recorded(); r.Came(true) }, 0},
		{"recorded soon", func(_ *Set, r *Reply) { r.Came(true); after(time.Second, r.Recorded) }, time.Second},
		{"never recorded", func(_ *Set, r *Reply) { r.Came(true) }, Quiet},
		{"recorded late, after signs of life", func(_ *Set, r *Reply) {
			r.Came(true)
			for i := range 8 {
				after(time.Duration(i)*time.Second, func() { r.Came(i%2 == 0) })
			}
			after(9*time.Second, r.Recorded)
		}, 9 * time.Second},
		{"silent after signs of life", func(_ *Set, r *Reply) {
			r.Came(true)
			after(1500*time.Millisecond, func() { r.Came(false) })
		}, 1500*time.Millisecond + Quiet},
		{"without end", func(_ *Set, r *Reply) {
			r.Came(true)
			for i := range 60 {
				after(time.Duration(i)*time.Second, func() { r.Came(true) })
			}
		}, Most},
		{"two that are silent", func(s *Set, r *Reply) { r.Came(true); s.Reply().Came(true) }, Quiet},
		{"given up", func(s *Set, r *Reply) { r.Came(true); s.Wait(context.Background()); r.Came(false) }, 0},
		{"usable again", func(s *Set, r *Reply) { r.Came(true); s.Wait(context.Background()); r.Came(true) }, Quiet},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Set{}
				c.reply(s, s.Reply())
				began := time.Now()
				s.Wait(context.Background())
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %v, want %v", took, c.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // a request that is given up gives no reply up
		s := &Set{}
		r := s.Reply()
		r.Came(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		s.Wait(ctx)
		if s.Wait(context.Background()); time.Since(began) != time.Second+Quiet {
			t.Errorf("the waits took %v", time.Since(began))
		}
		(*Reply)(nil).Came(true)
		(*Reply)(nil).Recorded()
	})
}

func after(d time.Duration, then func()) { time.AfterFunc(d, then) }
