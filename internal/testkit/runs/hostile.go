package runs

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/go-json-experiment/json"
)

// choosable lists the texts of the varied run that can be any text: with another one in
// every place of each, plan and journal still verify. TestHostile writes it.
//
//go:embed hostile.txt
var choosable string

// Hostile returns the varied run with other texts where a model, page, agent, dataset, judge or operator can choose
// them: instead gives the text in place of the n-th. The run verifies.
func Hostile(instead func(n int, text string) string) (map[string][]byte, error) {
	texts, err := hostileTexts()
	if err != nil {
		return nil, err
	}
	return replaceTexts(texts, instead)
}

// hostileTexts returns the texts of choosable.
func hostileTexts() (texts []string, err error) {
	for line := range strings.Lines(choosable) {
		var text string
		if err := json.Unmarshal([]byte(line), &text); err != nil {
			return nil, fmt.Errorf("hostile.txt: %w", err)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// replaceTexts puts others in place of texts of the varied run, in all places of plan and journal: also their digests
// and lengths.
func replaceTexts(texts []string, instead func(n int, text string) string) (map[string][]byte, error) {
	c, _ := Varied()
	files, err := c.Files()
	if err != nil {
		return nil, err
	}
	f := &Forger{Files: files}
	if err := json.Unmarshal(files["manifest.json"], &f.plan); err != nil {
		return nil, err
	}
	if f.lines, err = Lines(files["events.jsonl"]); err != nil {
		return nil, err
	}
	others := map[string]string{}
	for n, text := range texts {
		other := instead(n, text)
		others[text], others[canonical.Digest([]byte(text))] = other, canonical.Digest([]byte(other))
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			if other, is := others[v]; is {
				return other
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			if head, is := v["head"].(string); is && v["bytes"] == float64(len(head)) && others[head] != "" {
				v["bytes"] = float64(len(others[head]))
			}
			for name := range v {
				v[name] = walk(v[name])
			}
		}
		return v
	}
	f.plan = walk(f.plan)
	for _, l := range f.lines {
		walk(map[string]any(l))
	}
	if err := f.sign(); err != nil {
		return nil, err
	}
	return f.Files, nil
}

// fixed are the texts that are no one's to choose: digests, times, ids, numbers, schemas.
var fixed = regexp.MustCompile(`^(|sha256:[0-9a-f]{64}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|[0-9A-HJKMNP-TV-Z]{26}|[0-9.]+|gaia\.[a-z]+/[0-9]+|[A-Za-z0-9+/]{40,}=*)$`)

// findHostile returns the texts of the varied run that can be any text.
func findHostile() ([]string, error) {
	c, _ := Varied()
	files, err := c.Files()
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case string:
			if !fixed.MatchString(v) {
				found[v] = true
			}
		case []any:
			for _, v := range v {
				collect(v)
			}
		case map[string]any:
			for _, v := range v {
				collect(v)
			}
		}
	}
	var plan any
	if err := json.Unmarshal(files["manifest.json"], &plan); err != nil {
		return nil, err
	}
	collect(plan)
	lines, err := Lines(files["events.jsonl"])
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		collect(l["payload"])
	}
	// Most texts that cannot be chosen are refused one by one: halves are tried until each is found.
	var chosen []string
	var try func(texts []string)
	try = func(texts []string) {
		if len(texts) == 0 || verifies(append(slices.Clone(chosen), texts...)) {
			chosen = append(chosen, texts...)
			return
		}
		if len(texts) > 1 {
			try(texts[:len(texts)/2])
			try(texts[len(texts)/2:])
		}
	}
	try(slices.Sorted(maps.Keys(found)))
	slices.Sort(chosen)
	return chosen, nil
}

// verifies reports whether the varied run verifies with others in place of texts.
func verifies(texts []string) bool {
	files, err := replaceTexts(texts, func(n int, text string) string { return fmt.Sprintf("%s\u202e<b>%d", text, n) })
	if err != nil {
		return false
	}
	dir := fstest.MapFS{}
	for name, data := range files {
		dir[name] = &fstest.MapFile{Data: data, Mode: 0o644}
	}
	run, err := rundir.Verify(dir, rundir.Options{})
	return err == nil && run.Complete
}
