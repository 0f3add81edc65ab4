package rundir

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDecodeManifest(t *testing.T) {
	m := planOf(t, "a", "b")
	m.Prompts = []plan.Prompt{{ID: "system.v2", SHA256: canonical.Digest([]byte("<answer>\n")), Text: "<answer>\n"}}
	m.Tools = []plan.ToolPlan{{Name: "calculate"}}
	m.Tasks[0].FileName = "tides.xlsx"
	data := encodePlan(t, m)
	got, err := plan.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("read differs from written:\n%s", diff)
	}
	if again := encodePlan(t, got); !bytes.Equal(again, data) {
		t.Errorf("encodes again as %s\nnot %s", again, data)
	}
}

func prompted(t *testing.T) plan.Plan {
	m := planOf(t, "a", "b")
	m.Prompts = []plan.Prompt{{ID: "system.v2", SHA256: canonical.Digest([]byte("Answer.")), Text: "Answer."}}
	return m
}

func TestDecodeManifestRefuses(t *testing.T) {
	submitted := planOf(t, "a", "b")
	submitted.SubmitIntent = true
	good := string(encodePlan(t, submitted))
	served := func(p plan.ToolPlan) string {
		m := planOf(t, "a", "b")
		p.Name, p.Schema, p.SchemaSHA256 = "notes__find", "{}", canonical.Digest([]byte("{}"))
		if p.Server == "" {
			p.Server = "mcp:notes"
		}
		m.Tools = []plan.ToolPlan{p}
		return string(encodePlan(t, m))
	}
	submit := func(plan string) string {
		return strings.Replace(plan, `"submit_intent":false`, `"submit_intent":true`, 1)
	}
	for _, p := range []plan.ToolPlan{{Network: plan.NetworkNone}, {Network: plan.NetworkHost, Env: []string{"A", "b_2"}}, {Server: "mcp:notes https://notes.example"}} {
		if _, err := plan.Decode([]byte(served(p))); err != nil {
			t.Errorf("%+v is refused: %v", p, err)
		}
	}
	task := func(id string) string {
		return `{"level":1,"question_sha256":"` + planOf(t, "a").Tasks[0].QuestionSHA256 + `","task_id":"` + id + `"}`
	}
	tests := []struct{ name, old, new, want string }{
		{"other schema", "gaia.manifest/2", "gaia.manifest/3", `schema is "gaia.manifest/3", not "gaia.manifest/2"`},
		{"an earlier schema", "gaia.manifest/2", "gaia.manifest/1", `schema is "gaia.manifest/1", which gaia 0.1.0 reads and this version does not`},
		{"no schema", "gaia.manifest/2", "", `schema is "", not "gaia.manifest/2"`},
		{"no run", `"run_id":"` + testRunID + `"`, `"run_id":""`, "run_id is not a ULID"},
		{"a path for a run id", `"run_id":"` + testRunID + `"`, `"run_id":"../../escape"`, "run_id is not a ULID"},
		{"a task twice", task("a"), task("a") + "," + task("a"), `task "a" is planned twice or has no id`},
		{"a question without a digest", task("a"), strings.Replace(task("a"), "sha256:", "", 1), `question_sha256 of task "a" is not a digest`},
		{"a task without an id", task("a"), task(""), `task "" is planned twice or has no id`},
		{"ids of another split", `"split_ids":["a","b"]`, `"split_ids":["a","c"]`, "split_ids are not those that ids_sha256 is of"},
		{"levels of another sum", `"levels":[1,1,0]`, `"levels":[1,2,0]`, "levels [1 2 0] do not add up to the 2 tasks of the split"},
		{"a negative level", `"levels":[1,1,0]`, `"levels":[3,-1,0]`, "levels [3 -1 0] do not add up to the 2 tasks of the split"},
		{"other levels", `"levels":[1,1,0]`, `"levels":[1,0,1]`, `task "b" is of level 2, of which the split has no more`},
		{"a task of another level", `"level":2`, `"level":4`, `task "b" is of level 4, of which the split has no more`},
		{"another size of the split", `"split_size":2`, `"split_size":3`, "split_ids are not those that ids_sha256 is of"},
		{"another policy", `"allow":[],"deny":[]`, `"allow":["*"],"deny":[]`, "policy_hash or policy_mode is not that of the policy"},
		{"a policy out of order", `"allow":[]`, `"allow":["b","a"]`, "the lists of the policy are not sorted"},
		{"another guidance", `"guidance_hash":"`, `"guidance_hash":"0`, "guidance_hash is not the beginning of constitution_sha256, a digest"},
		{"no digest of the constitution", `"constitution_sha256":"sha256:`, `"constitution_sha256":"sha256:x`, "guidance_hash is not the beginning of constitution_sha256, a digest"},
		{"another mode", `"policy_mode":"restricted"`, `"policy_mode":"autonomous"`, "policy_hash or policy_mode is not that of the policy"},
		{"tools out of order", `"voting":`, `"unconfined":["python","mcp:notes"],"voting":`, "unconfined is not sorted"},
		{"a tool twice", `"voting":`, `"unconfined":["python","python"],"voting":`, "unconfined is not sorted"},
		{"unconfined, to be submitted", `"voting":`, `"unconfined":["python"],"voting":`, "is of a run to be submitted with tools outside of the sandbox"},
		{"a server without a network", good, served(plan.ToolPlan{}), `the network of the tool "notes__find" is ""`},
		{"a server with another network", good, served(plan.ToolPlan{Network: "lan"}), `the network of the tool "notes__find" is "lan"`},
		{"a network, to be submitted", good, submit(served(plan.ToolPlan{Network: plan.NetworkHost})), "is of a run to be submitted with a server that has the network"},
		{"a network of a server over HTTP", good, served(plan.ToolPlan{Network: plan.NetworkNone, Server: "mcp:notes https://notes.example"}), `the tool "notes__find" has a network or variables and is not of a server that is a program`},
		{"variables of a server over HTTP", good, served(plan.ToolPlan{Env: []string{"A"}, Server: "mcp:notes https://notes.example"}), `the tool "notes__find" has a network or variables and is not of a server that is a program`},
		{"a network of a built-in tool", `"tools":[]`, `"tools":[{"description":"","name":"calculate","network":"none","schema_sha256":""}]`, `the tool "calculate" has a network or variables and is not of a server that is a program`},
		{"a server outside without a network", good, strings.Replace(served(plan.ToolPlan{Network: plan.NetworkNone}), `"voting":`, `"unconfined":["mcp:notes"],"voting":`, 1), `the tool "notes__find" is of a server outside of the sandbox that has no network`},
		{"variables out of order", good, served(plan.ToolPlan{Network: plan.NetworkNone, Env: []string{"B", "A"}}), `the variables of the tool "notes__find" are not sorted`},
		{"a variable twice", good, served(plan.ToolPlan{Network: plan.NetworkNone, Env: []string{"A", "A"}}), `the variables of the tool "notes__find" are not sorted`},
		{"a value of a variable", good, served(plan.ToolPlan{Network: plan.NetworkNone, Env: []string{"A=hush"}}), `the tool "notes__find" is given a variable that is no name`},
		{"unknown evidence", `"evidence":"heads"`, `"evidence":"all"`, `evidence is "all"`},
		{"another template", good, strings.Replace(string(encodePlan(t, prompted(t))), "Answer.", "Answer!", 1), `the digest of the template "system.v2" is not that of its text`},
		{"hashes to be submitted", `"evidence":"heads"`, `"evidence":"hashes"`, "is of a run to be submitted that records hashes only"},
		{"no vote", `"attempts":1,"rule":"first"`, `"attempts":0,"rule":"first"`, "votes with 0 attempts, not with 1 to 100"},
		{"a vote of too many", `"attempts":1,"rule":"first"`, `"attempts":101,"rule":"majority.v1"`, "votes with 101 attempts, not with 1 to 100"},
		{"a vote by the first of many", `"attempts":1,"rule":"first"`, `"attempts":2,"rule":"first"`, `votes by the rule "first" with 2 attempts`},
		{"a majority of one", `"rule":"first"`, `"rule":"majority.v1"`, `votes by the rule "majority.v1" with 1 attempts`},
		{"another rule of the vote", `"attempts":1,"rule":"first"`, `"attempts":3,"rule":"best"`, `votes by the rule "best", which this version does not know`},
		{"no rule of the vote", `"rule":"first"`, `"rule":""`, `votes by the rule "", which this version does not know`},
		{"another cassette", `"constitution_sha256"`, `"cassette":"play","constitution_sha256"`, `cassette is "play"`},
		{"a replay to be submitted", `"constitution_sha256"`, `"cassette":"replay","constitution_sha256"`, "is of a run to be submitted that asks no model"},
		{"a cost below nothing", `"budgets":{"cost_microusd":0`, `"budgets":{"cost_microusd":-1`, "has a limit below 0"},
		{"a time below nothing", `"turns":0}`, `"turns":0,"wall_ms":-1}`, "has a limit below 0"},
		{"calls below nothing", `"tool_calls":0`, `"tool_calls":-1`, "has a limit below 0"},
		{"names out of order", `"name":"scripted-model","origin":"http://127.0.0.1"`, `"name":"scripted-model","origin":"http://127.0.0.1","served_as":["b","a"]`, "served_as is not sorted"},
		{"a name twice", `"name":"scripted-model","origin":"http://127.0.0.1"`, `"name":"scripted-model","origin":"http://127.0.0.1","served_as":["a","a"]`, "served_as is not sorted"},
		{"a name of nothing", `"name":"scripted-model","origin":"http://127.0.0.1"`, `"name":"scripted-model","origin":"http://127.0.0.1","served_as":["","a"]`, "served_as has an empty name"},
		{"a window below nothing", `"model":{"name":"scripted-model"`, `"model":{"context_window":-1,"name":"scripted-model"`, "has a limit below 0"},
		{"attempts below nothing", `"attempts_per_task":0`, `"attempts_per_task":-1`, "has a limit below 0"},
		{"unknown member", `"budgets"`, `"audits":1,"budgets"`, canonical.ErrMalformed.Error()},
		{"missing member", `"budgets":{"cost_microusd":0,"tool_calls":0,"turns":0},`, "", canonical.ErrMalformed.Error()},
		{"duplicate member", `"schema":"gaia.manifest/2"`, `"schema":"gaia.manifest/2","schema":"gaia.manifest/2"`, canonical.ErrMalformed.Error()},
		{"float", `"temperature_milli":0`, `"temperature_milli":0.5`, canonical.ErrMalformed.Error()},
		{"explicit zero", `"rehearsal":true`, `"rehearsal":false`, canonical.ErrMalformed.Error()},
		{"space", `"schema":`, `"schema": `, canonical.ErrMalformed.Error()},
		{"no tasks", good, string(encodePlan(t, planOf(t))), "plans no task"},
		{"newline", good, good + "\n", canonical.ErrMalformed.Error()},
		{"nothing", good, "", canonical.ErrMalformed.Error()},
		{"null", good, "null", canonical.ErrMalformed.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Count(good, tt.old) != 1 {
				t.Fatalf("%q does not stand once in the manifest", tt.old)
			}
			m, err := plan.Decode([]byte(strings.Replace(good, tt.old, tt.new, 1)))
			var fault *trajectory.Fault
			if !errors.As(err, &fault) || fault.File != plan.ManifestFile || fault.Reason != tt.want || (fault.Hint != "") != (tt.name == "an earlier schema") {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if diff := cmp.Diff(plan.Plan{}, m); diff != "" {
				t.Errorf("returned with the fault:\n%s", diff)
			}
		})
	}
}

// agentPlanOf returns a plan with an agent of the user's own.
func agentPlanOf(t testing.TB, tasks ...string) plan.Plan {
	t.Helper()
	m, a := planOf(t, tasks...), plan.DefaultAgent()
	a.Name, a.FilesSHA256 = "my-agent", canonical.Digest([]byte("files"))
	a.Folders = []plan.AgentFolder{{Bytes: 90, Files: 2, Path: "/home/u/my-agent", SHA256: canonical.Digest([]byte("a"))}, {Path: "/opt/venv", SHA256: canonical.Digest(nil)}}
	a.Env, a.Models = []string{"LC_TIME", "TZ"}, map[string]string{"small-model": "small-model-1"}
	m.Agent = &a
	m.Tools = []plan.ToolPlan{{Name: policy.SubmitAnswer}}
	return m
}

// TestDecodeAgentRefuses: an own agent's plan holds within its limits and beside the members of the built-in agent.
func TestDecodeAgentRefuses(t *testing.T) {
	data := encodePlan(t, agentPlanOf(t, "a", "b"))
	got, err := plan.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(agentPlanOf(t, "a", "b"), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("read differs from written:\n%s", diff)
	}
	for _, tt := range []struct {
		name   string
		change func(m *plan.Plan, a *plan.AgentPlan)
		want   string
	}{
		{"no name", func(_ *plan.Plan, a *plan.AgentPlan) { a.Name = "" }, `the agent's name is ""`},
		{"a name with a line", func(_ *plan.Plan, a *plan.AgentPlan) { a.Name = "a\nb" }, `the agent's name is "a\nb"`},
		{"no folder", func(_ *plan.Plan, a *plan.AgentPlan) { a.Folders = nil }, "the agent has 0 folders, not 1 to 64"},
		{"a relative folder", func(_ *plan.Plan, a *plan.AgentPlan) { a.Folders[1].Path = "venv" }, `the path of the agent's folder "venv" is not absolute and clean`},
		{"a folder by way of another", func(_ *plan.Plan, a *plan.AgentPlan) { a.Folders[1].Path = "/opt/../home/u" }, `the path of the agent's folder "/opt/../home/u" is not absolute and clean`},
		{"a folder in a folder", func(_ *plan.Plan, a *plan.AgentPlan) { a.Folders[1].Path = "/home/u/my-agent/venv" }, `the agent's folder "/home/u/my-agent/venv" lies in "/home/u/my-agent", or holds it`},
		{"a folder twice", func(_ *plan.Plan, a *plan.AgentPlan) { a.Folders[1].Path = a.Folders[0].Path }, `the agent's folder "/home/u/my-agent" lies in "/home/u/my-agent", or holds it`},
		{"a folder without a digest", func(_ *plan.Plan, a *plan.AgentPlan) { a.Folders[1].SHA256 = "" }, `the digest of the agent's folder "/opt/venv" is none`},
		{"fewer files than none", func(_ *plan.Plan, a *plan.AgentPlan) { a.Folders[1].Files = -1 }, `the agent's folder "/opt/venv" has a number of files or bytes that none can have`},
		{"too large", func(_ *plan.Plan, a *plan.AgentPlan) { a.Folders[1].Bytes = plan.MaxAgentBytes }, "the agent's folders have more files or bytes than an agent can have"},
		{"no digest of the files", func(_ *plan.Plan, a *plan.AgentPlan) { a.FilesSHA256 = "sha256:" }, "files_sha256 of the agent is not a digest"},
		{"no command", func(_ *plan.Plan, a *plan.AgentPlan) { a.Command = nil }, "the agent's command has 0 words of 0 bytes"},
		{"a program elsewhere", func(_ *plan.Plan, a *plan.AgentPlan) { a.Command[0] = "bin/../../agent" }, `the agent's program "bin/../../agent" is neither a path in its folder nor an absolute one`},
		{"no program", func(_ *plan.Plan, a *plan.AgentPlan) { a.Command[0] = "" }, `the agent's program "" is neither a path in its folder nor an absolute one`},
		{"a byte 0", func(_ *plan.Plan, a *plan.AgentPlan) { a.Command = append(a.Command, "a\x00") }, "the agent's command has a word with a byte 0"},
		{"another network", func(_ *plan.Plan, a *plan.AgentPlan) { a.Network = "lan" }, `the agent's network is "lan"`},
		{"the network, to be submitted", func(m *plan.Plan, a *plan.AgentPlan) { a.Network, m.SubmitIntent = plan.NetworkHost, true }, "is of a run to be submitted with an agent that has the network"},
		{"unconfined, to be submitted", func(m *plan.Plan, a *plan.AgentPlan) {
			a.Network, a.Unconfined, m.Unconfined, m.SubmitIntent = plan.NetworkHost, true, []string{plan.UnconfinedAgent}, true
		}, "is of a run to be submitted with tools outside of the sandbox"},
		{"unconfined without the network", func(m *plan.Plan, a *plan.AgentPlan) {
			a.Unconfined, m.Unconfined = true, []string{plan.UnconfinedAgent}
		}, `the agent runs outside of the sandbox, and its network is "none"`},
		{"recorded and unconfined", func(m *plan.Plan, a *plan.AgentPlan) {
			a.Network, a.Unconfined, m.Unconfined = plan.NetworkRecord, true, []string{plan.UnconfinedAgent}
		}, `the agent runs outside of the sandbox, and its network is "record"`},
		{"a variable of the recorded network", func(_ *plan.Plan, a *plan.AgentPlan) {
			a.Network, a.Env = plan.NetworkRecord, []string{"https_proxy"}
		}, "the agent is given a variable that the run sets"},
		{"unconfined in one place", func(_ *plan.Plan, a *plan.AgentPlan) { a.Network, a.Unconfined = plan.NetworkHost, true }, "unconfined does not say whether the agent runs in the sandbox"},
		{"unconfined in the other place", func(m *plan.Plan, _ *plan.AgentPlan) { m.Unconfined = []string{plan.UnconfinedAgent} }, "unconfined does not say whether the agent runs in the sandbox"},
		{"its tool without an agent", func(m *plan.Plan, _ *plan.AgentPlan) { m.Agent = nil }, "has the tool submit_answer and no agent of the user's own"},
		{"unconfined without an agent", func(m *plan.Plan, _ *plan.AgentPlan) { m.Agent, m.Unconfined = nil, []string{plan.UnconfinedAgent} }, "unconfined names an agent that the plan does not have"},
		{"other tools", func(_ *plan.Plan, a *plan.AgentPlan) { a.Tools = "all" }, `the agent's tools are "all"`},
		{"tools besides its own", func(_ *plan.Plan, a *plan.AgentPlan) { a.Tools = plan.AgentToolsNone }, "has tools for an agent that has its own"},
		{"no way to answer", func(m *plan.Plan, _ *plan.AgentPlan) { m.Tools = nil }, "has an agent with tools of the Gate and no tool submit_answer"},
		{"no call", func(_ *plan.Plan, a *plan.AgentPlan) { a.Calls = 0 }, "the agent may make 0 calls, not 1 to 1000000"},
		{"no process", func(_ *plan.Plan, a *plan.AgentPlan) { a.Processes = 0 }, "the agent may have 0 processes, not 1 to 65536"},
		{"no memory", func(_ *plan.Plan, a *plan.AgentPlan) { a.MemoryBytes = 1 }, "the agent may use 1 bytes of memory, not 16777216 to 1099511627776"},
		{"no disk", func(_ *plan.Plan, a *plan.AgentPlan) { a.DiskBytes = -1 }, "the agent may leave -1 bytes, not 1048576 to 1099511627776"},
		{"no time", func(_ *plan.Plan, a *plan.AgentPlan) { a.TimeoutMs = 0 }, "the agent has 0 ms, not 1000 to 604800000"},
		{"more time than certificates", func(_ *plan.Plan, a *plan.AgentPlan) {
			a.Network, a.TimeoutMs = plan.NetworkRecord, plan.MaxAgentTime.Milliseconds()
		}, "the agent has 604800000 ms, and with the recorded network at most 169200000"},
		{"variables out of order", func(_ *plan.Plan, a *plan.AgentPlan) { a.Env = []string{"TZ", "LC_TIME"} }, "the agent's variables are not sorted, or too many"},
		{"a value of a variable", func(_ *plan.Plan, a *plan.AgentPlan) { a.Env = []string{"A=hush"} }, "the agent is given a variable that is no name"},
		{"a provider's key", func(_ *plan.Plan, a *plan.AgentPlan) { a.Env = []string{"ANTHROPIC_API_KEY"} }, "the agent is given a variable that the run sets"},
		{"a model without a name", func(_ *plan.Plan, a *plan.AgentPlan) { a.Models = map[string]string{"a": ""} }, `the agent's model "a", answered by "", has no name`},
		{"a cassette", func(m *plan.Plan, _ *plan.AgentPlan) { m.Cassette = plan.CassetteRecord }, "has an agent of the user's own and a cassette"},
		{"turns", func(m *plan.Plan, _ *plan.AgentPlan) { m.Budgets.Turns = 20 }, "has an agent of the user's own and settings of the built-in one"},
		{"pictures", func(m *plan.Plan, _ *plan.AgentPlan) { m.Model.Images = true }, "has an agent of the user's own and settings of the built-in one"},
	} {
		m := agentPlanOf(t, "a", "b")
		tt.change(&m, m.Agent)
		if _, err := plan.Decode(encodePlan(t, m)); err == nil || err.(*trajectory.Fault).Reason != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func FuzzDecodeManifest(f *testing.F) {
	f.Add(encodePlan(f, planOf(f, "a", "b")))
	f.Add(encodePlan(f, agentPlanOf(f, "a", "b")))
	f.Add([]byte(`{"schema":"gaia.manifest/2"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := plan.Decode(data)
		if err != nil {
			return
		}
		if again := encodePlan(t, m); !bytes.Equal(again, data) {
			t.Fatalf("accepted %q, which encodes to %q", data, again)
		}
	})
}

func TestCommitment(t *testing.T) {
	got, err := plan.Commitment(map[string]string{"b": "é", "a": "1"}, "00ff")
	if want := canonical.Digest([]byte(`{"gold":{"a":"1","b":"é"},"salt":"00ff"}`)); err != nil || got != want {
		t.Errorf("Commitment = %s, %v, want %s", got, err, want)
	}
	seen := map[string]bool{got: true}
	for _, other := range []struct {
		gold map[string]string
		salt string
	}{
		{map[string]string{"a": "1", "b": "é"}, "00fe"}, {map[string]string{"a": "é", "b": "1"}, "00ff"}, {map[string]string{"a": "1"}, "00ff"},
		{map[string]string{"a": "1", "b": "é", "c": ""}, "00ff"}, {nil, "00ff"},
	} {
		digest, err := plan.Commitment(other.gold, other.salt)
		if err != nil || seen[digest] {
			t.Errorf("%v: %s, %v", other, digest, err)
		}
		seen[digest] = true
	}
	if _, err := plan.Commitment(map[string]string{"a": "\xff"}, ""); err == nil {
		t.Error("committed to bytes that are not UTF-8")
	}
}
