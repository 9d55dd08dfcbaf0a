# Sourced by scripts that build a binary once per machine, outside of the checkout, and print its path. They set `name`, `binary`
# and `key`, define `build`, which makes the binary in the directory that it is given, and call `build_once`.
# The control plane's script still has this in its own words: its text is part of what names its long build.

say() { echo "$name: $*" >&2; }
die() { say "$@"; exit 1; }

# Use makes a build young again, so that the sweep below takes those that nobody needs.
found() {
    [ -x "$built/$binary" ] || return 1
    touch "$built"
    echo "$built/$binary"
}

# Keeps the two that were used last: a developer moves between two branches more often than between three.
sweep() {
    find "$store" -mindepth 1 -maxdepth 1 -type d ! -name '.*' -printf '%T@ %p\n' | sort -rn | tail -n +3 | cut -d ' ' -f 2- |
        while IFS= read -r old; do
            rm -rf "$old"
        done
}

build_once() {
    local store="${DOVETAIL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dovetail}/$name" started=$SECONDS
    local built="$store/$key" unfinished="$store/.unfinished.$key"
    if found; then return; fi
    mkdir -p "$store"
    exec 9>"$store/.lock"
    flock -n 9 || { say "waiting for another build to end"; flock 9; }
    if found; then return; fi
    rm -rf "$store"/.unfinished.*
    mkdir -p "$unfinished"
    build "$unfinished" 9>&-
    # Only a whole build ever has its final name.
    mv -T "$unfinished" "$built"
    say "built in $((SECONDS - started)) s"
    found
    sweep
}
