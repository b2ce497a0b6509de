# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# Rows of orion-lease, sourced by scripts/bench.

bench_lease() {
    local store=$state/lease.db busy=$state/busy.db
    measure "flock -n $lock true" "orion-lease run --exec $store true" "orion-lease run $store true" "orion-lease probe $store"
    row '`orion-lease run --exec STORE true`, acquire and release' 1
    row '`orion-lease run STORE true`, with its guardian (three processes more)' 2
    row '`orion-lease probe`, free' 3
    holder orion-lease run "$busy"
    measure "flock -n $lock.held true" "orion-lease probe $busy" "orion-lease run -q $busy true"
    row '`orion-lease probe`, held (against a refusal by `flock -n`)' 1
    row 'refusal by `orion-lease run -q` (against a refusal by `flock -n`)' 2
    # hyperfine itself is the command, so that what it starts may tick.
    orion-lease run "$store" hyperfine -N -i --style none --warmup 10 --runs $((rounds * block)) --export-json "$json" \
        "flock -n $lock.held true" "orion-lease tick $store" >/dev/null 2>&1
    medians=("$(times | awk '$1 == 1 { print $2 * 1000 }' | median)" "$(times | awk '$1 == 2 { print $2 * 1000 }' | median)")
    row '`orion-lease tick` (against a refusal by `flock -n`)' 1
    # Peak memory of a run that waits: it is still there to be asked.
    orion-lease run -w forever "$busy" true &
    local waiter=$!
    holders+=("$waiter")
    local tasks=("/proc/$waiter/task/"*)
    until ((${#tasks[@]} > 1)); do
        sleep 0.05
        tasks=("/proc/$waiter/task/"*)
    done
    awk '/VmHWM/ { printf "| peak memory, `orion-lease run -w` that waits | %d KiB | |\n", $2 }' "/proc/$waiter/status"
}
bench_lease
