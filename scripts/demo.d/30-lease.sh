# shellcheck shell=bash disable=SC2004,SC2016,SC2034,SC2154
# Sourced by scripts/demo: one resident per store; a stuck one, a takeover, and no work without the role.

lease_demo() {
    export STORE=$place/journal.db
    say "One server per store. This one says once that it works, and then hangs."
    cat >"$place/bin/server" <<'SERVER'
#!/bin/sh
orion-lease tick "$STORE"
exec agent --task server
SERVER
    chmod +x "$place/bin/server"
    start server 'orion-lease run $STORE server'
    type 75 'orion-lease run $STORE echo second'
    say "After a second of silence (five minutes, if not said otherwise) it is called stuck, and still has the role."
    until
        orion-lease probe --stuck-after 1s "$STORE" >/dev/null 2>&1
        (($? == 76))
    do sleep 0.1; done
    type 76 'orion-lease probe --stuck-after 1s $STORE'
    type 0 'orion-lease run --takeover stuck --stuck-after 1s $STORE echo "mine now"'
    says "mine now"
    { wait "$job" || true; } 2>/dev/null
    unset "working[$job]" "working[$agent]"

    say "When the holder is killed, its command is ended with it: nothing works without the role."
    start server 'orion-lease run $STORE server'
    end "$job"
    while [[ -d /proc/$agent ]] && [[ $(<"/proc/$agent/stat") != *') Z '* ]]; do sleep 0.02; done 2>/dev/null
    unset "working[$agent]"
    type 0 'orion-lease probe $STORE'
}

lease_demo
