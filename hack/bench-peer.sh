#!/usr/bin/env bash
# Builds the harness around the reference's scheduler, once for each version of its sources, and prints the path of the
# binary. The result is kept outside of the checkout. A Go that is too old fetches the one that the module asks for.
set -euo pipefail
shopt -s inherit_errexit

name=bench-peer
binary=peer
script="$(realpath "${BASH_SOURCE[0]}")"
module="$(dirname "$(dirname "$script")")/bench/peer"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$script")/build-once.sh"
export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOTOOLCHAIN="${GOTOOLCHAIN:-auto}"

needed="$(awk '$1 == "go" { print $2; exit }' "$module/go.mod")"
command -v go >/dev/null || die "go is missing: install Go $needed or newer (https://go.dev/dl), it builds the reference"
running="$(cd "$module" && go env GOVERSION)" || die "go cannot build this module, which needs Go $needed or newer"

# This script counts as a source because the flags of the build stand in it.
key="$({
    echo "$running"
    cd "$module"
    go env GOOS GOARCH
    find . -name '*.go' ! -name '*_test.go' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    sha256sum <go.mod
    sha256sum <go.sum
    sha256sum <"$script"
} | sha256sum | cut -c 1-16)"

build() {
    say "building the reference's scheduler, about 3 minutes the first time, once per machine…"
    # Symbols stay: the version of the module is read from the binary, and a profile needs names.
    (cd "$module" && go build -trimpath -o "$1/$binary" . >&2) || die "the build failed"
}

build_once
