# bash completion for orion-reap(1); written from its options, see CONTRIBUTING.md.
# shellcheck shell=bash

_orion_reap() {
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
        case $at:$word in
            *:--runner | *:--automation | *:--idle | *:--settle | *:--idle-match | *:--tmux-socket | *:--resident | *:--job-quiet | *:--interrupted | *:--keep-output | *:--deadline | *:--dir)
                i=$((i + 1))
                [[ ${COMP_WORDS[i]} != = ]] || i=$((i + 1))
                ;;
            *:-*) ;;
            *) place=$((place + 1)) ;;
        esac
    done
    if [[ -n $prev ]]; then
        case $at:$prev in
            *:--keep-output | *:--dir)
                mapfile -t COMPREPLY < <(compgen -d -- "$cur")
                return
                ;;
            *:--tmux-socket)
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                return
                ;;
            *:--automation | *:--idle | *:--settle | *:--idle-match | *:--resident | *:--job-quiet | *:--interrupted | *:--deadline)
                :
                return
                ;;
            *:--runner)
                mapfile -t COMPREPLY < <(compgen -W 'tmux orca command:' -- "$cur")
                return
                ;;
        esac
    fi
    case $at:$place in
        '':*) options='--runner --automation --idle --settle --idle-match --trust-screen --tmux-socket --resident --job-quiet --interrupted --end-survivors --close-newest --keep-output --force --deadline --dry-run --log --dir --strict --json -q --quiet -v --verbose -h --help -V --version' ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
        return
    fi
    case $at:$place in
    esac
}

complete -o bashdefault -F _orion_reap orion-reap
