package probe

import (
	"slices"
	"testing"
)

func TestQuotedParts(t *testing.T) {
	tests := []struct {
		question string
		want     []string
	}{
		{`Who said "the hour is a door" first?`, []string{"the hour is a door"}},
		{`Who said “the hour” and 'a door opens' first?`, []string{"the hour", "a door opens"}},
		{`Wer sagte „die Stunde ist eine Tür“, und wer »das Meer«?`, []string{"die stunde ist eine tur", "das meer"}},
		{`Qui a écrit « la mer » ?`, []string{" la mer "}},
		{`Whose boat was the harbour's, or the sailors' own?`, nil},
		{`A 5" pipe and a 6" pipe`, nil},
		{`An "opening mark alone`, nil},
		{`誰が「海は静か」と言いましたか`, []string{"海は静か"}},
	}
	for _, tt := range tests {
		text := canonicalText(tt.question).b
		var got []string
		for _, part := range quotedParts(text) {
			got = append(got, string(text[part.start:part.end]))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.question, got, tt.want)
		}
	}
}

func TestCalled(t *testing.T) {
	tests := []struct {
		before string
		want   bool
	}{
		{"Answer: ", true}, {"final answer is ", true}, {"answers\n17. ", true}, {"a: ", true}, {`"ground_truth": "`, true},
		{"réponse : ", true}, {"Réponse finale : ", true}, {"respuesta correcta: ", true}, {"Правильный ответ: ", true}, {"correct_answer\t", true}, {"the answer to question 4 is ", true}, {"solution = ", true},
		{"lösung: ", true}, {"no answer. ", false}, {"the answer ", false}, {"a ", false}, {"to answer the letter from ", false}, {"", false}, {"gold ", false},
		{"the answer is known. ", false},
	}
	for _, tt := range tests {
		text := canonicalText(tt.before).b
		if got := called(text, len(text)); got != tt.want {
			t.Errorf("%q: %t, want %t", tt.before, got, tt.want)
		}
	}
}
