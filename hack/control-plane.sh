#!/usr/bin/env bash
# Builds the control plane for playgrounds and tests, once for each version of its sources, and prints the path of the
# binary. Links with the names of its components (kubectl and so on) lie in `bin` beside it. The result is kept outside
# of the checkout, so that a clean checkout, a second checkout and CI do not pay the long build again.
set -euo pipefail
shopt -s inherit_errexit

say() { echo "control-plane: $*" >&2; }
die() { say "$@"; exit 1; }

script="$(realpath "${BASH_SOURCE[0]}")"
module="$(dirname "$(dirname "$script")")/e2e/control-plane"
store="${DOVETAIL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dovetail}/control-plane"
links=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok)
export CGO_ENABLED=0 GOFLAGS=-mod=readonly

needed="$(awk '$1 == "go" { print $2; exit }' "$module/go.mod")"
kubernetes="$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$module/go.mod")"
command -v go >/dev/null || die "go is missing: install Go $needed or newer (https://go.dev/dl), it builds Kubernetes"
# A Go that is too old but knows how to fetch a newer one does so here; any other stops, or answers with its old version.
running="$(cd "$module" && go env GOVERSION)" || die "go cannot build this module, which needs Go $needed or newer"
if [ "$(printf '%s\n' "$needed" "${running#go}" | sort -V | head -n 1)" != "$needed" ]; then
    die "$running is too old: install Go $needed or newer (https://go.dev/dl)"
fi

# This script counts as a source because the flags of the build stand in it.
key="$({
    cd "$module"
    go env GOVERSION GOOS GOARCH
    find . -name '*.go' ! -name '*_test.go' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    sha256sum <go.mod
    sha256sum <go.sum
    sha256sum <"$script"
} | sha256sum | cut -c 1-16)"
built="$store/$key"

# Use makes a build young again, so that the sweep below takes those that nobody needs.
found() {
    [ -x "$built/control-plane" ] || return 1
    touch "$built"
    echo "$built/control-plane"
}

# Without the version variables the API server reports v0.0.0-master, which some clients refuse. The commit is not in
# the module, and the date is a constant so that equal sources give equal binaries.
version_flags() {
    local major minor package
    major="$(cut -d . -f 1 <<<"${kubernetes#v}")"
    minor="$(cut -d . -f 2 <<<"${kubernetes#v}")"
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        printf -- '-X %s.%s ' \
            "$package" "gitVersion=$kubernetes" "$package" "gitMajor=$major" "$package" "gitMinor=$minor" \
            "$package" gitTreeState=clean "$package" gitCommit=unknown "$package" buildDate=1970-01-01T00:00:00Z
    done
}

build() {
    local unfinished="$store/.unfinished.$key" started=$SECONDS link
    say "building the control plane (Kubernetes $kubernetes), about 8 minutes the first time, once per machine…"
    rm -rf "$store"/.unfinished.*
    mkdir -p "$unfinished/bin"
    (cd "$module" && go build -trimpath -ldflags "-s -w $(version_flags)" -o "$unfinished/control-plane" . >&2 9>&-) ||
        die "the build failed"
    for link in "${links[@]}"; do
        ln -s ../control-plane "$unfinished/bin/$link"
    done
    # Only a whole build ever has its final name.
    mv -T "$unfinished" "$built"
    say "built in $((SECONDS - started)) s"
}

# Keeps the two that were used last: a developer moves between two branches more often than between three.
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
