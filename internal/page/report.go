package page

import (
	"fmt"
	"io"
	"strings"
)

// Write writes the report: one file without a request or a link to anywhere else.
func (r Report) Write(w io.Writer) error {
	// Tasks are linked where their texts are in the file, and lines of the journal where a transcript has them.
	section := map[string]string{} // of a task, by its id
	for i := range r.Tasks {
		if _, ok := section[r.Tasks[i].ID]; !ok {
			section[r.Tasks[i].ID] = fmt.Sprintf("#task-%d", i+1)
		}
	}
	// What leads to a server is taken out: the models are of the caller, so copies are changed.
	run := r.Run
	run.File, run.Live, run.PlotsPath, run.Compare, run.Trail = true, "", "", nil, nil
	run.Filter, run.From = TaskFilter{}, 0
	run.Tasks = append([]TaskRow(nil), run.Tasks...)
	for i := range run.Tasks {
		run.Tasks[i].Path = section[run.Tasks[i].ID]
	}
	run.AuditPath = ""
	if r.Audit != nil {
		run.AuditPath = "#audit"
	}
	r.Run = run
	lines := map[string]string{} // where the transcripts have a line, by what links call it
	tasks := append([]Task(nil), r.Tasks...)
	for i := range tasks {
		t := &tasks[i]
		t.File, t.PlotsPath, t.PicturePath, t.BodyPath, t.JournalPath, t.Path, t.Attempts = true, "", "", "", "", "", nil
		t.Chunk.Prev, t.Chunk.Next = -1, -1
		for _, item := range t.Chunk.Items {
			lines[fmt.Sprint(item.Line)] = fmt.Sprintf("#e%d", item.Line)
		}
	}
	for i := range tasks {
		tasks[i].Findings = fileFindings(tasks[i].Findings, section, lines)
	}
	r.Tasks = tasks
	if r.Audit != nil {
		audit := *r.Audit
		audit.File = true
		audit.Checks = append([]Check(nil), audit.Checks...)
		for i := range audit.Checks {
			audit.Checks[i].Findings = fileFindings(audit.Checks[i].Findings, section, lines)
		}
		r.Audit = &audit
	}
	return write(w, "report", r)
}

// fileFindings returns findings whose links lead into the file, or nowhere.
func fileFindings(findings []Finding, section, lines map[string]string) []Finding {
	findings = append([]Finding(nil), findings...)
	for i := range findings {
		f := &findings[i]
		f.TaskPath = section[f.Task]
		links := append([]Link(nil), f.Lines...)
		for j := range links {
			links[j].Path = lines[strings.TrimPrefix(links[j].Text, "line ")]
		}
		f.Lines = links
	}
	return findings
}
