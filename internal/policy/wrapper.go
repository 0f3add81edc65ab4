package policy

import (
	"slices"
	"strings"
)

// wrapper is how a program is called that runs the command in its arguments.
type wrapper struct {
	before int      // how many arguments come before the command
	short  string   // letters of the options whose value is the word behind
	long   []string // those options in words
	asks   string   // letters of the options with which nothing is run
}

// wrapperOf returns how a program is called that runs another one.
func wrapperOf(name string) (wrapper, bool) {
	switch name {
	case "builtin", "busybox", "coproc", "fakeroot", "nohup", "setsid", "toybox", "trap", "unbuffer":
		return wrapper{}, true
	case "chrt":
		return wrapper{before: 1, short: "DPT", long: []string{"--sched-deadline", "--sched-period", "--sched-runtime"}}, true
	case "command":
		return wrapper{asks: "vV"}, true
	case "env":
		return wrapper{short: "Cu", long: []string{"--chdir", "--unset"}}, true
	case "exec":
		return wrapper{short: "a"}, true
	case "flock":
		return wrapper{before: 1, short: "Ew", long: []string{"--conflict-exit-code", "--timeout"}}, true
	case "function", "taskset":
		return wrapper{before: 1}, true
	case "ionice":
		return wrapper{short: "cn", long: []string{"--class", "--classdata"}}, true
	case "nice":
		return wrapper{short: "n", long: []string{"--adjustment"}}, true
	case "parallel":
		return wrapper{short: "CEILNPSadjns", long: []string{"--arg-file", "--colsep", "--delay", "--delimiter", "--jobs", "--joblog", "--max-args",
			"--max-procs", "--results", "--retries", "--sshlogin", "--tagstring", "--timeout", "--tmpdir", "--workdir"}}, true
	case "stdbuf":
		return wrapper{short: "eio", long: []string{"--error", "--input", "--output"}}, true
	case "time":
		return wrapper{short: "fo", long: []string{"--format", "--output"}}, true
	case "timeout":
		return wrapper{before: 1, short: "ks", long: []string{"--kill-after", "--signal"}}, true
	case "watch":
		return wrapper{short: "nq", long: []string{"--equexit", "--interval"}}, true
	case "xargs":
		return wrapper{short: "EILPadns", long: []string{"--arg-file", "--delimiter", "--max-args", "--max-chars", "--max-procs"}}, true
	}
	return wrapper{}, false
}

// command returns what of the arguments is the command.
func (w wrapper) command(words []string) []string {
	for before := w.before; len(words) > 0; words = words[1:] {
		option := words[0]
		switch {
		case strings.HasPrefix(option, "--"):
			if slices.Contains(w.long, option) {
				words = words[1:]
			}
		case strings.HasPrefix(option, "-"):
			if w.asks != "" && strings.ContainsAny(option, w.asks) {
				return nil
			}
			if i := strings.IndexAny(option, w.short); i > 0 && i == len(option)-1 {
				words = words[1:]
			}
		case strings.HasPrefix(option, ":::"): // of parallel: what comes is commands where none came
		case before > 0:
			before--
		default:
			return words
		}
		if len(words) == 0 {
			break
		}
	}
	return nil
}
