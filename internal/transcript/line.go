package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// Bounds of Line: lines on each side, the text of a line, what is read for them, and how far behind a fault a line can be,
// in bytes.
const (
	maxAround     = 20
	maxLineText   = 64 << 10
	maxLinesRead  = 64 << 20
	maxPastFault  = 64 << 20
	maxIndent     = 20
	lineUnchecked = "not checked: it comes after the fault"
)

// Line is a line of the journal as it is in the file, indented as JSON and cut if it is long. Bytes that are not UTF-8
// are shown as U+FFFD.
type Line struct {
	Number int64  // through all journals of a merged run
	File   string // of a merged run: the journal, and the line in it; else ""
	Text   string
	Cut    string // what Text leaves out, "" if nothing
	Bad    string // why the line does not verify; "" if it does, as far as it was read
}

// Line returns a line of the journal, counted from 1, with those around it, at most 20 on each side. Behind a fault lines
// are shown as they are in the file. The error matches fs.ErrNotExist if there is no such line.
func (j *Journal) Line(n int64, around int) ([]Line, error) {
	j.mu.RLock()
	table, state, files := j.lines, j.state, j.files
	j.mu.RUnlock()
	var fault *trajectory.Fault
	damaged := errors.As(state.Fault, &fault)
	if n < 1 || n > table.n && !damaged {
		return nil, fmt.Errorf("line %d of %s: %w", n, trajectory.JournalFile, fs.ErrNotExist)
	}
	r := reader{j: j}
	defer r.close()
	around = max(0, min(around, maxAround))
	from, to := max(1, n-int64(around)), n+int64(around)
	var lines []Line
	room := int64(maxLinesRead)
	for number := from; number <= min(to, table.n); number++ {
		e := table.at(number - 1)
		if room -= int64(e.size); room < 0 && number != n {
			continue
		}
		data, err := r.line(e, in(files, number-1), number-1)
		if errors.Is(err, rundir.ErrRemoved) {
			return nil, err
		}
		line := Line{Number: number}
		if err != nil {
			line.Bad = err.Error()
		} else {
			line = newLine(number, data[:min(len(data), maxLineText)], int64(len(data)))
		}
		if journal, at := j.Where(number); journal != "" {
			line.File = fmt.Sprintf("%s, line %d", journal, at)
		}
		lines = append(lines, line)
	}
	if to <= table.n || !damaged {
		return lines, nil
	}
	last := file{fault.File, table.n, state.Bytes} // whose first line has the fault
	if n := len(files); n > 0 && (files[n-1].name == last.name || path.Base(last.name) != trajectory.JournalFile) {
		last = files[n-1]
	} else if n == 0 {
		last.name = trajectory.JournalFile
	}
	file, err := j.open(last.name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	behind, err := linesAfter(file, state.Bytes-last.bytes, table.n, max(from, table.n+1), to)
	if err != nil {
		return nil, err
	}
	for i := range behind {
		if last.name != trajectory.JournalFile {
			behind[i].File = fmt.Sprintf("%s, line %d", last.name, behind[i].Number-last.lines)
		}
		behind[i].Bad = lineUnchecked
		if behind[i].Number == table.n+1 {
			behind[i].Bad = fault.Error()
		}
	}
	lines = append(lines, behind...)
	if n > table.n && (len(lines) == 0 || lines[len(lines)-1].Number < n) {
		return nil, fmt.Errorf("line %d of %s, of which %d bytes are read behind a fault: %w", n, trajectory.JournalFile, maxPastFault, fs.ErrNotExist)
	}
	return lines, nil
}

// linesAfter reads lines from one number to another out of the bytes from offset on, before which there are some lines.
func linesAfter(file seekable, offset, before, from, to int64) ([]Line, error) {
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading %s: %w", trajectory.JournalFile, err)
	}
	in := bufio.NewReaderSize(io.LimitReader(file, maxPastFault), 1<<16)
	var lines []Line
	for number := before + 1; number <= to; number++ {
		var head []byte
		size := int64(0)
		for {
			part, err := in.ReadSlice('\n')
			size += int64(len(part))
			if number >= from {
				head = append(head, part[:min(len(part), maxLineText-len(head))]...)
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if errors.Is(err, io.EOF) {
				if size > 0 && number >= from {
					lines = append(lines, newLine(number, head, size))
				}
				return lines, nil
			}
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", trajectory.JournalFile, err)
			}
			break
		}
		if number >= from {
			lines = append(lines, newLine(number, head, size))
		}
	}
	return lines, nil
}

// newLine shows the first bytes of a line of some size, newline included.
func newLine(number int64, head []byte, size int64) Line {
	text, used := indent(bytes.TrimSuffix(head, []byte("\n")), maxLineText)
	l := Line{Number: number, Text: strings.ToValidUTF8(text, "\ufffd")}
	if whole := size - 1; int64(used) < whole {
		l.Cut = fmt.Sprintf("the first %d of %d bytes", used, whole)
	}
	return l
}

// indent returns a text in JSON with a line for each member, of at most limit bytes, and how much of the text is in it.
// A text that is no JSON is shown all the same.
func indent(text []byte, limit int) (string, int) {
	var b strings.Builder
	depth, quoted, escaped := 0, false, false
	newline := func() {
		b.WriteByte('\n')
		b.WriteString(strings.Repeat("  ", min(max(depth, 0), maxIndent)))
	}
	for i, c := range text {
		if b.Len() >= limit {
			return b.String(), i
		}
		switch {
		case quoted:
			b.WriteByte(c)
			if escaped {
				escaped = false
			} else if c == '\\' {
				escaped = true
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
			b.WriteByte(c)
		case c == '{' || c == '[':
			depth++
			b.WriteByte(c)
			if i+1 < len(text) && text[i+1] != c+2 { // '}' and ']' are two behind
				newline()
			}
		case c == '}' || c == ']':
			depth--
			if i > 0 && text[i-1] != c-2 {
				newline()
			}
			b.WriteByte(c)
		case c == ',':
			b.WriteByte(c)
			newline()
		case c == ':':
			b.WriteString(": ")
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), len(text)
}
