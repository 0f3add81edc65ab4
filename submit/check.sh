set -eu
if [ $# != 1 ] || [ ! -f "$1" ]; then echo "usage, in the package's folder: sh ../FILE ../KEY.pub" >&2; exit 2; fi
type=application/vnd.in-toto+json
tmp=$(mktemp -d)
trap 'code=$?; rm -rf "$tmp"; [ "$code" = 0 ] || echo refused >&2; exit "$code"' EXIT
# the statement, its signature, what DSSE signs, and the key as openssl reads it
jq -ej .payload attestation.dsse.json | base64 -d > "$tmp/statement"
jq -ej '.signatures[0].sig' attestation.dsse.json | base64 -d > "$tmp/sig"
{ printf 'DSSEv1 %d %s %d ' "${#type}" "$type" "$(wc -c < "$tmp/statement")"; cat "$tmp/statement"; } > "$tmp/signed"
{ printf '\060\052\060\005\006\003\053\145\160\003\041\000'; cut -d ' ' -f 2 "$1" | base64 -d | tail -c 32; } > "$tmp/key"
openssl pkeyutl -verify -pubin -keyform DER -inkey "$tmp/key" -rawin -in "$tmp/signed" -sigfile "$tmp/sig" > "$tmp/said"
# the one way to write the envelope
id=$(cut -d ' ' -f 2 "$1" | base64 -d | openssl dgst -sha256 -binary | base64 -w 0)
{ printf '{"payload":"'; base64 -w 0 < "$tmp/statement"; printf '","payloadType":"%s","signatures":[{"keyid":"SHA256:%s","sig":"' "$type" "${id%=}"
	base64 -w 0 < "$tmp/sig"; printf '"}]}'; } | cmp - attestation.dsse.json
# every file that the statement is about, and no other file
[ -z "$(find . ! -type f ! -type d -o -type d -empty)" ]
jq -r '.subject[] | .digest.sha256 + "  " + .name' "$tmp/statement" > "$tmp/sums"
sha256sum -c --strict --quiet "$tmp/sums"
sha256sum -c --strict --quiet SHA256SUMS
{ jq -r '.subject[].name' "$tmp/statement"; echo attestation.dsse.json; echo attestation.sigstore.json; } | LC_ALL=C sort > "$tmp/names"
find . -type f | cut -c 3- | LC_ALL=C sort | cmp - "$tmp/names"
# the plan names the rules and the policy that the agent was held to
[ "sha256:$(sha256sum < constitution.json | cut -d ' ' -f 1)" = "$(jq -ej .constitution_sha256 manifest.json)" ]
# the Sigstore bundle holds the same envelope, and nothing else
{ printf '{"dsseEnvelope":'; cat attestation.dsse.json; printf ',"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"';
	printf ',"verificationMaterial":{"publicKey":{"hint":%s}}}' "$(jq '.signatures[0].keyid' attestation.dsse.json)"; } | cmp - attestation.sigstore.json
echo accepted
