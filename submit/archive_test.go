package submit

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// opened reads an archive that must be one.
func opened(t testing.TB, data []byte) *Source {
	t.Helper()
	a, err := openArchive(bytes.NewReader(data), int64(len(data)), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// held reads all files of an archive.
func held(t testing.TB, a *Source) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range a.names {
		data, err := fs.ReadFile(a.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	return files
}

// packed writes files as the archive of a package of a name.
func packed(t testing.TB, name string, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := writeArchive(context.Background(), &out, memory(files), name, slices.Sorted(maps.Keys(files)), gzip.DefaultCompression); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestArchive(t *testing.T) {
	c := config(t, two)
	folder := load(t, mustBuild(t, c).Path)
	c.Archive, c.Out = true, filepath.Join(t.TempDir(), "new", "out")
	p := mustBuild(t, c)
	if p.Path != filepath.Join(c.Out, p.Name+".tar.gz") || p.AttestationSHA256 != canonical.Digest(folder[AttestationFile]) {
		t.Errorf("%q, attestation %s", p.Path, p.AttestationSHA256)
	}
	nothingLeft(t, c.Out, p.Name+".tar.gz")
	if info, err := os.Lstat(p.Path); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	data := read(t, p.Path)
	a := opened(t, data)
	if !isArchive(data[:2]) || isArchive(data[:1]) || isArchive([]byte("{}")) {
		t.Error("an archive and what is none are not told apart")
	}
	if err := fstest.TestFS(a.Files, Files()...); err != nil {
		t.Error(err)
	}
	if got := held(t, a); !maps.EqualFunc(got, folder, bytes.Equal) {
		t.Error("the archive does not hold the files of the folder")
	}
	v, err := Verify(a.Files, Options{Gold: c.Gold})
	if err != nil || v.NotRerun != "" || a.checkName(v.Statement.Predicate.Name) != nil || !IsPackage(a.Files) {
		t.Errorf("%v", err)
	}
	if again := packed(t, p.Name, folder); !bytes.Equal(again, data) {
		t.Error("the same files give other bytes")
	}
	c.Out = t.TempDir()
	if again := read(t, mustBuild(t, c).Path); !bytes.Equal(again, data) {
		t.Error("the same run, key and date give other bytes")
	}
}

// TestArchiveOfOthers verifies a package that other programs packed.
func TestArchiveOfOthers(t *testing.T) {
	p := mustBuild(t, config(t, two))
	files := load(t, p.Path)
	names := slices.Sorted(maps.Keys(files))
	pack := func(edit func(n int, h *tar.Header), folder string, before ...tar.Header) []byte {
		var items []item
		for _, h := range before {
			items = append(items, item{h, ""})
		}
		for n, name := range names {
			h := tar.Header{Typeflag: tar.TypeReg, Name: folder + name, Size: int64(len(files[name])), Mode: 0o644}
			edit(n, &h)
			items = append(items, item{h, string(files[name])})
		}
		return tarred(t, items)
	}
	plain := func(int, *tar.Header) {}
	dir := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
	tars := map[string][]byte{
		"no folder":        pack(plain, ""),
		"./":               pack(plain, "./", dir("./")),
		"a folder's entry": pack(plain, p.Name+"/", dir(p.Name+"/")),
		"./FOLDER":         pack(plain, "./"+p.Name+"/", dir("./"+p.Name+"/")),
		"another folder":   pack(plain, "from-a-friend/"),
		"owners and modes": pack(func(n int, h *tar.Header) {
			h.Uid, h.Gid, h.Uname, h.Gname, h.Mode = n, 1000, "keeper", "ferries", 0o600
		}, p.Name+"/"),
		"times": pack(func(n int, h *tar.Header) { h.ModTime = time.Unix(int64(n), 0) }, p.Name+"/"),
		"GNU":   pack(func(_ int, h *tar.Header) { h.Format = tar.FormatGNU }, p.Name+"/"),
		"PAX": pack(func(n int, h *tar.Header) {
			h.Format, h.ModTime, h.PAXRecords = tar.FormatPAX, time.Unix(int64(n), 5), map[string]string{"LIBARCHIVE.creationtime": "1.5", "SCHILY.xattr.user.x": "y"}
		}, p.Name+"/"),
		"records for all": pack(plain, p.Name+"/", tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "0123"}}),
		"blocks of 20":    append(pack(plain, p.Name+"/"), make([]byte, 10240)...),
		"no end":          bytes.TrimRight(pack(plain, p.Name+"/"), "\x00"),
	}
	slices.Reverse(names)
	tars["another order"] = pack(plain, p.Name+"/")
	end := len(tars["no end"]) // which is in the padding of a file
	tars["no end"] = append(tars["no end"], make([]byte, -end&511)...)
	archives := map[string][]byte{}
	for what, data := range tars {
		archives[what] = zipped(t, data)
	}
	some := tars["GNU"]
	archives["several members"] = slices.Concat(zipped(t, some[:700]), zipped(t, some[700:9000]), zipped(t, nil), zipped(t, some[9000:]))
	for _, level := range []int{gzip.NoCompression, gzip.BestSpeed, gzip.BestCompression, gzip.HuffmanOnly} {
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, level)
		if err != nil {
			t.Fatal(err)
		}
		w.Name, w.Comment, w.Extra, w.OS, w.ModTime = "package.tar", "by a friend", []byte("more"), 3, time.Unix(1, 0)
		_, err = w.Write(some)
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		archives[fmt.Sprintf("level %d", level)] = out.Bytes()
	}
	for _, args := range [][]string{{"tar", "-czf", "-", "-C", filepath.Dir(p.Path), p.Name}, {"tar", "-czf", "-", "-C", p.Path, "."}, {"bsdtar", "-czf", "-", "-C", p.Path, "."},
		{"python3", "-c", "import sys, tarfile\nwith tarfile.open(fileobj=sys.stdout.buffer, mode='w|gz') as t: t.add(sys.argv[1], 'package')", p.Path}} {
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Logf("there is no %s", args[0])
			continue
		}
		data, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		archives[fmt.Sprintf("%q", args[:2])+args[len(args)-1][:1]] = data
	}
	for what, data := range archives {
		a, err := openArchive(bytes.NewReader(data), int64(len(data)), t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		v, err := Verify(a.Files, Options{Once: true})
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if err := a.checkName(v.Statement.Predicate.Name); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestArchiveIsRefused: what is refused as a folder is refused as an archive.
func TestArchiveIsRefused(t *testing.T) {
	c := config(t, two)
	c.Archive = true
	p := mustBuild(t, c)
	for name, data := range load(t, mustBuild(t, config(t, two)).Path) {
		files := held(t, opened(t, read(t, p.Path)))
		files[name] = flipped(data, len(data)/2)
		_, err := Verify(opened(t, packed(t, p.Name, files)).Files, Options{})
		var fault *trajectory.Fault
		if !errors.As(err, &fault) {
			t.Errorf("%s changed: %v", name, err)
		}
		delete(files, name)
		wantFault(t, name+" left out", opened(t, packed(t, p.Name, files)).Files, rundir.Missing, name)
	}
	files := held(t, opened(t, read(t, p.Path)))
	files["notes.txt"] = []byte("seen")
	wantRefused(t, "a file more", packed(t, p.Name, files), quote(p.Name+"/notes.txt"), "is not part of a package")
}

// TestArchiveName: a package that says that it is dirty cannot be called as if
// it were not.
func TestArchiveName(t *testing.T) {
	c := config(t, planned(two, `{"submit_intent":false}`))
	c.Archive, c.AllowDirty = true, true
	p := mustBuild(t, c)
	clean := strings.TrimSuffix(p.Name, "-dirty")
	if clean == p.Name {
		t.Fatal(p.Name)
	}
	a := opened(t, packed(t, clean, held(t, opened(t, read(t, p.Path)))))
	v, err := Verify(a.Files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `archive: holds the folder "` + clean + `", but its statement is that of "` + p.Name + `"`
	if err := a.checkName(v.Statement.Predicate.Name); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// TestArchiveEveryBit changes single bits of archives: each is refused, or gives the
// same files. Owners, times and the like of a tar may change, contents may not. Of a
// small archive, by compress/gzip, it takes one of every byte, of a package's one of about 300 bytes; in the thorough run all of the one
// and 2400 of the other.
func TestArchiveEveryBit(t *testing.T) {
	long.NotRaced(t)
	c := config(t, two)
	c.Archive = true
	places := 300
	if long.Thorough() {
		places = 2400
	}
	for what, data := range map[string][]byte{"small": zipped(t, tarred(t, harbourItems())), "package": read(t, mustBuild(t, c).Path)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			files, same, step := held(t, opened(t, data)), 0, len(data)/places|1
			for i := range data {
				for bit := range 8 {
					if what == "package" && i%step != 0 || (what == "package" || !long.Thorough()) && bit != i%8 {
						continue
					}
					changed := bytes.Clone(data)
					changed[i] ^= 1 << bit
					dir := filepath.Join(t.TempDir(), "files")
					if err := os.Mkdir(dir, 0o700); err != nil {
						t.Fatal(err)
					}
					a, err := openArchive(bytes.NewReader(changed), int64(len(changed)), dir)
					var fault *trajectory.Fault
					switch {
					case err == nil && !maps.EqualFunc(held(t, a), files, bytes.Equal):
						t.Fatalf("byte %d, bit %d: accepted", i, bit)
					case err == nil:
						same++
					case !errors.As(err, &fault) || fault.File == "" || fault.Reason == "":
						t.Fatalf("byte %d, bit %d: %v", i, bit, err)
					}
					if err := os.RemoveAll(dir); err != nil {
						t.Fatal(err)
					}
				}
			}
			if same > 48+len(data)/10 { // the time, level and system of gzip's header, what fills up a byte, other ways to say zeros
				t.Errorf("%d changes said nothing", same)
			}
		})
	}
}

// TestArchiveScratch: a folder that cannot be written to proves nothing about the
// archive, and others cannot read what is extracted.
func TestArchiveScratch(t *testing.T) {
	data := packed(t, harbour, harbourFiles())
	dir := t.TempDir()
	if _, err := openArchive(bytes.NewReader(data), int64(len(data)), dir); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "README.md")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, in := range []string{dir, filepath.Join(dir, "gone")} { // full of files, and not there
		_, err := openArchive(bytes.NewReader(data), int64(len(data)), in)
		var failed *ScratchError
		var fault *trajectory.Fault
		if !errors.As(err, &failed) || failed.Dir != in || errors.As(err, &fault) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// TestArchiveUnreadable: a file that cannot be read proves nothing.
func TestArchiveUnreadable(t *testing.T) {
	data := packed(t, harbour, harbourFiles())
	broken := errors.New("the disk is broken")
	for _, at := range []int{0, 5, 10, len(data) / 2, len(data)} {
		_, err := openArchive(io.MultiReader(bytes.NewReader(data[:at]), iotest.ErrReader(broken)), int64(len(data)), t.TempDir())
		var fault *trajectory.Fault
		if !errors.Is(err, broken) || errors.As(err, &fault) || !strings.HasPrefix(err.Error(), "reading the archive: ") {
			t.Errorf("at byte %d: %v", at, err)
		}
	}
}

// TestArchiveLargeFile: what USTAR has no room for is the size alone.
func TestArchiveLargeFile(t *testing.T) {
	date, err := archiveDate("2031-02-03")
	if err != nil {
		t.Fatal(err)
	}
	for size, records := range map[int64]map[string]string{1<<33 - 1: nil, 1 << 33: {"size": "8589934592"}, 64 << 30: {"size": "68719476736"}} {
		var out bytes.Buffer
		if err := tar.NewWriter(&out).WriteHeader(header(harbour, "events.jsonl", size, date)); err != nil {
			t.Fatal(err)
		}
		h, err := tar.NewReader(&out).Next()
		if err != nil {
			t.Fatal(err)
		}
		if h.Size != size || !maps.Equal(h.PAXRecords, records) || unusable(h) != "" {
			t.Errorf("%+v", h)
		}
	}
}

// TestArchivePlaces: an archive replaces nothing, and what goes wrong leaves
// nothing.
func TestArchivePlaces(t *testing.T) {
	c := config(t, two)
	c.Archive = true
	p := mustBuild(t, c)
	before := read(t, p.Path)
	if _, err := Build(context.Background(), c); err == nil || !strings.Contains(err.Error(), `.tar.gz" already exists`) {
		t.Errorf("twice: %v", err)
	}
	nothingLeft(t, c.Out, p.Name+".tar.gz")
	files := held(t, opened(t, before))
	stage := filepath.Join(t.TempDir(), "stage")
	if err := os.CopyFS(stage, memory(files)); err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for name, data := range files {
		digests[name] = canonical.Digest(data)
	}
	other := maps.Clone(digests)
	other[ReadmeFile] = digests[SumsFile]
	_, err := pack(context.Background(), c.Out, stage, p.Name, other)
	if err == nil || err.Error() != "the archive does not hold the package: its README.md is another one" {
		t.Errorf("a file that was written to: %v", err)
	}
	if _, err := pack(context.Background(), c.Out, stage, p.Name, digests); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("a name that was taken in the meantime: %v", err)
	}
	nothingLeft(t, c.Out, p.Name+".tar.gz")
	if !bytes.Equal(read(t, p.Path), before) {
		t.Error("the archive that was there was touched")
	}
	for _, date := range []string{"1969-12-31", "2242-03-17", "9999-12-31"} {
		c.Date = date
		if _, err := Build(context.Background(), c); err == nil || !strings.Contains(err.Error(), "from 1970 to 2242 only") {
			t.Errorf("%s: %v", date, err)
		}
	}
	if err := CheckDate("1970-01-01", true); err != nil {
		t.Error(err)
	}
	for _, date := range []string{"2026-03-04", "2242-03-15"} {
		c.Date = date
		opened(t, read(t, mustBuild(t, c).Path))
	}
}

// TestArchiveOfLittle: a package that deflate makes next to nothing of is written so
// that it is no bomb.
func TestArchiveOfLittle(t *testing.T) {
	long.OnlyThorough(t)
	t.Parallel()
	files := harbourFiles()
	files["events.jsonl"] = make([]byte, grownAlways+64<<20)
	dir, digests := t.TempDir(), map[string]string{}
	stage := filepath.Join(dir, "stage")
	if err := os.CopyFS(stage, memory(files)); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		digests[name] = canonical.Digest(data)
	}
	if _, err := pack(context.Background(), dir, stage, harbour, digests); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, dir, harbour+".tar.gz")
	wantRefused(t, "the same, as small as it goes", packed(t, harbour, files), wholeArchive, "holds far more than a file of its size can, and was not read to its end")
}

// counting is a reader that counts.
type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// TestArchiveBomb: an archive that would expand too much is refused before that is
// written.
func TestArchiveBomb(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	const far = grownAlways + 64<<20
	date, noise := time.Date(2031, 2, 3, 0, 0, 0, 0, time.UTC), make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	mebibyte := zipped(t, make([]byte, 1<<20))
	zerosBehind := func(plain []byte) []byte { // each MiB of them is a gzip member
		return append(zipped(t, plain), bytes.Repeat(mebibyte, far>>20)...)
	}
	begun := func(items ...item) []byte { // a tar whose last file is to come
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, one := range items {
			if err := w.WriteHeader(&one.Header); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(one.data)); err != nil {
				t.Fatal(err)
			}
		}
		return out.Bytes()
	}
	claimed := func(file string, size int64) []byte { // of which but the beginning is there
		plain := tarred(t, harbourItems())
		at := map[string]int{"README.md": 0, "SHA256SUMS": 1024, "events.jsonl": 2048}[file]
		plain = retyped(plain, at, func(b []byte) { copy(b[124:136], fmt.Sprintf("%011o\x00", size)) })
		return zipped(t, append(plain, make([]byte, 1<<20)...))
	}
	for what, tt := range map[string]struct {
		data []byte
		why  string
	}{
		"noise before zeros":      {zerosBehind(begun(item{*header(harbour, "events.jsonl", 1<<20, date), string(noise)}, item{*header(harbour, "trajectories.jsonl", far, date), ""})), errGrows.Error()},
		"zeros":                   {zerosBehind(begun(item{*header(harbour, "events.jsonl", far, date), ""})), errGrows.Error()},
		"zeros behind the tar":    {zerosBehind(tarred(t, harbourItems())), errGrows.Error()},
		"a GiB of journal":        {claimed("events.jsonl", 1<<30), errGrows.Error()},
		"a GiB of README":         {claimed("README.md", 1<<30), quote(harbour+"/README.md") + ": is larger than 16777216 bytes"},
		"sums of 2 MiB and a bit": {claimed("SHA256SUMS", 2<<20+1), quote(harbour+"/SHA256SUMS") + ": is larger than 2097152 bytes"},
	} {
		in, dir := &counting{r: bytes.NewReader(tt.data)}, t.TempDir()
		_, err := openArchive(in, int64(len(tt.data)), dir)
		if err == nil || err.Error() != tt.why {
			t.Errorf("%s: %v", what, err)
		}
		if kept := size(t, dir); kept > 2<<20 || in.n > 1<<21 {
			t.Errorf("%s: kept %d bytes, and read %d of %d", what, kept, in.n, len(tt.data))
		}
	}
}

// stopping is a context that is cancelled when it was asked so often.
type stopping struct {
	context.Context
	left int
}

func (s *stopping) Err() error {
	if s.left--; s.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestArchiveIsStopped stops the making of an archive here and there.
func TestArchiveIsStopped(t *testing.T) {
	c := config(t, two)
	c.Archive = true
	stopped := 0
	for n := 0; ; n += 5 {
		_, err := Build(&stopping{context.Background(), n}, c)
		if err == nil {
			break
		}
		stopped++
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		nothingLeft(t, c.Out)
	}
	if stopped < 5 {
		t.Errorf("stopped %d times", stopped)
	}
}
