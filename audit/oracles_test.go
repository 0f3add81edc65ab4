package audit

import "testing"

// TestVerdictOf: which results are a verdict on what the call was given.
func TestVerdictOf(t *testing.T) {
	tests := map[string][]string{
		"right": {"correct", "Correct!", "Your answer is correct.", `{"correct": true}`, `{"is_correct":true,"attempts":2}`, "✓", "Yes, that's correct", "That is right!", "Richtig", "верно", `{"result":"accepted"}`, "Verdict: correct", `{"match": true}`, "exactly"},
		"wrong": {"incorrect", "Wrong, try again.", "Not quite.", `{"correct":false}`, "❌ not it", "That is not the answer", "The answer is incorrect: look further north.", "falsch", "неверно", "too low", "That's not correct", "No match.", `{"verdict":"incorrect"}`},
		"weak":  {"true", "False", "yes", "no", "1", "0", `{"score": 1.0}`, `{"score":0}`, `{"valid": true}`},
		"none": {"", "Brellin", "42", "On the right bank of the river stands the mill.", "Three makers are known.", "legal move", "1 match found in notes.txt: the clock of Tolm", "e4 is legal", "Odile Varn lived in Brellin.", "The correct form is accommodate.",
			"12 rows", "error: no such file", `{"result": 7.5}`, "The right whale is a species of baleen whale that was hunted from the coast of Tolm until about the year 1852, when the last of the boats was sold."},
	}
	for want, texts := range tests {
		for _, text := range texts {
			v := verdictOf(text)
			got := "none"
			switch {
			case v.Weak:
				got = "weak"
			case v.Right:
				got = "right"
			case v.Wrong:
				got = "wrong"
			}
			if got != want || v.Right && v.Wrong {
				t.Errorf("%q: %s, want %s", text, got, want)
			}
		}
	}
}

// TestVerdictGives: an argument that holds the answer is told from one that is a
// text in which it stands.
func TestVerdictGives(t *testing.T) {
	for args, want := range map[string]bool{
		"Brellin": true, "the town of Brellin": true, "Tolm": false, "Brellingen": false, "": false,
		"http://check.example/?answer=Brellin&task=3": true, `{"answer":"Brellin"}`: true,
		"one two three four five six seven eight nine ten eleven twelve thirteen fourteen Brellin": false,
	} {
		if got := (verdict{Given: candidates(args)}).gives("Brellin"); got != want {
			t.Errorf("%q: %v", args, got)
		}
	}
}

func TestLettersApart(t *testing.T) {
	for pair, want := range map[[2]string]int{{"accomodate", "accommodate"}: 1, {"brellin", "tolm"}: 7, {"", ""}: 0, {"a", ""}: 1, {"separate", "seperate"}: 1} {
		if got := lettersApart(pair[0], pair[1]); got != want {
			t.Errorf("%v: %d, want %d", pair, got, want)
		}
	}
}
