#!/usr/bin/env bash
# All checkouts share one target directory, so that dependencies are compiled once per machine. Cargo names what it builds
# from our own crates alike in every checkout and tells them apart only by file times; a checkout with older files would
# run another one's binaries. So a checkout that was not the last to build here throws those away first.
set -euo pipefail

target="${CARGO_TARGET_DIR:?set it to the shared target directory}"
mark="$target/.checkout"
here="$(pwd -P)"
if [ -d "$target" ] && [ "$(cat "$mark" 2>/dev/null)" != "$here" ]; then
    members="$(cargo metadata --no-deps --format-version 1 --offline 2>/dev/null || cargo metadata --no-deps --format-version 1)"
    packages="$(grep -o '"name":"[a-z0-9-]*","version":"[^"]*","id":"path+' <<<"$members" | cut -d '"' -f 4 | sed 's/^/--package=/')"
    # shellcheck disable=SC2086 # one word per package is meant
    cargo clean --quiet $packages
fi
mkdir -p "$target"
printf '%s' "$here" >"$mark"
