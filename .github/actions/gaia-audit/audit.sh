#!/usr/bin/env bash
# What the action does, with its inputs in RUN, DATASET, TRUSTED_KEY, FAIL_ON, VERSION and GAIA. Exit codes are gaia's.
set -euo pipefail

# quoted copies text of strangers to the log: GitHub takes no line of it for a command.
quoted() {
	local token
	token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	printf '::stop-commands::%s\n' "$token"
	cat
	printf '\n::%s::\n' "$token"
}

# fail CODE MESSAGE ends the job with an annotation and a line in its summary. The message may hold text of strangers.
fail() {
	local text=${2//'%'/%25}
	text=${text//$'\r'/%0D}
	printf '::error title=gaia audit::%s\n' "${text//$'\n'/%0A}"
	text=${2//$'\r'/ }
	printf '\nThe job fails:\n\n%s\n' "    ${text//$'\n'/$'\n    '}" >>"$GITHUB_STEP_SUMMARY" # indented, nothing in it is markup
	exit "$1"
}

echo clean=false >>"$GITHUB_OUTPUT"
[ -n "$RUN" ] || fail 2 "the input path is empty
hint: give a run directory, a package or its archive"
case $FAIL_ON in
evidence | findings | gaps) strict='' ;;
review) strict=--strict ;;
*) fail 2 "the input fail-on is $FAIL_ON
hint: give evidence, findings, gaps or review" ;;
esac
work=$(mktemp -d "$RUNNER_TEMP/gaia-audit.XXXXXX")
if [[ $TRUSTED_KEY == ssh-ed25519\ * ]]; then
	printf '%s\n' "$TRUSTED_KEY" >"$work/trusted.pub"
	TRUSTED_KEY=$work/trusted.pub
fi
if [ -z "$GAIA" ]; then # not in the workspace, whose files are of strangers
	(cd "$work" && GOBIN=$work go install "github.com/gaia-harness/gaia/cmd/gaia@$VERSION") 2>&1 | quoted ||
		fail 1 "gaia cannot be installed at version $VERSION
hint: set the input version to a version, a tag or a commit, or the input gaia to a program that is there"
	GAIA=$work/gaia
fi
command -v jq >/dev/null || fail 1 "jq is not installed on this runner
hint: install it in a step before"
command -v -- "$GAIA" >/dev/null || fail 1 "there is no program $GAIA
hint: set the input gaia to the path of one, or leave it out"

# ask FILE CODES ARGUMENTS… writes what gaia prints of the run into FILE, and its exit code into code. Any but 0 and CODES
# ends the job.
ask() {
	local file=$1 codes=$2
	shift 2
	code=0
	"$GAIA" "$@" ${TRUSTED_KEY:+"--trusted-key=$TRUSTED_KEY"} -- "$RUN" >"$file" 2>"$work/messages" || code=$?
	[[ " 0 $codes " != *" $code "* ]] || return 0
	quoted <"$work/messages"
	case $code in
	4) fail 4 "$(cat "$work/messages")
the evidence does not verify. Get the files again as gaia wrote them: an editor, a merge, or a checkout that changes line ends breaks them" ;;
	5) fail 5 "$(cat "$work/messages")
the run is not complete. 'gaia resume' continues it on the machine that has its key" ;;
	*) fail "$code" "$(cat "$work/messages")" ;;
	esac
}

reports=$work/reports
mkdir "$reports"
ask "$reports/verify.json" "3 6" verify --json
verified=$code packaged=$(jq 'has("package")' "$reports/verify.json")
if [ -n "$DATASET" ] && [ "$packaged" = true ]; then # scores and audit again
	ask "$reports/verify.json" "3 6" verify --json "--dataset=$DATASET"
	verified=$code
fi
audit() { ask "$1" "3 6" audit ${strict:+"$strict"} ${DATASET:+"--dataset=$DATASET"} "${@:2}"; }
audit "$reports/report.json" --format=json
audited=$code
audit "$reports/report.sarif" --format=sarif
audit "$reports/report.md" --format=markdown
audit "$work/annotations" --format=github
[ "$(jq .run_id "$reports/verify.json")" = "$(jq .run_id "$reports/report.json")" ] || fail 4 "the run that was verified is not the one that was audited
hint: give a run directory that no other step writes, by its path and not as latest"
cat "$work/annotations"
cat "$reports/report.md" >>"$GITHUB_STEP_SUMMARY"

# checks FILTER lists the ids of checks in the report.
checks() { jq -r "[$1] | unique_by(.[4:] | tonumber? // .) | join(\", \")" "$reports/report.json"; }
gaps=$(jq '.attestation.harness_gaps | length' "$reports/report.json")
[ "$verified $audited" != "0 0" ] || echo clean=true >>"$GITHUB_OUTPUT"
jq -r '"gaps=\(.attestation.harness_gaps | length)", "score=\(.totals.clean.accuracy_ppm // empty | . / 1000000)"' "$reports/report.json" >>"$GITHUB_OUTPUT"
echo "reports=$reports" >>"$GITHUB_OUTPUT"

if [ "$verified" = 6 ] || [ "$audited" = 6 ]; then
	fail 6 "the run is signed by a key that the job does not trust: $(jq -r .key_id "$reports/verify.json")
hint: if that is the key of who should have made the run, set the input trusted-key to its public line, or a file with it"
fi
[ "$FAIL_ON" != evidence ] || exit 0
if [ "$verified" != 0 ]; then
	fail "$verified" "the run is not submittable: recording it failed, or it is not what was planned
hint: 'gaia verify' of it says why; only another run can be counted"
fi
failed=$(checks '.attestation.critical_failures[], .attestation.warn_failures[]')
[ "$audited" = 0 ] || [ -z "$failed" ] || fail 3 "open findings of $failed
hint: they are in the summary above; whoever has the key of the plan can decide about each with 'gaia adjudicate'"
if [ "$FAIL_ON" != findings ]; then blind=$(checks '.attestation.harness_gaps[].check'); else blind=$(checks '.checks[] | select(.gate and (.gaps | length > 0)).id'); fi
if [ -n "$blind" ]; then
	hint="'gaia audit --explain ${blind%%,*}' says what the check reads; a gap that cannot be closed is accepted only by fail-on: findings"
	[ -n "$DATASET" ] || [ "$packaged" = false ] ||
		hint="a package holds no gold answers: set the input dataset to hub, hub:OWNER/NAME, dir:PATH or fixtures"
	fail 3 "$gaps gaps: $blind could not see all of the run, so nothing shows that it is clean
hint: $hint"
fi
[ "$audited" = 0 ] || fail "$audited" "findings of $(checks '.checks[] | select(.status == "review").id') are to be reviewed, and fail-on is review
hint: look at them in the summary above"
