package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestValues: each form of text is read, printed again, and rejected where it has another form.
func TestValues(t *testing.T) {
	var micro, ms int64
	var mode string
	type named struct{ Name string }
	var model *named
	dollars, task := Dollars(&micro, -1), Duration(&ms, time.Second, time.Hour)
	for _, c := range []struct {
		flag       Value
		text, want string // want "" is an error
	}{
		{dollars, "0.25", "0.250000"}, {dollars, "12", "12.000000"}, {dollars, "off", "off"}, {dollars, "0", ""}, {dollars, "NaN", ""}, {dollars, "1e6", ""},
		{Dollars(new(int64), 0), "off", ""},
		{task, "90s", "1m30s"}, {task, "5ms", ""}, {task, "61m", ""}, {task, "10", ""},
		{Choice(&mode, "a|b"), "a", "a"},
		{Model(&model, func(n *named) *string { return &n.Name }), "gpt", "gpt"},
	} {
		err := c.flag.Set(c.text)
		if (err == nil) != (c.want != "") || err == nil && c.flag.String() != c.want {
			t.Errorf("%q is %q, %v, want %q", c.text, c.flag, err, c.want)
		}
	}
	if (Value{}).String() != "" {
		t.Error("the zero value is not empty")
	}
}

// TestParseTime: dates are the first second of their day in UTC, and years have four digits.
func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{"": "0001-01-01T00:00:00Z", "2027-01-31": "2027-01-31T00:00:00Z",
		"2027-01-31T12:00:00+02:00": "2027-01-31T10:00:00Z", "20270131Z": "2027-01-31T00:00:00Z",
		"tomorrow": "", "1969-12-31": "", "2027-01-31T12:00:00.5Z": "", "9999-12-31T23:30:00-01:00": ""} {
		at, err := ParseTime("until", text)
		if (err == nil) != (want != "") || err == nil && at.Format(time.RFC3339) != want {
			t.Errorf("%q is %s, %v, want %q", text, at, err, want)
		}
	}
}

// TestArguments: what a command does not take is rejected, and near names are proposed.
func TestArguments(t *testing.T) {
	root := &cobra.Command{Use: "gaia"}
	keys := &cobra.Command{Use: "key"}
	keys.AddCommand(&cobra.Command{Use: "trust", Run: func(*cobra.Command, []string) {}})
	keys.Flags().String("until", "", "")
	root.AddCommand(keys)
	if err := keys.Flags().Set("until", ""); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"key takes no argument, not \"x\"": NoArgs(keys, []string{"x"}),
		"key takes one argument, the file": OneArg("the file")(keys, nil),
		"key has no command \"trsut\"":     KnownCommand(keys, []string{"trsut"}),
		"--until is empty":                 NotEmpty(keys, "until"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if hint := NearCommand(keys, "trsut"); hint != "did you mean 'gaia key trust'?" {
		t.Errorf("the hint is %q", hint)
	}
	if err := NoArgs(keys, nil); err != nil {
		t.Error(err)
	}
}
