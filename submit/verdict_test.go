package submit

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// disturbed is a run with a retried call, a failed attempt, an answer that was lost
// with its process, and a resume by another version of the program.
const disturbed = `Two tasks of a run that was interrupted once.
-- split validation --
carried gold
` + firstTask + `
` + secondTask + `
-- task ` + firstTask + ` --
question: How many lamps did the lighthouse of Ostrel have in 1871, by the almanac?
gold: 14
-- retry 503 --
overloaded
-- patch answer_committed --
null
-- patch attempt_ended --
null
-- answer 14 --
I would say so.
-- event run_resumed --
{"harness":{"version":"v1.1.0","dirty":true}}
-- event security_event --
{"bad":0,"checked":3,"kind":"judge_cache_sweep"}
-- event attempt_ended --
{"outcome":"error","reason":"interrupted"}
-- answer 14 --
From memory.
-- task ` + secondTask + ` --
question: Which harbour closed first?
gold: Tolmey
-- error 502 --
bad gateway
-- answer Tolmey --
From memory.
`

// verifiedClaims returns the claims that are verified.
func verifiedClaims(all []Claim) (names []string) {
	for _, c := range all {
		if c.Status == ByCheck {
			names = append(names, c.Claim)
		}
	}
	return names
}

// exceptionMembers returns the counts of e by name.
func exceptionMembers(e *rundir.Exceptions) map[string]*int {
	return map[string]*int{"dismissals": &e.Dismissals, "interruptions": &e.Interruptions, "lost_attempts": &e.LostAttempts, "resumes": &e.Resumes,
		"retried_attempts": &e.RetriedAttempts, "retried_calls": &e.RetriedCalls, "void_tasks": &e.VoidTasks}
}

// TestExceptions packages runs with exceptions and signs statements with fewer of them.
func TestExceptions(t *testing.T) {
	dismissed, _, _ := bothDismissed(t)
	voided := config(t, leaked)
	decide(t, voided, ruling(t, voided, audit.Void, leakRule, firstTask), ruling(t, voided, audit.Void, leakRule, secondTask))
	interrupted := config(t, disturbed)
	interrupted.AllowDirty = true
	seen := map[string]bool{}
	for name, tt := range map[string]struct {
		config Config
		want   rundir.Exceptions
		text   string
	}{
		"none":        {config(t, two), rundir.Exceptions{}, "none"},
		"dismissed":   {withDirty(dismissed), rundir.Exceptions{Dismissals: 2}, "2 dismissals"},
		"voided":      {voided, rundir.Exceptions{VoidTasks: 2}, "2 void tasks"},
		"interrupted": {interrupted, rundir.Exceptions{Interruptions: 1, LostAttempts: 1, Resumes: 1, RetriedAttempts: 2, RetriedCalls: 1}, "2 retried attempts, 1 retried call, 1 lost attempt, 1 interruption, 1 resume"},
	} {
		full, public := both(t, tt.config)
		posted, err := VerifyPublic(os.DirFS(public.Path), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for kind, s := range map[string]Statement{"full": full.Statement, "public": posted.Statement} {
			if got := s.Predicate.Exceptions; got != tt.want || got.String() != tt.text {
				t.Errorf("%s, %s: %+v, %q", name, kind, got, got)
			}
		}
		for _, p := range []Package{full, public} {
			if readme := string(load(t, p.Path)[ReadmeFile]); !strings.Contains(readme, "\n- exceptions: "+tt.text+"\n") {
				t.Errorf("%s: README.md does not list %q", p.Name, tt.text)
			}
		}
		for member, n := range exceptionMembers(&tt.want) {
			if *n == 0 {
				continue
			}
			seen[member] = true
			forge := func(s *Statement) { *exceptionMembers(&s.Predicate.Exceptions)[member]-- }
			pkg := memory(load(t, full.Path))
			resign(t, pkg, runs.Key(), forge)
			wantFault(t, name+" with fewer "+member, pkg, "see exceptions", AttestationFile)
			pkg = memory(load(t, public.Path))
			republish(t, pkg, forge)
			p, err := VerifyPublic(pkg, byAnother())
			if member == "lost_attempts" && err == nil { // the journal alone shows them
				if err = p.Shows(disclosed(t, full.Run, tt.config.Run, "")); err == nil {
					t.Errorf("%s, public with fewer %s is what the whole run shows", name, member)
				}
				err = p.IsOf(full.Verified)
			}
			wantFaultIn(t, name+", public with fewer "+member, err, AttestationFile)
		}
	}
	if len(seen) != len(exceptionMembers(new(rundir.Exceptions))) {
		t.Errorf("no run has others than %v", slices.Sorted(maps.Keys(seen)))
	}
}

// TestAnsweredBy: the statement names what answered, by the plan and the journal.
func TestAnsweredBy(t *testing.T) {
	text := planned(disturbed, `{"model":{"name":"probe-9","origin":"https://models.example","served_as":["harbour-9"]},"search":{"engine":"tavily","origin":"https://search.example"}}`)
	text = change(t, text, "-- error 502 --", "-- patch model_call_completed --\n{\"response_model\":\"Tolmey says 14\"}\n-- answer Tolm --\nA guess.\n-- error 502 --")
	c := config(t, text)
	c.AllowDirty = true
	full, public := both(t, c)
	posted, err := VerifyPublic(os.DirFS(public.Path), Options{})
	if err != nil {
		t.Fatal(err)
	}
	by := full.Statement.Predicate.AnsweredBy
	if by.Agent != "built-in" || by.Model != "probe-9" || by.Origin != "https://models.example" || !slices.Equal(by.ServedAs, []string{"harbour-9"}) ||
		!slices.Equal(by.RepliedAs, []string{"Tolmey says 14", "probe-9"}) || by.RepliedOther || by.Search == nil || by.Search.Engine != "tavily" ||
		len(by.MCPServers) != 0 || len(by.Harnesses) != 2 || by.Harnesses[1].Version != "v1.1.0" || by.CleanBuild {
		t.Errorf("%+v", by)
	}
	if by := posted.Statement.Predicate.AnsweredBy; !slices.Equal(by.RepliedAs, []string{"probe-9"}) || !by.RepliedOther || len(by.Harnesses) != 2 {
		t.Errorf("public: %+v", by)
	}
	for _, want := range []string{"| model | `probe-9` at `https://models.example` |", "| search engine | `tavily` at `https://search.example` |", "; resumed by `v1.1.0`, commit ", " with changes |", "| agent | built-in"} {
		for _, p := range []Package{full, public} {
			if !strings.Contains(string(load(t, p.Path)[ReadmeFile]), want) {
				t.Errorf("README.md of %s lacks %q", p.Name, want)
			}
		}
	}
	for name, forge := range map[string]func(*plan.AnsweredBy){
		"another model":        func(by *plan.AnsweredBy) { by.Model = "probe-10" },
		"another origin":       func(by *plan.AnsweredBy) { by.Origin = "https://api.example" },
		"another engine":       func(by *plan.AnsweredBy) { by.Search = nil },
		"a clean build":        func(by *plan.AnsweredBy) { by.CleanBuild = true },
		"no other harness":     func(by *plan.AnsweredBy) { *by = by.Resumed(); by.Harnesses = by.Harnesses[:1]; *by = by.Resumed() },
		"no name":              func(by *plan.AnsweredBy) { by.RepliedAs = []string{} },
		"a server":             func(by *plan.AnsweredBy) { by.MCPServers = []string{"files"} },
		"another agent":        func(by *plan.AnsweredBy) { by.Agent = "swarm" },
		"a declared name more": func(by *plan.AnsweredBy) { by.ServedAs = append(by.ServedAs, "x") },
		"a name of words":      func(by *plan.AnsweredBy) { by.RepliedAs = []string{"the answer is 14"} },
		"a harness of words":   func(by *plan.AnsweredBy) { by.Harnesses = append(by.Harnesses, trajectory.Harness{Version: "14"}) },
	} {
		pkg := memory(load(t, full.Path))
		resign(t, pkg, runs.Key(), func(s *Statement) { forge(&s.Predicate.AnsweredBy) })
		wantFault(t, name, pkg, "see answered_by", AttestationFile)
		pkg = memory(load(t, public.Path))
		republish(t, pkg, func(s *Statement) { forge(&s.Predicate.AnsweredBy) })
		p, err := VerifyPublic(pkg, byAnother())
		if err == nil {
			err = p.IsOf(full.Verified)
		}
		wantFaultIn(t, name+", public", err, AttestationFile)
	}
}

// TestClaims: a claim is verified only by who checked it.
func TestClaims(t *testing.T) {
	c := config(t, two)
	p := mustBuild(t, c)
	for _, claim := range p.Statement.Predicate.Claims {
		if claim.Status != BySigner && claim.Status != Absent {
			t.Errorf("the statement has %s as %s", claim.Claim, claim.Status)
		}
	}
	journal := []string{"evidence-chain", "scores", "audit-conclusion"}
	for name, tt := range map[string]struct {
		options Options
		given   Given
		want    []string
	}{
		"nothing":      {Options{}, Given{}, journal},
		"the answers":  {Options{Gold: c.Gold}, Given{}, append([]string{"official-verdicts", "audit-findings"}, journal...)},
		"the dataset":  {Options{Gold: c.Gold}, Given{Questions: true}, append([]string{"official-verdicts", "audit-findings", "questions"}, journal...)},
		"a checkpoint": {Options{}, Given{Checkpoint: true}, append([]string{"published-checkpoint"}, journal...)},
		"a key":        {Options{}, Given{Trusted: true}, append([]string{"trusted-signer"}, journal...)},
	} {
		v, err := Verify(os.DirFS(p.Path), tt.options)
		if err != nil {
			t.Fatal(err)
		}
		got := verifiedClaims(v.Claims(tt.given))
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("given %s: %q, want %q", name, got, tt.want)
		}
	}
	if got := verifiedClaims(RunClaims(p.Run, Given{})); !slices.Equal(got, []string{"evidence-chain", "scores"}) {
		t.Errorf("a run: %q", got)
	}
	for _, status := range []Status{ByCheck, Inferred, Absent} {
		pkg := memory(load(t, p.Path))
		resign(t, pkg, runs.Key(), func(s *Statement) { claimGold(&s.Predicate, true, status) })
		wantFault(t, string(status), pkg, "see claims", AttestationFile)
	}
}
