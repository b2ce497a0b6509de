# shellcheck shell=bash disable=SC2004,SC2034,SC2154
# Sourced by scripts/demo: a waiter gets the lock when its owner is killed, and the self-test.

waiting_demo() {
    local waiter
    say "Somebody waits for the lock, and has it when the owner is killed."
    start sync "orion-lock run sync agent --task sync"
    printf '$ %s &\n' "orion-lock run -w 1m sync echo 'the waiter has it'"
    orion-lock run -w 1m sync echo 'the waiter has it' >"$place/waiter" &
    waiter=$!
    working[$waiter]=1
    # It stands in line when it watches.
    until [[ $(readlink "/proc/$waiter/fd/"* 2>/dev/null) == *inotify* ]]; do sleep 0.02; done
    end "$job"
    wait "$waiter"
    unset "working[$waiter]"
    cat "$place/waiter"

    say "Does all of this work on this host? Each check is a line; here is the last one."
    type 0 "orion-lock doctor | tail -n 1"
    says "checks hold"
}

waiting_demo
