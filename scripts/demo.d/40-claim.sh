# shellcheck shell=bash disable=SC2004,SC2016,SC2034,SC2154
# Sourced by scripts/demo: two watchers, ten tickets, one watcher killed: none worked twice, none stranded.

claim_demo() {
    local number first second
    mkdir "$place/tickets"
    export ORION_TRACKER=file:$place/tickets WORKED=$place/worked
    : >"$WORKED"
    for number in {1..10}; do
        printf 'title = "Ticket %s"\nlabels = ["orion-queue"]\n' "$number" >"$place/tickets/$number.toml"
    done
    cat >"$place/bin/worker" <<'WORKER'
#!/bin/sh
echo "$ORION_TICKET" >>"$WORKED"
sleep 0.2
WORKER
    chmod +x "$place/bin/worker"
    say "Ten tickets, and two watchers that share them: one here, one as if on another machine."
    echo '$ orion-claim -q watch --every 1s --quick 0 --max 2 -- worker &'
    orion-claim -q watch --every 1s --quick 0 --max 2 -- worker &
    first=$!
    echo '$ orion-claim --dir OTHER -q watch --every 1s --quick 0 --max 2 -- worker &'
    orion-claim --dir "$place/other" -q watch --every 1s --quick 0 --max 2 -- worker &
    second=$!
    working[$first]=1 working[$second]=1
    until (($(wc -l <"$WORKED") >= 4)); do sleep 0.02; done
    end "$first"
    until (($(grep -l orion-ready "$place"/tickets/*.toml | wc -l) == 10)); do sleep 0.05; done
    echo "\$ kill $second    # it drains"
    kill "$second"
    wait "$second"
    unset "working[$second]"

    say "A run is killed in the middle of a ticket; the next pass puts it back, with its branch for whoever goes on."
    printf 'title = "Ticket 11"\nlabels = ["orion-queue"]\n' >"$place/tickets/11.toml"
    start 11 "orion-claim run --branch t-11 11 agent --task 11"
    kill -9 "$agent"
    end "$job"
    unset "working[$agent]"
    # The processes that were killed may take a moment to go.
    until [[ $(orion-claim reconcile --dry-run) == *'back into the queue'* ]]; do sleep 0.05; done
    type 0 "orion-claim reconcile"
    says "put back into the queue"
    type 0 "orion-claim run 11 sh -c 'echo resume on \$ORION_CLAIM_BRANCH'"
    says "resume on t-11"
    type 0 'sort -n $WORKED | uniq -c'
    if (($(sort -u "$WORKED" | wc -l) != 10 || $(wc -l <"$WORKED") != 10)); then
        echo "demo: a ticket was worked twice, or never" >&2
        exit 1
    fi
    type 0 "orion-claim list"
}

claim_demo
