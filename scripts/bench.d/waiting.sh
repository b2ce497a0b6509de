# shellcheck shell=bash disable=SC2016,SC2154
# Rows about waiting, sourced by scripts/bench: how soon a waiter has the lock, and what it costs to wait.

# A program that says the time, in nanoseconds, as soon as it runs.
clock=(/bin/date +%s%N)

# latency LABEL HOLD... -- WAIT...: kill -9 of the holder until the waiter's program says the time; its own start is in it.
latency() {
    local label=$1 hold=() i from
    shift
    while [[ $1 != -- ]]; do hold+=("$1"); shift; done
    shift
    : >"$state/raw"
    for ((i = 0; i < rounds * 2; i++)); do
        rm -f "$state/up"
        mkfifo "$state/up"
        "${hold[@]}" sh -c "echo >'$state/up'; exec sleep 3600" &
        local holder=$!
        read -r _ <"$state/up"
        "$@" "${clock[@]}" >"$state/at" &
        local waiter=$!
        # It sleeps in the kernel: on the lock, or in poll beside its inotify.
        until [[ $(cat "/proc/$waiter/wchan" 2>/dev/null) == *@(lock|poll|futex)* ]]; do sleep 0.005; done
        sleep 0.02
        from=$(date +%s%N)
        # Quietly: the shell would say that a job was killed.
        { kill -9 "$holder" && wait "$waiter" "$holder"; } 2>/dev/null || true
        echo "$((($(<"$state/at") - from) / 1000))" >>"$state/raw"
    done
    awk -v label="$label" -v us="$(median <"$state/raw")" 'BEGIN { printf "| %s | %.2f ms | |\n", label, us / 1000 }'
}

latency 'after `kill -9` of the owner a waiter of `flock FILE` runs (`date` included)' flock -F "$lock.wait" -- flock -F "$lock.wait"
latency 'after `kill -9` of the owner a waiter of `orion-lock run -w` runs (`date` included)' orion-lock run wait -- orion-lock run -w forever wait

# on_cpu PID...: seconds on a processor, all threads.
on_cpu() {
    local pid
    for pid in "$@"; do cat "/proc/$pid"/task/*/schedstat 2>/dev/null; done | awk '{ ns += $1 } END { print ns / 1e9 }'
}

# spent PID...: seconds on a processor in one second of waiting, over ten.
spent() {
    local before after
    before=$(on_cpu "$@")
    sleep 10
    after=$(on_cpu "$@")
    awk -v a="$before" -v b="$after" 'BEGIN { printf "%.6f", (b - a) / 10 }'
}

if have perl; then
    crowd=300
    holder orion-lock run crowd
    waiters=()
    for ((i = 0; i < crowd; i++)); do
        orion-lock run -w forever crowd true &
        waiters+=($!)
    done
    sleep 5
    ours=$(spent "${waiters[@]}")
    kill "${waiters[@]}"
    wait "${waiters[@]}" 2>/dev/null || true

    holder flock -n -F "$lock.crowd"
    waiters=()
    for ((i = 0; i < crowd; i++)); do
        perl -e 'use Fcntl ":flock"; open(my $f, "+<", $ARGV[0]) or die; select(undef, undef, undef, 0.005) until flock($f, LOCK_EX | LOCK_NB)' "$lock.crowd" &
        waiters+=($!)
    done
    sleep 5
    polled=$(spent "${waiters[@]}")
    kill "${waiters[@]}"
    wait "${waiters[@]}" 2>/dev/null || true
    awk -v n="$crowd" -v a="$ours" -v b="$polled" \
        'BEGIN { printf "| processor time of %d waiters, a second | %.2f ms | 1/%.0f of a poll every 5 ms (%.0f ms) |\n", n, a * 1000, b / a, b * 1000 }'
fi
