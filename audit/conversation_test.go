package audit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
)

// replace puts a message in the place of the i-th, as the next request sends it,
// and returns what is to be announced of it.
func (t *talk) replace(i int, m trajectory.SentMessage) trajectory.Condensed {
	old, b := t.listed[i], m.Canonical()
	t.listed[i].Bytes, t.listed[i].SHA256 = int64(len(b)), canonical.Digest(b)
	t.fresh.Write(append(b, '\n'))
	return trajectory.Condensed{FromBytes: old.Bytes, FromSHA256: old.SHA256, Source: old.Source, ToBytes: t.listed[i].Bytes, ToSHA256: t.listed[i].SHA256}
}

func stands(id, tool string, bytes int) trajectory.SentMessage {
	return trajectory.SentMessage{Role: "tool", ToolCallID: id, Content: prompt.Condensed(tool, int64(bytes))}
}

func announce(k *talk, all ...trajectory.Condensed) {
	k.add(trajectory.ContextCondensed{Messages: all, Reason: trajectory.WindowFull})
}

// TestCondensed: what may stand for a message, and how it is announced.
func TestCondensed(t *testing.T) {
	const page, odd = "a page of some length", "is not what the plan's templates give"
	size := len(page)
	model := trajectory.SentMessage{Role: "assistant", Content: askAgain}
	call := func(id, name string) trajectory.SentCall {
		return trajectory.SentCall{Arguments: "{}", ID: id, Name: name}
	}
	shown := func(p *trajectory.ToolExecuted) { p.ShownBytes = int64(size) }
	tests := []struct {
		name string
		tell func(*talk) // after messages: system, question, model, tool:1, tool:2, tool:1
		want string      // of AUD-12; "" for nothing
	}{
		{"nothing", func(*talk) {}, ""},
		{"a result", func(k *talk) { announce(k, k.replace(3, stands("1", "web_fetch", size))) }, ""},
		{"all results", func(k *talk) {
			announce(k, k.replace(3, stands("1", "web_fetch", size)), k.replace(4, stands("2", "web_fetch", size)), k.replace(5, stands("1", "web_search", size)))
		}, ""},
		{"by the name of the other call of that id", func(k *talk) { announce(k, k.replace(3, stands("1", "web_search", size))) }, ""},
		{"in two announcements", func(k *talk) {
			announce(k, k.replace(3, stands("1", "web_fetch", size)))
			announce(k, k.replace(4, stands("2", "web_fetch", size)))
		}, ""},
		{"one announcement for two", func(k *talk) {
			announce(k, k.replace(3, stands("1", "web_fetch", size)))
			k.replace(5, stands("1", "web_fetch", size))
		}, "tool:1 " + odd},
		{"one announcement for one that was sent and one that was not", func(k *talk) {
			announce(k, k.replace(3, stands("1", "web_fetch", size)))
			k.say("tool:1", stands("1", "web_fetch", size))
		}, "tool:1 " + odd},
		{"by the name of another tool", func(k *talk) { announce(k, k.replace(3, stands("1", "calculate", size))) }, "tool:1 " + odd},
		{"as another size", func(k *talk) { announce(k, k.replace(3, stands("1", "web_fetch", size+1))) }, "tool:1 " + odd},
		{"under another id", func(k *talk) { announce(k, k.replace(3, stands("2", "web_fetch", size))) }, "tool:1 " + odd},
		{"with a picture", func(k *talk) {
			m := stands("1", "web_fetch", size)
			m.Image = trajectory.SentImage{MediaType: "image/png", SHA256: canonical.Digest(nil)}
			announce(k, k.replace(3, m))
		}, "tool:1 " + odd},
		{"with a picture in the list", func(k *talk) {
			announce(k, k.replace(3, stands("1", "web_fetch", size)))
			k.listed[3].Image = trajectory.Image{MediaType: "image/png", SHA256: canonical.Digest(nil)}
		}, "tool:1 " + odd},
		{"announced of another message", func(k *talk) {
			c := k.replace(3, stands("1", "web_fetch", size))
			c.FromSHA256 = k.listed[4].SHA256
			announce(k, c)
		}, "tool:1 " + odd},
		{"announced as another text", func(k *talk) {
			c := k.replace(3, stands("1", "web_fetch", size))
			c.ToSHA256 = canonical.Digest(nil)
			announce(k, c)
		}, "tool:1 " + odd},
		{"announced with another size before", func(k *talk) {
			c := k.replace(3, stands("1", "web_fetch", size))
			c.FromBytes++
			announce(k, c)
		}, "tool:1 " + odd},
		{"announced with another size after", func(k *talk) {
			c := k.replace(3, stands("1", "web_fetch", size))
			c.ToBytes++
			announce(k, c)
		}, "tool:1 " + odd},
		{"the words of the model", func(k *talk) {
			announce(k, k.replace(2, trajectory.SentMessage{Role: "assistant", Content: prompt.Condensed("model", 9)}))
		}, "source model " + odd},
		{"the question", func(k *talk) {
			announce(k, k.replace(1, trajectory.SentMessage{Role: "user", Content: "[gone]"}))
		}, "source question " + odd},
		{"what stands there already", func(k *talk) {
			announce(k, k.replace(3, stands("1", "web_fetch", size)))
			k.ask(model, nil)
			announce(k, k.replace(3, stands("1", "web_fetch", len(stands("1", "web_fetch", size).Content))))
		}, "tool:1 " + odd},
		{"and put back", func(k *talk) {
			before := k.listed[3]
			announce(k, k.replace(3, stands("1", "web_fetch", size)))
			k.ask(model, nil)
			k.fresh.WriteString(string(trajectory.SentMessage{Role: "tool", ToolCallID: "1", Content: page}.Canonical()) + "\n")
			k.listed[3] = before
		}, "tool:1 " + odd},
		{"announced for a later request", func(k *talk) {
			before := k.listed[3]
			c := k.replace(3, stands("1", "web_fetch", size))
			after := k.listed[3]
			announce(k, c)
			k.listed[3] = before
			k.fresh.Reset()
			k.ask(model, nil)
			k.listed[3] = after
			k.fresh.Write(append(stands("1", "web_fetch", size).Canonical(), '\n'))
		}, "tool:1 " + odd},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newTalk()
			k.g.e.Manifest.Tools = []plan.ToolPlan{{Name: "web_fetch"}, {Name: "web_search"}}
			k.ask(trajectory.SentMessage{Role: "assistant", ToolCalls: []trajectory.SentCall{call("1", "web_fetch"), call("2", "web_fetch"), call("1", "web_search")}}, nil)
			k.call(call("1", "web_fetch"), page, shown)
			k.call(call("2", "web_fetch"), page, shown)
			k.call(call("1", "web_search"), page, shown)
			k.ask(model, nil)
			tt.tell(k)
			k.ask(model, nil)
			if got := k.reports()["AUD-12"]; tt.want == "" && got.Status != Pass || tt.want != "" && !says(got, tt.want) {
				t.Errorf("%s %v, want %q", got.Status, got.Findings, tt.want)
			}
		})
	}
}

// again sends what is to be sent in the open turn.
func (t *talk) again() {
	x := trajectory.Redactor{}.Excerpt(t.fresh.String(), trajectory.PromptHead)
	t.fresh.Reset()
	t.add(trajectory.ContextCompiled{Bytes: x.Bytes, ContentSHA256: x.SHA256, Head: x.Head, Truncated: x.Truncated, Messages: append([]trajectory.Message(nil), t.listed...)})
}

// TestAskedAgain: when a request may list no more messages than the one before.
func TestAskedAgain(t *testing.T) {
	const stale = "no more messages than the one before"
	tests := []struct {
		name  string
		reply func(*talk)
		then  func(*talk)
		want  bool
	}{
		{"after less was made of it", nil, func(k *talk) { announce(k, k.replace(3, stands("1", "web_fetch", 4))) }, false},
		{"as it was", nil, func(*talk) {}, true},
		{"with nothing announced", nil, func(k *talk) { announce(k) }, true},
		{"with what cannot be announced", nil, func(k *talk) { announce(k, k.replace(3, stands("1", "web_fetch", 5))) }, true},
		{"with a message less", nil, func(k *talk) {
			announce(k, k.replace(3, stands("1", "web_fetch", 4)))
			k.listed = k.listed[:3]
		}, true},
		{"after the model replied", func(k *talk) {
			k.add(trajectory.ModelCallCompleted{OutputSHA256: canonical.Digest([]byte("Hm.")), Bytes: 3})
		}, func(k *talk) { announce(k, k.replace(3, stands("1", "web_fetch", 4))) }, true},
		{"after the model said nothing", func(k *talk) {
			k.add(trajectory.ModelCallCompleted{OutputSHA256: canonical.Digest(nil), Error: &trajectory.CallError{Code: "empty_completion"}})
			k.add(trajectory.ModelCallCompleted{Error: &trajectory.CallError{Code: trajectory.RefusedForLength}})
		}, func(k *talk) { announce(k, k.replace(3, stands("1", "web_fetch", 4))) }, false},
	}
	for _, tt := range tests {
		k := newTalk()
		c := trajectory.SentCall{Arguments: "{}", ID: "1", Name: "web_fetch"}
		k.ask(trajectory.SentMessage{Role: "assistant", ToolCalls: []trajectory.SentCall{c}}, nil)
		k.call(c, "page", func(p *trajectory.ToolExecuted) { p.ShownBytes = 4 })
		k.turn++
		k.add(trajectory.TurnStarted{})
		k.again()
		if tt.reply != nil {
			tt.reply(k)
		}
		tt.then(k)
		k.again()
		for _, id := range []string{"AUD-3", "AUD-12"} {
			if got := says(k.reports()[id], stale); got != tt.want {
				t.Errorf("%s: %s says so: %v", tt.name, id, got)
			}
		}
	}
}

// TestPictures: the one message that may carry a picture, and what it may be of.
func TestPictures(t *testing.T) {
	const name = "house.png"
	file := trajectory.File{Bytes: 9, Path: name, Probes: &trajectory.Probes{}, SHA256: canonical.Digest([]byte("PNG house"))}
	whole := trajectory.Image{Bytes: 9, MediaType: "image/png", Path: name, SHA256: file.SHA256}
	changed := func(change func(*trajectory.Image)) trajectory.Image {
		image := whole
		change(&image)
		return image
	}
	tests := []struct {
		name   string
		image  trajectory.Image
		plan   bool
		change func(*talk)
		odd    bool
		scaled bool
	}{
		{"the file", whole, true, nil, false, false},
		{"made smaller", changed(func(i *trajectory.Image) { i.SHA256, i.Bytes = canonical.Digest([]byte("PNG")), 3 }), true, nil, false, true},
		{"none", trajectory.Image{}, true, nil, false, false},
		{"not planned", whole, false, nil, true, false},
		{"made smaller and not planned", changed(func(i *trajectory.Image) { i.SHA256, i.Bytes = canonical.Digest([]byte("PNG")), 3 }), false, nil, true, false},
		{"of another name", changed(func(i *trajectory.Image) { i.Path = "answers.png" }), true, nil, true, false},
		{"the file in another size", changed(func(i *trajectory.Image) { i.Bytes = 3 }), true, nil, true, false},
		{"no picture", changed(func(i *trajectory.Image) { i.MediaType = "text/plain" }), true, nil, true, false},
		{"listed and not sent", whole, true, func(k *talk) { k.listed[1].SHA256 = canonical.Digest(question(name, trajectory.Image{}).Canonical()) }, true, false},
		{"another one sent", whole, true, func(k *talk) {
			k.listed[1].SHA256 = canonical.Digest(question(name, changed(func(i *trajectory.Image) { i.SHA256 = canonical.Digest(nil) })).Canonical())
		}, true, false},
		{"another question", whole, true, func(k *talk) { k.listed[1].SHA256 = canonical.Digest(question("", whole).Canonical()) }, true, false},
		{"listed with the system message", trajectory.Image{}, true, func(k *talk) { k.listed[0].Image = whole }, true, false},
		{"sent and not listed", whole, true, func(k *talk) { k.listed[1].Image = trajectory.Image{} }, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newTalk()
			task := k.g.tasks[ownID]
			k.g.e.Manifest.Model.Images, task.prober = tt.plan, nil
			task.Attempts = nil
			k.add(trajectory.TaskStarted{FileName: name, Question: lighthouse.Question, Workspace: []trajectory.File{file}})
			k.listed, k.seq = k.listed[:1], 1
			k.fresh.Reset()
			k.fresh.WriteString(string(trajectory.SentMessage{Role: "system", Content: prompt.System()}.Canonical()) + "\n")
			k.say("question", question(name, tt.image))
			k.listed[1].Image = tt.image
			if tt.change != nil {
				tt.change(k)
			}
			k.ask(trajectory.SentMessage{Role: "assistant", Content: askAgain}, nil)
			got := k.reports()
			if says(got["AUD-12"], "prompt-differs") != tt.odd || says(got["AUD-3"], "picture-scaled") != tt.scaled {
				t.Errorf("%v, %v", got["AUD-12"].Findings, got["AUD-3"].Findings)
			}
		})
	}
}

func question(file string, i trajectory.Image) trajectory.SentMessage {
	return trajectory.SentMessage{Role: "user", Content: prompt.Question(lighthouse.Question, file), Image: trajectory.SentImage{MediaType: i.MediaType, SHA256: i.SHA256}}
}

// TestUnread: what a provider wants back as it was counts in the digest of the
// model's own messages, and has no place in others.
func TestUnread(t *testing.T) {
	digest := canonical.Digest([]byte("reasoning"))
	c := trajectory.SentCall{Arguments: "{}", ID: "1", Name: "web_fetch", OpaqueSHA256: digest}
	reply := trajectory.SentMessage{Role: "assistant", OpaqueSHA256: digest, ToolCalls: []trajectory.SentCall{c}}
	tests := []struct {
		name   string
		result trajectory.SentMessage
		change func(*talk)
		want   string
	}{
		{"as it was", trajectory.SentMessage{}, nil, ""},
		{"left out", trajectory.SentMessage{}, func(k *talk) {
			m := reply
			m.OpaqueSHA256 = ""
			k.listed[2].SHA256 = canonical.Digest(m.Canonical())
		}, "source model is not"},
		{"another one", trajectory.SentMessage{}, func(k *talk) {
			m := reply
			m.OpaqueSHA256 = canonical.Digest(nil)
			k.listed[2].SHA256 = canonical.Digest(m.Canonical())
		}, "source model is not"},
		{"in a result", trajectory.SentMessage{OpaqueSHA256: digest}, nil, "source tool:1 is not"},
		{"a picture in a result", trajectory.SentMessage{Image: trajectory.SentImage{MediaType: "image/png", SHA256: digest}}, nil, "source tool:1 is not"},
		{"words that look like them", trajectory.SentMessage{Content: `{"a":1,"image":{},"opaque_sha256":"x"}`}, nil, ""},
	}
	for _, tt := range tests {
		k := newTalk()
		k.ask(reply, nil)
		k.add(trajectory.ToolProposed{Args: map[string]string{}, ArgsSHA256: canonical.Digest([]byte("{}")), CallID: "1", Name: "web_fetch"})
		k.add(trajectory.PolicyDecision{CallID: "1", Decision: "allow"})
		tt.result.Role, tt.result.ToolCallID = "tool", "1"
		shown := k.say("tool:1", tt.result)
		k.add(trajectory.ToolExecuted{Bytes: int64(len(tt.result.Content)), CallID: "1", Head: tt.result.Content, Name: "web_fetch",
			OutputSHA256: canonical.Digest([]byte(tt.result.Content)), Probes: &trajectory.Probes{}, ShownSHA256: shown})
		if tt.change != nil {
			tt.change(k)
		}
		k.ask(trajectory.SentMessage{Role: "assistant", Content: askAgain}, nil)
		if got := k.reports()["AUD-12"]; tt.want == "" && len(got.Findings)+len(got.Gaps) > 0 || tt.want != "" && !says(got, tt.want) {
			t.Errorf("%s: %v %v, want %q", tt.name, got.Findings, got.Gaps, tt.want)
		}
	}
}

// BenchmarkCondensed audits an attempt in which n results make room, one in each
// of the last turns. The time of one must not grow with their number by more
// than the requests do that list them all.
func BenchmarkCondensed(b *testing.B) {
	for _, n := range []int{100, 1_000} {
		b.Run(fmt.Sprintf("results=%d", n), func(b *testing.B) {
			for b.Loop() {
				k := newTalk()
				k.ask(trajectory.SentMessage{Role: "assistant", Content: strings.Repeat("x", trajectory.OutputHead)}, nil)
				for range n {
					k.call(trajectory.SentCall{Arguments: "{}", ID: "1", Name: "web_fetch"}, "page", func(p *trajectory.ToolExecuted) { p.ShownBytes = 4 })
				}
				k.ask(trajectory.SentMessage{Role: "assistant", Content: askAgain}, nil)
				for i := range n {
					announce(k, k.replace(3+i, stands("1", "web_fetch", 4)))
				}
				k.ask(trajectory.SentMessage{Role: "assistant", Content: askAgain}, nil)
				if says(k.reports()["AUD-12"], "tool:1 is not") {
					b.Fatal("an announced message is odd")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/result")
		})
	}
}
