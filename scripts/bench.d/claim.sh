# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# Rows of orion-claim, sourced by scripts/bench: tickets in files, so that no server is measured.

bench_claim() {
    local tickets=$state/tickets racers each racer number begin pids
    local -x ORION_TRACKER=file:$tickets
    mkdir "$tickets"
    for racers in 1 8; do
        each=$((160 / racers))
        for ((number = 0; number < each * racers; number++)); do
            printf 'labels = ["orion-queue"]\n' >"$tickets/$racers-$number.toml"
        done
        begin=${EPOCHREALTIME/./} pids=()
        for ((racer = 0; racer < racers; racer++)); do
            for ((number = racer * each; number < (racer + 1) * each; number++)); do
                orion-claim acquire --owner "$BASHPID" "$racers-$number"
                orion-claim release --owner "$BASHPID" --to ready "$racers-$number"
            done &
            pids+=($!)
        done
        wait "${pids[@]}"
        awk -v n="$((each * racers))" -v us="$((${EPOCHREALTIME/./} - begin))" -v racers="$racers" \
            'BEGIN { printf "| `orion-claim acquire` and `release`, tickets in files, %d at a time | %.0f a second | |\n", racers, n * 1e6 / us }'
    done
    rm -r "$tickets"
    mkdir "$tickets"
    for number in {1..10000}; do
        printf 'title = "Ticket %s"\nlabels = ["orion-queue"]\n' "$number" >"$tickets/$number.toml"
    done
    for number in {1..20}; do orion-claim acquire --owner $$ "$number"; done
    local block=2 rounds=$((rounds < 5 ? rounds : 5))
    measure "orion-claim reconcile" "orion-claim next"
    awk -v a="${medians[0]}" -v b="${medians[1]}" 'BEGIN {
        printf "| `orion-claim reconcile` over 10,000 tickets, 20 in flight | %.0f ms | |\n", a
        printf "| `orion-claim next` of 10,000 tickets | %.0f ms | |\n", b }'
}

bench_claim
