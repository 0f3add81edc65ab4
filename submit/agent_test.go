package submit

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// ofOwnAgent is a run of an own agent, one of whose answers is no model's.
const ofOwnAgent = `An own agent.
-- plan --
{"agent":{"tools":"none","models":{"small":"small-2026"}}}
-- task ` + firstTask + ` --
question: How many lamps did the lighthouse of Ostrel have in 1871, by the almanac?
gold: 14
-- patch model_call_completed --
{"requested_model":"small","response_model":"small-2026"}
-- patch model_call_started --
{"requested_model":"small"}
-- answer 14 --
The almanac counts fourteen lamps.
-- task ` + secondTask + ` --
question: Which harbour closed first?
gold: Tolmey
level: 2
-- gives answer-file.v1 Merrow --
`

// TestOwnAgent: a package of an own agent has the list of its files, and names it beside the model. A public one has the
// list's digest alone, in its plan.
func TestOwnAgent(t *testing.T) {
	c := config(t, ofOwnAgent)
	whole, public := both(t, c)
	dir := os.DirFS(whole.Path)
	v, err := Verify(dir, Options{Gold: c.Gold})
	if err != nil {
		t.Fatal(err)
	}
	m, p := v.Run.Manifest, v.Statement.Predicate
	own := plan.OwnAgent{FilesSHA256: m.Agent.FilesSHA256, Name: "sample-agent", Network: plan.NetworkNone, Tools: plan.AgentToolsNone}
	if p.AnsweredBy.Own == nil || *p.AnsweredBy.Own != own || !slices.Equal(p.AnsweredBy.RepliedAs, []string{"small-2026"}) {
		t.Errorf("answered by %+v", p.AnsweredBy)
	}
	if v.NotRerun != "" || v.NotRebuilt != "" || len(p.DirtyReasons) > 0 {
		t.Errorf("rerun: %s, rebuilt: %s, reasons %q", v.NotRerun, v.NotRebuilt, p.DirtyReasons)
	}
	files := load(t, whole.Path)
	if readme := string(files[ReadmeFile]); !strings.Contains(readme, "`sample-agent`, the submitter's own, files `"+own.FilesSHA256) || !strings.Contains(readme, plan.AgentFilesFile) {
		t.Error("README.md does not name the agent")
	}
	for name, change := range map[string]func(map[string][]byte){
		"missing":     func(all map[string][]byte) { delete(all, plan.AgentFilesFile) },
		"another bit": func(all map[string][]byte) { all[plan.AgentFilesFile][9] ^= 1 },
		"cut":         func(all map[string][]byte) { all[plan.AgentFilesFile] = all[plan.AgentFilesFile][:9] },
	} {
		changed := load(t, whole.Path)
		change(changed)
		var fault *trajectory.Fault
		if _, err := Verify(memory(changed), Options{Gold: c.Gold}); !errors.As(err, &fault) || fault.File != plan.AgentFilesFile {
			t.Errorf("%s: %v", name, err)
		}
	}

	// In a package of the built-in agent there is no such file.
	other := mustBuild(t, config(t, two))
	stray := load(t, other.Path)
	stray[plan.AgentFilesFile] = files[plan.AgentFilesFile]
	var fault *trajectory.Fault
	if _, err := Verify(memory(stray), Options{}); !errors.As(err, &fault) || fault.File != plan.AgentFilesFile {
		t.Errorf("a stray list: %v", err)
	}

	shown, err := VerifyPublic(os.DirFS(public.Path), Options{})
	if err != nil {
		t.Fatal(err)
	}
	said := shown.Statement.Predicate
	if *said.AnsweredBy.Own != own || !slices.Contains(said.Withheld, WithheldFile{Name: plan.AgentFilesFile}) || !slices.Equal(said.AnsweredBy.RepliedAs, []string{"small-2026"}) {
		t.Errorf("answered by %+v, withheld %v", said.AnsweredBy, said.Withheld)
	}
	if _, there := load(t, public.Path)[plan.AgentFilesFile]; there {
		t.Error("a public package lists the agent's files")
	}
	if runs.Key().Public().ID() != shown.Key.ID() {
		t.Error("another key")
	}
}
