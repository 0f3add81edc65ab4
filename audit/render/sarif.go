package render

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// unseen is the rule by which SARIF tells of what a check could not see.
const unseen = "could-not-see"

const project = "https://github.com/gaia-harness/gaia"

// The parts of SARIF 2.1.0 that a report needs, by their names there.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver struct {
				Name           string      `json:"name"`
				InformationURI string      `json:"informationUri"`
				Rules          []sarifRule `json:"rules"`
			} `json:"driver"`
		} `json:"tool"`
		Automation struct {
			ID string `json:"id"`
		} `json:"automationDetails"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
		Properties  map[string]any    `json:"properties"`
	}
	sarifInvocation struct {
		ExecutionSuccessful bool   `json:"executionSuccessful"`
		EndTimeUTC          string `json:"endTimeUtc,omitzero"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifRule struct {
		ID         string            `json:"id"`
		Short      sarifText         `json:"shortDescription"`
		Full       sarifText         `json:"fullDescription"`
		Help       sarifText         `json:"help"`
		HelpURI    string            `json:"helpUri"`
		Default    map[string]string `json:"defaultConfiguration"`
		Properties map[string]any    `json:"properties"`
	}
	sarifResult struct {
		RuleID       string             `json:"ruleId"`
		RuleIndex    int                `json:"ruleIndex"`
		Level        string             `json:"level"`
		Message      sarifText          `json:"message"`
		Locations    []sarifLocation    `json:"locations"`
		Fingerprints map[string]string  `json:"partialFingerprints"`
		Suppressions []sarifSuppression `json:"suppressions"` // there in all or in none
		Properties   map[string]any     `json:"properties"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact map[string]string `json:"artifactLocation"`
			Region   map[string]int64  `json:"region"`
		} `json:"physicalLocation"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Status        string `json:"status"`
		Justification string `json:"justification,omitzero"`
	}
)

// SARIF returns a report as SARIF 2.1.0: a result a finding, at its line of the journal, and one for each thing
// that a check could not see. What an adjudication closed is suppressed.
func SARIF(r audit.Report, dir string) ([]byte, error) { return sarif(r, dir, audit.Checks()) }

func sarif(r audit.Report, dir string, checks []audit.Check) ([]byte, error) {
	var rules []sarifRule
	index := map[string]int{}
	add := func(rule sarifRule) {
		if _, there := index[rule.ID]; !there {
			index[rule.ID] = len(rules)
			rules = append(rules, rule)
		}
	}
	for _, c := range checks {
		for _, known := range c.Rules {
			add(described(c, known.ID, known.Severity, "it finds "+known.When))
		}
		add(described(c, unseen, gapSeverity(c.Gate), "it skips when "+c.Skips))
	}
	// A report of another version may have rules that this one has not.
	for _, f := range Findings(r) {
		add(described(audit.Check{ID: f.Check}, strings.TrimPrefix(f.RuleID, f.Check+"."), f.Severity, "this version has no such rule"))
	}
	for _, c := range r.Checks {
		if len(c.Gaps) > 0 {
			add(described(audit.Check{ID: c.ID, Gate: c.Gate}, unseen, gapSeverity(c.Gate), "this version has no such check"))
		}
	}
	run := sarifRun{Results: results(r, dir, index), Invocations: []sarifInvocation{{ExecutionSuccessful: true, EndTimeUTC: r.AuditedAt}},
		Properties: map[string]any{"clean": r.Attestation.Clean, "strictClean": r.Attestation.StrictClean, "rehearsal": r.Rehearsal}}
	run.Tool.Driver.Name, run.Tool.Driver.InformationURI, run.Tool.Driver.Rules = "gaia audit", project, rules
	run.Automation.ID = "gaia-audit/" + visible.Line(r.RunID)
	log := sarifLog{Schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
	b, err := json.Marshal(log, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("writing the report as SARIF: %w", err)
	}
	return append(b, '\n'), nil
}

func results(r audit.Report, dir string, index map[string]int) []sarifResult {
	reasons := map[string]string{}
	for _, a := range r.Adjudications {
		reasons[a.Finding] = a.Reason
	}
	all := []sarifResult{}
	for _, f := range Findings(r) {
		s := sarifResult{RuleID: f.RuleID, RuleIndex: index[f.RuleID], Level: level(f.Severity), Locations: at(journal(dir, f)),
			Message:      message(fmt.Sprintf("%s: %s; expected: %s", where(f), f.Got, f.Want)),
			Fingerprints: fingerprints("gaiaFindingId/v1", f.ID), Suppressions: []sarifSuppression{},
			Properties: map[string]any{"severity": f.Severity, "finding": audit.ShortID(f.ID), "ruleVersion": f.RuleVersion}}
		if f.Closed != "" {
			s.Suppressions = append(s.Suppressions, sarifSuppression{Kind: "external", Status: "accepted", Justification: string(f.Closed) + ": " + visible.Line(reasons[f.ID])})
		}
		for name, value := range map[string]string{"outcome": string(f.Outcome), "taskId": f.TaskID, "evidenceSha256": f.EvidenceSHA256} {
			if value != "" {
				s.Properties[name] = value
			}
		}
		if f.Attempt > 0 {
			s.Properties["attempt"] = f.Attempt
		}
		all = append(all, s)
	}
	for _, c := range r.Checks {
		for _, gap := range c.Gaps {
			id := c.ID + "." + unseen
			all = append(all, sarifResult{RuleID: id, RuleIndex: index[id], Level: level(gapSeverity(c.Gate)), Locations: at(path.Join(dir, trajectory.JournalFile), 1), Message: message("could not see: " + gap),
				Fingerprints: fingerprints("gaiaGap/v1", canonical.Digest([]byte(c.ID+"\n"+gap))), Suppressions: []sarifSuppression{}, Properties: map[string]any{"gate": c.Gate}})
		}
	}
	return all
}

// fingerprints tell results apart. GitHub looks at the second alone, and takes for one what is of one rule and has
// the same there.
func fingerprints(name, id string) map[string]string {
	return map[string]string{name: id, "primaryLocationLineHash": strings.TrimPrefix(id, "sha256:") + ":1"}
}

// described is a rule of a check as SARIF lists it.
func described(c audit.Check, id string, severity audit.Severity, says string) sarifRule {
	// GitHub sorts by this number; its own words begin at 9, 7, 4 and 0.1.
	weight := map[audit.Severity]string{audit.Critical: "9.5", audit.High: "8.0", audit.ToReview: "5.0", audit.Info: "1.0"}[severity]
	help := strings.TrimSpace(sentence(c.Why) + " " + sentence(c.Fix))
	if help == "" {
		help = "See what a newer version says of it."
	}
	return sarifRule{ID: c.ID + "." + id, Short: message(strings.TrimSpace(c.Name + ": " + strings.ReplaceAll(id, "-", " "))), Full: message(sentence(says)),
		Help: message(help), HelpURI: project + "/blob/main/docs/checks.md#" + anchor(c), Default: map[string]string{"level": level(severity)},
		Properties: map[string]any{"tags": []string{"security", "gaia"}, "security-severity": weight, "severity": severity, "gate": c.Gate}}
}

// gapSeverity is how grave it is that a check could not see.
func gapSeverity(gate bool) audit.Severity {
	if gate {
		return audit.High
	}
	return audit.ToReview
}

func level(s audit.Severity) string {
	switch s {
	case audit.Critical, audit.High:
		return "error"
	case audit.ToReview:
		return "warning"
	}
	return "note"
}

// at is a line of the journal, whose path is a URI reference.
func at(name string, line int64) []sarifLocation {
	u := url.URL{Path: name}
	if path.IsAbs(name) {
		u.Scheme = "file"
	}
	var l sarifLocation
	l.Physical.Artifact, l.Physical.Region = map[string]string{"uri": u.String()}, map[string]int64{"startLine": line}
	return []sarifLocation{l}
}

// message escapes what a SARIF message gives a meaning: placeholders (§3.11.5) and links (§3.11.6).
func message(s string) sarifText {
	return sarifText{strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "{", "{{", "}", "}}").Replace(visible.Line(s))}
}
