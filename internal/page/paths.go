package page

import (
	"net/url"
	"strconv"
	"strings"
)

// Paths are where the pages of a run are. The zero value is of a run in a file, whose links are fragments.
type Paths struct {
	Run string // path of the run's page, with its id escaped
}

// Task returns the path of the page of a task. A task may have any text as its id.
func (p Paths) Task(id string) string {
	segment := url.PathEscape(id)
	if id == "" || id == "." || id == ".." || id[0] == '~' { // browsers leave dots out
		segment = "~" + segment
	}
	if p.Run == "" {
		return "#task-" + segment
	}
	return p.Run + "/task/" + segment
}

// TaskID returns the id of the task that a path of Task has as its last part, unescaped.
func TaskID(segment string) string { return strings.TrimPrefix(segment, "~") }

// TaskPlots returns where the plots of an attempt are saved from; "" in a file.
func (p Paths) TaskPlots(id string, attempt int) string {
	if p.Run == "" {
		return ""
	}
	return p.Task(id) + "/plot/" + strconv.Itoa(attempt) + "/"
}

// Audit returns the path of the page of the audit.
func (p Paths) Audit() string {
	if p.Run == "" {
		return "#audit"
	}
	return p.Run + "/audit"
}

// Journal returns what the number of a line of the journal is added to; "" in a file, which has no journal.
func (p Paths) Journal() string { return p.in("/journal?line=") }

// Plots returns what the name of a plot of the run is added to, with ".svg" or ".csv"; "" in a file.
func (p Paths) Plots() string { return p.in("/plot/") }

// Pictures returns what the digest of a picture is added to; "" in a file.
func (p Paths) Pictures() string { return p.in("/picture/") }

// Bodies returns what the digest of a whole text is added to; "" in a file.
func (p Paths) Bodies() string { return p.in("/body/") }

func (p Paths) in(rest string) string {
	if p.Run == "" {
		return ""
	}
	return p.Run + rest
}
