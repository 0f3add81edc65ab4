package audit

import "testing"

func TestMiscalculated(t *testing.T) {
	tests := []struct {
		expression, shown string
		want              bool
	}{
		{"344+87", "344+87 = 431", false},
		{"344+87", "431", false},
		{"344+87", "344+87 = 432", true},
		{"344+87", "27", true},
		{"2+2 = 4", "4", false}, // which has no value
		{"1/3", "1/3 = 0.33333333333333333333 (rounded to 20 significant digits; exactly 1/3)", false},
		{"1/3", "0.33", false},
		{"1/3", "0.34", false}, // rounded up
		{"1/3", "0.35", true},
		{"37/3", "12", false},
		{"37/3", "12.3", false},
		{"37/3", "14", true},
		{"1000*1234", "1,234,000", false},
		{"1000*1234", "1234001", true},
		{"2^100", "1.2676506002282294015e30", false},
		{"2^100", "1.27e30", false},
		{"2^100", "1.37e30", true},
		{"2e-400^1", "2e-400", false},
		{"sqrt(2e-400)", "1.4142135623730950488e-200 (rounded to 20 significant digits)", false},
		{"0-5", "-5", false},
		{"0-5", "−5", false},
		{"0-5", "5", true},
		{"lamps of Tolm", "27", true},
		{"lamps of Tolm", "unknown", false},
		{"5!", "120", false},
		{"", "", false},
	}
	for _, tt := range tests {
		if got := miscalculated(tt.expression, tt.shown); got != tt.want {
			t.Errorf("%q gave %q: %v", tt.expression, tt.shown, got)
		}
	}
}
