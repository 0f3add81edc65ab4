package trajectory

import (
	"maps"
	"slices"

	"github.com/gaia-harness/gaia/internal/canonical"
)

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
func (RequestRefused) Type() Type     { return TypeRequestRefused }
func (ExchangeStarted) Type() Type    { return TypeExchangeStarted }
func (ExchangeCompleted) Type() Type  { return TypeExchangeCompleted }
func (Error) Type() Type              { return TypeError }
func (AnswerCommitted) Type() Type    { return TypeAnswerCommitted }
func (AttemptEnded) Type() Type       { return TypeAttemptEnded }
func (Judgment) Type() Type           { return TypeJudgment }
func (TaskCommitted) Type() Type      { return TypeTaskCommitted }
func (TaskSealed) Type() Type         { return TypeTaskSealed }
func (ShardMerged) Type() Type        { return TypeShardMerged }

// Types returns every type of event, sorted.
func Types() []Type { return slices.Sorted(maps.Keys(kinds)) }

// scope says which of task id, attempt and turn a type has.
type scope int

const (
	scopeRun scope = iota
	scopeTask
	scopeAttempt
	scopeTurn
)

// kind is what the reader must know of a type: its place and how its payload is read.
type kind struct {
	scope scope
	scan  func(*canonical.Scanner) Payload
}

// kinds has the kind of each type that this version knows.
var kinds = map[Type]kind{
	TypeRunStarted:         {scopeRun, scan[RunStarted]()},
	TypeRunResumed:         {scopeRun, scan[RunResumed]()},
	TypeRunCompleted:       {scopeRun, scan[RunCompleted]()},
	TypeTaskStarted:        {scopeAttempt, scan[TaskStarted]()},
	TypeTurnStarted:        {scopeTurn, scan[TurnStarted]()},
	TypeTurnCompleted:      {scopeTurn, scan[TurnCompleted]()},
	TypeContextCompiled:    {scopeTurn, scan[ContextCompiled]()},
	TypeContextCondensed:   {scopeTurn, scan[ContextCondensed]()},
	TypeModelCallStarted:   {scopeTurn, scan[ModelCallStarted]()},
	TypeModelCallCompleted: {scopeTurn, scan[ModelCallCompleted]()},
	TypeToolProposed:       {scopeTurn, scan[ToolProposed]()},
	TypePolicyDecision:     {scopeTurn, scan[PolicyDecision]()},
	TypePolicyViolation:    {scopeTurn, scan[PolicyViolation]()},
	TypeApprovalRequested:  {scopeTurn, scan[ApprovalRequested]()},
	TypeApprovalResolved:   {scopeTurn, scan[ApprovalResolved]()},
	TypeCheckpointSaved:    {scopeTurn, scan[CheckpointSaved]()},
	TypeRollback:           {scopeTurn, scan[Rollback]()},
	TypeToolExecuted:       {scopeTurn, scan[ToolExecuted]()},
	TypeSecurityEvent:      {scopeRun, scan[SecurityEvent]()},
	TypeJudgeBattery:       {scopeRun, scan[JudgeBattery]()},
	TypeLimitChanged:       {scopeRun, scan[LimitChanged]()},
	TypePreflight:          {scopeRun, scan[Preflight]()},
	TypeRequestRefused:     {scopeAttempt, scan[RequestRefused]()},
	TypeExchangeStarted:    {scopeAttempt, scan[ExchangeStarted]()},
	TypeExchangeCompleted:  {scopeAttempt, scan[ExchangeCompleted]()},
	TypeError:              {scopeAttempt, scan[Error]()},
	TypeAnswerCommitted:    {scopeAttempt, scan[AnswerCommitted]()},
	TypeAttemptEnded:       {scopeAttempt, scan[AttemptEnded]()},
	TypeJudgment:           {scopeAttempt, scan[Judgment]()},
	TypeTaskCommitted:      {scopeTask, scan[TaskCommitted]()},
	TypeTaskSealed:         {scopeTask, scan[TaskSealed]()},
	TypeShardMerged:        {scopeRun, scan[ShardMerged]()},
}
