package plot

import (
	"fmt"
	"slices"
	"strconv"
)

// Cell is how a task went in an attempt or a run.
type Cell int

// The cells of a heat map.
const (
	Absent   Cell = iota // there was none, or it has not ended
	Solved               // by the official verdict
	Failed               // a wrong answer, or none
	Errored              // it ended as an error
	Ungraded             // an answer without a verdict
)

var cellNames = [...]string{"–", "solved", "failed", "error", "not graded"}

func (c Cell) String() string { return cellNames[min(max(int(c), 0), len(cellNames)-1)] }

// HeatRow is a task with a cell for each attempt or run.
type HeatRow struct {
	Name  string
	Cells []Cell
}

// The most rows and columns of a heat map; of more tasks, neighbours share a row.
const (
	maxHeatRows    = 60
	maxHeatColumns = 30
)

// Repeats shows tasks × repeats: what says how far a result depends on chance. columns
// names the repeats, which what calls: "attempt" or "run". Of more than 60 tasks,
// neighbours share a row, in which the filled part of a cell is the share that was solved.
func Repeats(columns []string, what string, rows []HeatRow) Plot {
	p := Plot{Name: "repeats", Title: "Tasks by " + what + ": which were solved", Columns: append([]string{"task"}, columns...)}
	if len(rows) == 0 || len(columns) == 0 {
		p.Note = "No task has ended."
		return p
	}
	if len(columns) > maxHeatColumns {
		p.Note = fmt.Sprintf("The first %d of %d are shown. ", maxHeatColumns, len(columns))
		columns = columns[:maxHeatColumns]
		p.Columns = p.Columns[:maxHeatColumns+1]
	}
	each := (len(rows) + maxHeatRows - 1) / maxHeatRows
	d := &drawing{}
	top := d.legend(18, entry{"s2", square, false, "solved"}, entry{"s1", square, true, "failed"}, entry{"s3", triangle, false, "error"}, entry{"s5", diamond, true, "not graded"})
	if each > 1 { // a row is of several tasks, and its cells are shares
		d = &drawing{}
		top = d.legend(18, entry{"s2", square, false, "share that was solved"})
	}
	left := 120.0
	size := min((width-8-left)/float64(len(columns)), 24)
	high := max(min(size, 14), 9)
	top += 18
	for i := range columns {
		if every := (len(columns) + 9) / 10; i%every == 0 {
			d.text(left+float64(size*(float64(i)+0.5)), top-5, "middle", strconv.Itoa(i+1))
		}
	}
	// Cells of a kind are one path: 60 rows of 30 columns stay below 60 kB. Kinds differ in shape, not by colour alone.
	frame, absent, solved, failed, errored, ungraded := "", "", "", "", "", ""
	at := 0
	for part := range slices.Chunk(rows, each) {
		y := top + high*float64(at)
		at++
		name := short(part[0].Name, 14)
		if len(part) > 1 {
			name = fmt.Sprintf("%d–%d", (at-1)*each+1, (at-1)*each+len(part))
		}
		d.text(left-6, y+high-2, "end", name)
		cells := []string{name}
		if len(part) == 1 {
			cells[0] = part[0].Name
		}
		for i := range columns {
			x := left + float64(size*float64(i))
			if each > 1 {
				good, there := 0, 0
				for _, r := range part {
					if i < len(r.Cells) && r.Cells[i] != Absent {
						there++
						good += ordered(r.Cells[i] == Solved)
					}
				}
				cells = append(cells, fmt.Sprintf("%d of %d", good, there))
				frame += box(x+1, y+1, size-2, high-2)
				if good > 0 {
					solved += box(x+1, y+1, (size-2)*float64(good)/float64(there), high-2)
				}
				continue
			}
			cell := Absent
			if i < len(part[0].Cells) {
				cell = part[0].Cells[i]
			}
			cells = append(cells, cell.String())
			middle, r := x+size/2, min(size, high)/2-1.5
			switch cell {
			case Solved:
				solved += box(x+1, y+1, size-2, high-2)
			case Failed:
				failed += box(x+1.5, y+1.5, size-3, high-3)
			case Errored:
				errored += mark(triangle, middle, y+high/2, r)
			case Ungraded:
				ungraded += mark(diamond, middle, y+high/2, r-1)
			default:
				absent += segment(middle-2, y+high/2, middle+2, y+high/2)
			}
		}
		p.Rows = append(p.Rows, cells)
	}
	d.stroke("grid", frame, 1, false)
	d.stroke("axis", absent, 1, false)
	d.fill("s2", solved, 1)
	d.stroke("s1", failed, 1, false)
	d.fill("s3", errored, 1)
	d.stroke("s5", ungraded, 1, false)
	d.height = top + high*float64(at) + 10
	if each > 1 {
		p.Note += fmt.Sprintf("Each row is of %d tasks in the order of the plan. ", each)
	}
	p.Note += "A row is a task, a column " + article(what) + ", in their order."
	p.SVG = d.finish(p.Title, p.Note)
	return p
}

// article returns a noun with its article.
func article(noun string) string {
	if noun != "" && slices.Contains([]byte("aeiou"), noun[0]) {
		return "an " + noun
	}
	return "a " + noun
}
