package submit

import (
	"encoding/base64"
	"errors"
	"github.com/gaia-harness/gaia/internal/rundir"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// variedPackages are what varied returns, made once.
var variedPackages struct {
	sync.Once
	first, second map[string][]byte
}

// varied packages two runs of one story in which everything happens. Their
// audits have findings, so the packages say that they are dirty; what is found at
// single tasks was decided about.
func varied(t *testing.T) (pkg, other map[string][]byte) {
	v := &variedPackages
	v.Do(func() {
		first, second := runs.Varied()
		v.first = load(t, mustBuild(t, variedConfig(t, first)).Path)
		v.second = load(t, mustBuild(t, variedConfig(t, second)).Path)
	})
	return maps.Clone(v.first), maps.Clone(v.second)
}

// refused checks that a changed package is refused, and a file blamed that was
// changed; of plan and envelope, which must agree, either.
func refused(t *testing.T, m runs.Mutation) {
	t.Helper()
	blamed := slices.Clone(m.Files)
	for _, name := range m.Files {
		switch name {
		case plan.ManifestFile:
			blamed = append(blamed, plan.EnvelopeFile)
		case plan.EnvelopeFile:
			blamed = append(blamed, plan.ManifestFile)
		case AttestationFile: // a good envelope, but not of this package
			blamed = append(blamed, BundleFile)
		case rundir.ShardsFile: // an entry left out leaves a folder that is of no entry
			blamed = append(blamed, "shards/1", "shards/2", "shards/2.2", "shards/3")
		}
	}
	_, err := Verify(m.FS(), Options{})
	var fault *trajectory.Fault
	switch {
	case err == nil:
		t.Errorf("%s: accepted", m.Name)
	case !errors.As(err, &fault):
		t.Errorf("%s: %v is no fault", m.Name, err)
	case !slices.Contains(blamed, fault.File) || fault.Reason == "":
		t.Errorf("%s: %v", m.Name, err)
	}
}

// thin is how many changes the long walks make one of, but in the thorough run.
const thin = 31

// TestCoverage is the law that every member of every file of a package is under
// a signature or derives from what is: each small change to each file is
// refused, and the file named: of the changes one in 31, in the thorough run all,
// or a third of them where commits take turns.
// Journal and records, of which TestCoverage of internal/rundir walks every change,
// get every seventh of these.
func TestCoverage(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	pkg, other := varied(t)
	if _, err := Verify(memory(pkg), Options{}); err != nil {
		t.Fatal(err)
	}
	made, seen := map[string]int{}, map[string]int{}
	pick := func(name, _ string) bool {
		seen[name]++
		i := seen[name]
		if name == trajectory.JournalFile || name == rundir.TrajectoriesFile {
			if i%7 != 0 {
				return false
			}
			i /= 7
		}
		if !long.Walk(i, thin) {
			return false
		}
		made[name]++
		return true
	}
	if err := runs.Mutate(pkg, pick, func(m runs.Mutation) { refused(t, m) }); err != nil {
		t.Fatal(err)
	}
	for name, least := range map[string]int{plan.ManifestFile: 500, plan.EnvelopeFile: 500, trajectory.JournalFile: 200,
		rundir.TrajectoriesFile: 150, rundir.ResultsFile: 100, MetadataFile: 200, trajectory.CheckpointFile: 20, LeaderboardFile: 40, scorecardFile: 100,
		audit.ReportFile: 500, audit.AdjudicationsFile: 20, ReadmeFile: 200, SumsFile: 50, AttestationFile: 500, BundleFile: 500} {
		if least /= 3 * long.Step(thin); made[name] < least { // commits take turns
			t.Errorf("%s was changed %d times, which is less than %d", name, made[name], least)
		}
	}
	t.Logf("changes: %v", made)
	whole := 0
	all := func(m runs.Mutation) {
		whole++
		refused(t, m)
	}
	runs.Misplace(pkg, other, all)
	for _, name := range Files(audit.AdjudicationsFile) {
		added := maps.Clone(pkg)
		added[name+".orig"] = pkg[name]
		all(runs.Mutation{Name: "a copy of " + name, Files: []string{name + ".orig"}, Dir: added})
	}
	if err := runs.Swap(pkg, other, all); err != nil {
		t.Fatal(err)
	}
	if whole < 140 {
		t.Errorf("only %d changes to whole files and signatures", whole)
	}
	t.Logf("%d changes to whole files and signatures", whole)
}

// TestStatementCoverage has the holder of the key sign every small change to
// the statement. What follows from the files is refused. Of what only whoever
// packages can say, the program alone is taken: the date stands in the package's
// name too, that the gold answers were at hand in a claim, and that recording
// failed among the reasons, so that none of them can be changed by itself.
// Of the changes it makes one in 31, in the thorough run all, or a third of them
// where commits take turns.
func TestStatementCoverage(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	pkg, _ := varied(t)
	program := []string{".predicate.harness.dirty turned round", ".predicate.harness.executable_sha256 changed", ".predicate.harness.version changed"}
	made, ofProgram, taken := 0, 0, []string{}
	pick := func(_, what string) bool {
		_, place, ok := strings.Cut(what, ".payload holds ")
		if !ok {
			return false
		}
		made++
		picked := long.Walk(made, thin)
		if picked && slices.Contains(program, place) {
			ofProgram++
		}
		return picked
	}
	err := runs.Mutate(map[string][]byte{AttestationFile: pkg[AttestationFile]}, pick, func(m runs.Mutation) {
		_, place, _ := strings.Cut(m.Name, ".payload holds ")
		var e struct {
			Payload string `json:"payload"`
		}
		decodeLoosely(t, m.Dir[AttestationFile], &e)
		payload, err := base64.StdEncoding.DecodeString(e.Payload)
		if err != nil {
			t.Fatal(err)
		}
		signed := maps.Clone(pkg)
		if signed[AttestationFile], err = sign.Seal(runs.Key(), PayloadType, payload); err != nil {
			t.Fatal(err)
		}
		if signed[BundleFile], err = sigstoreBundle(signed[AttestationFile], runs.Key().Public()); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(memory(signed), Options{}); err == nil && strings.HasPrefix(place, ".predicate.harness.") {
			taken = append(taken, place)
			return
		}
		about := []string{AttestationFile}
		if strings.HasPrefix(place, ".subject") {
			about = Files(audit.AdjudicationsFile) // the file whose digest it is
		}
		if place == ".predicate.prompts left out" { // as older statements are, whose README does not have it either
			about = []string{ReadmeFile}
		}
		refused(t, runs.Mutation{Name: "signed again, " + place, Files: about, Dir: signed})
	})
	if err != nil {
		t.Fatal(err)
	}
	strange := slices.ContainsFunc(taken, func(place string) bool { return !slices.Contains(program, place) })
	if made < 500 || strange || len(taken) != ofProgram {
		t.Errorf("%d changes, of which %q were taken", made, taken)
	}
}

// TestSignedAgain has the holder of the key change what derives from the
// journal, list it and sign everything: the journal contradicts it.
func TestSignedAgain(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	pkg, _ := varied(t)
	for _, name := range []string{rundir.ResultsFile, LeaderboardFile, scorecardFile, MetadataFile, SumsFile, trajectory.CheckpointFile} {
		n := 0
		pick := func(_, _ string) bool {
			n++
			return n%5 == 0 && long.Walk(n/5, thin/5)
		}
		err := runs.Mutate(map[string][]byte{name: pkg[name]}, pick, func(m runs.Mutation) {
			signed := memory(pkg)
			signed[name].Data = m.Dir[name]
			if name != SumsFile {
				listed(signed)
			}
			resign(t, signed, runs.Key(), nil)
			wantFault(t, "signed again, "+m.Name, signed, "", name)
		})
		if err != nil {
			t.Fatal(err)
		}
		if n < 40 {
			t.Errorf("%s: %d changes", name, n)
		}
	}
}
