#!/usr/bin/env bash
# Builds the reference's controller with its kwok provider, once for each version, and prints the path of the binary.
# Tests compare metrics with it and benchmarks run beside it. Like the control plane it is kept outside of the checkout.
set -euo pipefail
shopt -s inherit_errexit

say() { echo "reference: $*" >&2; }
die() { say "$@"; exit 1; }

# The module asks for this Go; the Go command fetches it when the machine's own is older.
version=v1.15.0
export GOTOOLCHAIN=go1.26.9 CGO_ENABLED=0 GOFLAGS=-mod=readonly

store="${DOVETAIL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dovetail}/reference"
built="$store/$version-$GOTOOLCHAIN"

found() {
    [ -x "$built/karpenter" ] || return 1
    echo "$built/karpenter"
}

build() {
    local unfinished="$store/.unfinished.$version" started=$SECONDS
    say "building the reference's kwok controller $version, about 5 minutes the first time, once per machine…"
    rm -rf "$store"/.unfinished.*
    mkdir -p "$unfinished"
    (cd "$unfinished" && GOBIN="$unfinished" go install -trimpath "sigs.k8s.io/karpenter/kwok@$version" >&2 9>&-) ||
        die "the build failed; it needs Go and the module proxy"
    mv "$unfinished/kwok" "$unfinished/karpenter"
    # Only a whole build ever has its final name.
    mv -T "$unfinished" "$built"
    say "built in $((SECONDS - started)) s"
}

command -v go >/dev/null || die "go is missing: install Go 1.26 or newer (https://go.dev/dl)"
if ! found; then
    mkdir -p "$store"
    exec 9>"$store/.lock"
    flock -n 9 || { say "waiting for another build to end"; flock 9; }
    if ! found; then
        build
        found
    fi
fi
