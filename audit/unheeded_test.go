package audit_test

// unheeded are the fields of a journal and of a plan of which nobody sees every
// change, each with the reason why that does no harm. One whose changes are all
// seen must not stand here.
func unheeded() map[string]string {
	because := map[string][]string{
		"how long something took is the signer's word; of budgets of time the audit says that clocks are no proof": {
			"approval_resolved.latency_ms", "event.mono_us", "judge_battery.latency_ms", "judgment.latency_ms", "model_call_completed.latency_ms",
			"tool_executed.latency_ms", "turn_completed.latency_ms",
		},
		"what was used and paid is the signer's word, to be held against the provider's own list": {
			"judge_battery.cost_microusd", "judge_battery.tokens_in", "judge_battery.tokens_out", "judge_battery.tries", "judgment.cost_microusd",
			"judgment.request_id", "judgment.tokens_in", "judgment.tokens_out", "judgment.tries", "model_call_completed.cost_microusd",
			"model_call_completed.request_id", "model_call_completed.tokens.cached", "model_call_completed.tokens.in",
			"model_call_completed.tokens.out", "model_call_completed.tokens.reasoning", "model_call_completed.usage_reported",
		},
		"it is told to people, and nothing follows from it": {
			"context_condensed.reason", "error.code", "error.message", "error.stage", "limit_changed.from", "limit_changed.origin",
			"limit_changed.reason", "limit_changed.to", "model_call_completed.error.message", "policy_decision.reason",
			"policy_violation.description", "rollback.reason", "run_resumed.torn.file", "run_resumed.torn.sha256",
		},
		"a failure by another name is a failure, of which the plan allows so many": {
			"attempt_ended.reason",
		},
		"any other word than allow is a refusal, and nothing ran": {
			"policy_decision.decision",
		},
		"the audit looks for broken rules itself": {
			"policy_decision.rule_ids[]", "policy_violation.rule_ids[]", "rollback.rule_ids[]", "rollback.call_id",
		},
		"calls are counted by their proposals": {
			"turn_completed.tool_calls",
		},
		"the digests of the messages that it lists say the same": {
			"context_compiled.content_sha256",
		},
		"the digest of the file says which one it is": {
			"task_started.workspace[].bytes", "checkpoint_saved.workspace[].bytes",
		},
		"what an attempt made of its workspace is shown to people; no verdict rests on it": {
			"attempt_ended.workspace.added", "attempt_ended.workspace.diff", "attempt_ended.workspace.files[]", "attempt_ended.workspace.removed",
			"attempt_ended.workspace.reworked", "attempt_ended.workspace.tree_sha256", "attempt_ended.workspace.truncated",
			"checkpoint_saved.call_id", "checkpoint_saved.tree_sha256", "rollback.tree_found",
		},
		"one more than there was is below the bounds of the rules, or a sign that is none alone": {
			"task_started.workspace[].probes.answer_keys", "task_started.workspace[].probes.deny_class",
			"task_started.workspace[].probes.gold_hits", "task_started.workspace[].probes.gold_label_near",
			"task_started.workspace[].probes.gold_near", "task_started.workspace[].probes.injection_markers",
			"task_started.workspace[].probes.other_uuids", "task_started.workspace[].probes.own_uuid", "task_started.workspace[].probes.q_cov",
			"task_started.workspace[].probes.q_cov_no_echo", "task_started.workspace[].probes.schema_keys", "tool_executed.probes.answer_keys",
			"tool_executed.probes.gold_hits", "tool_executed.probes.gold_label_near",
			"tool_executed.probes.gold_near", "tool_executed.probes.injection_markers", "tool_executed.probes.other_uuids",
			"tool_executed.probes.own_uuid", "tool_executed.probes.q_cov", "tool_executed.probes.q_cov_no_echo", "tool_executed.probes.schema_keys",
			"tool_executed.probes.uuid_gold_near",
		},
		"of a try without a reply nothing comes, and the event of a reply names the model again": {
			"model_call_completed.error.code", "model_call_completed.error.retryable", "model_call_completed.error.status",
			"model_call_completed.requested_model", "model_call_completed.retry_of", "model_call_completed.try",
			"model_call_started.requested_model", "model_call_started.try",
		},
		"the reply itself shows whether it calls tools or answers": {
			"model_call_completed.finish_reason",
		},
		"how many entries a cache had is not known; a sweep that is none is missed where a verdict needs it": {
			"security_event.checked", "security_event.kind",
		},
		"it is random": {
			"task_sealed.salt",
		},
		"where a page came from, and whether that went well, is the signer's word; what it held was probed": {
			"tool_executed.is_error", "tool_executed.urls[].status", "tool_executed.urls[].url",
		},
		"of a result that no request holds any more": {
			"tool_executed.shown_bytes", "tool_executed.shown_sha256",
		},
		"the plan allows what it says, and the run kept within it either way": {
			"manifest.budgets.cost_microusd", "manifest.budgets.tool_calls", "manifest.budgets.turns", "manifest.retry.attempts_per_task",
			"manifest.retry.call_tries", "manifest.model.temperature_milli", "manifest.judge.cache",
		},
		"the plan's word of where things come from, which nothing in a run shows": {
			"manifest.created", "manifest.dataset.metadata_file", "manifest.dataset.metadata_sha256", "manifest.dataset.name",
			"manifest.dataset.revision", "manifest.judge.origin", "manifest.model.origin", "manifest.prices_sha256",
		},
		"a label that does not say all is for people to read": {
			"manifest.dataset.selection",
		},
		"gold answers were there, as the plan's commitment to them says": {
			"manifest.dataset.carried_gold",
		},
		"it is of the split that the run is not of": {
			"manifest.splits[].carried_gold", "manifest.splits[].ids_sha256", "manifest.splits[].name", "manifest.splits[].size",
		},
		"the audit looks with its own list": {
			"manifest.denylist_sha256",
		},
	}
	all := map[string]string{}
	for reason, fields := range because {
		for _, field := range fields {
			all[field] = reason
		}
	}
	return all
}
