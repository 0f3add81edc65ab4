package audit

import "testing"

// TestOtherNumber: which answers give another number than the expected one, or
// several. The honest ones are what a judge may credit and the scorer does not.
func TestOtherNumber(t *testing.T) {
	tests := []struct {
		answer, gold, question string
		want                   bool
	}{
		{"13, as every source agrees", "12", "", true},
		{"The count is 40; the ledger shows it beyond doubt.", "41", "", true},
		{"It has thirteen arches", "12", "", true},
		{"$1,300", "1200", "", true},
		{"12 or 13", "12", "", true},
		{"between 10 and 15, probably 12", "12", "", true},
		{"10, 11, 12 or 13", "12", "", true},
		{"12, 13", "12", "", true},
		{"10-14", "12", "", true},
		{"12 of 13, or 14 of 13", "12", "", false},
		{"12 or maybe 13 arches", "12", "", true},
		{"12 arches or 13 arches", "12", "", true},
		{"twelve or thirteen", "12", "", true},
		{"either 1,200 or 1,300 tons", "1200", "", true},
		{"15", "1500", "", true},
		{"0.5", "7.25", "", true},
		{"10", "12", "Is it 10 or 12?", true},
		{"3.2 million", "2300000", "", true},
		{"In 1987 there were 14.", "12", "How many were there in 1987?", true},

		{"12 arches", "12", "", false},
		{"twelve", "12", "", false},
		{"Twenty-one", "21", "", false},
		{"about 12 (rounded)", "12", "", false},
		{"12.3", "12", "", false},
		{"3.14159", "3.14", "", false},
		{"3.14", "3.14159", "", false},
		{"1.5 km", "1500", "", false},
		{"1500 m (1.5 km)", "1500", "", false},
		{"2 hours", "120", "", false},
		{"1,500 metres", "1500", "", false},
		{"1 500 metres", "1500", "", false},
		{"1.500 Meter", "1500", "", false},
		{"1'500", "1500", "", false},
		{"12,5 %", "12.5", "", false},
		{"1.5 million", "1500000", "", false},
		{"1.5e6", "1500000", "", false},
		{"1.5 × 10^6 stars", "1500000", "", false},
		{"four hundred and thirty-one", "431", "", false},
		{"Four hundred thirty one ferries", "431", "", false},
		{"two thousand five hundred", "2500", "", false},
		{"a hundred", "100", "", false},
		{"one million two hundred thousand", "1200000", "", false},
		{"nineteen and twenty", "19", "", true},
		{"four hundred and thirty-two", "431", "", true},
		{"a dozen", "12", "", false},
		{"two dozen", "24", "", false},
		{"50 percent", "0.5", "", false},
		{"1/2", "0.5", "", false},
		{"minus 5 degrees", "-5", "", false},
		{"March 4, 1987", "1987", "", false},
		{"1987-03-04", "4", "", false},
		{"2:30", "150", "", false},
		{"12 (5 in May and 7 in June)", "12", "", false},
		{"5 + 7 = 12", "12", "", false},
		{"12 of the 20 plates", "12", "", false},
		{"In 1987 there were 12.", "12", "How many were there in 1987?", false},
		{"12 feet and 3 inches", "12", "", false},
		{"12 ± 2", "12", "", false},
		{"douze", "12", "", false},
		{"Tolm 13", "Tolm", "", false},
		{"13 or 14", "12-14", "", false},
		{"10, 11", "12, 13", "", false},
		{"12th", "12", "", false},
		{"5 miles", "8.05", "", false},
		{"$12", "12", "", false},
		{".5 of it", "0.5", "", false},
		{"", "12", "", false},
	}
	for _, tt := range tests {
		if why, got := otherNumber(tt.answer, tt.gold, tt.question); got != tt.want {
			t.Errorf("%q for %q: %v %s; %+v", tt.answer, tt.gold, got, why, saidNumbers(tt.answer))
		}
	}
}

// FuzzOtherNumber: no answer is too odd to be read, and no answer that is the
// expected number gives another one.
func FuzzOtherNumber(f *testing.F) {
	f.Add("12 or 13", "12", "Is it 10 or 12?")
	f.Add("1.5×10^6", "1500000", "")
	f.Fuzz(func(t *testing.T, answer, gold, question string) {
		otherNumber(answer, gold, question)
	})
}
