package submit

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// threeShards is a run in three shards, of which the second was run twice; workers is one of n tasks by two workers, of which
// the first left an attempt open at a task that the second made, and both made one.
func threeShards() []runs.Part {
	return []runs.Part{{Index: 1}, {Index: 2}, {Index: 3}, {Index: 2}}
}

func workers(n int) []runs.Part {
	second := runs.Part{Index: 2}
	for i := 1; i < n; i++ {
		second.Tasks = append(second.Tasks, i)
	}
	return []runs.Part{{Index: 1, Tasks: []int{1, 0}, Begun: []int{2}}, second}
}

// merged returns how to package a case that was run in parts, and what parts it has.
func merged(t testing.TB, c runs.Case, shards int, parts ...runs.Part) (Config, runs.Merged) {
	t.Helper()
	m, err := c.Merged(shards, parts...)
	if err != nil {
		t.Fatal(err)
	}
	config := configIn(t, c, m.Files)
	config.AllowDirty = true
	return config, m
}

// TestMerged: a package of a merged run has the files of its shards unchanged, as a folder and as an archive, in full and
// in public, and says of each task where it counts. It is what a reader verifies, who gets the same records.
func TestMerged(t *testing.T) {
	first, _ := runs.Varied()
	honest := runs.Honest(7)
	for name, in := range map[string]struct {
		of     runs.Case
		shards int
		parts  []runs.Part
		says   string
	}{
		"one shard":   {first, 1, nil, "1 journal of 1 shard merged, 0 tasks lost, 0 attempts superseded"},
		"shards":      {first, 3, threeShards(), "4 journals of 3 shards merged, 0 tasks lost, "},
		"a lost one":  {first, 3, []runs.Part{{Index: 1}, {Index: 2, Gone: true}, {Index: 3}}, "2 journals of 3 shards merged, "},
		"two workers": {honest, 0, workers(len(honest.Gold())), "2 journals of workers merged, 0 tasks lost, "},
	} {
		c, m := merged(t, in.of, in.shards, in.parts...)
		full, public := both(t, c)
		files, posted := load(t, full.Path), load(t, public.Path)
		for file, data := range m.Files {
			if strings.HasPrefix(file, rundir.ShardsDir) && !bytes.Equal(files[file], data) {
				t.Errorf("%s: %s is not packaged as it is", name, file)
			}
		}
		for file, data := range posted {
			if !bytes.Equal(data, files[file]) && !slices.Contains([]string{ReadmeFile, SumsFile, AttestationFile, BundleFile, rundir.ResultsFile, leavesFile}, file) {
				t.Errorf("%s: %s is another one in public", name, file)
			}
			if strings.HasSuffix(file, trajectory.JournalFile) {
				t.Errorf("%s: %s is in public", name, file)
			}
		}
		c.Archive = true
		for _, c.Public = range []bool{false, true} {
			want := map[bool]map[string][]byte{false: files, true: posted}[c.Public]
			a, err := Open(mustBuild(t, c).Path)
			if err != nil {
				t.Fatal(err)
			}
			if got := load(t, a.dir); !maps.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%s: the archive has other files: %q", name, slices.Sorted(maps.Keys(got)))
			}
			a.Close()
		}
		v, err := Verify(os.DirFS(full.Path), Options{Gold: c.Gold})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v.NotRerun+v.NotRescored != "" {
			t.Errorf("%s: %s, %s", name, v.NotRerun, v.NotRescored)
		}
		p, err := VerifyPublic(os.DirFS(public.Path), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := p.IsOf(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, task := range full.Run.Tasks {
			d := disclosed(t, full.Run, full.Path, task.Plan.TaskID)
			if err := errors.Join(p.Shows(d), v.Shows(os.DirFS(full.Path), d)); err != nil {
				t.Errorf("%s: task %s: %v", name, task.Plan.TaskID, err)
			}
		}
		for of, readme := range map[string][]byte{"full": files[ReadmeFile], "public": posted[ReadmeFile]} {
			if !strings.Contains(string(readme), "- merged: "+in.says) {
				t.Errorf("%s: the %s README.md does not say %q", name, of, in.says)
			}
		}
		journals := full.Run.Journals()
		for _, journal := range journals {
			if !slices.Contains(p.Statement.Predicate.Withheld, WithheldFile{journal, canonical.Digest(files[journal])}) {
				t.Errorf("%s: %s is not withheld by its digest", name, journal)
			}
		}
	}
}

// TestShardAlone: the folder of one shard is not packaged, and the reason names what is.
func TestShardAlone(t *testing.T) {
	_, m := merged(t, runs.Honest(1), 1)
	c := configIn(t, runs.Honest(1), m.Shards[0])
	_, err := Build(context.Background(), c)
	if !errors.Is(err, audit.ErrIncomplete) || !strings.Contains(err.Error(), "it is shard 1 of 1 of a run, which gaia merge makes of all") {
		t.Errorf("%v", err)
	}
	nothingLeft(t, c.Out)
	if c, m = merged(t, runs.Honest(1), 1); os.Remove(filepath.Join(c.Run, rundir.ShardsDir, "1", plan.DelegationFile)) != nil || len(m.Shards) != 1 {
		t.Fatal("the shard has no delegation")
	}
	_, err = Build(context.Background(), c)
	if fault := (*trajectory.Fault)(nil); !errors.As(err, &fault) || fault.File != "shards/1/delegation.dsse.json" || fault.Reason != rundir.Missing {
		t.Errorf("without a delegation: %v", err)
	}
	nothingLeft(t, c.Out)
}

// mergedPackages returns the files of packages of two runs of one story in shards, and those of the public ones.
func mergedPackages(t *testing.T) (pkg, other, public map[string][]byte) {
	first, second := runs.Varied()
	c, _ := merged(t, first, 3, threeShards()...)
	again, _ := merged(t, second, 3, threeShards()...)
	full, posted := both(t, c)
	return load(t, full.Path), load(t, mustBuild(t, again).Path), load(t, posted.Path)
}

// TestMergedCoverage: each small change to the files of shards, full and public, is refused, and the file named: of the
// changes one in 31, in the thorough run all, or a third where commits take turns. Files are not exchanged, left out, added, or signed by another key.
func TestMergedCoverage(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	pkg, other, public := mergedPackages(t)
	publicly := func(m runs.Mutation) {
		_, err := VerifyPublic(m.FS(), Options{})
		if fault := (*trajectory.Fault)(nil); !errors.As(err, &fault) {
			t.Errorf("public: %s: %v", m.Name, err)
		}
	}
	for of, files := range map[string]map[string][]byte{"full": pkg, "public": public} {
		try := func(m runs.Mutation) { refused(t, m) }
		if of == "public" {
			try = publicly
		}
		seen, made := map[string]int{}, map[string]int{}
		pick := func(name, _ string) bool {
			seen[name]++
			i, step := seen[name], 1
			if strings.HasSuffix(name, trajectory.JournalFile) {
				step = 31
			}
			if !strings.HasPrefix(name, rundir.ShardsDir) || i%step != 0 || !long.Walk(i/step, thin) {
				return false
			}
			made[name]++
			return true
		}
		if err := runs.Mutate(files, pick, try); err != nil {
			t.Fatal(err)
		}
		for name := range files {
			if strings.HasPrefix(name, rundir.ShardsDir) && made[name] == 0 {
				t.Errorf("%s: %s was not changed", of, name)
			}
		}
		t.Logf("%s: changes: %v", of, made)
	}
	whole := 0
	ofShards := func(m runs.Mutation) {
		if !strings.HasPrefix(m.Files[0], rundir.ShardsDir) {
			return
		}
		if whole++; whole%long.Step(3) == 0 {
			refused(t, m)
		}
	}
	runs.Misplace(pkg, other, ofShards)
	for _, name := range []string{"shards/1/extra", "shards/5/events.jsonl", "shards/events.jsonl", "shards/1.2/checkpoint", "shards/1/1/checkpoint", "shards/\x1b[2J"} {
		added := maps.Clone(pkg)
		added[name] = pkg["shards/1/checkpoint"]
		refused(t, runs.Mutation{Name: name + " added", Files: []string{name, path.Dir(name), fmt.Sprintf("%q", name)}, Dir: added})
		added = maps.Clone(public)
		added[name] = pkg["shards/1/checkpoint"]
		publicly(runs.Mutation{Name: name + " added", Dir: added})
	}
	if whole < 20 {
		t.Errorf("only %d changes to whole files", whole)
	}
}

// TestMergedPublicForged has the holder of the key sign a public package again, of which what it says of shards was changed.
func TestMergedPublicForged(t *testing.T) {
	long.NotRaced(t)
	_, other, public := mergedPackages(t)
	edit := func(change func(*rundir.Shards)) func(pkg fstest.MapFS) {
		return func(pkg fstest.MapFS) {
			var s rundir.Shards
			if err := canonical.Decode(pkg[rundir.ShardsFile].Data, &s); err != nil {
				t.Fatal(err)
			}
			change(&s)
			data, err := s.Encode()
			if err != nil {
				t.Fatal(err)
			}
			pkg[rundir.ShardsFile].Data = data
		}
	}
	const delegation, head = "shards/1/delegation.dsse.json", "shards/1/checkpoint"
	for what, forge := range map[string]struct {
		edit func(pkg fstest.MapFS)
		file string
	}{
		"nothing":                         {func(fstest.MapFS) {}, ""},
		"a task counts elsewhere":         {edit(func(s *rundir.Shards) { s.Counted[0] = 2 }), rundir.ShardsFile},
		"a journal has an event more":     {edit(func(s *rundir.Shards) { s.Shards[0].Events++ }), head},
		"a journal ends otherwise":        {edit(func(s *rundir.Shards) { s.Shards[0].Head = canonical.Digest(nil) }), head},
		"a key of another shard":          {edit(func(s *rundir.Shards) { s.Shards[0].Shard.Key = s.Shards[1].Shard.Key }), ""},
		"none is superseded":              {edit(func(s *rundir.Shards) { s.Shards[3].Superseded = false }), rundir.ShardsFile},
		"a text as a folder":              {edit(func(s *rundir.Shards) { s.Shards[0].Folder = "an answer" }), rundir.ShardsFile},
		"events without end":              {edit(func(s *rundir.Shards) { s.Shards[0].Events = 1 << 52 }), rundir.ShardsFile},
		"the delegation of another shard": {func(pkg fstest.MapFS) { pkg[delegation] = pkg["shards/2/delegation.dsse.json"] }, delegation},
		"the delegation of another run":   {func(pkg fstest.MapFS) { pkg[delegation] = &fstest.MapFile{Data: other[delegation]} }, delegation},
		"the head of another shard":       {func(pkg fstest.MapFS) { pkg[head] = pkg["shards/3/checkpoint"] }, head},
		"the head of another run":         {func(pkg fstest.MapFS) { pkg[head] = &fstest.MapFile{Data: other[head]} }, head},
		"a delegation by another key": {func(pkg fstest.MapFS) {
			payload, err := sign.Unseal(pkg[delegation].Data, plan.DelegationType, runs.Key().Public())
			if err != nil {
				t.Fatal(err)
			}
			sealed, err := sign.Seal(runs.ShardKey(9), plan.DelegationType, payload)
			if err != nil {
				t.Fatal(err)
			}
			pkg[delegation] = &fstest.MapFile{Data: sealed}
		}, delegation},
		"a head by the key of another shard": {func(pkg fstest.MapFS) {
			c, err := trajectory.ParseCheckpoint(pkg[head].Data)
			if err != nil {
				t.Fatal(err)
			}
			note, err := c.Sign(runs.ShardKey(2))
			if err != nil {
				t.Fatal(err)
			}
			pkg[head] = &fstest.MapFile{Data: note}
		}, head},
		"a head of fewer tasks than count": {func(pkg fstest.MapFS) {
			c, err := trajectory.ParseCheckpoint(pkg[head].Data)
			if err != nil {
				t.Fatal(err)
			}
			c.Size--
			note, err := c.Sign(runs.ShardKey(1))
			if err != nil {
				t.Fatal(err)
			}
			pkg[head] = &fstest.MapFile{Data: note}
		}, head},
		"no head": {func(pkg fstest.MapFS) { delete(pkg, head) }, head},
		"no list": {func(pkg fstest.MapFS) { delete(pkg, rundir.ShardsFile) }, rundir.ShardsFile},
		"a journal": {func(pkg fstest.MapFS) {
			pkg["shards/1/events.jsonl"] = &fstest.MapFile{Data: other["shards/1/events.jsonl"]}
		}, "shards/1/events.jsonl"},
		"a lost task":                          {summaryOf(t, func(s *rundir.ShardsSummary) { s.Lost++ }), MetadataFile},
		"a journal less":                       {summaryOf(t, func(s *rundir.ShardsSummary) { s.Journals-- }), MetadataFile},
		"fewer than no attempts":               {summaryOf(t, func(s *rundir.ShardsSummary) { s.Superseded.Attempts = -1 }), MetadataFile},
		"more tasks superseded than there are": {summaryOf(t, func(s *rundir.ShardsSummary) { s.Superseded.Tasks = 1000 }), MetadataFile},
	} {
		pkg := memory(maps.Clone(public))
		forge.edit(pkg)
		republish(t, pkg, nil)
		_, err := VerifyPublic(pkg, Options{})
		var fault *trajectory.Fault
		if what == "nothing" {
			if err != nil {
				t.Fatal(err)
			}
		} else if !errors.As(err, &fault) || forge.file != "" && fault.File != forge.file {
			t.Errorf("%s: %v; want a fault of %s", what, err, forge.file)
		}
	}
	for what, change := range map[string]func(*Statement){
		"a journal is withheld without its digest": func(s *Statement) {
			for i, w := range s.Predicate.Withheld {
				if w.Name == "shards/2.2/events.jsonl" {
					s.Predicate.Withheld[i].SHA256 = ""
				}
			}
		},
		"a journal is not withheld": func(s *Statement) {
			s.Predicate.Withheld = slices.DeleteFunc(s.Predicate.Withheld, func(w WithheldFile) bool { return w.Name == "shards/2.2/events.jsonl" })
		},
		"a journal more is withheld": func(s *Statement) {
			s.Predicate.Withheld = append(s.Predicate.Withheld, WithheldFile{"shards/7/events.jsonl", canonical.Digest(nil)})
		},
	} {
		pkg := memory(maps.Clone(public))
		republish(t, pkg, change)
		publicRefused(t, what, pkg, "", AttestationFile)
	}
}

// summaryOf changes what metadata.json says of shards.
func summaryOf(t *testing.T, change func(*rundir.ShardsSummary)) func(pkg fstest.MapFS) {
	return func(pkg fstest.MapFS) {
		var s rundir.Summary
		if err := canonical.Decode(pkg[MetadataFile].Data, &s); err != nil {
			t.Fatal(err)
		}
		change(s.Shards)
		data, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		pkg[MetadataFile].Data = data
	}
}

// TestMergedShell: the README's lines accept a package of a merged run, refuse one with a file more, less or changed in the
// folder of a shard, and list where each task counts.
func TestMergedShell(t *testing.T) {
	for _, program := range []string{"sh", "openssl", "jq", "sha256sum"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: there is no %s here, so the shell lines of the README were not tried", program)
		}
	}
	c, _ := merged(t, runs.Honest(5), 2)
	full, public := both(t, c)
	aside := t.TempDir()
	script, list, key := filepath.Join(aside, "check.sh"), filepath.Join(aside, "list.sh"), filepath.Join(aside, "key.pub")
	put(t, key, []byte(runs.Key().Public().Line()+"\n"))
	mjs := filepath.Join(aside, "verify.mjs")
	put(t, mjs, []byte(documented(t, "### Node", "```js")))
	for _, dir := range []string{full.Path, public.Path} {
		blocks := strings.Split(string(read(t, filepath.Join(dir, ReadmeFile))), "```")
		if len(blocks) != 5 {
			t.Fatalf("README.md has %d blocks", len(blocks)/2)
		}
		put(t, script, []byte(strings.TrimPrefix(blocks[1], "sh\n")))
		put(t, list, []byte(strings.TrimPrefix(blocks[3], "sh\n")))
		check := func() bool {
			cmd := exec.Command("sh", script, key)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			return err == nil && strings.HasSuffix(string(out), "accepted\n")
		}
		if !check() {
			t.Fatalf("%s is not accepted", dir)
		}
		if node, err := exec.LookPath("node"); err == nil {
			if ok, out := accepts(t, exec.Command(node, mjs, key, dir)); !ok {
				t.Errorf("the lines for Node refuse the package: %s", out)
			}
			put(t, filepath.Join(dir, "shards", "2", "more"), nil)
			if ok, _ := accepts(t, exec.Command(node, mjs, key, dir)); ok {
				t.Error("the lines for Node accept a file more")
			}
			if err := os.Remove(filepath.Join(dir, "shards", "2", "more")); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("sh", list)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		want := ""
		for i, task := range full.Run.Tasks {
			want += fmt.Sprintf("%s  %d\n", task.Plan.TaskID, i%2+1)
		}
		if err != nil || string(out) != want {
			t.Errorf("the list is %q, %v; want %q", out, err, want)
		}
		head := filepath.Join(dir, "shards", "2", trajectory.CheckpointFile)
		data := read(t, head)
		put(t, head, flipped(data, 5))
		if check() {
			t.Error("a changed head is accepted")
		}
		put(t, head, data)
		if put(t, head+".2", data); check() {
			t.Error("a file more is accepted")
		}
		if err := errors.Join(os.Remove(head+".2"), os.Mkdir(filepath.Join(dir, "shards", "3"), 0o755)); err != nil {
			t.Fatal(err)
		}
		if check() {
			t.Error("a folder more is accepted")
		}
		if err := errors.Join(os.Remove(filepath.Join(dir, "shards", "3")), os.Remove(head)); err != nil {
			t.Fatal(err)
		}
		if check() {
			t.Error("a file less is accepted")
		}
	}
}

// TestManyShards: a package of as many shards as a plan can have has room in an archive and in SHA256SUMS; a folder, a name or
// a file that no shard has is refused.
func TestManyShards(t *testing.T) {
	files, digests := map[string][]byte{}, map[string]string{}
	for i := range plan.MaxShards {
		for _, name := range []string{trajectory.JournalFile, trajectory.CheckpointFile, plan.DelegationFile} {
			name = fmt.Sprintf("%s/%d/%s", rundir.ShardsDir, i+1, name)
			files[name], digests[name] = []byte{'\n'}, canonical.Digest(nil)
		}
	}
	seen := 0
	a, err := readArchive(bytes.NewReader(packed(t, harbour, files)), 1<<20, func(name string, _ io.Reader) error {
		if files[name] == nil {
			t.Errorf("%q was read", name)
		}
		seen++
		return nil
	})
	if err != nil || seen != len(files) || a.folder != harbour {
		t.Errorf("%d of %d files: %v", seen, len(files), err)
	}
	if n := int64(len(sums(newSubjects(digests)))); n > limitOf(SumsFile)*9/10 {
		t.Errorf("SHA256SUMS has %d bytes", n)
	}
	for name, admitted := range map[string]bool{
		"shards/7/events.jsonl": true, "./shards/7/events.jsonl": true, harbour + "/shards/7.2/checkpoint": true, "shards/shards/7/checkpoint": true,
		"a/" + harbour + "/shards/7/checkpoint": false, "shards/7/README.md": false, "shards/0/events.jsonl": false, "shards/07/events.jsonl": false,
		"shards/12345/events.jsonl": false, "shards/7.1.2/events.jsonl": false, "shards/-7/events.jsonl": false, "shards/7/events.jsonl/x": false,
		"shards/7/../8/events.jsonl": false, "/shards/7/events.jsonl": false, `shards\7\events.jsonl`: false, "shards/7": false, "shards": false,
		"xshards/7/events.jsonl": false, "shards/7/judgments.jsonl": false,
	} {
		got, err := (&Source{}).admit(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1})
		if (err == nil) != admitted || admitted && !shardFile.MatchString(got) {
			t.Errorf("%q is admitted as %q: %v", name, got, err)
		}
	}
}
