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
	of    Type
	scope scope
	scan  func(*canonical.Scanner) Payload
}

// kinds has the kind of each type that this version knows.
var kinds = map[Type]kind{
	TypeRunStarted:         {TypeRunStarted, scopeRun, scan[RunStarted]()},
	TypeRunResumed:         {TypeRunResumed, scopeRun, scan[RunResumed]()},
	TypeRunCompleted:       {TypeRunCompleted, scopeRun, scan[RunCompleted]()},
	TypeTaskStarted:        {TypeTaskStarted, scopeAttempt, scan[TaskStarted]()},
	TypeTurnStarted:        {TypeTurnStarted, scopeTurn, scan[TurnStarted]()},
	TypeTurnCompleted:      {TypeTurnCompleted, scopeTurn, scan[TurnCompleted]()},
	TypeContextCompiled:    {TypeContextCompiled, scopeTurn, scan[ContextCompiled]()},
	TypeContextCondensed:   {TypeContextCondensed, scopeTurn, scan[ContextCondensed]()},
	TypeModelCallStarted:   {TypeModelCallStarted, scopeTurn, scan[ModelCallStarted]()},
	TypeModelCallCompleted: {TypeModelCallCompleted, scopeTurn, scan[ModelCallCompleted]()},
	TypeToolProposed:       {TypeToolProposed, scopeTurn, scan[ToolProposed]()},
	TypePolicyDecision:     {TypePolicyDecision, scopeTurn, scan[PolicyDecision]()},
	TypePolicyViolation:    {TypePolicyViolation, scopeTurn, scan[PolicyViolation]()},
	TypeApprovalRequested:  {TypeApprovalRequested, scopeTurn, scan[ApprovalRequested]()},
	TypeApprovalResolved:   {TypeApprovalResolved, scopeTurn, scan[ApprovalResolved]()},
	TypeCheckpointSaved:    {TypeCheckpointSaved, scopeTurn, scan[CheckpointSaved]()},
	TypeRollback:           {TypeRollback, scopeTurn, scan[Rollback]()},
	TypeToolExecuted:       {TypeToolExecuted, scopeTurn, scan[ToolExecuted]()},
	TypeSecurityEvent:      {TypeSecurityEvent, scopeRun, scan[SecurityEvent]()},
	TypeJudgeBattery:       {TypeJudgeBattery, scopeRun, scan[JudgeBattery]()},
	TypeLimitChanged:       {TypeLimitChanged, scopeRun, scan[LimitChanged]()},
	TypePreflight:          {TypePreflight, scopeRun, scan[Preflight]()},
	TypeRequestRefused:     {TypeRequestRefused, scopeAttempt, scan[RequestRefused]()},
	TypeExchangeStarted:    {TypeExchangeStarted, scopeAttempt, scan[ExchangeStarted]()},
	TypeExchangeCompleted:  {TypeExchangeCompleted, scopeAttempt, scan[ExchangeCompleted]()},
	TypeError:              {TypeError, scopeAttempt, scan[Error]()},
	TypeAnswerCommitted:    {TypeAnswerCommitted, scopeAttempt, scan[AnswerCommitted]()},
	TypeAttemptEnded:       {TypeAttemptEnded, scopeAttempt, scan[AttemptEnded]()},
	TypeJudgment:           {TypeJudgment, scopeAttempt, scan[Judgment]()},
	TypeTaskCommitted:      {TypeTaskCommitted, scopeTask, scan[TaskCommitted]()},
	TypeTaskSealed:         {TypeTaskSealed, scopeTask, scan[TaskSealed]()},
	TypeShardMerged:        {TypeShardMerged, scopeRun, scan[ShardMerged]()},
}
