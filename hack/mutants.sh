#!/usr/bin/env bash
# Changes one line of model or engine at a time and sees whether a test notices. A fixed sample of about sixty changes; prints the share
# that was caught and fails below nine in ten. Takes the better part of an hour, so it is not part of `make test`.
#
#   hack/mutants.sh [SAMPLE [OPTION…]]   options go to cargo-mutants, such as `--jobs 2`; none that filters, which would draw another sample
set -euo pipefail

cache="${XDG_CACHE_HOME:-$HOME/.cache}/dovetail"
sample="${1:-60}"
out="$cache/mutants"
export PATH="$cache/tools/bin:$PATH"
command -v cargo-mutants >/dev/null || cargo install --quiet --locked --root "$cache/tools" cargo-mutants

# Every change meets all tests, so random worlds are fewer than usual where they are many, and building them matters more than running them.
export DOVETAIL_MOST_CASES=80
quick=(--cargo-arg=--config --cargo-arg=profile.dev.debug=false)
for package in model engine judge; do quick+=(--cargo-arg=--config "--cargo-arg=profile.dev.package.$package.opt-level=1"); done
# The copies that are built must not meet the shared target directory.
unset CARGO_TARGET_DIR
scope=(--package model --package engine)
total=$(cargo mutants --list "${scope[@]}" | wc -l)
shards=$(((total + sample - 1) / sample))
mkdir -p "$out"
# A change that makes a test run forever counts as caught; a machine that is merely busy must not look like that.
cargo mutants "${scope[@]}" --test-package model --test-package engine "${quick[@]}" --timeout 600 \
  --shard "0/$shards" --sharding round-robin --no-shuffle --output "$out" --colors never "${@:2}" || true

count() { grep -c . "$out/mutants.out/$1.txt" || true; }
caught=$(($(count caught) + $(count timeout)))
viable=$((caught + $(count missed)))
echo "caught $caught of $viable (of $total possible changes)"
cat "$out/mutants.out/missed.txt"
((caught * 10 >= viable * 9))
