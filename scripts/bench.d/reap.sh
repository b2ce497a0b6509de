# shellcheck shell=bash disable=SC2016,SC2154
# Rows of orion-reap, sourced by scripts/bench.

# A pass of orion-reap over 200 panes with nothing to close, beside one bare list-panes.
# Uses measure, row and $state of scripts/bench.
bench_reap() {
    command -v tmux >/dev/null || return 0
    local socket=$state/tmux n pane pid stat
    (
        unset TMUX
        tmux -f /dev/null -S "$socket" new-session -d -s bench cat
    )
    for ((n = 1; n < 200; n++)); do echo 'new-window -d -t =bench: cat'; done >"$state/panes"
    tmux -S "$socket" source-file "$state/panes"
    tmux -S "$socket" list-panes -a -F '#{pane_id} #{pane_pid}' | while read -r pane pid; do
        stat=$(<"/proc/$pid/stat")
        # shellcheck disable=SC2086  # fields
        set -- ${stat##*) }
        echo "set-option -p -t $pane @orion_run 'bench $pane $pid ${20}'"
        echo "set-option -p -t $pane @orion_state 'idle $EPOCHSECONDS'"
    done >"$state/panes"
    tmux -S "$socket" source-file "$state/panes"
    measure "tmux -u -S $socket list-panes -a" \
        "orion-reap -q --runner tmux --tmux-socket $socket --automation bench" \
        "orion-reap -q --runner tmux --tmux-socket $socket --automation other"
    row '`tmux list-panes -a`, 200 panes' 0
    row '`orion-reap`, 200 tagged panes, all young (against `tmux list-panes -a`)' 1
    row '`orion-reap`, 200 panes of another automation (against `tmux list-panes -a`)' 2
    tmux -S "$socket" kill-server
}

bench_reap
