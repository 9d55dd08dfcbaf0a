#!/usr/bin/env bash
# Builds the harness around the reference's scheduler, once for each version of its sources, and prints the path of the
# binary. The result is kept outside of the checkout. A Go that is too old fetches the one that the module asks for.
set -euo pipefail
shopt -s inherit_errexit

say() { echo "bench-peer: $*" >&2; }
die() { say "$@"; exit 1; }

script="$(realpath "${BASH_SOURCE[0]}")"
module="$(dirname "$(dirname "$script")")/bench/peer"
store="${DOVETAIL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dovetail}/bench-peer"
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
built="$store/$key"

# Use makes a build young again, so that the sweep below takes those that nobody needs.
found() {
    [ -x "$built/peer" ] || return 1
    touch "$built"
    echo "$built/peer"
}

build() {
    local unfinished="$store/.unfinished.$key" started=$SECONDS
    say "building the reference's scheduler, about 3 minutes the first time, once per machine…"
    rm -rf "$store"/.unfinished.*
    mkdir -p "$unfinished"
    # Symbols stay: the version of the module is read from the binary, and a profile needs names.
    (cd "$module" && go build -trimpath -o "$unfinished/peer" . >&2 9>&-) || die "the build failed"
    # Only a whole build ever has its final name.
    mv -T "$unfinished" "$built"
    say "built in $((SECONDS - started)) s"
}

sweep() {
    find "$store" -mindepth 1 -maxdepth 1 -type d ! -name '.*' -printf '%T@ %p\n' | sort -rn | tail -n +3 | cut -d ' ' -f 2- |
        while IFS= read -r old; do
            rm -rf "$old"
        done
}

if ! found; then
    mkdir -p "$store"
    exec 9>"$store/.lock"
    flock -n 9 || { say "waiting for another build to end"; flock 9; }
    if ! found; then
        build
        found
        sweep
    fi
fi
