# bash completion for orion-precheck(1); written from its options, see CONTRIBUTING.md.
# shellcheck shell=bash

# Locks that were ever held in the directory of this command line, as they are to be typed.
_orion_precheck_names() {
    local lock
    COMPREPLY=()
    while IFS= read -r lock; do
        [[ $lock != "$cur"* ]] || {
            printf -v lock %q "$lock"
            COMPREPLY+=("$lock")
        }
    done < <(orion-lock ${dir:+--dir "$dir"} list --names 2>/dev/null)
}

_orion_precheck() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local at='' dir='' place=0 options='' i word
    COMPREPLY=()
    if [[ $cur == = ]]; then
        cur=''
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $at:$word in
            *:--dir | *:--via | *:--deadline | *:-E | *:--busy-code | *:--slots | *:--once | *:--once-ok | *:--cooldown | *:--runner | *:--automation | *:--idle | *:--settle | *:--idle-match | *:--tmux-socket | *:--resident | *:--job-quiet | *:--interrupted | *:--keep-output)
                i=$((i + 1))
                [[ ${COMP_WORDS[i]} != = ]] || i=$((i + 1))
                [[ $word != --dir ]] || dir=${COMP_WORDS[i]-}
                ;;
            *:-*) ;;
            *) place=$((place + 1)) ;;
        esac
    done
    if [[ -n $prev ]]; then
        case $at:$prev in
            *:--dir | *:--keep-output)
                mapfile -t COMPREPLY < <(compgen -d -- "$cur")
                return
                ;;
            *:--tmux-socket)
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                return
                ;;
            *:--via | *:--deadline | *:-E | *:--busy-code | *:--slots | *:--once | *:--once-ok | *:--cooldown | *:--automation | *:--idle | *:--settle | *:--idle-match | *:--resident | *:--job-quiet | *:--interrupted)
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
        '':*) options='--dir --via --deadline -E --busy-code --observe --dry-run --strict --json -q --quiet -v --verbose --slots -s --shared --once --once-ok --cooldown --reap --busy-is-held --runner --automation --idle --settle --idle-match --trust-screen --tmux-socket --resident --job-quiet --interrupted --end-survivors --close-newest --keep-output --force -h --help -V --version' ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
        return
    fi
    case $at:$place in
        :*) _orion_precheck_names ;;
    esac
}

complete -o bashdefault -F _orion_precheck orion-precheck
