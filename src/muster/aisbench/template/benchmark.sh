#!/bin/bash
# The steps of the benchmark, as ais-bench-stubs starts them. Exit codes: 1 init, 2 train, 3 eval, 4 get_result failed.
BASE_PATH=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd) || exit 1
export BASE_PATH CODE_PATH="$BASE_PATH/code"
RUNTYPE="cluster_offline"
. "$CODE_PATH/common/muster.sh" || exit 1

# A signal for this script alone is for the step under way; Ctrl-C on a terminal reaches that step by itself.
child=
trap '[ -n "$child" ] && kill -TERM "$child" 2> /dev/null' TERM HUP
trap : INT

step() {
    echo "$(date +%Y-%m-%dT%H:%M:%S) -Ais-Bench-Stubs- INFO $1(benchmark.sh:${BASH_LINENO[0]}) - $1 called ($RUNTYPE)"
    "${muster[@]}" pack "$BASE_PATH" --start "$1" &
    child=$!
    wait "$child"
    local code=$?
    while kill -0 "$child" 2> /dev/null; do # a signal ended the waiting, not the step
        wait "$child"
        code=$?
    done
    child=
    return "$code"
}

step init || exit 1
step run_train || exit 2
step run_eval || exit 3
step get_result || exit 4
