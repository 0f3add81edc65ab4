package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
)

// Dataset is where a run has its tasks from. The functions pass notices of retries on.
type Dataset struct {
	Source, Split string                                                             // as the flags are written
	Endpoint      string                                                             // of the hub
	OnHub         bool                                                               // the tasks are on the hub
	Open          func(notice func(string)) (loader.Source, error)                   // opens the hub
	Token         func() (token, from string, err error)                             // for the hub
	Load          func(ctx context.Context, notice func(string)) (loader.Set, error) // reads what is on this machine
	Wait          time.Duration
}

// CheckDataset checks whether the tasks of the run can be read. A hub is asked for the head of the metadata alone.
func (p Planned) CheckDataset(ctx context.Context, d Dataset) Finding {
	const name, use = "dataset", "the tasks"
	if p.Invalid != nil {
		return unseen(name, use, invalid)
	}
	limited, cancel := context.WithTimeout(ctx, d.Wait)
	defer cancel()
	var notices []string
	read := d.read
	if d.OnHub {
		read = d.reach
	}
	detail, err := read(limited, func(s string) { notices = append(notices, s) })
	if p.Rehearsal {
		detail = "rehearsal: built in, " + detail
	}
	switch {
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		f := Finding{Name: name, Use: use, State: Failed, Detail: fmt.Sprintf("no answer from %s within %s", d.Endpoint, d.Wait)}
		if len(notices) > 0 { // it answers, or refuses to: why the last try failed
			last, _, _ := strings.Cut(notices[len(notices)-1], "; trying again")
			f.Detail = fmt.Sprintf("not had within %s: %s", d.Wait, last)
		}
		f.Remedy = "check the network, and HF_ENDPOINT if it is set, or try again later; --wait 2m waits longer"
		return f
	case err != nil:
		return Fails(name, use, err, "name where the tasks are with --dataset: hub, hub:OWNER/NAME, dir:PATH or fixtures")
	case len(notices) > 0: // it was read after retries
		return lacks(name, use, detail+"; "+strings.Join(notices, "; "), "check the network, and HF_ENDPOINT if it is set")
	}
	return good(name, use, detail)
}

// read reads what is on this machine or built in, as a run would.
func (d Dataset) read(ctx context.Context, notice func(string)) (string, error) {
	set, err := d.Load(ctx, notice)
	if err == nil {
		err = set.HashAttachments(ctx)
	}
	if err != nil {
		return "", err
	}
	detail := fmt.Sprintf("%s, split %s: %d of %s", d.Source, set.Split, len(set.Tasks), view.Count(len(set.IDs), "task"))
	for _, o := range set.Others {
		detail += fmt.Sprintf("; split %s: %s", o.Split, view.Count(len(o.IDs), "task"))
	}
	return detail, nil
}

// reach asks a hub whether it would give the split to the holder of the token.
func (d Dataset) reach(ctx context.Context, notice func(string)) (string, error) {
	split, err := loader.ParseSplit(d.Split)
	if err != nil {
		return "", exit.Usagef("give --split validation or --split test", "%s", err)
	}
	source, err := d.Open(notice)
	if err != nil {
		return "", err
	}
	origin, err := loader.Reach(ctx, source, split)
	if err != nil {
		return "", err
	}
	token, from, err := d.Token()
	if err != nil {
		return "", err
	}
	by := "without a token"
	if token != "" {
		by = "with the token from " + from
	}
	return fmt.Sprintf("%s, split %s can be had %s", origin, split, by), nil
}
