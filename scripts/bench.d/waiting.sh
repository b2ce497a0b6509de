# shellcheck shell=bash disable=SC2016,SC2154
# Rows about waiting, sourced by scripts/bench: how soon a waiter has the lock, and what it costs to wait.

# Does process $1 watch, that is, is it the first in the line?
watches() {
    local link
    for link in "/proc/$1/fd"/*; do
        [[ $(readlink "$link") != *inotify* ]] || return 0
    done
    return 1
}

# wake_up KILL|END: microseconds from the end of the owner to the waiter's "acquired", one a line.
wake_up() {
    local i owner waiter from fifo=$state/wake.$1
    mkfifo "$fifo.up" "$fifo.got"
    exec 7<>"$fifo.got"
    for ((i = 0; i < rounds * 3; i++)); do
        orion-lock run wake sh -c "echo >'$fifo.up'; read -r _ <'$fifo.up'" &
        owner=$!
        read -r _ <"$fifo.up"
        orion-lock run -w 1m --status-file "$fifo.got" wake true &
        waiter=$!
        until watches "$waiter"; do sleep 0.005; done
        sleep 0.02
        from=${EPOCHREALTIME/./}
        if [[ $1 == kill ]]; then kill -9 "$owner"; else echo >"$fifo.up"; fi
        read -r _ <&7
        echo "$((${EPOCHREALTIME/./} - from))"
        wait "$owner" "$waiter" || true
    done 2>/dev/null
    exec 7<&-
    rm -f "$fifo.up" "$fifo.got"
}

for how in kill end; do
    words='after `kill -9` of its owner'
    [[ $how == kill ]] || words='after its owner ended'
    awk -v words="$words" -v us="$(wake_up "$how" | median)" 'BEGIN { printf "| a waiter has the lock %s | %.2f ms | |\n", words, us / 1000 }'
done

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
