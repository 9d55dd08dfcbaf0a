#!/usr/bin/env bash
# Plays the large scenarios with an optimised dovetail, keeps their reports in bench/out, and prints a line for each.
# Ends with one when a scenario took too long, after all were played. What they take and cost belongs into docs/benchmarks.md.
set -euo pipefail

dovetail="${1:?usage: bench-scenarios.sh DOVETAIL}"
data="${DOVETAIL_DATA:-../shared/data}"
cd "$(dirname "$0")/.."
mkdir -p bench/out
# A scenario must take less than so many seconds of wall clock.
declare -A below=([eks-workshop]=2 [openb]=60)
status=0
echo "| scenario | virtual time | wall clock, s | pods | evicted | nodes bought | cost, \$ |"
echo "|---|--:|--:|--:|--:|--:|--:|"
for scenario in eks-workshop black-friday steady-churn fragmented openb; do
    if [[ $scenario == openb && ! -e $data/openb/openb_pod_list_default.csv ]]; then
        echo "openb is left out: $data/openb/openb_pod_list_default.csv is not there; set DOVETAIL_DATA" >&2
        continue
    fi
    report="bench/out/scenario-$scenario.json"
    # A story that goes wrong has a report as well, unless it could not be played; either way the others are played.
    if ! DOVETAIL_DATA="$data" "$dovetail" simulate "scenarios/$scenario.yaml" --output json > "$report"; then
        echo "MISSED $scenario did not go as it expects" >&2
        status=1
    fi
    [[ -s $report ]] || continue
    number() { sed -nE "s/^ *\"$1\": ([0-9.]+),?$/\1/p" "$report" | head -n 1; }
    nodes="$(grep -c '"instanceType":' "$report" || true)"
    wall="$(number wallSeconds)"
    printf '| %s | %.1f h | %.2f | %d | %d | %d | %.2f |\n' "$scenario" \
        "$(awk "BEGIN { print $(number virtualSeconds) / 3600 }")" "$wall" "$(number created)" "$(number evicted)" "$nodes" \
        "$(number total)"
    limit="${below[$scenario]:-}"
    if [[ -n $limit ]] && ! awk "BEGIN { exit !($wall < $limit) }"; then
        echo "MISSED $scenario took $wall s, wanted < $limit s" >&2
        status=1
    fi
done
if [[ -e $data/openb/openb_pod_list_default.csv ]]; then
    DOVETAIL_DATA="$data" cargo run --quiet --locked --release --package xtask -- bench trace || status=1
fi
exit "$status"
