package trajectory

// This file ties each payload of events.go to its type, and each type to where it may stand and to what decodes it.

// Type implements Payload.
func (RunStarted) Type() Type         { return TypeRunStarted }
func (RunResumed) Type() Type         { return TypeRunResumed }
func (RunCompleted) Type() Type       { return TypeRunCompleted }
func (TaskStarted) Type() Type        { return TypeTaskStarted }
func (TurnStarted) Type() Type        { return TypeTurnStarted }
func (TurnCompleted) Type() Type      { return TypeTurnCompleted }
func (ContextCompiled) Type() Type    { return TypeContextCompiled }
func (ModelCallStarted) Type() Type   { return TypeModelCallStarted }
func (ModelCallCompleted) Type() Type { return TypeModelCallCompleted }
func (ToolProposed) Type() Type       { return TypeToolProposed }
func (PolicyDecision) Type() Type     { return TypePolicyDecision }
func (PolicyViolation) Type() Type    { return TypePolicyViolation }
func (ApprovalRequested) Type() Type  { return TypeApprovalRequested }
func (ApprovalResolved) Type() Type   { return TypeApprovalResolved }
func (CheckpointSaved) Type() Type    { return TypeCheckpointSaved }
func (Rollback) Type() Type           { return TypeRollback }
func (ToolExecuted) Type() Type       { return TypeToolExecuted }
func (SecurityEvent) Type() Type      { return TypeSecurityEvent }
func (JudgeBattery) Type() Type       { return TypeJudgeBattery }
func (ContextCondensed) Type() Type   { return TypeContextCondensed }
func (LimitChanged) Type() Type       { return TypeLimitChanged }
func (Preflight) Type() Type          { return TypePreflight }
func (Error) Type() Type              { return TypeError }
func (AnswerCommitted) Type() Type    { return TypeAnswerCommitted }
func (AttemptEnded) Type() Type       { return TypeAttemptEnded }
func (Judgment) Type() Type           { return TypeJudgment }
func (TaskSealed) Type() Type         { return TypeTaskSealed }

// scope says which of task id, attempt and turn a type bears.
type scope int

const (
	scopeRun scope = iota
	scopeTask
	scopeAttempt
	scopeTurn
)

// kind is what the reader must know of a type: where it may stand and how its payload decodes.
type kind struct {
	scope  scope
	decode func([]byte) (Payload, error)
}

// kindOf returns the kind of a type; false for a type this version has not.
func kindOf(t Type) (kind, bool) {
	switch t {
	case TypeRunStarted:
		return kind{scopeRun, decode[RunStarted]}, true
	case TypeRunResumed:
		return kind{scopeRun, decode[RunResumed]}, true
	case TypeRunCompleted:
		return kind{scopeRun, decode[RunCompleted]}, true
	case TypeTaskStarted:
		return kind{scopeAttempt, decode[TaskStarted]}, true
	case TypeTurnStarted:
		return kind{scopeTurn, decode[TurnStarted]}, true
	case TypeTurnCompleted:
		return kind{scopeTurn, decode[TurnCompleted]}, true
	case TypeContextCompiled:
		return kind{scopeTurn, decode[ContextCompiled]}, true
	case TypeContextCondensed:
		return kind{scopeTurn, decode[ContextCondensed]}, true
	case TypeModelCallStarted:
		return kind{scopeTurn, decode[ModelCallStarted]}, true
	case TypeModelCallCompleted:
		return kind{scopeTurn, decode[ModelCallCompleted]}, true
	case TypeToolProposed:
		return kind{scopeTurn, decode[ToolProposed]}, true
	case TypePolicyDecision:
		return kind{scopeTurn, decode[PolicyDecision]}, true
	case TypePolicyViolation:
		return kind{scopeTurn, decode[PolicyViolation]}, true
	case TypeApprovalRequested:
		return kind{scopeTurn, decode[ApprovalRequested]}, true
	case TypeApprovalResolved:
		return kind{scopeTurn, decode[ApprovalResolved]}, true
	case TypeCheckpointSaved:
		return kind{scopeTurn, decode[CheckpointSaved]}, true
	case TypeRollback:
		return kind{scopeTurn, decode[Rollback]}, true
	case TypeToolExecuted:
		return kind{scopeTurn, decode[ToolExecuted]}, true
	case TypeSecurityEvent:
		return kind{scopeRun, decode[SecurityEvent]}, true
	case TypeJudgeBattery:
		return kind{scopeRun, decode[JudgeBattery]}, true
	case TypeLimitChanged:
		return kind{scopeRun, decode[LimitChanged]}, true
	case TypePreflight:
		return kind{scopeRun, decode[Preflight]}, true
	case TypeError:
		return kind{scopeAttempt, decode[Error]}, true
	case TypeAnswerCommitted:
		return kind{scopeAttempt, decode[AnswerCommitted]}, true
	case TypeAttemptEnded:
		return kind{scopeAttempt, decode[AttemptEnded]}, true
	case TypeJudgment:
		return kind{scopeAttempt, decode[Judgment]}, true
	case TypeTaskSealed:
		return kind{scopeTask, decode[TaskSealed]}, true
	}
	return kind{}, false
}
