package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/spf13/pflag"
)

// runFlags returns the flags of run, as the program makes them.
func runFlags(t testing.TB) *pflag.FlagSet {
	t.Helper()
	cmd := (&app{}).runCommand()
	cmd.InitDefaultHelpFlag()
	return cmd.Flags()
}

// nothing is stronger than the file.
func nothing(string) bool { return false }

// TestSettingsOfEveryKind: each flag of run but those of one call can be set,
// and is as if it had been given.
func TestSettingsOfEveryKind(t *testing.T) {
	values := map[string][2]string{ // what is written, and what the flag then holds
		"int": {"3", "3"}, "int64": {"4", "4"}, "bool": {"true", "true"}, "duration": {"15m", "15m0s"}, "string": {"x", "x"},
		"intSlice": {"[1, 2]", "[1,2]"}, "stringSlice": {`[a, "b,c"]`, `[a,"b,c"]`}, "stringArray": {`[a, "b,c"]`, `[a,"b,c"]`},
		"dollars": {"0.5", "0.500000"}, "auto|number": {"8", "8"}, "chat|responses": {"chat", "chat"}, "tavily|brave|serper|searxng|none": {"none", "none"}, "auto|on|off": {`"on"`, "on"},
	}
	var file strings.Builder
	want := map[string]string{}
	runFlags(t).VisitAll(func(f *pflag.Flag) {
		if slices.Contains(settings.NotFlags(), f.Name) || cli.IsOldName(f) {
			return
		}
		v, known := values[f.Value.Type()]
		if !known {
			t.Errorf("--%s is %s, of which this test knows no value", f.Name, f.Value.Type())
		}
		file.WriteString(f.Name + ": " + v[0] + " # as the flag\r\n")
		want[f.Name] = v[1]
	})
	f, err := settings.Parse("s.yaml", []byte("\ufeff---\r\n"+file.String()))
	if err != nil {
		t.Fatal(err)
	}
	flags := runFlags(t)
	if err := f.Apply(flags, nothing); err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if flag := flags.Lookup(name); flag.Value.String() != value || !flag.Changed {
			t.Errorf("--%s is %q, want %q; given: %t", name, flag.Value, value, flag.Changed)
		}
	}
	kept := runFlags(t)
	if err := f.Apply(kept, func(name string) bool { return name == "limit" }); err != nil {
		t.Fatal(err)
	}
	if kept.Changed("limit") || !kept.Changed("model") {
		t.Error("what something stronger decides was taken from the file, or the rest was not")
	}
}

// TestSettingsPoint: an error of a flag that was set from the file has its place there.
func TestSettingsPoint(t *testing.T) {
	f, err := settings.Parse("s.yaml", []byte("base-url: https://me:hidden@api.example/v1\n"+"limit: 3 # "+strings.Repeat("long ", 50)+"end"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Apply(runFlags(t), nothing); err != nil {
		t.Fatal(err)
	}
	var got *failure
	if !errors.As(f.Point(usage("h", "--base-url is wrong, and --base-url is shown")), &got) || got.Error() != "s.yaml:1:11: base-url is wrong, and base-url is shown" ||
		!slices.Equal(got.Hints, []string{"h"}) {
		t.Errorf("got %+v", got)
	}
	if err := usage("", "--rpm is 3"); f.Point(err) != err || (*settings.File)(nil).Point(err) != err {
		t.Error("an error of another flag got a place")
	}
	if err := errors.New("--limit broke"); f.Point(err) != err {
		t.Error("an error that is not of usage got a place")
	}
}

// TestFlagsAreDocumented: docs/running.md names every flag of run, and no other but those of other
// commands and programs.
func TestFlagsAreDocumented(t *testing.T) {
	doc := readFile(t, "docs/running.md")
	flags := runFlags(t)
	named := map[string]bool{}
	others := []string{"evaluators", "follow", "scope", "shards", "user"}
	for _, m := range regexp.MustCompile("--([a-z][a-z_-]*)").FindAllStringSubmatch(doc, -1) {
		named[m[1]] = true
		if flags.Lookup(m[1]) == nil && !slices.Contains(others, m[1]) {
			t.Errorf("docs/running.md names --%s, which run does not have", m[1])
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !named[f.Name] && !f.Hidden {
			t.Errorf("docs/running.md does not name --%s", f.Name)
		}
	})
	_, example, _ := strings.Cut(doc, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	file, err := settings.Parse("gaia.yaml", []byte(example))
	if err != nil || strings.Count(example, "\n") < 5 {
		t.Fatalf("the example: %v, %v", file, err)
	}
	if err := file.Apply(flags, nothing); err != nil {
		t.Errorf("the example: %v", err)
	}
}
