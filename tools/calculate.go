package tools

import (
	"context"
	"strings"

	"github.com/gaia-harness/gaia/internal/calc"
	"github.com/gaia-harness/gaia/internal/secret"
	"github.com/gaia-harness/gaia/trajectory"
)

type calculateArgs struct {
	Expression string `json:"expression"`
}

// NewCalculate makes calculate, which works with exact fractions.
func NewCalculate() Tool {
	return Define(Definition[calculateArgs]{Name: "calculate",
		Description: "Calculates exactly: + - * / % ^ sqrt abs floor ceil round(x, decimals) min max sum mean.",
		Run: func(_ context.Context, _ *Env, a calculateArgs) (Output, error) {
			_, value, err := calc.Value(a.Expression)
			if err != nil {
				shown, _ := secret.Redact(a.Expression, trajectory.Redacted) // half of a credential is not known for one
				if end := RuneOffset(shown, 200); end < len(shown) {
					shown = shown[:end] + "…"
				}
				return Failed("cannot calculate %q: %v", shown, err), nil
			}
			text := strings.TrimSpace(a.Expression) + " = " + value
			return Output{Document: text, Shown: text}, nil
		}})
}
