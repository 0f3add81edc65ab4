package rundir_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// order are forgeries of where events stand.
func order() []forgery {
	const sealed = "its events give "
	return []forgery{
		{"lines of two tasks swapped", true, func(t *testing.T, s, _ story) story {
			i, j := s.at(t, ferries, "attempt_ended", 0), s.at(t, lights, "task_started", 0)
			s[i], s[j+1] = s[j+1], s[i]
			return s
		}, "attempt 1 has not begun"},
		{"lines of two tasks swapped, their numbers kept", false, func(t *testing.T, s, _ story) story {
			i, j := s.at(t, ferries, "attempt_ended", 0), s.at(t, lights, "task_started", 0)
			s[i], s[j] = s[j], s[i]
			return s
		}, ": seq is "},
		{"an attempt dropped, the stop kept", true, func(t *testing.T, s, _ story) story {
			return s.except(lights, func(l runs.Line) bool { return l["attempt"] == 1.0 })
		}, "run_completed does not count what was sealed"},
		{"the stop left out", true, func(t *testing.T, s, _ story) story { return s.unstopped(t) }, "miscounts the events before it"},
		{"an attempt dropped", true, func(t *testing.T, s, _ story) story {
			return s.unstopped(t).except(lights, func(l runs.Line) bool { return l["attempt"] == 1.0 })
		}, "miscounts the events before it"},
		{"an attempt dropped, with the interruption that ended it", true, func(t *testing.T, s, _ story) story {
			s = s.unstopped(t)
			at := s.at(t, "", "run_resumed", 0)
			return s.without(at, at+1).except(lights, func(l runs.Line) bool { return l["attempt"] == 1.0 })
		}, "attempt 2 cannot begin here"},
		{"an attempt dropped, the other one renumbered", true, func(t *testing.T, s, _ story) story {
			return dropFirst(t, s.unstopped(t))
		}, `is sealed as "failed" of attempt 2 in 2; its events give "failed" of attempt 1 in 1`},
		{"an attempt dropped, the seal adapted", true, func(t *testing.T, s, _ story) story {
			s = dropFirst(t, s.unstopped(t))
			p := s[s.at(t, lights, "task_sealed", 0)].Payload()
			p["attempt"], p["attempts"] = 1, 1
			return s
		}, checked},
		{"a task dropped", true, func(t *testing.T, s, _ story) story {
			return s.except(harbour, func(runs.Line) bool { return true })
		}, "run_completed does not count what was sealed"},
		{"a turn dropped", true, func(t *testing.T, s, _ story) story {
			return s[:s.at(t, "", "run_resumed", 0)].except(ferries, func(l runs.Line) bool { return l["turn"] == 2.0 })
		}, "turn 3 cannot begin here"},
		{"the grade before the answer", true, func(t *testing.T, s, _ story) story {
			return s.moved(s.at(t, ferries, "judgment", 0), s.at(t, ferries, "answer_committed", 0))
		}, "grades attempt 1, which has committed no answer"},
		{"the grade of a task that has no answer", true, func(t *testing.T, s, _ story) story {
			s = s.with(s.at(t, ferries, "judgment", 0), s.at(t, harbour, "task_sealed", 0))
			s[s.at(t, harbour, "task_sealed", 0)-1]["task_id"] = harbour
			return s
		}, "grades attempt 1, which has committed no answer"},
		{"the seal before the grade", true, func(t *testing.T, s, _ story) story {
			return s.moved(s.at(t, ferries, "task_sealed", 0), s.at(t, ferries, "judgment", 0))
		}, "is sealed before it is settled"},
		{"the end of the attempt before the answer", true, func(t *testing.T, s, _ story) story {
			return s.moved(s.at(t, ferries, "attempt_ended", 0), s.at(t, ferries, "answer_committed", 0))
		}, `ends as "answered", which its events do not give`},
		{"a turn after the end of its attempt", true, func(t *testing.T, s, _ story) story {
			return s.with(s.at(t, ferries, "turn_completed", 2), s.at(t, ferries, "judgment", 0))
		}, "attempt 1 has ended"},
		{"a second commit", true, func(t *testing.T, s, _ story) story {
			at := s.at(t, ferries, "answer_committed", 0)
			s = s.with(at, at+1)
			s[at+1]["payload"] = map[string]any{"answer": "432", "reasoning_trace": "", "rule": "final-answer.v1"}
			return s
		}, "commits a second answer"},
		{"a commit after the end of its attempt", true, func(t *testing.T, s, _ story) story {
			return s.with(s.at(t, ferries, "answer_committed", 0), s.at(t, ferries, "judgment", 0))
		}, "attempt 1 has ended"},
		{"a second grade", true, func(t *testing.T, s, _ story) story {
			at := s.at(t, lights, "judgment", 0)
			return s.with(at, at+1)
		}, "attempt 2 was graded before"},
		{"an event after the seal", true, func(t *testing.T, s, _ story) story {
			return s.with(s.at(t, ferries, "turn_completed", 0), s.at(t, ferries, "task_sealed", 0)+1)
		}, `comes after the seal of task "` + ferries + `"`},
		{"another attempt after the seal", true, func(t *testing.T, s, _ story) story {
			return s.with(s.at(t, lights, "task_started", 0), s.at(t, lights, "task_sealed", 0)+1)
		}, `comes after the seal of task "` + lights + `"`},
		{"a second seal", true, func(t *testing.T, s, _ story) story {
			at := s.at(t, ferries, "task_sealed", 0)
			return s.with(at, at+1)
		}, `comes after the seal of task "` + ferries + `"`},
		{"an event after the end", true, func(t *testing.T, s, _ story) story {
			return s.with(s.at(t, "", "security_event", 0), len(s))
		}, "comes after run_completed"},
		{"a second start", true, func(t *testing.T, s, _ story) story { return s.with(0, 1) }, "a journal has one run_started, its first line"},
		{"no start", true, func(t *testing.T, s, _ story) story { return s[1:] }, "a journal has one run_started, its first line"},
		{"an event before the start", true, func(t *testing.T, s, _ story) story { return s.moved(1, 0) }, "a journal has one run_started, its first line"},
		{"the interruption left out", true, func(t *testing.T, s, _ story) story {
			s = s.unstopped(t)
			at := s.at(t, "", "run_resumed", 0)
			return s.without(at, at+1)
		}, checked},
		{"the bad cache left out", true, func(t *testing.T, s, _ story) story {
			resumed := s[s.at(t, "", "run_resumed", 0)].Payload()
			resumed["events"] = resumed["events"].(float64) - 1
			return s.without(1, 2)
		}, checked},
		{"seq from 1", false, func(t *testing.T, s, _ story) story {
			for i := range s {
				s[i]["seq"] = i + 1
			}
			return s
		}, "line 1: seq is 1, not 0"},
		{"a hole in seq", false, func(t *testing.T, s, _ story) story {
			for i := range s[30:] {
				s[30+i]["seq"] = 31 + i
			}
			return s
		}, "line 31: seq is 31, not 30"},
		{"two lines of one seq", false, func(t *testing.T, s, _ story) story {
			s[30]["seq"] = 29
			return s
		}, "line 31: seq is 29, not 30"},
		{"an id that goes back", false, func(t *testing.T, s, _ story) story {
			return s.exchange(30, 31, "id", "timestamp")
		}, "line 32: its id is not above the one before it"},
		{"an id twice", false, func(t *testing.T, s, _ story) story {
			s[31]["id"], s[31]["timestamp"] = s[30]["id"], s[30]["timestamp"]
			return s
		}, "line 32: its id is not above the one before it"},
		// The reader of a line has one answer to all that is wrong within it.
		{"a time that is not the id's", false, func(t *testing.T, s, _ story) story {
			return s.exchange(30, 31, "timestamp")
		}, "line 31: not the canonical JSON of its type"},
		{"the answers of two tasks exchanged", false, func(t *testing.T, s, _ story) story {
			return s.exchange(s.at(t, ferries, "answer_committed", 0), s.at(t, lights, "answer_committed", 0), "payload")
		}, checked},
		{"the verdicts on two tasks exchanged", false, func(t *testing.T, s, _ story) story {
			return s.exchange(s.at(t, ferries, "judgment", 0), s.at(t, lights, "judgment", 0), "payload")
		}, `is sealed as "solved" of attempt 1 in 1; ` + sealed + `"failed" of attempt 1 in 1`},
		{"the seals of two tasks exchanged", false, func(t *testing.T, s, _ story) story {
			return s.exchange(s.at(t, ferries, "task_sealed", 0), s.at(t, lights, "task_sealed", 0), "payload")
		}, sealed},
	}
}

// dropFirst drops the first attempt at the second task and the interruption
// that ended it, and makes the second the first.
func dropFirst(t *testing.T, s story) story {
	at := s.at(t, "", "run_resumed", 0)
	s = s.without(at, at+1).except(lights, func(l runs.Line) bool { return l["attempt"] == 1.0 })
	for _, l := range s {
		if l["attempt"] == 2.0 {
			l["attempt"] = 1
		}
	}
	return s
}

// content are forgeries of what events say.
func content() []forgery {
	says := func(task, kind, member string, v any) func(*testing.T, story, story) story {
		return func(t *testing.T, s, _ story) story {
			s[s.at(t, task, kind, 0)].Payload()[member] = v
			return s
		}
	}
	return []forgery{
		{"another answer", false, says(lights, "answer_committed", "answer", "North Marrow"), checked},
		{"another verdict", false, says(lights, "judgment", "official", true), `is sealed as "failed" of attempt 2 in 2; its events give "solved" of attempt 2 in 2`},
		{"another verdict of the LLM judge", false, says(lights, "judgment", "judged", true), checked},
		{"another outcome", false, says(lights, "task_sealed", "outcome", "solved"), `is sealed as "solved" of attempt 2 in 2; its events give "failed"`},
		{"an outcome that there is not", false, says(lights, "attempt_ended", "outcome", "lost"), `ends as "lost"`},
		{"an attempt that ends without its answer", false, says(ferries, "attempt_ended", "outcome", "no_answer"), `ends as "no_answer", which its events do not give`},
		{"a better count at the end", false, says("", "run_completed", "solved", 3), "run_completed does not count what was sealed"},
		{"fewer planned at the end", false, says("", "run_completed", "planned", 2), "run_completed does not count what was sealed"},
		{"another question", false, says(ferries, "task_started", "question", "How much is one and one?"), "was asked another question than planned"},
		{"another file", false, says(ferries, "task_started", "file_name", "answers.csv"), "names another file than planned"},
		{"a start from another plan", false, says("", "run_started", "manifest_sha256", "sha256:"+strings.Repeat("0", 64)), "was started from another manifest"},
		{"a start without submit intent", false, says("", "run_started", "submit_intent", false), "contradicts the manifest"},
		{"a start by another policy", false, says("", "run_started", "policy_hash", strings.Repeat("0", 16)), "contradicts the manifest"},
		{"a resume of fewer events", false, says("", "run_resumed", "events", 5), "miscounts the events before it"},
		{"a cache with more bad entries than entries", false, says("", "security_event", "bad", 5), "miscounts the entries that it lists"},
		{"negative costs", false, says(lights, "model_call_completed", "cost_microusd", -1), "its tokens or costs cannot be added up"},
		{"a salt that is none", false, says(ferries, "task_sealed", "salt", "00"), "has no salt of 32 bytes"},
		{"another salt", false, says(ferries, "task_sealed", "salt", strings.Repeat("00", 32)), "was asked another question than planned"},
		{"a cheaper call", false, says(lights, "model_call_completed", "cost_microusd", 1), checked},
		{"another result of a tool", false, says(lights, "tool_executed", "head", "The northern one was lit first."), checked},
		{"another request", false, says(lights, "model_call_completed", "request_id", "req-0"), checked},
		{"a faster clock", false, func(t *testing.T, s, _ story) story {
			s[s.at(t, ferries, "attempt_ended", 0)]["mono_us"] = 1
			return s
		}, checked},
	}
}

// foreign are forgeries with the help of another run by the same key.
func foreign() []forgery {
	put := func(change func(runs.Line)) func(*testing.T, story, story) story {
		return func(t *testing.T, s, other story) story {
			at := s.at(t, lights, "tool_executed", 0)
			s[at] = other[at]
			change(s[at])
			return s
		}
	}
	return []forgery{
		{"an event of another run", true, put(func(runs.Line) {}), `belongs to run "`},
		{"an event of another run under this run's name", true, func(t *testing.T, s, other story) story {
			id := s[0]["run_id"]
			at := s.at(t, lights, "model_call_completed", 0)
			s[at] = other[at]
			s[at]["run_id"], s[at].Payload()["request_id"] = id, "req-of-another-run"
			return s
		}, checked},
		{"an event of a task that is not planned", true, put(func(l runs.Line) {
			l["task_id"] = "fab1e903-0000-4000-8000-000000000009"
		}), `belongs to run "`},
		{"an event of a task that is not planned under this run's name", false, func(t *testing.T, s, _ story) story {
			s[s.at(t, lights, "tool_executed", 0)]["task_id"] = "fab1e903-0000-4000-8000-000000000009"
			return s
		}, `task "fab1e903-0000-4000-8000-000000000009" is not planned`},
		{"the end of another run", true, func(t *testing.T, s, other story) story {
			at := s.at(t, ferries, "judgment", 0)
			return slices.Concat(s[:at], other[at:])
		}, `belongs to run "`},
	}
}
