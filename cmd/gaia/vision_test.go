package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// TestLooks: which model looks at pictures.
func TestLooks(t *testing.T) {
	for _, tt := range []struct{ model, images, vision, want string }{
		{"gpt-4o", runflags.ImagesAuto, "", "gpt-4o"},
		{"gpt-4o", runflags.ImagesOff, "", ""},
		{"gpt-4o", runflags.ImagesOff, "gpt-4o", "gpt-4o"},
		{"gpt-4o", runflags.ImagesAuto, runflags.NoVision, ""},
		{"gpt-4o", runflags.ImagesAuto, "other", "other"},
		{"blind", runflags.ImagesAuto, "", ""},
		{"blind", runflags.ImagesOn, "", "blind"},
		{"blind", runflags.ImagesAuto, "gpt-4o", "gpt-4o"},
	} {
		s := &runflags.Settings{Images: tt.images, Vision: tt.vision}
		s.Plan.Model.Name = tt.model
		if got := s.Looks(); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// TestVisionModel: the model of --vision-model stands in the plan, and a run like
// another has it, too; without a known price it is refused where money is bounded.
func TestVisionModel(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	tasks := endpoint.Tasks{Count: 2}
	server, err := endpoint.Serve(endpoint.Config{Tasks: tasks})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	p := newProgram(t)
	if err := tasks.Write(filepath.Join(p.dir, "data")); err != nil {
		t.Fatal(err)
	}
	with := []string{"--dataset", "dir:data", "--base-url", server.URL, "--max-task-cost", "off"}
	run := append([]string{"run", "--no-preflight", "--model", endpoint.Model, "--vision-model", "sees-well"}, with...)
	p.want(exit.OK, run...)
	dir := p.newest()
	if m := p.Plan(dir); m.Vision == nil || m.Vision.Model != "sees-well" || m.Vision.Origin != remote.Origin(server.URL) {
		t.Errorf("the plan has %+v", m.Vision)
	}
	p.want(exit.OK, "resume", dir, "--dataset", "dir:data", "--base-url", server.URL)
	like := append([]string{"run", "--like", dir, "--dry-run"}, with...)
	for _, tt := range []struct {
		more []string
		want string // "": no vision
	}{
		{nil, "sees-well"},
		{[]string{"--vision-model", "none"}, ""},
		{[]string{"--model", "gpt-4o"}, "sees-well"},
		{[]string{"--model", "gpt-4o", "--vision-model", "gpt-4o"}, "gpt-4o"},
	} {
		out := p.want(exit.OK, append(like, tt.more...)...)
		_, printed, _ := strings.Cut(out, "\ndry run") // after what it differs in
		_, vision, found := strings.Cut(printed, "\nvision")
		vision, _, _ = strings.Cut(vision, "\n")
		if found != (tt.want != "") || strings.TrimSpace(vision) != tt.want || strings.Contains(printed, "describe_image") != found {
			t.Errorf("%v: vision %q in\n%s", tt.more, vision, out)
		}
	}
	out := p.want(exit.Usage, append(run, "--max-cost", "1")...)
	if !strings.Contains(out, "the price of model") {
		t.Errorf("run says:\n%s", out)
	}
}
