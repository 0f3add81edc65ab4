package exit

// Code describes an exit code for people and for those who write scripts.
type Code struct {
	Code   int
	Name   string
	Causes []string // what ends a command with it
	Script string   // what a script does then
}

// Codes describes each exit code, in numerical order.
var Codes = []Code{
	{OK, "ok", []string{
		"the command did what it was asked to do, and nothing below applies",
	}, "Use the result."},
	{Failure, "failure", []string{
		"a file, a network or a dataset cannot be read, or a file cannot be written",
		"there is no signing key, or it cannot be used",
		"a service refuses the request of a command that is not a run",
		"any other error that has no code below",
	}, "Read `gaia: error:` and its hint. Repeat the command after the cause is gone."},
	{Usage, "usage", []string{
		"a command, flag or value does not exist, or two of them exclude each other",
		"a settings file, policy, price table or query has a mistake; the message has its line",
		"a budget is too low for one attempt",
	}, "Correct the command or the file: no model was asked. Repeating it does not help."},
	{Findings, "findings", []string{
		"`audit`: a CRITICAL or HIGH finding is open, or a check of the gate has a gap; with `--strict` a REVIEW finding is open, too; `--only` is no full audit",
		"`submit`, `board`: the package is refused; `verify`: the run is not submittable, or a dismissal does not count",
		"`run`, `resume`: each attempt ended in an error, the run is not submittable although it was meant to be, or the judge cache has a bad entry",
		"`doctor`, `agent doctor`: a row is `failed`; `agent try`: the agent gave no answer",
		"`judge check`: the judge failed its self-test; `policy check`: the call is denied or needs approval",
		"`scorecard --accept`: a threshold is missed; `ledger evaluate`: an evaluation failed; `ledger export`: the evidence of a run is not complete",
		"`witness`: the signature is not checked, or a bundle has no readable verdict",
	}, "The evidence is intact and the output is complete. Let a person read it; do not publish the score."},
	{Evidence, "evidence", []string{
		"bytes are not what was signed, or do not follow from it: changed, cut, damaged or above a limit",
		"the dataset, the HMAC key or the checkpoint that you give is not that of the run",
		"one key signed two histories of one run",
		"an entry of the judge cache does not verify",
	}, "Reject the run or package and keep the file: it may be the proof."},
	{Incomplete, "incomplete", []string{
		"`run`, `resume`: no model answers, a key is refused, a quota is used up, or the disk is full",
		"a run or shard is not finished; `merge`: a shard is missing; `judge run`: `--max-cost` is used up",
	}, "`gaia resume DIR` continues after the cause is gone. The state is saved."},
	{Untrusted, "signer not trusted", []string{
		"the bytes are what was signed, but you do not trust the key, or not at that time",
		"the signature was not checked, because you gave no key",
	}, "Ask the signer for the key, compare its fingerprint by another way, then `gaia key trust FILE` or `--trusted-key FILE`. " +
		"The output says whether the run is also incomplete or has findings."},
	{Interrupted, "interrupted", []string{
		"Ctrl-C, SIGTERM, or SIGHUP unless it is ignored; the reader of the output has gone",
	}, "`gaia resume DIR` continues a run. Other commands begin again."},
}
