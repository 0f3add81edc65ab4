package audit_test

import "strings"

// unheeded are the fields of a journal and of a plan of which no one sees every
// change: the changes that no one sees, each with the reason why that does no harm.
func unheeded() map[string]string {
	because := map[string]string{
		"how long something took is the signer's word; of budgets of time the audit says that clocks are no proof": `
			changed, made nothing: approval_resolved.latency_ms event.mono_us judge_battery.latency_ms judgment.latency_ms model_call_completed.latency_ms
			changed, made nothing: preflight.latency_ms tool_executed.latency_ms turn_completed.latency_ms
			`,
		"what was used and paid is the signer's word, to be held against the provider's own list": `
			added, changed: judgment.request_id model_call_completed.request_id
			added, changed: model_call_completed.cost_microusd
			changed: judge_battery.tries judgment.tries model_call_completed.tokens.cached model_call_completed.tokens.reasoning model_call_completed.usage_reported
			changed, made nothing: judge_battery.cost_microusd judge_battery.tokens_in judge_battery.tokens_out judgment.cost_microusd judgment.tokens_in judgment.tokens_out
			changed: model_call_completed.tokens.in
			changed, made nothing: model_call_completed.tokens.out
			changed: preflight.requests preflight.tokens.cached preflight.tokens.reasoning
			changed, made nothing: preflight.cost_microusd preflight.tokens.in preflight.tokens.out
			changed, left out, swapped: preflight.request_ids[]
			`,
		"no task follows from an answer to the preflight, and one that failed has the run stopped or leaves the model to fail again": `
			added: preflight.error
			`,
		"it is told to people, and nothing follows from it": `
			added, changed, left out: error.code policy_decision.reason
			changed: limit_changed.from limit_changed.to
			changed, made context_window, made nothing: context_condensed.reason
			changed, made nothing: error.message error.stage limit_changed.origin limit_changed.reason model_call_completed.error.message policy_violation.description
			changed, made nothing: rollback.reason run_resumed.torn.file run_resumed.torn.sha256
			`,
		"the audit looks for broken rules itself": `
			added: approval_requested.rule_ids
			changed, made nothing: policy_violation.rule_ids[]
			changed, made nothing: policy_decision.rule_ids[] rollback.call_id rollback.rule_ids[]
			left out: policy_decision.rule_ids rollback.rule_ids
			`,
		"calls are counted by their proposals": `
			changed, made nothing: turn_completed.tool_calls
			`,
		"the digest of the file says which one it is": `
			changed, made nothing: checkpoint_saved.workspace[].bytes
			`,
		"what an attempt made of its workspace is shown to people; no verdict rests on it": `
			changed: attempt_ended.workspace.removed attempt_ended.workspace.truncated
			changed, left out: checkpoint_saved.tree_sha256 rollback.tree_found
			changed, left out, made nothing: attempt_ended.workspace.files[]
			changed, made nothing: attempt_ended.workspace.added attempt_ended.workspace.diff attempt_ended.workspace.reworked attempt_ended.workspace.tree_sha256
			changed, made nothing: checkpoint_saved.call_id
			left out: attempt_ended.workspace
			added: attempt_ended.workspace.redactions
			`,
		"one more than there was is below the bounds of the rules, a sign that is none alone, or none in an attachment or in what a tool of the workspace gave; a whole head is probed by the audit besides": `
			added: task_started.workspace[].probes.answer_column task_started.workspace[].probes.changed_question task_started.workspace[].probes.gold_called task_started.workspace[].probes.keyed_answers task_started.workspace[].probes.listed_answers
			added: task_started.workspace[].probes.other_id_starts task_started.workspace[].probes.own_id_start task_started.workspace[].probes.q_edge task_started.workspace[].probes.q_gold_called
			added: tool_executed.probes.answer_column tool_executed.probes.changed_question tool_executed.probes.gold_called tool_executed.probes.keyed_answers tool_executed.probes.listed_answers tool_executed.probes.other_id_starts
			added: tool_executed.probes.own_id_start tool_executed.probes.q_edge tool_executed.probes.q_gold_called
			added: task_started.workspace[].probes.answer_keys task_started.workspace[].probes.deny_class task_started.workspace[].probes.gold_hits
			added: task_started.workspace[].probes.gold_label_near task_started.workspace[].probes.gold_near task_started.workspace[].probes.injection_markers
			added: task_started.workspace[].probes.other_uuids task_started.workspace[].probes.own_uuid task_started.workspace[].probes.q_cov
			added: task_started.workspace[].probes.q_cov_no_echo task_started.workspace[].probes.schema_keys tool_executed.probes.answer_keys tool_executed.probes.gold_hits
			added: tool_executed.probes.gold_label_near tool_executed.probes.gold_near tool_executed.probes.injection_markers tool_executed.probes.other_uuids
			added: tool_executed.probes.own_uuid tool_executed.probes.q_cov tool_executed.probes.q_cov_no_echo tool_executed.probes.schema_keys
			added: tool_executed.probes.uuid_gold_near
			`,
		"the reply itself shows whether it calls tools or answers": `
			added, changed, left out: model_call_completed.finish_reason
			`,
		"how many entries a cache had is not known; a sweep that is none is missed where a verdict needs it": `
			changed, made judge_cache_read, made nothing: security_event.kind
			changed, made nothing: security_event.checked
			`,
		"of a result that no request holds any more": `
			changed, made nothing: tool_executed.shown_bytes tool_executed.shown_sha256
			`,
		"the plan allows what it says, and the run kept within it either way": `
			changed: manifest.judge.cache manifest.retry.attempts_per_task
			changed, made nothing: manifest.budgets.cost_microusd manifest.budgets.tool_calls manifest.budgets.turns manifest.retry.call_tries
			`,
		"the plan's word of where things come from, which nothing in a run shows": `
			added: manifest.dataset.hub
			changed: manifest.dataset.revision
			changed, made nothing: manifest.created manifest.dataset.metadata_file manifest.dataset.name manifest.judge.origin manifest.model.origin manifest.prices_sha256
			`,
		"gold answers were there, as the plan's commitment to them says": `
			changed: manifest.dataset.carried_gold
			`,
		"it is of the split that the run is not of": `
			changed: manifest.splits[].carried_gold
			changed, made nothing: manifest.splits[].ids_sha256 manifest.splits[].name manifest.splits[].size
			left out, swapped: manifest.splits[]
			`,
		"the audit looks with its own list": `
			changed, made nothing: manifest.denylist_sha256
			`,
		"the plan's word of what the model is asked with, which no request of the journal repeats": `
			added: manifest.model.api manifest.model.context_window manifest.model.max_tokens manifest.model.no_temperature manifest.model.served_as
			added: manifest.model.stop
			changed: manifest.model.temperature_milli
			`,
		"the gold answers of the fixture come with the commitment's salt; those of a dataset are held against it (TestPublishedGold)": `
			changed, made nothing: manifest.dataset.metadata_sha256
			`,
		"an interruption that did not happen is seen; that one is called a failure is to the run's own loss, and of what ended otherwise nothing depends on the reason": `
			added, changed, left out, made infrastructure, made interrupted, made run stopped: attempt_ended.reason
			`,
		"a refusal is one in either word, and another word is none (policy-differs)": `
			made confirm: policy_decision.decision
			`,
		"whether a page came of it is the signer's word: what it held is probed either way, and an address that no run may ask for counts whatever it gave": `
			added: tool_executed.is_error tool_executed.urls tool_executed.urls[].content_type
			changed, left out: tool_executed.urls[].status
			`,
		"tries without a reply give nothing to choose from, and those with one are counted by their replies": `
			added: model_call_started.waited_ms
			added, changed, left out: model_call_completed.error.code
			left out: model_call_completed.retry_of
			changed: model_call_completed.error.retryable
			changed, left out: model_call_completed.error.status
			changed, made nothing: model_call_completed.try model_call_started.try
			`,
		"a reply is held against what follows whether it is said to have failed or not": `
			added: model_call_completed.error
			`,
		"what is kept besides the heads is held against its digest where it is given (--body)": `
			added: context_compiled.body_sha256 model_call_completed.body_sha256 tool_executed.body_sha256 tool_proposed.body_sha256
			made bodies: manifest.evidence
			`,
		"a whole head is probed by the audit itself": `
			left out: tool_executed.probes
			`,
		"the plan allows more than the run did": `
			added: manifest.approved manifest.judge.endpoint_sha256 manifest.search manifest.transcription manifest.vision run_resumed.approved
			`,
		"the order is the plan's own": `
			swapped: manifest.prompts[] manifest.tasks[] manifest.tools[]
			`,
		"either way a person approved it": `
			made always: approval_resolved.by
			`,
		"copies of a workspace are compared by the digests of their files": `
			added: checkpoint_saved.workspace[].probes
			`,
		"the verdict is of the path that it names, whoever is said to have been asked besides": `
			added: judgment.error_status judgment.model judgment.prompt judgment.response_model
			`,
		"what served the model may say more of itself; of a try without a reply nothing comes": `
			added: model_call_completed.fingerprint model_call_completed.response_model
			`,
	}
	return byField(because)
}

// byField returns the changes of lists by their fields.
func byField(because map[string]string) map[string]string {
	all := map[string]string{}
	for _, lines := range because {
		for line := range strings.Lines(strings.TrimSpace(lines)) {
			changes, fields, _ := strings.Cut(strings.TrimSpace(line), ": ")
			for _, field := range strings.Fields(fields) {
				all[field] = changes
			}
		}
	}
	return all
}

// unheededOfOwnAgent are those fields of what a run of an own agent has besides.
func unheededOfOwnAgent() map[string]string {
	return byField(map[string]string{
		"how the process ended is told to people; whether there is an answer the attempt says": `
			changed: attempt_ended.agent.exit
			added: attempt_ended.agent.redactions attempt_ended.agent.stderr attempt_ended.agent.stderr_bytes
			changed, left out: attempt_ended.agent.stdout_bytes
			`,
		"no run comes near these limits": `
			changed: manifest.agent.calls manifest.agent.command[] manifest.agent.disk_bytes manifest.agent.folders[].path manifest.agent.memory_bytes manifest.agent.name
			changed: manifest.agent.processes manifest.agent.timeout_ms
			added: manifest.agent.messages_origin manifest.agent.strip
			`,
		"of bodies that only digests are recorded of, the journal has the messages besides": `
			added: model_call_completed.reply.aborted model_call_completed.reply.body_sha256
			added: model_call_started.request.body_sha256 model_call_started.request.stream model_call_started.request.tools_sha256
			changed, made nothing: model_call_completed.reply.bytes model_call_completed.reply.status model_call_started.request.bytes
			changed: model_call_completed.reply.sha256 model_call_started.request.sha256
			`,
		"what stands beside the gold answer counts where that is, and its own look at what is shown finds it": `
			added: context_compiled.origins.passages context_compiled.origins.probes context_compiled.origins.probes.answer_column context_compiled.origins.probes.answer_keys context_compiled.origins.probes.changed_question context_compiled.origins.probes.deny_class context_compiled.origins.probes.gold_called context_compiled.origins.probes.gold_label_near context_compiled.origins.probes.gold_near context_compiled.origins.probes.injection_markers context_compiled.origins.probes.keyed_answers context_compiled.origins.probes.listed_answers context_compiled.origins.probes.other_id_starts context_compiled.origins.probes.other_uuids context_compiled.origins.probes.own_uuid context_compiled.origins.probes.q_cov context_compiled.origins.probes.q_cov_no_echo context_compiled.origins.probes.q_edge context_compiled.origins.probes.q_gold_called context_compiled.origins.probes.schema_keys context_compiled.origins.probes.uuid_gold_near
			`,
		"a whole reply is probed by the audit itself; what the model thought besides, which its message does not hold, is the signer's word": `
			added, left out: model_call_completed.reply.probes model_call_completed.reply.probes.answer_column model_call_completed.reply.probes.gold_called model_call_completed.reply.probes.gold_label_near
			added: model_call_completed.reply.code model_call_completed.reply.probes.changed_question model_call_completed.reply.probes.deny_class model_call_completed.reply.probes.gold_near model_call_completed.reply.probes.injection_markers model_call_completed.reply.probes.keyed_answers model_call_completed.reply.probes.listed_answers model_call_completed.reply.probes.other_id_starts model_call_completed.reply.probes.other_uuids model_call_completed.reply.probes.own_id_start model_call_completed.reply.probes.own_uuid model_call_completed.reply.probes.q_cov model_call_completed.reply.probes.q_cov_no_echo model_call_completed.reply.probes.q_edge model_call_completed.reply.probes.q_gold_called model_call_completed.reply.probes.uuid_gold_near
			added, changed, left out: model_call_completed.reply.probes.answer_keys model_call_completed.reply.probes.gold_hits model_call_completed.reply.probes.schema_keys
			`,
		"an answer stands where it is said to, and may stand elsewhere besides": `
			left out: answer_committed.in_reply answer_committed.seen_in[]
			`,
		"how much of the agent's folders was looked through is told to people; what was found there counts": `
			added: context_compiled.origins.forgotten manifest.agent.system_sha256
			changed, made nothing: manifest.agent.probed.bytes
			made nothing: manifest.agent.probed.files
			`,
		"of an exchange a digest is of the bytes that came, and the head of what they decode to: what it says, and when, is the recorder's word": `
			added: exchange_completed.body_sha256 exchange_completed.error exchange_completed.media exchange_completed.redactions exchange_completed.truncated exchange_started.redactions
			changed: exchange_completed.bytes exchange_completed.sha256 exchange_completed.status exchange_started.method exchange_started.url
			changed, left out: exchange_completed.content_type exchange_completed.head
			changed, made nothing: exchange_completed.latency_ms
			`,
		"signs of a leak count in company, and the audit probes what is shown itself": `
			left out: exchange_completed.probes
			added: exchange_completed.probes.answer_column exchange_completed.probes.answer_keys exchange_completed.probes.gold_called exchange_completed.probes.gold_label_near exchange_completed.probes.gold_near
			added: exchange_completed.probes.injection_markers exchange_completed.probes.keyed_answers exchange_completed.probes.listed_answers exchange_completed.probes.other_id_starts exchange_completed.probes.other_uuids
			added: exchange_completed.probes.q_cov exchange_completed.probes.q_cov_no_echo exchange_completed.probes.q_edge exchange_completed.probes.q_gold_called exchange_completed.probes.schema_keys exchange_completed.probes.uuid_gold_near
			`,
		"a request that was not passed on brought nothing in": `
			added: request_refused.rule_ids
			changed, made nothing: request_refused.bytes request_refused.path request_refused.status
			changed: request_refused.code
			added: request_refused.model request_refused.sha256
			`,
	})
}
