package main

import (
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/tools"
	"github.com/spf13/pflag"
)

// noVision is --vision-model of a run without describe_image.
const noVision = "none"

// addVisionFlag makes the flag that says which model looks at pictures.
func (s *settings) addVisionFlag(f *pflag.FlagSet) {
	f.StringVar(&s.vision, "vision-model", "", `model that looks at pictures and pages for describe_image, or "none" (default: the one that answers, if it is shown pictures)`)
}

// looks is the model that looks at pictures, "" if none does.
func (s settings) looks() string {
	switch {
	case s.vision == noVision || s.vision == "" && !s.showsImages():
		return ""
	case s.vision == "":
		return s.model
	}
	return s.vision
}

// sight is the model that looks at pictures, at the endpoint of the one that
// answers: by its client if it is the same, since --api is of that model alone.
func (s settings) sight(client *llm.Client, config llm.Config, baseURL string) *run.Vision {
	name := s.looks()
	if name == "" {
		return nil
	}
	if name != s.model {
		config.API = ""
		client = llm.New(config)
	}
	return &run.Vision{Client: client, Name: name, Origin: originOf(baseURL)}
}

// visionFlag is --vision-model of a plan.
func visionFlag(v *plan.VisionPlan) string {
	if v == nil {
		return noVision
	}
	return v.Model
}

// poppler is where poppler's programs are on this machine; nil if none is there.
// They run in the sandbox, if there is one.
func poppler(sandbox *tools.Sandbox) *tools.Poppler {
	p := tools.Poppler{Text: onPath("pdftotext"), Pages: onPath("pdftoppm"), Sandbox: sandbox}
	if p.Text == "" && p.Pages == "" {
		return nil
	}
	return &p
}
