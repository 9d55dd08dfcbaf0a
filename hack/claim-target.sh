#!/usr/bin/env bash
# Runs a command that builds, alone, in the target directory that all checkouts share, so that dependencies are compiled
# once per machine. Cargo names what it builds from our own crates alike in every checkout and tells them apart only by file
# times; a checkout with older files would run another one's binaries. So a checkout that was not the last to build here
# throws those away first, and the others wait until the command has ended.
set -euo pipefail

target="${CARGO_TARGET_DIR:?set it to the shared target directory}"
mkdir -p "$target"
exec 8>"$target/.claim"
flock --nonblock 8 || { echo "waiting for another checkout to finish building" >&2; flock 8; }
mark="$target/.checkout"
here="$(pwd -P)"
if [ "$(cat "$mark" 2>/dev/null)" != "$here" ]; then
    for member in crates/* e2e xtask; do
        cargo clean --quiet --locked --package "$(basename "$member")"
    done
    printf '%s' "$here" >"$mark"
fi
"$@" 8>&-
