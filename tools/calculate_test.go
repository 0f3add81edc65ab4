package tools

import (
	"strings"
	"testing"
)

func TestCalculate(t *testing.T) {
	tests := []struct{ expression, want string }{
		{"1+1", "2"},
		{"0.1 + 0.2", "0.3"},
		{"(1234.5 - 17) * 3 / 7", "521.78571428571428571 (rounded to 20 significant digits; exactly 7305/14)"},
		{"1/3", "0.33333333333333333333 (rounded to 20 significant digits; exactly 1/3)"},
		{"1/3*3", "1"},
		{"10/4", "2.5"},
		{"-2^2", "-4"},
		{"(-2)^2", "4"},
		{"2^3^2", "512"},
		{"2^-2", "0.25"},
		{"2**10", "1024"},
		{"7 % 3", "1"},
		{"-7 % 3", "2"},
		{"7 % -3", "-2"},
		{"7.5 % 2", "1.5"},
		{"--3 + +4", "7"},
		{"2 - -3", "5"},
		{"6 ÷ 2 × 5 − 1", "14"},
		{"1e3 + 1.5E-3", "1000.0015"},
		{".5 + 5.", "5.5"},
		{"2^100", "1267650600228229401496703205376"},
		{"1.05^10", "1.62889462677744140625"},
		{"0^0", "1"},
		{"0^5", "0"},
		{"(-1)^99999999", "-1"},
		{"1^123456789012", "1"},
		{"sqrt(16)", "4"},
		{"sqrt(2.25)", "1.5"},
		{"sqrt(2)", "1.4142135623730950488 (rounded to 20 significant digits)"},
		{"sqrt(2)^2", "2 (rounded to 20 significant digits)"},
		{"sqrt(1e-40)", "0." + strings.Repeat("0", 19) + "1"},
		{"sqrt(2e-400)", "1.4142135623730950488e-200 (rounded to 20 significant digits)"},
		{"27^(1/3)", "3"},
		{"2^(1/12)", "1.0594630943592952646 (rounded to 20 significant digits)"},
		{"8^(-2/3)", "0.25"},
		{"abs(-3.5)", "3.5"},
		{"round(2.5)", "3"},
		{"round(-2.5)", "-3"},
		{"round(2.345, 2)", "2.35"},
		{"round(1234, -2)", "1200"},
		{"round(sqrt(2), 3)", "1.414 (from rounded values)"},
		{"floor(-1.5)", "-2"},
		{"ceil(-1.5)", "-1"},
		{"ceil(1.2)", "2"},
		{"min(3, 1/3, 2)", "0.33333333333333333333 (rounded to 20 significant digits; exactly 1/3)"},
		{"MAX(3,1,2)", "3"},
		{"sum(1,2,3.5)", "6.5"},
		{"mean(1,2,3,4)", "2.5"},
		{"round(mean(1,2,2)*100, 1)", "166.7"},
		{"100 * (1 + 0.05 / 12) ^ 24", "110.49413355583272747 (rounded to 20 significant digits)"},
	}
	env := workspace(t, nil)
	for _, test := range tests {
		out := use(t, NewCalculate(), env, object{"expression": test.expression})
		if want := test.expression + " = " + test.want; out.Shown != want || out.Document != want || out.IsError {
			t.Errorf("%q, want %q", out.Shown, want)
		}
	}
}

func TestCalculateRefuses(t *testing.T) {
	tests := []struct{ expression, want string }{
		{"", "it breaks off at the end"},
		{"   ", "it breaks off at the end"},
		{"1 +", "it breaks off at the end"},
		{"(1 + 2", "it breaks off at the end"},
		{"1 2", "unexpected '2' at character 3"},
		{"1 + é", "unexpected 'é' at character 5"},
		{"1)", "unexpected ')' at character 2"},
		{"1,234 + 1", "write numbers without thousands separators"},
		{"$5", "unexpected '$' at character 1"},
		{"1.2.3", "unexpected '.' at character 4"},
		{".", "unexpected '.' at character 1"},
		{"1e", "unexpected 'e' at character 2"},
		{"0x10", "unexpected 'x' at character 2"},
		{"sum()", "unexpected ')' at character 5"},
		{"sqrt 4", "sqrt needs its arguments in parentheses"},
		{"sqrt(4, 2)", "sqrt takes 1 argument(s), not 2"},
		{"round(1,2,3)", "round takes 2 argument(s), not 3"},
		{"round(1, 0.5)", "round needs a whole number of decimals"},
		{"round(1, 1e9)", "round needs a whole number of decimals"},
		{"exec(1)", `there is no "exec": it knows sqrt`},
		{"pi", `there is no "pi"`},
		{"1/0", "division by zero"},
		{"1 % 0", "division by zero"},
		{"0^-1", "division by zero"},
		{"sqrt(-1)", "the root of a negative number"},
		{"(-8)^(1/3)", "the root of a negative number"},
		{"2^sqrt(2)", "the exponent must be a whole number"},
		{"2^(1/1000)", "the exponent must be a whole number"},
		{"9^9^9", "the result is too large"},
		{"9^9^9^9^9^9", "the result is too large"},
		{"1e999999999", "the result is too large"},
		{"1e-999999999999999999999", "the result is too large"},
		{"(1/3)^99999", "the result is too large"},
		{"2^(10^30)", "the exponent must be a whole number"},
		{strings.Repeat("9^99*", 500) + "1", "the result is too large"},
		{strings.Repeat("(", 3000), "it is nested more than"},
		{strings.Repeat("-", 3000) + "1", "it is nested more than"},
		{strings.Repeat("2^", 1500) + "1", "it is nested more than"},
		{strings.Repeat("1+", 3000) + "1", "it is longer than 4000 bytes"},
		{"1 + __import__('os')", "unexpected '_' at character 5"},
	}
	env := workspace(t, nil)
	for _, test := range tests {
		out := use(t, NewCalculate(), env, object{"expression": test.expression})
		if !out.IsError || len(out.Shown) > 1000 {
			t.Errorf("%.40q: error %v, %d bytes shown", test.expression, out.IsError, len(out.Shown))
		}
		mustHold(t, test.expression, out.Shown, test.want)
	}
}
