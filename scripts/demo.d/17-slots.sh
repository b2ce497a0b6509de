# shellcheck shell=bash disable=SC2004,SC2034,SC2154
# Sourced by scripts/demo: three slots, one runs and one waits, a pause.

slots_demo() {
    local number jobs=()
    say "Five fires, three slots: two are turned away. One holder is killed, and its slot is free at once."
    for number in 1 2 3; do
        start "slot-$number" "orion-lock run --slots 3 agents agent --task slot-$number"
        jobs+=("$job")
    done
    for number in 4 5; do
        type 75 "orion-lock run --slots 3 agents agent --task slot-$number"
        says "3 of 3 slots are held"
    done
    end "${jobs[1]}"
    type 0 "orion-lock run --slots 3 agents sh -c 'echo slot \$ORION_LOCK_SLOT is mine'"
    says "slot 2 is mine"
    type 75 "orion-lock status agents"
    end "${jobs[0]}"
    end "${jobs[2]}"

    say "One runs, one waits, the rest skip."
    start report "orion-lock run report agent --task report"
    printf '$ %s &\n' "orion-lock run -w forever --max-waiting 1 report echo 'the waiter has it'"
    orion-lock run -w forever --max-waiting 1 report echo 'the waiter has it' >"$place/waiter" &
    local waiter=$!
    working[$waiter]=1
    until [[ $(readlink "/proc/$waiter/fd/"* 2>/dev/null) == *inotify* ]]; do sleep 0.02; done
    type 75 "orion-lock run -w forever --max-waiting 1 report agent --task report"
    end "$job"
    wait "$waiter"
    unset "working[$waiter]"
    cat "$place/waiter"

    say "A person pauses everything for an hour. What runs goes on, nothing new begins."
    type 0 "orion-lock pause --all --for 1h --note 'the disk is changed'"
    type 75 "orion-lock run report echo 'not now'"
    says "the disk is changed"
    type 0 "orion-lock resume --all"
    type 0 "orion-lock run report echo 'my turn'"
}

slots_demo
