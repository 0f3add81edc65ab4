package audit_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// checkPrompts is what the watch says of a case, event by event, each check once.
func checkPrompts(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	c := parsed(t, name, string(text))
	dir := filepath.Join(t.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	m, _, _, err := rundir.ReadPlan(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	watch := audit.NewWatch(m, c.Gold())
	var said []string
	_, err = rundir.Verify(os.DirFS(dir), rundir.Options{Event: func(e trajectory.Event) error {
		if why := watch.Add(e); why != "" {
			said = append(said, why)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// TestWatch: what one event shows is told with that event, in the words of the
// audit, and honest runs are left alone.
func TestWatch(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"AUD-01/fires-uuid-json.txt", "AUD-1 answer-leakage: the task's id with an answer beside it, from web_fetch (task fab1e101-"},
		{"AUD-01/fires-question-with-gold.txt", "AUD-1 answer-leakage: 1000 of 1000 of the question's text with the gold answer near it"},
		{"AUD-01/fires-class-a.txt", "AUD-1 answer-leakage: the task in a page of an answer source"},
		{"AUD-01/gap-unrecorded-channel.txt", "AUD-1 answer-leakage: an unrecorded channel in task fab1e101-"},
		{"AUD-02/gap-usage-unreported.txt", "AUD-2 no-work-pass: the provider reports no usage, or not of every reply"},
		{"AUD-22/fires-answer-from-an-own-agent.txt", "AUD-22 input-provenance: what the agent sends holds the gold answer, which nothing that was recorded had held before (task fab1e951-"},
		{"AUD-22/fires-answers-in-the-folder.txt", "AUD-22 input-provenance: tasks whose gold answer stands beside their id or question: 2, in line 2 of agent-files.jsonl"},
		{"AUD-22/fires-answer-without-a-call.txt", "AUD-22 input-provenance: an answer before any reply of a model"},
		{"AUD-22/fires-answer-of-no-source.txt", "AUD-22 input-provenance: an answer that shares no word"},
		{"AUD-22/gap-request-without-origins.txt", "AUD-22 input-provenance: a request does not say where its messages come from"},
		{"AUD-22/near-answer-in-a-shared-text.txt", ""},
		{"AUD-22/near-answer-by-code.txt", ""},
		{"AUD-03/fires-workspace.txt", "AUD-3 oracle-leakage: the start workspace holds the task's answer"},
		{"AUD-03/gap-no-attachment.txt", "AUD-3 oracle-leakage: the attachment of a task is not in the list of its start workspace"},
		{"AUD-04/fires-cache-sweep.txt", "AUD-4 grader-isolation: 2 of 7 entries of the judge cache do not verify"},
		{"AUD-01/fires-class-a-missing.txt", "AUD-1 answer-leakage: an answer source was asked: mirror.example (task"},
		{"AUD-01/near-own-id-as-file.txt", ""},
		{"AUD-14/fires-larger-model.txt", `AUD-14 model-identity: "sample-model-large" answered the agent, and the plan has "sample-model"; if that is another name of the same model, plan with --served-as (task fab1e114-`},
		{"AUD-14/fires-other-judge-answered.txt", `AUD-14 model-identity: "kind-judge" answered the judge, and the plan has "sample-judge"; if`},
		{"AUD-14/near-release.txt", ""},
		{"AUD-14/near-served-as.txt", ""},
		{"AUD-14/near-judge-in-cache.txt", ""},
		{"AUD-14/gap-no-model-named.txt", ""}, // which keeps no run from being submitted
		{"AUD-01/near-question-without-gold.txt", ""},
		{"AUD-02/near-usage-of-some.txt", ""},
	} {
		said := checkPrompts(t, tt.name)
		if tt.want == "" && len(said) > 0 || tt.want != "" && (len(said) == 0 || !strings.HasPrefix(said[0], tt.want)) {
			t.Errorf("%s: told %q, want %q", tt.name, said, tt.want)
		}
	}
	paths, err := filepath.Glob(filepath.Join("testdata", "honest", "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d honest cases, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimPrefix(filepath.ToSlash(path), "testdata/")
		if said := checkPrompts(t, name); len(said) > 0 {
			t.Errorf("%s: told %q", name, said)
		}
	}
}

// TestWatchNamesTheTask: what is said is of the task of the finding, which may show with an event of another one.
func TestWatchNamesTheTask(t *testing.T) {
	m := plan.New()
	m.Agent = &plan.AgentPlan{}
	gold := map[string]string{}
	for _, id := range []string{"one", "two", "three"} {
		m.Tasks = append(m.Tasks, plan.PlannedTask{TaskID: id, Level: 1})
		gold[id] = "Marchetti"
	}
	watch := audit.NewWatch(m, gold)
	said := ""
	for i, id := range []string{"one", "two", "three"} {
		sent := trajectory.ContextCompiled{Origins: &trajectory.Origins{Agent: 9, Probes: &trajectory.Probes{}}}
		if i == 0 {
			sent.Origins = &trajectory.Origins{Agent: 9, Probes: &trajectory.Probes{GoldHits: 1}, Passages: []trajectory.Passage{{Key: "k"}}}
		}
		for n, p := range []trajectory.Payload{trajectory.TaskStarted{Question: "Who was it?", Workspace: []trajectory.File{}}, sent} {
			if why := watch.Add(trajectory.Event{Attempt: 1, Payload: p, Seq: int64(2*i + n), TaskID: id}); why != "" {
				said += id + ": " + why
			}
		}
	}
	if !strings.HasPrefix(said, "three: AUD-22 ") || !strings.HasSuffix(said, "(task one)") {
		t.Errorf("told %q", said)
	}
}

// notOfAnEvent are the cases of what keeps a run from being submitted and no event
// shows by itself, with where it is seen.
func notOfAnEvent() map[string][]string {
	return map[string][]string{
		"in what a call asks for, which the Gate refuses by the same rules": {
			"AUD-01/fires-loader-alone.txt", "AUD-01/fires-loader-by-server.txt", "AUD-01/fires-loader-fails.txt",
			"AUD-04/fires-hook-by-another-name.txt", "AUD-04/fires-hook-of-shells.txt", "AUD-04/fires-hook-in-any-argument.txt", "AUD-04/fires-preload.txt", "AUD-04/fires-reads-and-fails.txt",
			"AUD-04/fires-reads-answer-file.txt",
			"AUD-04/fires-reads-judgments.txt", "AUD-04/fires-reads-key.txt", "AUD-04/fires-recorded-rule.txt", "AUD-04/fires-sitecustomize.txt",
			"AUD-04/fires-touches-cache.txt", "AUD-04/fires-writes-results.txt", "AUD-04/gap-arguments-cut.txt",
			"AUD-04/fires-environ-of-a-process.txt", "AUD-04/fires-key-read.txt", "AUD-04/fires-key-variable.txt",
			"AUD-04/fires-installs-harness.txt", "AUD-04/fires-metadata-address.txt", "AUD-04/fires-other-harness.txt", "AUD-04/fires-reads-answers-of-the-hub.txt",
		},
		"in what a call asks for, which has honest uses and which the Gate lets pass": {
			"AUD-04/fires-path-file.txt", "AUD-04/fires-path-file-by-pathlib.txt", "AUD-04/fires-path-file-by-shell.txt", "AUD-04/fires-server-given-file.txt", "AUD-04/fires-server-given-gold.txt",
			"AUD-04/fires-server-given-answer-key.txt", "AUD-04/fires-answer-variable.txt", "AUD-04/fires-answer-variable-by-shell.txt", "AUD-04/fires-answer-variable-of-a-file.txt",
			"AUD-04/fires-id-in-code.txt", "AUD-04/fires-id-in-code-after-page.txt", "AUD-04/fires-id-in-code-numeral.txt",
			"AUD-04/fires-file-address.txt", "AUD-04/fires-file-address-fetched.txt", "AUD-04/fires-frames.txt", "AUD-04/fires-frames-by-getattr.txt",
			"AUD-04/fires-exchange-with-metadata.txt", "AUD-04/fires-maps-by-shell.txt", "AUD-04/fires-objects.txt", "AUD-04/fires-processes.txt", "AUD-04/fires-stack.txt",
		},
		"in the head of a result whose probes are not those of the Gate": {
			"AUD-01/fires-head-of-longer.txt", "AUD-01/fires-probes-denied.txt", "AUD-01/fires-unprobed-short.txt",
			"AUD-01/fires-question-behind-lied-cut.txt", "AUD-01/fires-question-behind-lied-redaction.txt", "AUD-01/fires-exchange-with-id.txt",
		},
		"in the plan": {
			"AUD-01/gap-other-probes.txt", "AUD-01/gap-other-probes-v1.txt", "AUD-01/gap-research-model.txt", "AUD-01/gap-searching-model.txt", "AUD-01/gap-server-with-network.txt", "AUD-01/gap-unconfined.txt",
			"AUD-22/gap-own-agent-outside-of-the-sandbox.txt", "AUD-22/gap-own-agent-with-a-network.txt",
			"AUD-03/fires-hint-in-built-in.txt", "AUD-03/gap-built-in-of-other-words.txt", "AUD-03/fires-tool-description.txt", "AUD-03/fires-tool-hint.txt", "AUD-03/fires-tool-schema.txt", "AUD-03/gap-tool-of-no-server.txt", "AUD-03/gap-no-templates.txt", "AUD-03/gap-own-condensed-template-and-answer.txt",
			"AUD-03/gap-own-condensed-template.txt", "AUD-03/gap-own-template.txt", "AUD-03/gap-examples-with-digits.txt", "AUD-04/gap-unconfined.txt",
			"AUD-03/fires-question-expected-answer.txt", "AUD-03/fires-question-german.txt", "AUD-03/fires-question-ground-truth.txt",
			"AUD-03/fires-question-list.txt", "AUD-03/fires-question-number.txt", "AUD-03/fires-template-with-a-key.txt",
			"AUD-03/fires-template-with-id.txt", "AUD-03/fires-template-with-keywords.txt", "AUD-03/fires-template-with-question.txt",
			"AUD-03/fires-tool-benchmark-answers.txt", "AUD-03/fires-tool-expected-answer.txt", "AUD-03/fires-tool-ground-truth.txt",
			"AUD-03/fires-tool-official-key.txt", "AUD-03/fires-tool-reference-solution.txt", "AUD-03/gap-template-with-common-words.txt",
			"AUD-03/gap-template-with-short-answers.txt",
			"AUD-02/gap-attachment-by-digests.txt", "AUD-03/fires-record-in-parameters.txt", "AUD-03/fires-tool-schema-question.txt", "AUD-03/fires-tool-with-record.txt",
		},
		"in an answer and its verdict together": {
			"AUD-02/fires-answer-before-reply.txt", "AUD-02/fires-no-model-call.txt", "AUD-02/fires-no-output-tokens.txt", "AUD-02/fires-only-failed-calls.txt",
			"AUD-02/fires-answer-without-tokens.txt", "AUD-02/fires-no-tokens-by-judge.txt", "AUD-02/fires-vote-without-tokens.txt", "AUD-02/fires-vote-without-work.txt",
		},
		"in messages held against those before them and the templates": {
			"AUD-03/fires-condensed-with-answer.txt", "AUD-03/fires-memory.txt", "AUD-03/fires-question.txt", "AUD-03/fires-refusal-once-more.txt",
			"AUD-03/fires-refusal-with-another-schema.txt", "AUD-03/fires-refusal-with-what-is-not-left.txt", "AUD-03/fires-refusal.txt", "AUD-03/fires-short-labelled.txt", "AUD-03/fires-system.txt", "AUD-03/fires-tool-message.txt",
			"AUD-03/fires-unlisted-message.txt", "AUD-03/gap-no-digests.txt", "AUD-03/gap-no-request.txt", "AUD-03/gap-residue-cut.txt",
			"AUD-03/fires-other-task-with-answer.txt", "AUD-03/fires-other-pair-of-a-later-attempt.txt", "AUD-03/gap-turn-without-request.txt",
			"AUD-03/fires-injected-cut-in-old-journal.txt", "AUD-03/fires-injected-examples.txt", "AUD-03/fires-injected-long-system.txt",
			"AUD-03/fires-injected-record-and-cut.txt", "AUD-03/fires-injected-second-user.txt",
			"AUD-03/fires-id-from-an-own-agent.txt", "AUD-03/fires-id-of-an-own-agent-later.txt",
			"AUD-03/gap-injected-beyond-its-head.txt", "AUD-03/gap-injected-too-many.txt",
		},
		"in what a call asks for and its result together": {
			"AUD-01/fires-other-ids-without-hyphens.txt", "AUD-01/fires-other-task-ids.txt", "AUD-01/fires-own-id-from-server.txt", "AUD-01/fires-own-id-listed.txt",
			"AUD-01/fires-word-cut-in-two.txt", "AUD-01/fires-own-id-behind-another.txt", "AUD-01/fires-other-ids-behind-one.txt",
			"AUD-01/fires-start-of-id.txt", "AUD-01/fires-start-of-id-json.txt", "AUD-01/fires-start-of-id-groups.txt", "AUD-01/fires-start-of-id-among-others.txt",
			"AUD-04/fires-walk-by-shell.txt", "AUD-04/fires-walk-prints-gold.txt", "AUD-04/fires-walk-prints-record.txt",
			"AUD-01/fires-answer-for-id.txt", "AUD-01/fires-answer-for-id-at-an-address.txt", "AUD-01/fires-answer-for-id-list.txt", "AUD-01/fires-answer-for-id-number.txt",
			"AUD-01/fires-answer-behind-the-attachments-name.txt",
			"AUD-01/fires-question-behind-five-words.txt", "AUD-01/fires-question-behind-fragment.txt", "AUD-01/fires-question-behind-extra-argument.txt",
		},
		"in the answers of the whole run": {"AUD-22/fires-answers-of-no-source-right-more-often.txt", "AUD-22/fires-numbers-of-no-source-right.txt"},
		"in events that are far from each other": {
			"AUD-01/fires-question-of-unknown-origin.txt", "AUD-01/fires-question-from-nowhere-far.txt", "AUD-01/fires-question-from-nowhere-in-json.txt", "AUD-01/fires-question-from-nowhere-in-table.txt",
			"AUD-04/fires-answer-graded.txt", "AUD-04/fires-number-graded.txt", "AUD-04/fires-answer-guessing.txt", "AUD-04/fires-answers-tried-at-a-page.txt", "AUD-04/fires-answers-tried-in-german.txt", "AUD-04/fires-guesses-tried.txt", "AUD-04/fires-numbers-tried.txt",
			"AUD-01/fires-split-answer-field.txt", "AUD-01/fires-split-in-pieces.txt", "AUD-01/fires-split-question-and-answer.txt",
			"AUD-03/gap-file-from-nowhere.txt", "AUD-04/gap-no-sweep-after-resume.txt", "AUD-04/gap-no-sweep.txt",
		},
	}
}

// TestWatchTellsAll: whatever of the corpus an event shows by itself is told.
func TestWatchTellsAll(t *testing.T) {
	long.NotRaced(t)
	beyond := map[string]bool{}
	for _, names := range notOfAnEvent() {
		for _, name := range names {
			beyond[name] = true
		}
	}
	for _, id := range []string{"AUD-1", "AUD-2", "AUD-3", "AUD-4", "AUD-22"} {
		written := texts(t, fmt.Sprintf("AUD-%02s/*.txt", strings.TrimPrefix(id, "AUD-")))
		for i, name := range slices.Sorted(maps.Keys(written)) {
			if strings.Contains(name, "/"+near) {
				continue
			}
			if i%long.Step(4) != 0 {
				delete(beyond, name)
				continue
			}
			tells := slices.ContainsFunc(checkPrompts(t, name), func(why string) bool { return strings.HasPrefix(why, id+" ") })
			if tells == beyond[name] {
				t.Errorf("%s: told is %v", name, tells)
			}
			delete(beyond, name)
		}
	}
	for name := range beyond {
		t.Errorf("there is no case %s", name)
	}
}
