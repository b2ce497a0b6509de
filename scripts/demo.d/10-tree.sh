# shellcheck shell=bash disable=SC2004,SC2034,SC2154
# Sourced by scripts/demo: a tree that outlives its command, and its end by the clock.

tree_demo() {
    say "A command ends and leaves something behind in a session of its own: the lock stays held, and after two seconds it is ended."
    printf '$ %s &\n' "orion-lock run --max-run 2s --kill-after 1s sync sh -c 'setsid sleep 600 & echo started'"
    orion-lock run --max-run 2s --kill-after 1s sync sh -c 'setsid sleep 600 >/dev/null 2>&1 & echo started' 2>&1 &
    job=$!
    working[$job]=1
    while [[ -d /proc/$job && $(orion-lock status sync 2>&1) != *'left behind'* ]]; do sleep 0.02; done
    type 75 "orion-lock status sync"
    says "left behind"
    wait "$job" || true
    unset "working[$job]"
    type 0 "orion-lock run sync echo 'my turn'"
    says "my turn"
}

tree_demo
