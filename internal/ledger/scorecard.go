package ledger

// Scorecard says what it cost to be right. Money is in micro-USD. Fractions are
// 32-bit floats, one division each. Its JSON is that of the witness format's
// other writers: these members in this order.
type Scorecard struct {
	TotalTasks         int     `json:"total_tasks"`
	Solved             int     `json:"solved"`
	Failed             int     `json:"failed"`
	Skipped            int     `json:"skipped"` // never begun, or without a gold answer
	Errors             int     `json:"errors"`
	PolicyViolations   int     `json:"policy_violations"`
	RollbackCount      *int    `json:"rollback_count"`              // null: bundles do not tell
	TotalCostMicroUSD  *int64  `json:"total_cost_microdollars"`     // null: a price is unknown
	MedianLatencyMs    int64   `json:"median_latency_ms"`           // element ⌊50·n/100⌋ of the sorted
	P95LatencyMs       int64   `json:"p95_latency_ms"`              // element ⌊95·n/100⌋, at most the last
	TotalTokens        int64   `json:"total_tokens"`                // read and written
	TotalRetries       int     `json:"total_retries"`               // model calls that repeated another
	EvidenceCoverage   float32 `json:"evidence_coverage"`           // solved with complete evidence ÷ solved; 0 where none is
	CostPerSolveMicros *int64  `json:"cost_per_solve_microdollars"` // total ÷ solved, floored; 0 where none is; null: a price is unknown
	SolveRate          float32 `json:"solve_rate"`                  // solved ÷ total; 0 of nothing
}
