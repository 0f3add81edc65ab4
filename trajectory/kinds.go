package trajectory

// This file ties each payload of events.go to its type, and each type to its place and its decoder.

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

// scope says which of task id, attempt and turn a type has.
type scope int

const (
	scopeRun scope = iota
	scopeTask
	scopeAttempt
	scopeTurn
)

// kind is what the reader must know of a type: its place and how its payload decodes.
type kind struct {
	scope  scope
	decode func([]byte) (Payload, error)
}

// kinds has the kind of each type that this version knows.
var kinds = map[Type]kind{
	TypeRunStarted:         {scopeRun, decode[RunStarted]},
	TypeRunResumed:         {scopeRun, decode[RunResumed]},
	TypeRunCompleted:       {scopeRun, decode[RunCompleted]},
	TypeTaskStarted:        {scopeAttempt, decode[TaskStarted]},
	TypeTurnStarted:        {scopeTurn, decode[TurnStarted]},
	TypeTurnCompleted:      {scopeTurn, decode[TurnCompleted]},
	TypeContextCompiled:    {scopeTurn, decode[ContextCompiled]},
	TypeContextCondensed:   {scopeTurn, decode[ContextCondensed]},
	TypeModelCallStarted:   {scopeTurn, decode[ModelCallStarted]},
	TypeModelCallCompleted: {scopeTurn, decode[ModelCallCompleted]},
	TypeToolProposed:       {scopeTurn, decode[ToolProposed]},
	TypePolicyDecision:     {scopeTurn, decode[PolicyDecision]},
	TypePolicyViolation:    {scopeTurn, decode[PolicyViolation]},
	TypeApprovalRequested:  {scopeTurn, decode[ApprovalRequested]},
	TypeApprovalResolved:   {scopeTurn, decode[ApprovalResolved]},
	TypeCheckpointSaved:    {scopeTurn, decode[CheckpointSaved]},
	TypeRollback:           {scopeTurn, decode[Rollback]},
	TypeToolExecuted:       {scopeTurn, decode[ToolExecuted]},
	TypeSecurityEvent:      {scopeRun, decode[SecurityEvent]},
	TypeJudgeBattery:       {scopeRun, decode[JudgeBattery]},
	TypeLimitChanged:       {scopeRun, decode[LimitChanged]},
	TypePreflight:          {scopeRun, decode[Preflight]},
	TypeError:              {scopeAttempt, decode[Error]},
	TypeAnswerCommitted:    {scopeAttempt, decode[AnswerCommitted]},
	TypeAttemptEnded:       {scopeAttempt, decode[AttemptEnded]},
	TypeJudgment:           {scopeAttempt, decode[Judgment]},
	TypeTaskSealed:         {scopeTask, decode[TaskSealed]},
}
