// Package page renders what is known of runs as HTML: for the server of internal/viewer,
// and as one file that needs no server (Report). It owns the style sheet and the script.
//
// It is pure. Everything an agent, page, model or person wrote is text: html/template
// escapes it, and control and bidirectional characters are shown as escapes. There is no
// markdown and no link but those of this package.
package page

import (
	"github.com/gaia-harness/gaia/internal/plot"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/transcript"
)

// Head is what every page has.
type Head struct {
	Title   string
	Trail   []Link // from the list of runs to this page
	Notices []Notice
	Live    string // path of the stream of events that says when this page has changed; "": it does not change
	File    bool   // the page is a file: links are fragments, style and script are inside, and nothing is requested
	Static  string // path of the folder with style.css and script.js, with its slash; "": "/static/"
	Site    bool   // the page is a file of a static site: its policy is inside, and it has no script
	Program string // program and version that wrote the page, for its foot
}

// Link leads to another page. Path is made by the server from ids, never from text.
type Link struct{ Text, Path string }

// Kinds of notices.
const (
	NoticeBad  = "bad"  // damaged, tampered with, not recorded
	NoticeWarn = "warn" // unfinished, not verified yet, signed by a key that is not trusted
	NoticeNote = "note" // a rehearsal, a replay
)

// Notice says what a reader must know before the numbers.
type Notice struct{ Kind, Text string }

// States of a run.
const (
	Complete    = "complete"
	Running     = "running"     // a process holds its lock
	Interrupted = "interrupted" // no process writes it; 'gaia resume' continues it
	Stopped     = "stopped"     // closed before its end, since no model answered or it could not be recorded
	Committed   = "committed"   // the folder of a shard, all of whose tasks are; 'gaia merge' makes a run of all
	Served      = "served"      // workers do its tasks, and a server has their journals
	Damaged     = "damaged"     // it does not verify, or cannot be read
)

// RunRow is a run in a list.
type RunRow struct {
	ID, Path, Dir string
	Started       string
	Model, Agent  string // Agent is "" for the built-in one
	Dataset       string
	State         string // Complete and so on
	Shard         string // of a plan, whose folder it is; "": it is a whole run
	Problem       string // why it is damaged
	Rehearsal     bool
	OnlyErrors    bool // its tasks were chosen because they failed in another run
	Planned, Done int
	Score         *stats.Rate // official; nil: not scored, or not complete
	CostMicroUSD  *int64      // nil: a price is unknown
	FindingsText  string      // "" if no audit is known
	Verified      bool
	Workers       []Worker // of a run that is served; nil: it is none
	Work          Work     // of those together
	Budget        *int64   // of a run that is served, in micro-USD; nil: it has none
}

// Worker is a worker of a run that is served. Its place and path are those of the copy of its journal.
type Worker struct {
	Name, Path, Dir string
	State           string // Running: it does a task; "waiting": it does none; Interrupted or Damaged
	Problem         string // why it is damaged
	Key             string // its id
	Work            Work
}

// Work is what workers have done, as their journals count it.
type Work struct {
	Committed    int // tasks
	Attempts     int
	Errors       int // attempts that failed
	Tokens       int64
	CostMicroUSD *int64 // nil: a price is unknown
	Last         string // time of the last event
}

// ServedRun is the page of a run while workers do its tasks.
type ServedRun struct {
	Head
	Row RunRow
}

// Runs is the list of runs.
type Runs struct {
	Head
	Rows []RunRow
}

// Run is the page of a run.
type Run struct {
	Head
	Row       RunRow
	Facts     [][2]string // plan, dataset, key, digests
	Levels    []Level
	Outcomes  [][2]string
	Spent     [][2]string // cost, tokens, time, calls
	Findings  [][2]string // count by check, "" if the run was not audited
	Events    [][2]string // limits, interruptions, stops, with their time
	Shards    Table       // of a merged run
	Plots     []plot.Plot
	PlotsPath string // where plots are saved from: PlotsPath + Name + ".svg" or ".csv"; "" in a file
	Tasks     []TaskRow
	All       int // tasks before the filter
	Found     int // tasks that the filter chooses
	From      int // place of the first of Tasks among those, from 0
	Filter    TaskFilter
	Choices   Choices
	AuditPath string // "": there is no audit
	Compare   []Link // other runs to compare with
}

// RowsSize is how many tasks a page of a run has at most. A report has all.
const RowsSize = 500

// Level is a row of the scores.
type Level struct {
	Name             string // "all", "1", "2", …
	Planned, Done    int
	Official, Judged *stats.Rate // nil: no verdict of that kind
}

// TaskFilter chooses tasks of a run; the zero value chooses all.
type TaskFilter struct {
	Outcome, Tool, Check, Text string
	Level                      int
}

// Choices are the values that a filter can have in this run.
type Choices struct {
	Outcomes, Tools, Checks []string
	Levels                  []int
}

// TaskRow is a task in the list of a run.
type TaskRow struct {
	ID, Path         string
	Level            int
	Outcome          string // as in results.jsonl; "running", "waiting" or "graded later" before that
	Answer           string // "" in a report without texts
	Official, Judged *bool
	Attempts         int
	Turns, ToolCalls int
	Tools            []string
	Tokens           int64
	CostMicroUSD     *int64
	LatencyMs        int64
	Findings         []string // ids of checks with open findings about it
}

// Task is the page of one attempt of a task.
type Task struct {
	Head
	RunID, ID   string
	Level       int
	Outcome     string
	Question    string // "" if not recorded or withheld
	Files       [][2]string
	Attempts    []Link // Text is the number
	Attempt     int    // the one that is shown
	Counted     int    // the one that counts; 0: none yet
	Facts       [][2]string
	Answer      *string
	Verdicts    [][2]string // scorer and judge, with their words
	Gold        *string     // nil where none are shown
	Findings    []Finding
	Plots       []plot.Plot
	PlotsPath   string
	Chunk       transcript.Chunk
	Path        string // of this task; chunks are at Path + "/chunk", pictures at PicturePath + digest
	PicturePath string
	BodyPath    string // + digest of a whole text; "": whole texts cannot be read here
	JournalPath string // + line number
	Filter      transcript.Filter
}

// Finding is a finding of the audit.
type Finding struct {
	ID, Check, Rule, Severity string
	Task                      string
	TaskPath                  string
	Text                      string // what was found
	Closed                    string // by whom and why; "" if open
	Lines                     []Link // of the journal
}

// Check is a check of the audit with its findings.
type Check struct {
	ID, Name, Title, Status, Severity, Absent string
	Gate                                      bool
	Findings                                  []Finding
	Gaps                                      []string
}

// Audit is the page of an audit.
type Audit struct {
	Head
	Row     RunRow
	Clean   bool
	Summary [][2]string
	Checks  []Check
}

// Compare is the page that compares two runs.
type Compare struct {
	Head
	A, B    RunRow
	Summary [][2]string
	Plots   []plot.Plot
	Tasks   []ComparedTask
	Choices []Link // runs to choose from
}

// ComparedTask is a task of both runs.
type ComparedTask struct {
	ID               string
	Level            int
	A, B             string // outcomes
	APath, BPath     string
	AAnswer, BAnswer string
	ACost, BCost     *int64
	Flip             string // "better", "worse" or ""
}

// History is the page of what many runs did.
type History struct {
	Head
	Plots     []plot.Plot
	PlotsPath string
	Trend     Table
	Rules     Table
}

// Table is a table of text.
type Table struct {
	Columns []string
	Rows    [][]string
	Note    string // shown where there are no rows
}

// Journal is the page of a line of the journal, with those around it.
type Journal struct {
	Head
	Lines      []JournalLine
	At         int64 // the line that was asked for
	Prev, Next string
}

// JournalLine is a line as it is in the file, indented, and cut if it is long.
type JournalLine struct {
	Number int64
	File   string // of a merged run: the journal, and the line in it; else ""
	Text   string
	Cut    string
	Bad    string // why it does not verify; "" if it does
}

// Report is a run as one file: its page, its audit, and with texts its tasks. Its links
// are made here: paths in the models only say that there is something.
type Report struct {
	Run      Run
	Origin   [][2]string // what it is of: run, key, digests, the program that wrote it
	Verified string      // by which program version it was verified; "": it was not, and Problem says why
	Problem  string
	Command  string // how to check it: "gaia verify …"
	Audit    *Audit // nil: not audited
	Tasks    []Task // with their texts; nil without them
}

// Failure is the page of a request that has no other page.
type Failure struct {
	Head
	Status int // of HTTP
	Text   string
	Hint   string // a command or an address to try; "": none
}
