package policy

import (
	"slices"
	"strings"
)

// The ids of the rules.
const (
	AnswerSources  = "R001"
	GraderSurfaces = "R002"
	Secrets        = "R003"
	Commands       = "R004"
	Packages       = "R005"
	Budget         = "R006"
)

// Rule is one article of the constitution. Its version rises with any change of what it means that
// its data does not show.
type Rule struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Version int    `json:"version"`
}

// Rules returns the built-in rules, by id.
func Rules() []Rule {
	return []Rule{
		{AnswerSources, "answer sources: no tool reaches a place where the benchmark's answers are known to lie, nor looks for them", 6},
		{GraderSurfaces, "grader surfaces: no tool touches the run's results, plan, journal, judgments, judge cache or keys", 4},
		{Secrets, "secrets: no tool reads key material, credentials or a cloud's metadata address", 2},
		{Commands, "commands: no code acts on the host, the network or other processes, nor hooks itself into programs", 3},
		{Packages, "packages: no code loads packages that bring the benchmark or another harness", 2},
		{Budget, "budget: no tool runs beyond what is left of the task's calls, money, tokens and time", 2},
	}
}

// ownRecords are the names that only the run's records have: naming one is enough.
func ownRecords() []string { return []string{"judgments.jsonl", "trajectories.jsonl"} }

// ownFolders are where this program keeps verdicts and keys, as they end in every user's settings.
func ownFolders() []string { return []string{"gaia/judgments", "gaia/keys"} }

// verdictFolders are the names of folders with verdicts of the judge.
func verdictFolders() []string { return []string{"judgecache", "judge_cache", "judge-cache"} }

// commonRecords are records with names that others use too: they count only outside the workspace, and
// in what a tool would open below a folder of runs.
func commonRecords() []string {
	return []string{"attestations", "checkpoint", "events.jsonl", "leaderboard.jsonl", "manifest.dsse.json", "manifest.json",
		"results.jsonl", "summary.json", "unsubmittable"}
}

// surface returns the record of the run that a path names, or "". A path that a tool would open
// (opened) counts more strictly than a word in a text: there, a URL is not a path, and a leading slash
// proves nothing.
func surface(path string, opened bool) string {
	path = strings.ToLower(strings.ReplaceAll(path, `\`, "/"))
	if !opened && strings.Contains(path, "://") && !strings.HasPrefix(path, "file:") {
		return ""
	}
	parts, escapes := resolve(path)
	if len(parts) == 0 {
		return ""
	}
	absolute := path[0] == '/' || path[0] == '~' || strings.HasPrefix(path[1:], ":") || strings.HasPrefix(path, "file:")
	runs := len(parts) > 2 && parts[len(parts)-3] == "runs"
	outside := escapes || absolute && (opened || runs) || opened && runs
	base := strings.TrimRight(parts[len(parts)-1], ".")
	for _, name := range ownFolders() {
		if strings.Contains("/"+strings.Join(parts, "/")+"/", "/"+name+"/") {
			return name
		}
	}
	for _, name := range verdictFolders() {
		if slices.Contains(parts, name) && (opened || len(parts) > 1) {
			return name
		}
	}
	for _, name := range ownRecords() {
		if base == name {
			return name
		}
	}
	for _, name := range commonRecords() {
		if base == name && outside {
			return name
		}
	}
	return ""
}

// resolve cuts a path into parts, dots resolved, and says whether it leads out of where it begins.
func resolve(path string) (parts []string, escapes bool) {
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == ':' }) {
		switch part {
		case ".":
		case "..":
			escapes = escapes || len(parts) == 0
			parts = parts[:max(len(parts)-1, 0)]
		default:
			parts = append(parts, part)
		}
	}
	return parts, escapes
}

// betweenPaths says whether a character ends a path in running text or code.
func betweenPaths(r rune) bool {
	return r <= ' ' || strings.ContainsRune("\"'`,;()[]{}<>|=*?!&#@$", r)
}
