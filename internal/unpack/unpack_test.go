package unpack

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMain makes a panic of which Walk makes nothing a failure, but for those of the library that reads Parquet.
func TestMain(m *testing.M) {
	panicked = func(r any) { panic(r) }
	os.Exit(m.Run())
}

// texts returns all texts of a file, each behind its path.
func texts(t testing.TB, name string, data []byte, l Limits) (string, Told) {
	t.Helper()
	var out strings.Builder
	told, err := Walk(name, data, l, func(path, text string) error {
		out.WriteString("\n@" + path + "\n" + text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), told
}

func zipped(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, err := w.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestZip(t *testing.T) {
	inner := zipped(t, "deep/answers.txt", "the lamp of Brellin")
	outer := append(bytes.Repeat([]byte("\x00\x01picture"), 100), zipped(t, "a.zip", string(inner), "b.gz", string(gzipped(t, []byte("the second lamp"))))...)
	got, told := texts(t, "p.bin", outer, Limits{})
	for _, want := range []string{"@p.bin!/a.zip!/deep/answers.txt\nthe lamp of Brellin", "the second lamp"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if told.Unread != 0 {
		t.Errorf("%+v", told)
	}
}

// TestShortAnnounced: a run is passed over only where nothing gives its length.
func TestShortAnnounced(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	some := []byte("\x00\x00\x00\x01\x02\x03\x80\x81\x83\xa1\xa3\xc0\xff\x04\x10ab")
	for range 100_000 {
		data := make([]byte, r.IntN(9)+1)
		for i := range data {
			data[i] = some[r.IntN(len(some))]
		}
		all := lengths(data, len(data))
		if want := slices.ContainsFunc(all[:], func(n int) bool { return n > 0 && n < shortestRun }); want && !shortAnnounced(data, len(data)) {
			t.Fatalf("%x: %v", data, all)
		}
	}
}
