#!/usr/bin/env bash
# Plays the large scenarios with an optimised dovetail, keeps their reports in bench/out, and prints a line for each.
# What a scenario takes and costs belongs into docs/benchmarks.md.
set -euo pipefail

dovetail="${1:?usage: bench-scenarios.sh DOVETAIL}"
data="${DOVETAIL_DATA:-../shared/data}"
cd "$(dirname "$0")/.."
mkdir -p bench/out
echo "| scenario | virtual time | wall clock, s | pods | nodes bought | cost, \$ |"
echo "|---|--:|--:|--:|--:|--:|"
for scenario in eks-workshop black-friday openb; do
    if [[ $scenario == openb && ! -e $data/openb/openb_pod_list_default.csv ]]; then
        echo "openb is left out: $data/openb/openb_pod_list_default.csv is not there; set DOVETAIL_DATA" >&2
        continue
    fi
    report="bench/out/scenario-$scenario.json"
    DOVETAIL_DATA="$data" "$dovetail" simulate "scenarios/$scenario.yaml" --output json > "$report"
    number() { sed -nE "s/^ *\"$1\": ([0-9.]+),?$/\1/p" "$report" | head -n 1; }
    nodes="$(grep -c '"instanceType":' "$report" || true)"
    printf '| %s | %.1f h | %.2f | %d | %d | %.2f |\n' "$scenario" "$(awk "BEGIN { print $(number virtualSeconds) / 3600 }")" \
        "$(number wallSeconds)" "$(number created)" "$nodes" "$(number total)"
done
