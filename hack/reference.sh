#!/usr/bin/env bash
# Builds the reference's controller with its kwok provider, once for each version, and prints the path of the binary.
# Tests compare metrics with it and benchmarks run beside it. Like the control plane it is kept outside of the checkout.
set -euo pipefail
shopt -s inherit_errexit

name=reference
binary=karpenter
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/build-once.sh"

# The module asks for this Go; the Go command fetches it when the machine's own is older.
version=v1.15.0
export GOTOOLCHAIN=go1.26.9 CGO_ENABLED=0 GOFLAGS=-mod=readonly
key="$version-$GOTOOLCHAIN"

build() {
    say "building the reference's kwok controller $version, about 5 minutes the first time, once per machine…"
    (cd "$1" && GOBIN="$1" go install -trimpath "sigs.k8s.io/karpenter/kwok@$version" >&2) ||
        die "the build failed; it needs Go and the module proxy"
    mv "$1/kwok" "$1/$binary"
}

command -v go >/dev/null || die "go is missing: install Go 1.26 or newer (https://go.dev/dl)"
build_once
