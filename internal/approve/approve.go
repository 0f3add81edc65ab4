// Package approve asks a person on a terminal about tool calls that need approval.
//
// It shows a call as data: each line of the arguments begins with a bar, and control characters are escaped, so that no
// argument can look like a line of this program (TestShownCall). Input that was typed before a question is discarded. An
// answer is yes, no, or always for this tool; without a terminal every such call is denied.
package approve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/progress"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// All approves every tool beforehand.
const All = "all"

// Limits of the arguments of a call that are shown. The number of characters left out is printed.
const (
	shownArgLines = 60
	shownBytes    = 6000
)

// Terminal asks a person on the terminal about calls that need approval, one at
// a time, unless the run was started with an approval of the tool. Where there is
// no terminal, or no more is typed, it denies.
type Terminal struct {
	before []string // tools by this program's names, or All
	in     io.Reader
	screen *progress.Progress
	turn   chan struct{}   // held by who asks
	always map[string]bool // tools that a person approved for good; belongs to who has the turn
	lines  chan string     // what the person types, nil before the first question
	over   chan struct{}   // closed when nothing more is typed
}

// New asks by in and above the bar of a run; in is nil where there is
// no person to ask.
func New(before []string, in io.Reader, screen *progress.Progress) *Terminal {
	own := make([]string, len(before))
	for i, tool := range before {
		own[i] = policy.ToolName(tool)
	}
	return &Terminal{before: own, in: in, screen: screen, turn: make(chan struct{}, 1), always: map[string]bool{}, over: make(chan struct{})}
}

// Approve implements tools.Approver.
func (p *Terminal) Approve(ctx context.Context, call tools.Approval) (tools.Answer, error) {
	if slices.ContainsFunc(p.before, func(tool string) bool { return tool == call.Tool || tool == All || tool == policy.EveryTool }) {
		return tools.Answer{Approved: true, By: trajectory.Beforehand}, nil
	}
	if p.in == nil {
		return p.deny("there is no terminal to ask on"), nil
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return tools.Answer{}, ctx.Err()
	}
	defer func() { <-p.turn }()
	if p.always[call.Tool] {
		return tools.Answer{Approved: true, By: trajectory.ByAlways}, nil
	}
	if p.lines == nil {
		p.lines = make(chan string)
		go typed(p.in, p.lines, p.over)
	}
	select {
	case <-p.over:
		return p.deny(inputEnded), nil
	default:
	}
	p.screen.Hold()
	defer p.screen.Release()
	return p.ask(ctx, call)
}

const inputEnded = "the input from the terminal has ended"

// deny denies a call since no person can be asked, and prints why once.
func (p *Terminal) deny(why string) tools.Answer {
	p.screen.WarnOnce("calls need approval, and " + why + ": they are denied; approve tools beforehand with --approve TOOL,… or --approve all")
	return tools.Answer{By: trajectory.ByNoTerminal}
}

// ask shows a call and waits for a yes, always or no.
func (p *Terminal) ask(ctx context.Context, call tools.Approval) (tools.Answer, error) {
	const question = "gaia: approve it? y: this once, a: always for this tool, n: no\n"
	_, _ = io.WriteString(p.screen, shownCall(call)+question)
	for {
		select {
		case <-ctx.Done():
			return tools.Answer{}, ctx.Err()
		case <-p.over:
			return p.deny(inputEnded), nil
		case line := <-p.lines:
			switch strings.ToLower(strings.TrimSpace(line)) {
			case "y", "yes":
				return tools.Answer{Approved: true, By: trajectory.ByPerson}, nil
			case "a", "always":
				p.always[call.Tool] = true
				return tools.Answer{Approved: true, By: trajectory.ByPerson}, nil
			case "n", "no":
				return tools.Answer{By: trajectory.ByPerson}, nil
			}
			_, _ = io.WriteString(p.screen, question)
		}
	}
}

// typed hands on the lines of in, and closes over at its end. What is typed while
// nothing is asked is dropped: it is no answer to a question that comes later.
func typed(in io.Reader, lines chan<- string, over chan<- struct{}) {
	defer close(over)
	for r := bufio.NewReader(in); ; {
		line, err := r.ReadString('\n')
		if err != nil { // what has no line end was not sent off
			return
		}
		select {
		case lines <- line:
		default:
		}
	}
}

// shownCall is a call as a person is shown it. Each line of the arguments begins
// with a bar, so that none looks like a line of this program's.
func shownCall(call tools.Approval) string {
	var b strings.Builder
	fmt.Fprintf(&b, "gaia: task %s wants to call %s: %s\n", view.Line(call.TaskID), view.Line(call.Tool), view.Line(call.Reason))
	text := argumentText(call.Args)
	shown, lines := text, strings.SplitAfterN(text, "\n", shownArgLines+1)
	if len(lines) > shownArgLines {
		shown = strings.Join(lines[:shownArgLines], "")
	}
	if len(shown) > shownBytes {
		shown = strings.ToValidUTF8(shown[:shownBytes], "")
	}
	for line := range strings.Lines(visible.Text(shown)) {
		b.WriteString("  | " + strings.TrimSuffix(line, "\n") + "\n")
	}
	if left := utf8.RuneCountInString(text[len(shown):]); left > 0 {
		fmt.Fprintf(&b, "  … %d more characters are not shown\n", left)
	}
	return b.String()
}

// argumentText writes the arguments of a call a name a line, texts as they are.
func argumentText(args string) string {
	if v := jsontext.Value(args); !v.IsValid() || v.Kind() != '{' {
		return args
	}
	var b strings.Builder
	gjson.Parse(args).ForEach(func(name, value gjson.Result) bool {
		text := value.Raw
		if value.Type == gjson.String {
			text = value.Str
		}
		b.WriteString(name.Str + ": ")
		if strings.Contains(text, "\n") {
			b.WriteString("\n")
		}
		b.WriteString(text + "\n")
		return true
	})
	return b.String()
}
