package transcript

import (
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// Bounds of what one chunk reads, and of the texts that it has, in bytes. With a filter a chunk can have few items, or
// none, before the attempt ends: Next says where to go on.
const (
	maxRead    = 20 << 20
	maxScanned = 20_000 // events
	maxShown   = 4 << 20
	maxSought  = 200 // of Filter.Text
)

// seekable is a journal that can be read from any place.
type seekable interface {
	fs.File
	io.Seeker
}

// Chunk returns items of an attempt, from the event at a place on. Attempt 0 has the events of a task without attempts;
// those of the run have task "" and attempt 0. It reads their lines again: one that is not what was read before is a
// *trajectory.Fault. The error matches fs.ErrNotExist if there is no such attempt.
func (j *Journal) Chunk(task string, attempt, from int, filter Filter) (Chunk, error) {
	all, err := j.events(task, attempt)
	if err != nil {
		return Chunk{}, err
	}
	total := len(all.lines)
	from = max(0, min(from, total))
	c := Chunk{Items: []Item{}, From: from, Next: -1, Prev: -1, Total: total, Open: all.open}
	filter.Text = strings.ToLower(cut(filter.Text, maxSought))
	s := scan{j: j, reader: reader{j: j}, events: all, filter: filter, names: map[callAt]string{}, looked: map[uint32]bool{}}
	defer s.reader.close()
	shown := 0
	for at := from; at < total; at++ {
		if len(c.Items) == ChunkSize || shown > maxShown || s.spent() {
			c.Next = at
			break
		}
		i, ok, err := s.item(at)
		if err != nil {
			return Chunk{}, err
		}
		if !ok {
			continue
		}
		// Note which texts and pictures of an item the run keeps.
		if !j.keeps(i.BodyOf) {
			i.BodyOf = ""
		}
		for n := range i.Pictures {
			i.Pictures[n].Kept = j.keeps(i.Pictures[n].SHA256)
		}
		for _, f := range append(i.Facts, [2]string{i.Title, i.Text}) {
			shown += len(f[0]) + len(f[1])
		}
		c.Items = append(c.Items, i)
	}
	if from == 0 {
		return c, nil
	}
	if c.Prev = max(0, from-ChunkSize); filter == (Filter{}) {
		return c, nil
	}
	s.read, s.scanned = 0, 0
	for n := 0; from > 0 && n < ChunkSize && !s.spent(); {
		from--
		_, ok, err := s.item(from)
		if err != nil {
			return Chunk{}, err
		}
		if ok {
			n++
		}
	}
	c.Prev = from
	return c, nil
}

// callAt is a call of an attempt; a model may use an id again in another turn.
type callAt struct {
	turn int
	call string
}

// scan reads events of an attempt for one chunk.
type scan struct {
	j       *Journal
	reader  reader
	events  events
	filter  Filter
	names   map[callAt]string // tools of calls
	looked  map[uint32]bool   // turns whose earlier calls are in names
	read    int64
	scanned int
}

func (s *scan) spent() bool { return s.read > maxRead || s.scanned > maxScanned }

// item returns the item of the event at a place; false if the filter does not choose it.
func (s *scan) item(at int) (Item, bool, error) {
	entry := s.events.table.at(int64(s.events.lines[at]))
	kind := kindOf(types[entry.typ])
	calls := kind == KindCall || kind == KindDecision || kind == KindResult
	if s.filter.Kind != "" && s.filter.Kind != kind || s.filter.Tool != "" && !calls {
		return Item{}, false, nil
	}
	e, err := s.event(int64(s.events.lines[at]))
	if err != nil {
		return Item{}, false, err
	}
	tool, err := s.toolOf(at, e)
	if err != nil || s.filter.Tool != "" && tool != s.filter.Tool {
		return Item{}, false, err
	}
	i := item(e, s.j.rules, tool)
	if s.filter.Bad && !i.Bad || s.filter.Text != "" && !i.has(s.filter.Text) {
		return Item{}, false, nil
	}
	return i, true, nil
}

// has reports whether title, facts or text contain a text in lower case.
func (i Item) has(text string) bool {
	in := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return in(i.Title) || in(i.Text) || slices.ContainsFunc(i.Facts, func(f [2]string) bool { return in(f[0]) || in(f[1]) })
}

// event reads an event again.
func (s *scan) event(line int64) (trajectory.Event, error) {
	entry := s.events.table.at(line)
	s.read += int64(entry.size)
	s.scanned++
	of := in(s.events.files, line)
	data, err := s.reader.line(entry, of, line)
	if err != nil {
		return trajectory.Event{}, err
	}
	e, err := trajectory.DecodeLine(data)
	e.Seq += of.lines
	return e, err
}

// toolOf returns the tool of the call that an event is of, "" if it is of none.
func (s *scan) toolOf(at int, e trajectory.Event) (string, error) {
	switch p := e.Payload.(type) {
	case trajectory.ToolProposed:
		s.names[callAt{e.Turn, p.CallID}] = p.Name
		return p.Name, nil
	case trajectory.ToolExecuted:
		return p.Name, nil
	}
	call := callAt{e.Turn, callOf(e.Payload)}
	turn := uint32(e.Turn)
	if name, ok := s.names[call]; ok || call.call == "" || s.looked[turn] {
		return name, nil
	}
	s.looked[turn] = true
	for at--; at >= 0 && !s.spent(); at-- {
		line := int64(s.events.lines[at])
		entry := s.events.table.at(line)
		if entry.turn != turn {
			continue
		}
		if types[entry.typ] == trajectory.TypeTurnStarted {
			break
		}
		if types[entry.typ] != trajectory.TypeToolProposed {
			continue
		}
		before, err := s.event(line)
		if err != nil {
			return "", err
		}
		proposed := before.Payload.(trajectory.ToolProposed)
		s.names[callAt{e.Turn, proposed.CallID}] = proposed.Name
	}
	return s.names[call], nil
}

// keeps reports whether there is a file for a digest. Whether it has that digest, only Body knows.
func (j *Journal) keeps(digest string) bool {
	if name := trajectory.BodyFile(digest); name != "" && j.isFile(name) {
		return true
	}
	return j.workspaceFile(digest) != ""
}

func (j *Journal) isFile(name string) bool {
	info, err := fs.Lstat(j.dir, name)
	return err == nil && info.Mode().IsRegular() && info.Size() <= rundir.MaxFile
}
