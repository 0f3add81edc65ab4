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

// The most tasks and repeats of a heat map; of more tasks, neighbours share a column.
const (
	maxHeatTasks   = 45
	maxHeatRepeats = 30
)

// Repeats shows tasks × repeats: what says how far a result depends on chance. repeats
// names them, and what calls one: "attempt" or "run". Of more than 45 tasks, neighbours
// share a column, in which the filled part of a cell is the share that was solved.
func Repeats(repeats []string, what string, tasks []HeatRow) Plot {
	p := Plot{Name: "repeats", Title: "Tasks by " + what + ": which were solved", Columns: append([]string{"number", "task"}, repeats...)}
	if len(tasks) == 0 || len(repeats) == 0 {
		p.Note = "No task has ended."
		return p
	}
	if len(repeats) > maxHeatRepeats {
		p.Note = fmt.Sprintf("The first %d of %d are shown. ", maxHeatRepeats, len(repeats))
		repeats = repeats[:maxHeatRepeats]
		p.Columns = p.Columns[:maxHeatRepeats+2]
	}
	each := (len(tasks) + maxHeatTasks - 1) / maxHeatTasks
	d := &drawing{}
	entries := []entry{{"s2", square, false, "solved"}, {"s1", square, true, "failed"}, {"s3", triangle, false, "error"}, {"s5", diamond, true, "not graded"}}
	if each > 1 { // a column is of several tasks, and its cells are shares
		entries = []entry{{"s2", square, false, "share that was solved"}}
	}
	top := d.legend(18, entries...) + 4
	const left, high = 72.0, 13.0
	columns := (len(tasks) + each - 1) / each
	size := min((width-8-left)/float64(columns), 24)
	for i, name := range repeats {
		d.text(left-6, top+high*float64(i+1)-2, "end", short(name, 8))
	}
	bottom := top + high*float64(len(repeats))
	// Cells of a kind are one path, so that 45 columns of 30 stay small. Kinds differ in shape, not by colour alone.
	frame, absent, solved, failed, errored, ungraded := "", "", "", "", "", ""
	labelled := int(roundStep(int64(columns), 9))
	at := 0
	for part := range slices.Chunk(tasks, each) {
		x, number := left+float64(size*float64(at)), strconv.Itoa(at*each+1)
		if at%labelled == 0 {
			d.text(x+size/2, bottom+15, "middle", number)
		}
		row := []string{number, part[0].Name}
		if each > 1 {
			row = []string{number + "–" + strconv.Itoa(at*each+len(part)), part[0].Name + " …"}
		}
		at++
		for i := range repeats {
			y := top + high*float64(i)
			if each > 1 {
				good, there := 0, 0
				for _, r := range part {
					if i < len(r.Cells) && r.Cells[i] != Absent {
						there++
						good += ordered(r.Cells[i] == Solved)
					}
				}
				row = append(row, fmt.Sprintf("%d of %d", good, there))
				frame += box(x+0.5, y+1, size-1, high-2)
				if good > 0 { // from the bottom up
					full := (high - 2) * float64(good) / float64(there)
					solved += box(x+0.5, y+high-1-full, size-1, full)
				}
				continue
			}
			cell := Absent
			if i < len(part[0].Cells) {
				cell = part[0].Cells[i]
			}
			row = append(row, cell.String())
			middle, r := x+size/2, min(size, high)/2-1.5
			switch cell {
			case Solved:
				solved += box(x+0.5, y+1, size-1, high-2)
			case Failed:
				failed += box(x+1, y+1.5, size-2, high-3)
			case Errored:
				errored += mark(triangle, middle, y+high/2, r)
			case Ungraded:
				ungraded += mark(diamond, middle, y+high/2, r-1)
			default:
				absent += segment(middle-2, y+high/2, middle+2, y+high/2)
			}
		}
		p.Rows = append(p.Rows, row)
	}
	d.stroke("grid", frame, 1, false)
	d.stroke("axis", absent, 1, false)
	d.fill("s2", solved, 1)
	d.stroke("s1", failed, 1, false)
	d.fill("s3", errored, 1)
	d.stroke("s5", ungraded, 1, false)
	d.text(left-6, bottom+15, "end", "task")
	d.height = bottom + 26
	if each > 1 {
		p.Note += fmt.Sprintf("Each column is of %d tasks in the order of the table. ", each)
	}
	p.Note += "A column is a task by its number in the table, a row " + map[string]string{"attempt": "an attempt", "run": "a run"}[what] + "."
	p.SVG = d.finish(p.Title, p.Note)
	return p
}
