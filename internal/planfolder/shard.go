package planfolder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// Index returns which shard a process runs, from 1: the one of --shard, or without that the one that a Slurm array or a
// Kubernetes Indexed Job gives the process in its environment, or the only one. What contradicts the plan is an error of
// usage: two processes could run the same shard.
func (f *Folder) Index(flag string, getenv func(string) string) (int, error) {
	of := f.Plan.Shards
	example := fmt.Sprintf("give --shard I/%d, I from 1 to %d", of, of)
	slurm, job := getenv("SLURM_ARRAY_TASK_ID"), getenv("JOB_COMPLETION_INDEX")
	switch {
	case flag != "":
		given := regexp.MustCompile(`^([1-9][0-9]{0,3})/([1-9][0-9]{0,3})$`).FindStringSubmatch(flag)
		if given == nil {
			return 0, exit.Usagef(example, "--shard is %q, which is not an index and the number of shards", flag)
		}
		if index := number(given[1]); number(given[2]) == of && index <= of {
			return index, nil
		}
		return 0, exit.Usagef(example, "--shard is %s, and the plan has %s", flag, view.Count(of, "shard"))
	case slurm != "" && job != "":
		return 0, exit.Usagef(example, "both SLURM_ARRAY_TASK_ID and JOB_COMPLETION_INDEX are set, and --shard is not given")
	case slurm != "":
		id, least, most, count := number(slurm), number(getenv("SLURM_ARRAY_TASK_MIN")), number(getenv("SLURM_ARRAY_TASK_MAX")), number(getenv("SLURM_ARRAY_TASK_COUNT"))
		if least < 0 || id < least || id > most || count != of || most-least+1 != of {
			return 0, exit.Usagef(fmt.Sprintf("submit it with --array=1-%d; for some of the shards alone give --shard ${SLURM_ARRAY_TASK_ID}/%d", of, of),
				"the Slurm array does not have one task for each of %s: SLURM_ARRAY_TASK_ID is %q, _MIN %q, _MAX %q, _COUNT %q", view.Count(of, "shard"),
				slurm, getenv("SLURM_ARRAY_TASK_MIN"), getenv("SLURM_ARRAY_TASK_MAX"), getenv("SLURM_ARRAY_TASK_COUNT"))
		}
		return id - least + 1, nil
	case job != "":
		if index := number(job); index >= 0 && index < of {
			return index + 1, nil
		}
		return 0, exit.Usagef(fmt.Sprintf("give the Job completions: %d and completionMode: Indexed; or %s", of, example),
			"JOB_COMPLETION_INDEX is %q, and the plan has %s", job, view.Count(of, "shard"))
	case of == 1:
		return 1, nil
	}
	return 0, exit.Usagef(example, "the plan has %s, and nothing says which one is meant", view.Count(of, "shard"))
}

// number reads a number of a scheduler, -1 for what is none.
func number(text string) int {
	if !regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`).MatchString(text) {
		return -1
	}
	n, _ := strconv.Atoi(text)
	return n
}

// ShardDir returns the folder of a shard below the directory of --out.
func (f *Folder) ShardDir(out string, index int) string {
	return filepath.Join(out, fmt.Sprintf("%s.shard-%d-of-%d", f.Plan.RunID, index, f.Plan.Shards))
}

// NoResume returns the error of resuming the folder of a shard by itself, nil for another directory. Its plan folder has
// the key and where things are.
func NoResume(dir string) error {
	envelope, err := rundir.ReadFile(os.DirFS(dir), plan.DelegationFile, plan.MaxDelegation)
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) && fault.Reason == rundir.Missing {
		return nil
	}
	if err != nil {
		return err
	}
	m, digest, key, err := rundir.ReadPlan(os.DirFS(dir))
	if err != nil {
		return err
	}
	d, _, err := m.ReadDelegation(envelope, digest, key)
	if err != nil {
		return err
	}
	if d.Shard.Of == 0 {
		return exit.Usagef("start gaia worker again, with the same --out", "%q is of %s, which asks gaia serve for tasks", dir, d)
	}
	return exit.Usagef(fmt.Sprintf("gaia run --plan PLAN --shard %d/%d --out %s", d.Shard.Index, d.Shard.Of, view.Quote(filepath.Dir(filepath.Clean(dir)))),
		"%q is of %s of a run, which its plan folder resumes", dir, d)
}
