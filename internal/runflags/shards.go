package runflags

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/approve"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ofProcess are the flags of run that are of the process that solves the tasks, and not of a plan.
var ofProcess = []string{"concurrency", "on-unsubmittable", "recheck", "verbose"}

// ofShard are the flags of run that a shard may be run with: all others would change its plan.
var ofShard = []string{"plan", "shard", "shard-key", "dataset", "base-url", "searxng-url", "prices", "cassette", "concurrency", "on-unsubmittable", "out", "json", "verbose"}

// AddShardFlags adds the flags of run for a shard.
func (s *Settings) AddShardFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.PlanDir, "plan", "", "run a shard of this plan `folder`, which 'gaia plan' wrote")
	f.StringVar(&s.Shard, "shard", "", "shard to run, such as 7/64 (default: that of the Slurm array or Indexed Job, or the only one)")
	f.StringVar(&s.ShardKey, "shard-key", "", "key `file` of the shard, if it was moved out of the plan folder")
	cli.Section(f, cli.MachineFlags)
	cli.CompleteDirs(cmd, "plan")
}

// AddPlanFlags adds the flags of plan: those of run that say what is planned. The settings file may set the others.
func (s *Settings) AddPlanFlags(cmd *cobra.Command) {
	s.addSharedFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&s.PlanDir, "out", "o", "", "plan `folder` to write, which must not exist")
	f.IntVar(&s.Plan.Shards, "shards", 1, "shards that the tasks are divided into")
	cli.Section(f, cli.MachineFlags)
	for _, name := range ofProcess {
		f.Lookup(name).Hidden = true
	}
	cli.CompleteDirs(cmd, "out")
}

// CheckPlanFlags rejects flags that gaia plan cannot have. The settings file has not been read.
func (s *Settings) CheckPlanFlags(flags *pflag.FlagSet) error {
	for _, name := range ofProcess {
		if flags.Changed(name) {
			return exit.Usagef("give it to gaia run --plan", "--%s is of the process that runs a shard, not of a plan", name)
		}
	}
	if s.PlanDir == "" {
		return exit.Usagef("such as: gaia plan -o plan", "--out does not name a plan folder to write")
	}
	return planfolder.CheckNew(s.PlanDir)
}

// CheckPlanned rejects settings that no plan of several processes can have.
func (s *Settings) CheckPlanned() error {
	n := int64(s.Plan.Shards)
	for _, rate := range []counter{{"rpm", s.Requests}, {"tpm", s.Tokens}} {
		if rate.value > 0 && rate.value < n {
			return exit.Usagef(fmt.Sprintf("give --shards %d at most, or a higher --%s", rate.value, rate.flag), "--%s is %d, which is less than one for each of %d shards", rate.flag, rate.value, n)
		}
	}
	if c, err := s.Tape(); err != nil || c.Mode == plan.CassetteRecord {
		return exit.Usagef("record with gaia run; shards can replay", "--cassette is %q, and several processes cannot record into one cassette", s.Cassette)
	}
	return nil
}

// CheckShards rejects a number of shards that so many tasks cannot be divided into.
func (s *Settings) CheckShards(tasks int) error {
	if n, most := s.Plan.Shards, min(tasks, plan.MaxShards); n < 1 || n > most {
		return exit.Usagef(fmt.Sprintf("give --shards from 1 to %d: each has a task at least, and a plan has %d shards at most", most, plan.MaxShards),
			"--shards is %d, and there are %s", n, view.Count(tasks, "task"))
	}
	return nil
}

// PlanParts returns what a plan folder has besides the plan: where things are, and the settings that the plan needs.
func (s *Settings) PlanParts() (p planfolder.Parts, err error) {
	p.Places = planfolder.Places{Cassette: s.Cassette, Prices: s.Prices, RPM: s.Requests, SearXNG: s.SearXNG, Source: s.Source, TPM: s.Tokens}
	if !s.Plan.Rehearsal {
		p.BaseURL = s.BaseURL
	}
	if len(s.Servers) > 0 {
		p.Settings, err = settings.EncodeServers(s.Servers)
	}
	return p, err
}

// TakeFolder takes from a plan folder what the flags of a shard leave open: where things are, and its part of the rates.
func (s *Settings) TakeFolder(f *planfolder.Folder, d plan.Delegation) {
	s.Folder, s.Part = f, d
	s.Source, s.BaseURL, s.SearXNG = cmp.Or(s.Source, f.Source), cmp.Or(s.BaseURL, f.BaseURL), cmp.Or(s.SearXNG, f.SearXNG)
	s.Prices, s.Cassette = cmp.Or(s.Prices, f.Prices), cmp.Or(s.Cassette, f.Cassette)
	if d.Shard.Of > 0 { // workers share the rates
		s.Requests, s.Tokens = f.Rate(d.Shard, f.RPM), f.Rate(d.Shard, f.TPM)
	}
	s.Approve = nil
	for _, tool := range f.Plan.Approved {
		if tool == policy.EveryTool {
			tool = approve.All
		}
		s.Approve = append(s.Approve, tool)
	}
}

// AddMergeFlags adds the flags of merge: those of resume, and what is merged. What they leave open is of the plan folder.
func (s *Settings) AddMergeFlags(cmd *cobra.Command, lost *[]string) {
	f := cmd.Flags()
	s.AddResumeFlags(cmd)
	for _, name := range []string{"dataset", "base-url", "searxng-url"} {
		usage, _, _ := strings.Cut(f.Lookup(name).Usage, " (default:")
		f.Lookup(name).Usage = usage + " (default: as the plan folder has it)"
	}
	f.StringVar(&s.PlanDir, "plan", "plan", "plan `folder`, with PLAN.private beside it")
	f.StringSliceVar(lost, "lost", nil, "shards whose journals are gone for good, such as 3,7-9")
	cli.Section(f, cli.MachineFlags)
	f.StringVarP(&s.Runs, "out", "o", "runs", "`directory` for the run directory")
	cli.Section(f, cli.OutputFlags)
	cli.CompleteDirs(cmd, "plan")
	cli.CompleteDirs(cmd, "out")
}

// TakeMerge takes from a plan folder what the flags of merge leave open. The run is resumed like any other.
func (s *Settings) TakeMerge(f *planfolder.Folder) {
	s.TakeFolder(f, plan.Delegation{})
	if s.Folder = nil; f.Settings != nil && s.File == "" {
		s.File = filepath.Join(f.Dir, planfolder.SettingsFile)
	}
}

// OpenShard reads the plan folder of --plan and finds which shard of it this process runs.
func (s *Settings) OpenShard(flags *pflag.FlagSet, getenv func(string) string) (f *planfolder.Folder, index int, err error) {
	if s.PlanDir == "" {
		return nil, 0, exit.Usagef("give --plan DIR, which 'gaia plan' wrote", "--shard is of a plan folder, and --plan names none")
	}
	s.again = "gaia run"
	flags.Visit(func(flag *pflag.Flag) {
		if cli.IsOldName(flag) { // whose value --dataset has
			return
		}
		if !slices.Contains(ofShard, flag.Name) && err == nil {
			err = exit.Usagef("leave it out, or plan again: gaia plan --help", "--%s would change the plan of %q, which is signed", flag.Name, s.PlanDir)
		}
		if flag.Name != "json" && flag.Name != "verbose" {
			s.again += " --" + flag.Name + " " + view.Quote(flag.Value.String())
		}
	})
	if err == nil {
		err = s.CheckGoing()
	}
	if err != nil {
		return nil, 0, err
	}
	if f, err = planfolder.Open(s.PlanDir); err != nil {
		return nil, 0, err
	}
	index, err = f.Index(s.Shard, getenv)
	return f, index, err
}

// SettingsFile returns the settings file that has the MCP servers of a plan that continues; nil if there is none.
func (s *Settings) SettingsFile() (*settings.File, error) {
	if s.Folder == nil {
		return settings.Open(s.File)
	}
	if s.Folder.Settings == nil {
		return nil, nil
	}
	return settings.Parse(filepath.Join(s.Folder.Dir, planfolder.SettingsFile), s.Folder.Settings)
}
