package runs

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"testing/fstest"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// Part is the journal of a shard, or of a worker, as [Case.Merged] writes it.
type Part struct {
	Index int    // from 1; a second part of a shard is superseded
	Tasks []int  // places in the plan of the tasks that it has, from 0, in this order; nil: those of the shard
	Begun []int  // likewise, tasks with an attempt that has begun before the last of Tasks ends, and has no end
	Gone  bool   // the journal is not there
	Asks  string // asked in each task in place of its question; "": that
	// Stopped: it was closed since the endpoint could not be reached.
	Stopped bool
}

// Merged is a run that was made in parts.
type Merged struct {
	Files  map[string][]byte   // of the merged run
	Shards []map[string][]byte // of the folder of each part; nil: it is gone
}

// ShardKey returns the key of a shard or worker, as worthless as Key.
func ShardKey(index int) sign.Key {
	key, err := sign.NewKey(rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "shard %d", index))))
	if err != nil {
		panic("runs: " + err.Error()) // 32 bytes can always be read from it
	}
	return key
}

// Merged returns the case as a run of a plan for so many shards, which was made in parts and merged; without parts, in
// each shard once. Of 0 shards the parts are workers, and a task counts in the first one that has it. What is graded,
// sealed or patched before the first task is so in the merged run alone.
func (c Case) Merged(shards int, parts ...Part) (m Merged, err error) {
	if parts == nil {
		for i := range shards {
			parts = append(parts, Part{Index: i + 1})
		}
	}
	counted, first := make([]int, len(c.tasks)), map[int]bool{}
	var list []trajectory.ShardMerged
	for n, p := range parts {
		merged := trajectory.ShardMerged{Shard: trajectory.Shard{Index: p.Index, Of: shards}, Superseded: first[p.Index]}
		if p.Tasks == nil {
			for i := p.Index - 1; i < len(c.tasks); i += shards {
				p.Tasks = append(p.Tasks, i)
			}
		}
		if p.Gone {
			merged.Lost = len(p.Tasks)
		}
		first[p.Index] = true
		files := map[string][]byte(nil)
		if !p.Gone {
			if files, err = c.part(n, p, &merged); err != nil {
				return m, fmt.Errorf("part %d: %w", n+1, err)
			}
			for _, i := range p.Tasks {
				if counted[i] == 0 {
					counted[i] = n + 1
				}
			}
		}
		m.Shards, list = append(m.Shards, files), append(list, merged)
	}
	w, signed, err := c.begin(max(shards, 1))
	if err != nil {
		return m, err
	}
	shardsOf := rundir.NewShards(w.manifest, list, counted)
	m.Files, err = c.merge(w, signed, shardsOf, m.Shards)
	return m, err
}

// part returns the folder of the nth part, and completes what the merged run says of it.
func (c Case) part(n int, p Part, merged *trajectory.ShardMerged) (map[string][]byte, error) {
	w, signed, err := c.begin(max(merged.Shard.Of, 1))
	if err != nil {
		return nil, err
	}
	if p.Asks != "" {
		w.c.tasks = slices.Clone(w.c.tasks)
		for i := range w.c.tasks {
			w.c.tasks[i].question = p.Asks
		}
	}
	key := ShardKey(p.Index)
	merged.Shard.Key = key.Public().Line()
	d := w.manifest.NewDelegation(canonical.Digest(signed), merged.Shard)
	w.shard, w.wall, *w.random = d.Shard, time.Duration(n+1)*time.Minute, *rand.NewChaCha8(sha256.Sum256(fmt.Appendf(c.seed[:], "part %d", n)))
	w.fold.OfShard(d)
	if err := w.start(); err != nil {
		return nil, err
	}
	for i, task := range p.Tasks {
		if i == len(p.Tasks)-1 {
			for _, begun := range p.Begun {
				w.task, w.attempt = begun, attempt{}
				if err := w.open(true); err != nil {
					return nil, err
				}
			}
		}
		for _, s := range c.steps {
			if s.task != task {
				continue
			}
			if err := w.tell(s); err != nil {
				return nil, fmt.Errorf("line %d: %w", s.line, err)
			}
		}
		if err := w.record(w.fold.Commit(w.current())); err != nil {
			return nil, err
		}
	}
	if p.Stopped {
		if err := w.record(w.fold.RunStopped()); err != nil {
			return nil, err
		}
	}
	files, err := w.close(signed)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{judgmentsFile, rundir.MarkerFile} {
		delete(files, name)
	}
	if files[plan.DelegationFile], err = d.Sign(c.signer()); err != nil {
		return nil, err
	}
	merged.Events, merged.Head = w.log.End().Events, w.log.End().Head
	head, err := w.fold.ShardCheckpoint(w.log.End())
	if err == nil {
		files[trajectory.CheckpointFile], err = head.Sign(key)
	}
	return files, err
}

// merge writes the run that the parts make.
func (c Case) merge(w *writer, signed []byte, list rundir.Shards, parts []map[string][]byte) (map[string][]byte, error) {
	dir, own := fstest.MapFS{}, map[string][]byte{}
	var err error
	if own[rundir.ShardsFile], err = list.Encode(); err != nil {
		return nil, err
	}
	for i, s := range list.Shards {
		if parts[i] == nil {
			continue
		}
		for _, name := range []string{plan.DelegationFile, trajectory.CheckpointFile, trajectory.JournalFile} {
			name, data := path.Join(s.Dir(), name), parts[i][name]
			own[name], dir[name] = data, &fstest.MapFile{Data: data}
		}
		w.base += s.Events
	}
	w.wall, *w.random = 24*time.Hour, *rand.NewChaCha8(sha256.Sum256(append(slices.Clone(c.seed[:]), "merged"...)))
	w.fold.Merge(list)
	if err := w.fold.ReadShards(dir, c.signer().Public(), nil, nil); err != nil {
		return nil, err
	}
	for _, s := range c.steps {
		if s.task < 0 {
			if err := w.tell(s); err != nil {
				return nil, fmt.Errorf("line %d: %w", s.line, err)
			}
		}
	}
	if err := w.start(); err != nil {
		return nil, err
	}
	if err := w.finish(); err != nil {
		return nil, err
	}
	files, err := w.close(signed)
	maps.Copy(files, own)
	return files, err
}
