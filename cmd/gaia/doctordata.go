package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gaia-harness/gaia/loader"
)

// datasetFinding says whether the tasks of a run can be had. Of a hub it asks for
// the head of the metadata alone.
func (x *exam) datasetFinding(ctx context.Context) diagnosis {
	const name, use = "dataset", "the tasks"
	if x.unsettled != nil {
		return unlooked(name, use, "not looked at before the settings come to a run")
	}
	limited, cancel := context.WithTimeout(ctx, x.wait)
	defer cancel()
	tasks := x.taskFlags
	var told []string
	tasks.notice = func(s string) { told = append(told, s) }
	look := x.inPlace
	if isHub(tasks.source) {
		look = x.onHub
	}
	detail, err := look(limited, tasks)
	switch {
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		f := diagnosis{Name: name, Use: use, State: stateFailed, Detail: fmt.Sprintf("no answer from %s within %s", x.hubEndpoint(), x.wait)}
		if len(told) > 0 { // it answers, or refuses to: why what was tried again failed last
			last, _, _ := strings.Cut(told[len(told)-1], "; trying again")
			f.Detail = fmt.Sprintf("not had within %s: %s", x.wait, last)
		}
		f.Remedy = "check the network, and HF_ENDPOINT if it is set, or try again later; --wait 2m waits longer"
		return f
	case err != nil:
		return troubled(name, use, err, "name where the tasks are with --source: hub, hub:OWNER/NAME, dir:PATH or fixtures")
	case len(told) > 0: // all the same it can be had
		return lacking(name, use, detail+"; "+strings.Join(told, "; "), "check the network, and HF_ENDPOINT if it is set")
	}
	return fine(name, use, detail)
}

// inPlace reads what lies on this machine or is built in, as a run would.
func (x *exam) inPlace(ctx context.Context, tasks taskFlags) (string, error) {
	set, _, err := x.loadTasks(ctx, tasks)
	if err != nil {
		return "", err
	}
	if err := set.HashAttachments(ctx); err != nil {
		return "", err
	}
	detail := fmt.Sprintf("%s, split %s: %d of %s", tasks.source, set.Split, len(set.Tasks), counted(len(set.IDs), "task"))
	for _, o := range set.Others {
		detail += "; split " + string(o.Split) + ": " + counted(len(o.IDs), "task")
	}
	if x.plan.Rehearsal {
		detail = "rehearsal: built in, " + detail
	}
	return detail, nil
}

// onHub asks a hub whether it would give the split to whoever the token is of.
func (x *exam) onHub(ctx context.Context, tasks taskFlags) (string, error) {
	split, err := loader.ParseSplit(tasks.split)
	if err != nil {
		return "", usage("give --split validation or --split test", "%s", err)
	}
	source, err := x.openSource(tasks)
	if err != nil {
		return "", err
	}
	origin, err := loader.Reach(ctx, source, split)
	if err != nil {
		return "", err
	}
	token, from, err := x.hubToken()
	if err != nil {
		return "", err
	}
	by := "without a token"
	if token != "" {
		by = "with the token from " + from
	}
	return fmt.Sprintf("%s, split %s can be had %s", origin, split, by), nil
}
