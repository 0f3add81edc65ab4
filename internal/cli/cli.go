// Package cli has what the commands share: flags whose text has a form, checks of flags and arguments, and completions for
// shells.
//
// It reads no environment and prints nothing, so that its tests need no program. Its errors are errors of usage with a hint
// that can be pasted; a wrong value is reported with the same words as in gaia.yaml (package settings). An empty value of a
// flag is rejected where it would remove a limit, as an unset variable of a shell does (NotEmpty).
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Value is a flag whose text has a form. kind names the form in the help and in errors of gaia.yaml.
// parse and format convert to and from the value.
type Value struct {
	kind   string
	parse  func(string) error
	format func() string
}

func (t Value) String() string {
	if t.format == nil { // the zero value, which pflag compares with
		return ""
	}
	return t.format()
}

func (t Value) Set(s string) error { return t.parse(s) }
func (t Value) Type() string       { return t.kind }

// Choice is a flag of fixed texts.
func Choice(value *string, kind string) Value {
	return Value{kind, func(s string) error { *value = s; return nil }, func() string { return *value }}
}

// Dollars is a flag of US dollars, which are stored in micro-USD; 0 is not given. Where off is not 0, the text
// "off" sets it.
func Dollars(micro *int64, off int64) Value {
	return Value{settings.Dollars, func(s string) error {
		if s == "off" && off != 0 {
			*micro = off
			return nil
		}
		amount, err := strconv.ParseFloat(s, 64)
		if err != nil || !(amount >= 1e-6 && amount < 1e6) {
			return strconv.ErrSyntax
		}
		*micro = int64(math.Round(amount * 1e6))
		return nil
	}, func() string {
		switch {
		case *micro == 0:
			return ""
		case *micro < 0:
			return "off"
		}
		return strconv.FormatInt(*micro/1e6, 10) + "." + strconv.FormatInt(1e6+*micro%1e6, 10)[1:]
	}}
}

// Duration is a flag of a time in milliseconds, from least to most; 0 is not given.
func Duration(ms *int64, least, most time.Duration) Value {
	return Value{"duration", func(s string) error {
		d, err := time.ParseDuration(s)
		if *ms = d.Milliseconds(); err == nil && d != 0 && (d < least || d > most) {
			err = fmt.Errorf("it is not from %s to %s", least, most)
		}
		return err
	}, func() string { return (time.Duration(*ms) * time.Millisecond).String() }}
}

// Model is a flag that names a model of a plan; "" is none.
func Model[T any](plan **T, name func(*T) *string) Value {
	return Value{"string", func(s string) error {
		*plan = nil
		if s != "" {
			*plan = new(T)
			*name(*plan) = s
		}
		return nil
	}, func() string {
		if *plan == nil {
			return ""
		}
		return *name(*plan)
	}}
}

// ParseTime reads the date or time of a flag: RFC 3339, a date, or as allowed_signers files have it. It returns the
// zero time for "".
func ParseTime(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		// A list can hold no year of five digits, which a zone can make of 9999.
		if t, err := time.Parse(layout, s); err == nil && t.Unix() > 0 && t.Nanosecond() == 0 && t.UTC().Year() <= 9999 {
			return t.UTC(), nil
		}
	}
	t, err := sign.ParseBound(s)
	if err != nil {
		return time.Time{}, exit.Usagef("give it as 2026-01-02 or 2026-01-02T15:04:05Z", "--%s %q is not a date", flag, s)
	}
	return t, nil
}

// FlagError rejects the value of a flag with the same words as the settings file.
func FlagError(cmd *cobra.Command, err error) error {
	hint := "see '" + cmd.CommandPath() + " --help'"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := settings.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			hint = "did you mean --" + near + "?"
		}
	}
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return exit.Usagef(hint, "%s", err)
	}
	flag, value := wrong.GetFlag(), text.Trim(wrong.GetValue(), 60)
	if errors.Is(err, strconv.ErrRange) {
		return exit.Usagef(hint, "--%s is %q, which is too large", flag.Name, value)
	}
	return exit.Usagef(hint, "--%s is %q, which is not %s", flag.Name, value, settings.Described(flag.Value.Type()))
}

// NotEmpty rejects flags that were given an empty value, such as an unset variable of a shell: the limit that they
// were meant to set would be missing. A command need not have all of them.
func NotEmpty(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && (f.Value.String() == "" || f.Value.String() == "[]") {
			return EmptyFlag(name)
		}
	}
	return nil
}

// RejectEmpty has a command reject flags by NotEmpty before all else that it does.
func RejectEmpty(cmd *cobra.Command, names ...string) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := NotEmpty(cmd, names...); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// EmptyFlag is the error of a flag with an empty value.
func EmptyFlag(name string) error {
	return exit.Usagef("give it a value, or leave it out", "--%s is empty", name)
}

// OneArg requires one argument, and describes it in the error.
func OneArg(description string) cobra.PositionalArgs { return Args(1, 1, "one argument, "+description) }

// Args requires from least to most arguments, and describes them in the error.
func Args(least, most int, description string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return exit.Usagef("see '"+cmd.CommandPath()+" --help'", "%s takes %s", commandPath(cmd), description)
		}
		return nil
	}
}

// NoArgs rejects arguments of a command that takes none.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("see '"+cmd.CommandPath()+" --help'", "%s takes no argument, not %q", commandPath(cmd), args[0])
	}
	return nil
}

// KnownCommand rejects the name of a command that a command does not have.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef(NearCommand(cmd, args[0]), "%s has no command %q", cmp.Or(commandPath(cmd), cmd.Name()), args[0])
	}
	return nil
}

// SomeArgs wants at least one argument; what says what the command takes.
func SomeArgs(hint, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return exit.Usagef(hint, "%s", what)
		}
		return nil
	}
}

// Group makes cmd a group of commands, which prints its help.
func Group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = KnownCommand, cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// NearCommand returns the hint for a command that does not exist: the nearest name.
func NearCommand(cmd *cobra.Command, name string) string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			names = append(names, c.Name())
		}
	}
	if near := settings.Nearest(name, names); near != "" {
		return "did you mean '" + cmd.CommandPath() + " " + near + "'?"
	}
	return "see '" + cmd.CommandPath() + " --help'"
}

// commandPath returns how a command is called, without the program.
func commandPath(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

// Complete completes a flag whose values are few.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	CompleteWith(cmd, flag, cobra.ShellCompDirectiveNoFileComp, values...)
}

// CompletePrefixes completes a flag whose values begin in one of some ways.
func CompletePrefixes(cmd *cobra.Command, flag string, values ...string) {
	CompleteWith(cmd, flag, cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp, values...)
}

// CompleteDirs completes a flag by directories.
func CompleteDirs(cmd *cobra.Command, flag string) {
	CompleteWith(cmd, flag, cobra.ShellCompDirectiveFilterDirs)
}

// CompleteWith completes a flag by some values and a directive of the shell.
func CompleteWith(cmd *cobra.Command, flag string, directive cobra.ShellCompDirective, values ...string) {
	annotateValues(cmd, flag, values)
	complete(cmd, flag, cobra.FixedCompletions(values, directive))
}

// valuesKey annotates a flag with the values that complete it.
const valuesKey = "gaia_values"

func annotateValues(cmd *cobra.Command, flag string, values []string) {
	if err := cmd.Flags().SetAnnotation(flag, valuesKey, values); err != nil {
		panic("completing --" + flag + ": " + err.Error()) // there is no such flag
	}
}

// NearValue adds a hint to an error of usage that quotes the value of a flag: the nearest of the values that complete it.
func NearValue(cmd *cobra.Command, err error) error {
	var wrong *exit.Error
	if !errors.As(err, &wrong) || wrong.Code != exit.Usage || slices.ContainsFunc(wrong.Hints, func(hint string) bool { return strings.HasPrefix(hint, "did you mean ") }) {
		return err
	}
	near := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, value := range valuesOf(f) {
			known := f.Annotations[valuesKey]
			if near == "" && strings.Contains(wrong.Error(), strconv.Quote(value)) && !slices.Contains(known, value) {
				near = settings.Nearest(value, known)
			}
		}
	})
	if near == "" {
		return err
	}
	hinted := *wrong
	hinted.Hints = append([]string{"did you mean " + near + "?"}, wrong.Hints...)
	return &hinted
}

// valuesOf returns the values of a flag, one or a list.
func valuesOf(f *pflag.Flag) []string {
	if list, isList := f.Value.(pflag.SliceValue); isList {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

// CompleteRuns completes a flag by names that are looked up when they are asked for, else by files.
func CompleteRuns(cmd *cobra.Command, flag string, names func() []string) {
	complete(cmd, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveDefault
	})
}

// EachValue gives the values of a flag that was given, one or a list, to change, and sets what they became.
func EachValue(cmd *cobra.Command, flag string, change func(value *string) error) error {
	f := cmd.Flags().Lookup(flag)
	if !f.Changed {
		return nil
	}
	values := valuesOf(f)
	for i := range values {
		if err := change(&values[i]); err != nil {
			return err
		}
	}
	return setValues(f, values)
}

// setValues sets the value of a flag, one or a list.
func setValues(f *pflag.Flag, values []string) error {
	if list, isList := f.Value.(pflag.SliceValue); isList {
		return list.Replace(values)
	}
	return f.Value.Set(values[0])
}

// CompleteList completes the last of a flag's values, which are separated by commas.
func CompleteList(cmd *cobra.Command, flag string, values ...string) {
	annotateValues(cmd, flag, values)
	CompleteLater(cmd, flag, func([]string) []string { return values })
}

// CompleteLater completes a flag by values that are looked up when they are asked for, with the arguments of the command. A
// value may end in a tab and its description. Of a flag that takes a list it completes the last one.
func CompleteLater(cmd *cobra.Command, flag string, values func(args []string) []string) {
	_, isList := cmd.Flags().Lookup(flag).Value.(pflag.SliceValue)
	complete(cmd, flag, func(_ *cobra.Command, args []string, begun string) (found []string, _ cobra.ShellCompDirective) {
		var given []string
		if isList {
			given = strings.Split(begun, ",")
			given, begun = given[:len(given)-1], given[len(given)-1]
		}
		for _, value := range values(args) {
			name, _, _ := strings.Cut(value, "\t")
			if strings.HasPrefix(name, begun) && !slices.Contains(given, name) {
				found = append(found, strings.Join(append(slices.Clone(given), value), ","))
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	})
}

func complete(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic("completing --" + flag + ": " + err.Error()) // there is no such flag
	}
}

// OldName keeps the name that a flag had before as a hidden flag, which works in a settings file, too.
func OldName(cmd *cobra.Command, old, name string) {
	f := cmd.Flags()
	f.String(old, "", "old name of --"+name)
	flag := f.Lookup(old)
	flag.Hidden, flag.Annotations = true, map[string][]string{settings.OldName: {name}}
	if by, ok := cmd.GetFlagCompletionFunc(name); ok {
		complete(cmd, old, by)
	}
}

// IsOldName reports whether a flag is the old name of another.
func IsOldName(flag *pflag.Flag) bool { return flag.Annotations[settings.OldName] != nil }

// TakeOldNames sets the flags that were given by an old name. It rejects a flag that was given by both names.
func TakeOldNames(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(old *pflag.Flag) {
		if !IsOldName(old) || err != nil {
			return
		}
		name := old.Annotations[settings.OldName][0]
		if flags.Changed(name) {
			err = exit.Usagef("leave --"+old.Name+" out", "--%s is the old name of --%s, and both are given", old.Name, name)
			return
		}
		err = flags.Set(name, old.Value.String())
	})
	return err
}

// Given returns a function that sets the flags again that are set now, to the values that they have now.
func Given(flags *pflag.FlagSet) func() error {
	given := map[*pflag.Flag][]string{}
	flags.Visit(func(f *pflag.Flag) { given[f] = valuesOf(f) })
	return func() error {
		for f, values := range given {
			if err := setValues(f, values); err != nil {
				return fmt.Errorf("taking --%s beside the plan: %w", f.Name, err)
			}
		}
		return nil
	}
}
