# shellcheck shell=bash disable=SC2016,SC2154
# Sourced by scripts/demo.

# A finished run at its prompt is closed, a busy one is kept with its reason, and the next fire goes ahead.
demo_reap() {
    if ! command -v tmux >/dev/null; then
        say "skipped: tmux is not installed"
        return
    fi
    export S=$place/tmux
    local reap="--runner tmux --tmux-socket \$S --automation nightly --idle 2s --force"
    say "Two agents in tmux: one has finished its turn and sits at its prompt, one works."
    type 0 'orion-fire --tmux-socket $S --automation nightly -- sh -c "orion-mark idle; exec cat"'
    type 0 'orion-fire --tmux-socket $S --automation nightly --lock other -- sh -c "orion-mark busy; while echo a step; do sleep 0.5; done"'
    type 75 'orion-precheck nightly'
    say "The reaper tells them apart (ten minutes of silence are the default, not two seconds)."
    until orion-reap -q --dry-run --runner tmux --tmux-socket "$S" --automation nightly --idle 2s --force |
        grep -q 'would close 1'; do
        sleep 0.2
    done
    type 0 "orion-precheck --reap $reap nightly"
    says 'closed 1'
    type 0 "orion-reap $reap"
    says 'closed 0, kept 1'
    type 0 'orion-fire --reap --tmux-socket $S --automation nightly -- cat'
    tmux -S "$S" kill-server
}

demo_reap
