package main

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/spf13/cobra"
)

// What a number of a flag may be at most: beyond it is a slip of the finger.
const (
	maxConcurrency = 1024
	maxTaskTime    = 7 * 24 * time.Hour
	maxCount       = 1_000_000_000
)

// A flagText is the value of a flag that holds more than any text: kind says what,
// in the help and where the settings file has something else.
type flagText struct {
	value *string
	kind  string
}

func (t flagText) String() string     { return *t.value }
func (t flagText) Set(s string) error { *t.value = s; return nil }
func (t flagText) Type() string       { return t.kind }

// Kinds of text that is written as a number, or may be.
const (
	kindDollars = "dollars"
	kindAtOnce  = "auto|number"
)

// addModelFlags makes the flags that say how a model is asked; a run is planned
// with them.
func (s *settings) addModelFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.model, "model", "", "model that answers")
	f.StringVar(&s.judge, "judge-model", "", "model that judges what the official scorer calls wrong (default: none)")
	f.StringVar(&s.baseURL, "base-url", "", "OpenAI-compatible endpoint (default: OPENAI_BASE_URL, else https://api.openai.com/v1)")
	f.StringSliceVar(&s.servedAs, "served-as", nil, "other names by which the endpoint may call the models of the run in its replies, such as of a deployment")
	f.Var(flagText{&s.api, "chat|responses"}, "api", "interface that the model is asked by (default: at OpenAI's host what its name demands, elsewhere chat)")
	s.images = imagesAuto
	f.Var(flagText{&s.images, "auto|on|off"}, "images", "show the model pictures that come with a question; auto: if it is known to take them")
	f.IntVar(&s.window, "context-window", 0, "tokens by which the conversation is kept short (default: until the endpoint refuses it)")
	f.StringVar(&s.transcription, "transcription-model", "", "model that writes down audio files (default: none)")
	s.addVisionFlag(f)
	s.addSearchFlags(cmd)
	f.IntVar(&s.attempts, "voting-attempts", 1, "independent attempts at each task, of whose answers the majority counts; budgets are each attempt's own")
	completeFixed(cmd, "api", llm.APIChat, llm.APIResponses)
	completeFixed(cmd, "images", imagesAuto, imagesOn, imagesOff)
	for _, name := range []string{"model", "judge-model"} {
		completeFixed(cmd, name, llm.BuiltinPrices().Models()...)
	}
}

// addBudgetFlags makes the flags that bound a run; it is planned with them.
func (s *settings) addBudgetFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&s.maxTurns, "max-turns", 20, "turns of an attempt, the last one kept for the answer")
	f.IntVar(&s.maxTokens, "max-tokens", 0, "tokens of one completion (default: the endpoint's; 8192 with --max-cost)")
	f.IntVar(&s.toolCalls, "max-tool-calls", 0, "tool calls of an attempt and those that failed before it (default: the policy's; autonomous: 500)")
	f.Int64Var(&s.taskTokens, "max-task-tokens", 0, "tokens that an attempt and those that failed before it may read and write (default: no limit)")
	f.DurationVar(&s.taskTime, "max-task-time", 0, "time that an attempt may take, such as 15m (default: no limit)")
	f.Var(flagText{&s.taskCost, kindDollars}, "max-task-cost", `US dollars that an attempt and those that failed before it may cost, or "off" (default: the policy's; autonomous: 1.00)`)
	f.Var(flagText{&s.runCost, kindDollars}, "max-cost", "US dollars the whole run may cost, its judge, transcriptions and descriptions included (default: no limit)")
	completeFixed(cmd, "max-task-cost", "off")
}

// addRateFlags makes the flags that a run may go on with differently.
func (s *settings) addRateFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	s.concurrency = autoConcurrency
	f.Var(flagText{&s.concurrency, kindAtOnce}, "concurrency", "tasks and requests at once; auto: as many requests as the endpoint bears, twice as many tasks")
	f.Int64Var(&s.rpm, "rpm", 0, "requests a minute to the endpoint (default: no limit)")
	f.Int64Var(&s.tpm, "tpm", 0, "tokens a minute to and from the endpoint (default: no limit)")
	f.StringVar(&s.cassette, "cassette", "", "record:DIR keeps the answers of the endpoint, replay:DIR has them from there")
	f.StringVar(&s.key, "key", "", "signing key file (default: GAIA_SIGNING_KEY, GAIA_SIGNING_KEY_FILE, else made on first need)")
	f.StringVar(&s.prices, "prices", "", "price table to count cost by, in place of the built-in one")
	f.StringVar(&s.onLost, "on-unsubmittable", goOn, `when evidence cannot be recorded, or a run with --submit-intent turns out unfit for it: "continue", results marked, or "stop", to be resumed`)
	completeFixed(cmd, "concurrency", autoConcurrency)
	completeFixed(cmd, "on-unsubmittable", goOn, stopRun)
	completeWith(cmd, "cassette", cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp, plan.CassetteRecord+":", plan.CassetteReplay+":")
}

// check refuses settings no run can have.
func (s settings) check() error {
	if err := s.checkGoing(); err != nil {
		return err
	}
	if _, err := dollarsOf("max-cost", s.runCost); err != nil {
		return err
	}
	if s.taskCost != "off" {
		if _, err := dollarsOf("max-task-cost", s.taskCost); err != nil {
			return err
		}
	}
	switch {
	case s.api != "" && s.api != llm.APIChat && s.api != llm.APIResponses:
		return usage(`give "chat" or "responses", or leave it out`, "--api is %q", s.api)
	case s.images != imagesAuto && s.images != imagesOn && s.images != imagesOff:
		return usage(`give "auto", "on" or "off"`, "--images is %q", s.images)
	case s.maxTurns < 1:
		return usage("", "--max-turns is %d, which leaves no turn", s.maxTurns)
	case s.attempts < 1 || s.attempts > plan.MaxVotingAttempts:
		return usage("give a number from 1 to 100; 1 is no vote", "--voting-attempts is %d", s.attempts)
	case s.taskTime < 0 || s.taskTime > maxTaskTime || s.taskTime > 0 && s.taskTime < time.Second:
		return usage("give a time from 1s to 168h, such as 15m, or leave it out", "--max-task-time is %s", s.taskTime)
	}
	for _, name := range s.servedAs {
		if name == "" || strings.ContainsAny(name, " \t\n") {
			return usage("give names of models with commas between them", "--served-as names the model %q", name)
		}
	}
	if err := checkCounts([]counter{{"max-turns", int64(s.maxTurns)}, {"max-tokens", int64(s.maxTokens)}, {"max-tool-calls", int64(s.toolCalls)},
		{"max-task-tokens", s.taskTokens}, {"context-window", int64(s.window)}}); err != nil {
		return err
	}
	if s.window > 0 && s.window <= s.maxTokens {
		return usage("the window is of the conversation and the completion together", "--context-window is %d, which leaves no room beside completions of %d tokens", s.window, s.maxTokens)
	}
	return nil
}

// A counter is the value of a flag of which 0 is the default.
type counter struct {
	flag  string
	value int64
}

func checkCounts(counts []counter) error {
	for _, c := range counts {
		if c.value < 0 || c.value > maxCount {
			return usage("give a number from 1 to 1000000000, or leave it out", "--%s is %d", c.flag, c.value)
		}
	}
	return nil
}

// checkGoing refuses of what may differ each time a run goes on.
func (s settings) checkGoing() error {
	if err := s.governance.check(); err != nil {
		return err
	}
	if s.onLost != goOn && s.onLost != stopRun {
		return usage(`give "continue" or "stop"`, "--on-unsubmittable is %q", s.onLost)
	}
	if _, err := s.atOnce(); err != nil {
		return err
	}
	if err := checkCounts([]counter{{"rpm", s.rpm}, {"tpm", s.tpm}}); err != nil {
		return err
	}
	mode, _, err := s.tape()
	if err == nil && mode == plan.CassetteReplay && s.submitIntent {
		err = usage("leave out --submit-intent, or ask the model itself", "--cassette %s asks no model, so such a run cannot be submitted", s.cassette)
	}
	return err
}

// atOnce returns how many tasks are solved at once; 0 is as many as the
// endpoint bears.
func (s settings) atOnce() (int, error) {
	if s.concurrency == autoConcurrency {
		return 0, nil
	}
	n, err := strconv.Atoi(s.concurrency)
	switch {
	case err != nil:
		return 0, usage(`give "auto" or a number`, "--concurrency is %q", s.concurrency)
	case n < 1:
		return 0, usage(`give "auto" or a number from 1`, "--concurrency is %d, which runs no task", n)
	case n > maxConcurrency:
		return 0, usage(`give "auto" or a number up to 1024`, "--concurrency is %d", n)
	}
	return n, nil
}

// tape returns what --cassette asks for: a mode of the manifest, "" for none,
// and a directory.
func (s settings) tape() (mode, dir string, err error) {
	if s.cassette == "" {
		return "", "", nil
	}
	mode, dir, _ = strings.Cut(s.cassette, ":")
	if mode != plan.CassetteRecord && mode != plan.CassetteReplay || dir == "" {
		return "", "", usage("give record:DIR or replay:DIR", "--cassette is %q", s.cassette)
	}
	return mode, dir, nil
}

// dollarsOf reads US dollars as micro-USD; "" is 0.
func dollarsOf(flag, value string) (int64, error) {
	if value == "" {
		return 0, nil
	}
	amount, err := strconv.ParseFloat(value, 64)
	if err != nil || !(amount >= 1e-6 && amount < 1e6) {
		hint := "give US dollars, such as 25"
		if flag == "max-task-cost" {
			hint = "give US dollars, such as 0.50, or 'off'"
		}
		return 0, usage(hint, "--%s %q is no budget", flag, value)
	}
	return int64(math.Round(amount * 1e6)), nil
}

// evidenceOf sets what is recorded of bodies.
func (s *settings) evidenceOf(record, bodies bool) error {
	switch {
	case !record && s.submitIntent:
		return usage("leave out --record-evidence=false, or --submit-intent", "a run without evidence cannot be submitted")
	case !record && bodies:
		return usage("leave one of them out", "--evidence-full-bodies keeps what --record-evidence=false leaves out")
	case !record:
		s.evidence = plan.EvidenceHashes
	case bodies:
		s.evidence = plan.EvidenceBodies
	default:
		s.evidence = plan.EvidenceHeads
	}
	return nil
}

// serverSide refuses, of a run that is to be submitted, models that do on the
// server's side what no gate sees, and warns of them otherwise.
func (s settings) serverSide(warn func(string)) error {
	for _, model := range []string{s.model, s.judge, s.transcription, s.looks()} {
		what := llm.ServerSide(model)
		switch {
		case model == "" || what == "":
		case s.submitIntent:
			return usage("name another model, or leave out --submit-intent", "%s, which nothing records", what)
		default:
			warn(what + ", which nothing records: the run will not be submittable")
		}
	}
	return nil
}

// completeFixed lets a shell complete a flag whose values are few.
func completeFixed(cmd *cobra.Command, flag string, values ...string) {
	completeWith(cmd, flag, cobra.ShellCompDirectiveNoFileComp, values...)
}

func completeWith(cmd *cobra.Command, flag string, directive cobra.ShellCompDirective, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, directive)); err != nil {
		panic("completing --" + flag + ": " + err.Error()) // there is no such flag
	}
}

// completeDirs completes a flag by directories.
func completeDirs(cmd *cobra.Command, flag string) {
	completeWith(cmd, flag, cobra.ShellCompDirectiveFilterDirs)
}

// completeList completes the last of a flag's values, which stand between commas.
func completeList(cmd *cobra.Command, flag string, values ...string) {
	complete := func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		given := strings.Split(begun, ",")
		given = given[:len(given)-1]
		var lists []string
		for _, value := range values {
			if !slices.Contains(given, value) {
				lists = append(lists, strings.Join(append(slices.Clone(given), value), ","))
			}
		}
		return lists, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic("completing --" + flag + ": " + err.Error()) // there is no such flag
	}
}

// dollarsFlag writes micro-USD as a flag takes them; "" is 0.
func dollarsFlag(micro int64) string {
	if micro == 0 {
		return ""
	}
	return strconv.FormatInt(micro/1e6, 10) + "." + strconv.FormatInt(1e6+micro%1e6, 10)[1:]
}

// taskBudget is --max-task-cost of a planned budget, of which 0 is no limit.
func taskBudget(micro int64) string { return cmp.Or(dollarsFlag(micro), "off") }
