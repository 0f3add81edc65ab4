package export

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestLocalHeaders: the sizes and the sum of every member stand before it, and no
// descriptor behind it.
func TestLocalHeaders(t *testing.T) {
	c, _ := runs.Varied()
	log := inspect(t, open(t, c))
	z, err := zip.NewReader(bytes.NewReader(log), int64(len(log)))
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, f := range z.File {
		const size = 30
		h := log[at : at+size]
		u16, u32 := binary.LittleEndian.Uint16, binary.LittleEndian.Uint32
		packed, name, extra := int(u32(h[18:])), int(u16(h[26:])), int(u16(h[28:]))
		if u32(h) != 0x04034b50 || u16(h[8:]) != zip.Deflate || u16(h[6:]) != utf8Name {
			t.Fatalf("%s: not the header of a deflated member without a descriptor: %x", f.Name, h)
		}
		if packed == 0 || packed != int(f.CompressedSize64) || u32(h[22:]) != uint32(f.UncompressedSize64) || u32(h[14:]) != f.CRC32 {
			t.Errorf("%s: the local header says %d, %d and %x", f.Name, packed, u32(h[22:]), u32(h[14:]))
		}
		if u16(h[10:]) != 0 || u16(h[12:]) != firstDay || extra != 0 {
			t.Errorf("%s: has a time or an extra field", f.Name)
		}
		if offset, err := f.DataOffset(); err != nil || int(offset) != at+size+name {
			t.Errorf("%s: begins at %d, not %d", f.Name, offset, at+size+name)
		}
		at += size + name + extra + packed
	}
	if binary.LittleEndian.Uint32(log[at:]) != 0x02014b50 {
		t.Error("the directory does not follow the last member")
	}
}

func TestMembers(t *testing.T) {
	one := "fab1e903-0000-4000-8000-00000000000"
	c, _ := runs.Varied()
	want := []string{"_journal/start.json", "header.json", "samples/" + one + "1_epoch_1.json", "samples/" + one + "2_epoch_1.json",
		"samples/" + one + "3_epoch_1.json", "summaries.json"}
	if got := slices.Sorted(maps.Keys(members(t, inspect(t, open(t, c))))); !slices.Equal(got, want) {
		t.Errorf("the log holds %q, not %q", got, want)
	}
	voted := members(t, inspect(t, open(t, parse(t, outvoted))))
	if _, there := voted["reductions.json"]; !there || len(voted) != 7 {
		t.Errorf("the log of a vote holds %q", slices.Sorted(maps.Keys(voted)))
	}
}

// counted counts what is read of a file.
type counted struct {
	fs.FS
	name string
	read *int
}

func (c counted) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil || name != c.name {
		return f, err
	}
	return countedFile{f, c.read}, nil
}

type countedFile struct {
	fs.File
	read *int
}

func (c countedFile) Read(b []byte) (int, error) {
	n, err := c.File.Read(b)
	*c.read += n
	return n, err
}

// TestInspectStreams: samples are written while the journal is read, and not when
// it has been.
func TestInspectStreams(t *testing.T) {
	s := open(t, parse(t, quays(map[int]int{1: 40})))
	read, written, halfway := 0, 0, 0
	s.Dir = counted{s.Dir, trajectory.JournalFile, &read}
	total := len(inspect(t, s))
	journal := read
	read = 0
	err := Inspect(writing(func(b []byte) {
		if written += len(b); halfway == 0 && written > total/2 {
			halfway = read
		}
	}), s)
	if err != nil || written != total || read != journal {
		t.Fatal(err, written, total, read, journal)
	}
	if halfway == 0 || halfway > journal*3/4 {
		t.Errorf("when half of the log was written %d of the %d bytes of the journal were read", halfway, journal)
	}
}

// writing is a writer that shows what is written.
type writing func([]byte)

func (w writing) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

func TestInspectIsDeterministic(t *testing.T) {
	c, _ := runs.Varied()
	for _, c := range []runs.Case{c, parse(t, outvoted)} {
		s := open(t, c)
		first := inspect(t, s)
		if !bytes.Equal(first, inspect(t, s)) || !bytes.Equal(first, inspect(t, open(t, c))) {
			t.Error("the same run gives another log")
		}
	}
}
