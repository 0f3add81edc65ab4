package rundir

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// openTurn is a turn that has begun. The built-in agent has one at a time, which is open until the next begins; those of
// an own agent overlap, and each is open until it is completed.
type openTurn struct {
	calls map[string]openCall // by call id

	// Of an own agent, whose turn is one exchange: how far its model call is, or whether it is a tool call.
	stage    stage
	proposed bool
}

// openCall is what is known of the calls with one id.
type openCall struct {
	tool      string // of the last one
	undecided []int  // steps of those that nothing was decided of
}

// stage is the last event of the model call in a turn of an own agent.
type stage int

const (
	noCall stage = iota
	compiled
	started
	completed
	toolCall
)

// mostRoom bounds the calls of a turn whose room the next turn uses: to clear a large one takes time, however few there are.
const mostRoom = 16

// begin opens a turn. Turns begin in the order of their numbers.
func (a *Attempt) begin(turn int) (reason string) {
	switch {
	case turn != a.begun+1:
		return fmt.Sprintf("turn %d cannot begin here", turn)
	case a.own && a.Answer != nil:
		return fmt.Sprintf("turn %d begins after the answer was committed", turn)
	}
	if a.turns == nil {
		a.turns = map[int]*openTurn{}
	}
	var next *openTurn
	if !a.own {
		if last := a.turns[a.begun]; last != nil && len(last.calls) <= mostRoom {
			next = last
			clear(next.calls)
		}
		delete(a.turns, a.begun)
		a.Turns = turn
	}
	if next == nil {
		next = new(openTurn)
	}
	a.begun, a.turns[turn] = turn, next
	return ""
}

// exchange takes an event of a turn of an own agent: a model call in its order, or one tool call, and then the end. It
// returns why the event cannot stand there.
func (a *Attempt) exchange(turn int, t *openTurn, p trajectory.Payload) (reason string) {
	next := func(from, to stage) string {
		if t.stage != from {
			return fmt.Sprintf("is not the next event of turn %d", turn)
		}
		t.stage = to
		return ""
	}
	switch p := p.(type) {
	case trajectory.ContextCompiled:
		return next(noCall, compiled)
	case trajectory.ModelCallStarted:
		if reason := next(compiled, started); reason != "" {
			return reason
		}
		a.Turns++
		return a.request(p.Request)
	case trajectory.ModelCallCompleted:
		if reason := next(started, completed); reason != "" {
			return reason
		}
		switch r := p.Reply; {
		case p.RetryOf != "":
			return "repeats a call, which an own agent does as a new call"
		case r == nil || r.Bytes < 0 || !canonical.IsDigest(r.SHA256):
			return "has no reply of the endpoint with its digest"
		case p.Error == nil && (r.Status < 200 || r.Status > 299):
			return fmt.Sprintf("takes a reply with status %d for one that did not fail", r.Status)
		}
	case trajectory.ContextCondensed:
		return "condenses the conversation of an own agent"
	case trajectory.TurnCompleted:
		if t.stage == compiled || t.stage == started {
			return fmt.Sprintf("completes turn %d, whose model call has not ended", turn)
		}
		delete(a.turns, turn)
	case trajectory.PolicyViolation: // of a call, or a reply that exceeds a budget
		if t.stage == compiled || t.stage == started {
			return fmt.Sprintf("is not the next event of turn %d", turn)
		}
	default: // of a tool call
		_, proposes := p.(trajectory.ToolProposed)
		if t.stage != noCall && t.stage != toolCall || proposes && t.proposed {
			return fmt.Sprintf("is not the next event of turn %d", turn)
		}
		t.stage, t.proposed = toolCall, t.proposed || proposes
	}
	return ""
}

// request checks the body of an own agent's request, and whether it is said to be a retry: the attempt has sent the same
// body before.
func (a *Attempt) request(r *trajectory.AgentRequest) (reason string) {
	if r == nil || !canonical.IsDigest(r.SHA256) || r.Bytes < 0 {
		return "has no request of the agent with its digest"
	}
	edited := r.SentSHA256 != ""
	switch {
	case !slices.Contains([]string{DialectChat, DialectResponses, DialectMessages}, r.Dialect):
		return fmt.Sprintf("is a request in the dialect %q", r.Dialect)
	case edited != (len(r.Edits) > 0), edited && (!canonical.IsDigest(r.SentSHA256) || r.SentSHA256 == r.SHA256):
		return "does not say how the request that was sent on differs from the agent's"
	case r.Retry != a.sent[r.SHA256]:
		return fmt.Sprintf("says of a request that the attempt has sent it before: %t", r.Retry)
	}
	if a.sent == nil {
		a.sent = map[string]bool{}
	}
	a.sent[r.SHA256] = true
	return ""
}

// The dialects of own agents, as package llm names them (TestPaths in internal/run).
const (
	DialectChat      = "chat"
	DialectResponses = "responses"
	DialectMessages  = "messages"
)

// ended checks how the attempt of an own agent ended: its answer is committed, and it ends other than as an error, when
// no exchange is open any more, so that all its replies are recorded. Of one that ends as an error the process may have
// gone with its exchanges.
func (a *Attempt) ended(p trajectory.AttemptEnded) (reason string) {
	end := p.Agent
	switch {
	case p.Outcome == trajectory.Errored:
	case len(a.turns) > 0:
		return fmt.Sprintf("ends as %q before turn %d is completed", p.Outcome, a.firstOpen())
	case len(a.network.open) > 0:
		return fmt.Sprintf("ends as %q before exchange %d is completed", p.Outcome, a.network.firstOpen())
	case end == nil:
		return fmt.Sprintf("ends as %q and does not say how the agent's process ended", p.Outcome)
	}
	switch {
	case end == nil:
	case end.Confined != nil && a.agent.Unconfined:
		return "says how an agent was confined that ran outside of the sandbox"
	case end.Confined != nil && min(end.Confined.NoRoute, end.Confined.Unheard) < 0:
		return "counts less than nothing of what went past the network"
	case !slices.Contains([]string{trajectory.AgentExited, trajectory.AgentDeadline, trajectory.AgentMemory, trajectory.AgentProcesses, trajectory.AgentDisk, trajectory.AgentNotStarted}, end.Ended):
		return fmt.Sprintf("says that the agent's process ended as %q", end.Ended)
	case min(end.Redactions, end.Refused) < 0, min(end.StderrBytes, end.StdoutBytes) < 0:
		return "counts less than nothing of the agent's process"
	case a.Refused != min(end.Refused, trajectory.MostRequestsRefused):
		return fmt.Sprintf("counts %d refused requests, of which %d are recorded", end.Refused, a.Refused)
	default:
		a.Refused = end.Refused
	}
	return ""
}

// firstOpen returns the first turn that is not completed.
func (a *Attempt) firstOpen() int { return slices.Min(slices.Collect(maps.Keys(a.turns))) }

// committed checks the answer of an own agent.
func (a *Attempt) committed(p trajectory.AnswerCommitted) (reason string) {
	switch {
	case len(a.turns) > 0:
		return fmt.Sprintf("commits an answer before turn %d is completed", a.firstOpen())
	case len(a.network.open) > 0:
		return fmt.Sprintf("commits an answer before exchange %d is completed", a.network.firstOpen())
	case !slices.Contains(plan.AgentRules(), p.Rule):
		return fmt.Sprintf("is an answer by the rule %q, which own agents do not have", p.Rule)
	case !plan.IsSet(p.SeenIn) || slices.ContainsFunc(p.SeenIn, func(in string) bool { return !slices.Contains(sources, in) }):
		return fmt.Sprintf("is an answer that stood before in %q", p.SeenIn)
	case p.SharesWord && len(p.SeenIn) > 0:
		return "says of an answer that stood before that a word of it did"
	}
	return ""
}

// foreign returns why an event cannot be of the kind of agent that the plan has: what an own agent adds to the events is
// in no journal of the built-in one, so that each of them has one form.
func (a *Attempt) foreign(p trajectory.Payload) (reason string) {
	const of = "is of an own agent, which the plan does not have"
	switch p := p.(type) {
	case trajectory.RequestRefused:
		if !a.own {
			return of
		}
		if a.Refused++; a.Refused > trajectory.MostRequestsRefused {
			return fmt.Sprintf("is more than the %d refused requests that an attempt has", trajectory.MostRequestsRefused)
		}
		if p.Bytes < 0 || p.SHA256 != "" && !canonical.IsDigest(p.SHA256) || p.Code == "" || p.Status < 0 || p.Status > 599 {
			return "does not say which request was refused, and why"
		}
		if len(p.RuleIDs) > 0 && (a.agent.Network != plan.NetworkRecord || !plan.IsSet(p.RuleIDs) || len(p.RuleIDs) > mostRules) {
			return fmt.Sprintf("is refused by the rules %q", p.RuleIDs)
		}
	case trajectory.ExchangeStarted, trajectory.ExchangeCompleted:
		if !a.own || a.agent.Network != plan.NetworkRecord {
			return "is an exchange of a network that the plan does not have"
		}
	case trajectory.ContextCompiled:
		for _, m := range p.Messages {
			if a.own != (m.Source == plan.AgentSource) {
				return fmt.Sprintf("lists a message of the source %q", m.Source)
			}
		}
		if p.Origins == nil {
			break
		}
		if !a.own {
			return of
		}
		return badOrigins(p.Origins, a.tasks)
	case trajectory.ModelCallStarted:
		if !a.own && p.Request != nil {
			return of
		}
	case trajectory.ModelCallCompleted:
		if !a.own && p.Reply != nil {
			return of
		}
	case trajectory.ToolExecuted:
		if !a.own && p.Own != nil {
			return of
		}
	case trajectory.AnswerCommitted:
		if !a.own && (p.InReply || len(p.SeenIn) > 0 || p.SharesWord || p.Rule == plan.RuleSubmitted || p.Rule == plan.RuleAnswerFile) {
			return of
		}
	case trajectory.AttemptEnded:
		if !a.own && p.Agent != nil {
			return of
		}
	}
	return ""
}

// shownAs returns the name under which an agent sees the attachment of a task, "" where that is the dataset's or there
// is none.
func shownAs(m plan.Plan, fileName string) string {
	if m.Agent == nil || fileName == "" {
		return ""
	}
	return plan.AgentAttachment(path.Ext(fileName))
}

// maxAgentLine bounds a line of agent-files.jsonl: a path can have 4 KiB, of which JSON makes six times as many.
const maxAgentLine = 64 << 10

// checkAgentFiles checks that the list of an own agent's files is the one that the plan has the digests and counts of, in
// its one form. A plan of the built-in agent has none.
func checkAgentFiles(dir fs.FS, m plan.Plan) error {
	if m.Agent == nil {
		return nil
	}
	f, _, err := OpenFile(dir, plan.AgentFilesFile, plan.MaxAgentList)
	if err != nil {
		return err
	}
	defer f.Close()
	n := int64(0)
	fault := func(format string, args ...any) error {
		return &trajectory.Fault{File: plan.AgentFilesFile, Line: n, Reason: fmt.Sprintf(format, args...)}
	}
	whole, last, at := sha256.New(), plan.AgentFile{Folder: -1}, -1
	var folder hash.Hash
	var count plan.AgentFolder
	// counted compares the folder that was read last with the plan.
	counted := func() error {
		if at < 0 {
			return nil
		}
		if count.SHA256 = canonical.DigestOf(folder); count != m.Agent.Folders[at] {
			return trajectory.Faultf(plan.AgentFilesFile, "does not list folder %d as the plan has it", at)
		}
		return nil
	}
	next := func() error {
		if err := counted(); err != nil {
			return err
		}
		at++
		folder, count = sha256.New(), plan.AgentFolder{Path: m.Agent.Folders[at].Path}
		return nil
	}
	lines := bufio.NewScanner(io.LimitReader(f, plan.MaxAgentList+1))
	lines.Buffer(nil, maxAgentLine)
	lines.Split(wholeLines)
	for lines.Scan() {
		n++
		line := lines.Bytes()
		var e plan.AgentFile
		if !bytes.HasSuffix(line, []byte("\n")) || canonical.Decode(line[:len(line)-1], &e) != nil {
			return fault("is not the canonical form of a file")
		}
		if reason := badAgentFile(e, len(m.Agent.Folders)); reason != "" {
			return fault("%s", reason)
		}
		if c := cmp.Or(cmp.Compare(last.Folder, e.Folder), cmp.Compare(last.Path, e.Path)); c >= 0 {
			return fault("%q is not in its place", e.Path)
		}
		for at < e.Folder {
			if err := next(); err != nil {
				return err
			}
		}
		whole.Write(line)
		folder.Write(line)
		count.Files, count.Bytes, last = count.Files+1, count.Bytes+e.Bytes, e
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		n++
		return fault("is longer than %d bytes", maxAgentLine)
	} else if err != nil {
		return fmt.Errorf("reading %s: %w", plan.AgentFilesFile, err)
	}
	for at < len(m.Agent.Folders)-1 {
		if err := next(); err != nil {
			return err
		}
	}
	if err := counted(); err != nil {
		return err
	}
	if canonical.DigestOf(whole) != m.Agent.FilesSHA256 {
		return trajectory.Faultf(plan.AgentFilesFile, "is not the list that the plan has the digest of")
	}
	return nil
}

// wholeLines splits a text into lines with their newlines, of which the last line may have none.
func wholeLines(data []byte, atEnd bool) (advance int, line []byte, err error) {
	if end := bytes.IndexByte(data, '\n') + 1; end > 0 {
		return end, data[:end], nil
	}
	if atEnd && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// badAgentFile says what is wrong with a line of agent-files.jsonl by itself, "" if nothing is.
func badAgentFile(f plan.AgentFile, folders int) string {
	link := f.Link != ""
	switch {
	case f.Folder < 0 || f.Folder >= folders:
		return fmt.Sprintf("is of folder %d, which the plan does not have", f.Folder)
	case !fs.ValidPath(f.Path) || f.Path == ".":
		return fmt.Sprintf("%q is no path in a folder", f.Path)
	case f.Bytes < 0 || f.Bytes > plan.MaxAgentBytes, link && (f.Bytes != 0 || f.Executable):
		return fmt.Sprintf("%q has a size of %d bytes", f.Path, f.Bytes)
	case link != (f.SHA256 == ""), !link && !canonical.IsDigest(f.SHA256):
		return fmt.Sprintf("%q has no digest, or a link has one", f.Path)
	}
	return ""
}
