# bash completion for orion-claim(1); written from its options, see CONTRIBUTING.md.
# shellcheck shell=bash

_orion_claim() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local at='' place=0 options='' i word
    COMPREPLY=()
    if [[ $cur == = ]]; then
        cur=''
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $at == run && $place -ge 1 ]]; then
            place=$((place + 1))
            continue
        fi
        if [[ $at == watch && $place -ge 1 ]]; then
            place=$((place + 1))
            continue
        fi
        case $at:$word in
            :init | :next | :acquire | :run | :tick | :stage | :verify | :release | :list | :log | :timeline | :metrics | :where | :status | :pause | :resume | :reconcile | :watch | :free) at=$word ;;
            *:--tracker | *:--arbiter | *:--config | *:--dir | acquire:--owner | acquire:--for | acquire:--branch | acquire:--worktree | run:--stage | run:--on-success | run:--max-run | run:--keep-output | run:--kill-after | run:--every | run:--branch | run:--worktree | tick:--token | tick:--owner | tick:--every | stage:--token | stage:--owner | stage:--branch | stage:--worktree | verify:--token | verify:--owner | release:--to | release:--token | release:--owner | log:-n | log:--lines | log:--at | log:--since | log:--until | log:--event | timeline:--since | timeline:--until | timeline:--html | where:--pulse | pause:--for | pause:--note | watch:--every | watch:--max | watch:--stage | watch:--on-success | watch:--max-run | watch:--keep-output | watch:--kill-after | watch:--quick | watch:--trip | watch:--retry-after | free:--host)
                i=$((i + 1))
                [[ ${COMP_WORDS[i]} != = ]] || i=$((i + 1))
                ;;
            *:-*) ;;
            *) place=$((place + 1)) ;;
        esac
    done
    if [[ $at != run || $place -le 1 && $at != watch || $place -le 1 ]]; then
        case $at:$prev in
            *:--dir | acquire:--worktree | run:--keep-output | run:--worktree | stage:--worktree | watch:--keep-output)
                mapfile -t COMPREPLY < <(compgen -d -- "$cur")
                return
                ;;
            *:--config | timeline:--html)
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                return
                ;;
            acquire:--owner | acquire:--for | tick:--owner | stage:--owner | verify:--owner | release:--owner)
                mapfile -t COMPREPLY < <(compgen -W "$(ps -u "$EUID" -o pid= 2>/dev/null)" -- "$cur")
                return
                ;;
            *:--tracker | *:--arbiter | acquire:--branch | run:--stage | run:--max-run | run:--kill-after | run:--every | run:--branch | tick:--token | tick:--every | stage:--token | stage:--branch | verify:--token | release:--token | log:-n | log:--lines | log:--at | log:--since | log:--until | log:--event | timeline:--since | timeline:--until | where:--pulse | pause:--for | pause:--note | watch:--every | watch:--max | watch:--stage | watch:--max-run | watch:--kill-after | watch:--quick | watch:--trip | watch:--retry-after | free:--host)
                :
                return
                ;;
            run:--on-success | watch:--on-success)
                mapfile -t COMPREPLY < <(compgen -W 'ready ci-wait' -- "$cur")
                return
                ;;
            release:--to)
                mapfile -t COMPREPLY < <(compgen -W 'ready ci-wait queue failed' -- "$cur")
                return
                ;;
        esac
    fi
    case $at:$place in
        '':*) options='--tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose --print-config -h --help -V --version' ;;
        init:*) options='--check --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        next:*) options='--tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        acquire:*) options='--owner --for --short-lived --pulse-stdin --print-token --branch --worktree --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        run:0) options='--stage --on-success --max-run --owner-only --keep-output --comment --kill-after --every --branch --worktree --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        tick:*) options='--token --owner --every --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        stage:*) options='--token --owner --branch --worktree --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        verify:*) options='--token --owner --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        release:*) options='--to --token --owner --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        list:*) options='--tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        log:*) options='-n --lines --at --since --until --event --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        timeline:*) options='--since --until --html --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        metrics:*) options='--tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        where:*) options='--pulse --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        status:*) options='--tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        pause:*) options='--for --note --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        resume:*) options='--tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        reconcile:*) options='--dry-run --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        watch:0) options='--every --max --stage --on-success --max-run --owner-only --keep-output --comment --kill-after --quick --quick-success --trip --retry-after --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
        free:*) options='--host --yes --tracker --arbiter --single-machine --ignore-assignee --config --dir --json --utc -q --quiet -v --verbose -h --help' ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
        return
    fi
    case $at:$place in
        :0) mapfile -t COMPREPLY < <(compgen -W 'init next acquire run tick stage verify release list log timeline metrics where status pause resume reconcile watch free' -- "$cur") ;;
        run:1 | watch:0) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
        run:* | watch:*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    esac
}

complete -o bashdefault -F _orion_claim orion-claim
