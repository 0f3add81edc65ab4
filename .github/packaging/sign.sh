#!/bin/sh
# sign.sh FILE SIGNATURE: signs a file with the key of releases. RELEASE_KEY names the private key: ECDSA on P-256, in PEM.
# RELEASE_PUB names the public one that users have; without it, it is release.pub beside this script.
set -eu
file=$1 signature=$2
public=${RELEASE_PUB:-$(dirname "$0")/release.pub}
: "${RELEASE_KEY:?names no private key: see docs/releasing.md}"
[ -f "$public" ] || { echo "sign.sh: there is no public key $public: see docs/releasing.md" >&2; exit 1; }
openssl dgst -sha256 -sign "$RELEASE_KEY" -out "$signature" "$file"
openssl dgst -sha256 -verify "$public" -signature "$signature" "$file" >&2 ||
	{ rm -f "$signature"; echo "sign.sh: $RELEASE_KEY is not the key whose public half is $public" >&2; exit 1; }
