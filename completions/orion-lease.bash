# bash completion for orion-lease(1); written from its options, see CONTRIBUTING.md.
# shellcheck shell=bash

_orion_lease() {
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
        case $at:$word in
            :path | :run | :probe | :tick | :takeover) at=$word ;;
            run:-w | run:--wait | run:-E | run:--busy-code | run:--surface | run:--takeover | run:--kill-after | run:--stuck-after | run:--build-file | run:--revision | probe:--stuck-after | takeover:-w | takeover:--wait | takeover:--kill-after | takeover:--stuck-after)
                i=$((i + 1))
                [[ ${COMP_WORDS[i]} != = ]] || i=$((i + 1))
                ;;
            *:-*) ;;
            *) place=$((place + 1)) ;;
        esac
    done
    if [[ $at != run || $place -le 1 ]]; then
        case $at:$prev in
            run:--build-file)
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                return
                ;;
            run:-w | run:--wait | run:-E | run:--busy-code | run:--surface | run:--kill-after | run:--stuck-after | run:--revision | probe:--stuck-after | takeover:-w | takeover:--wait | takeover:--kill-after | takeover:--stuck-after)
                :
                return
                ;;
            run:--takeover)
                mapfile -t COMPREPLY < <(compgen -W 'stuck newer' -- "$cur")
                return
                ;;
        esac
    fi
    case $at:$place in
        '':*) options='--json --utc -q --quiet -v --verbose -h --help -V --version' ;;
        path:*) options='--json --utc -q --quiet -v --verbose -h --help' ;;
        run:0) options='-n --nonblock -w --wait -E --busy-code --surface --takeover --kill-after --stuck-after --build-file --revision --exec --json --utc -q --quiet -v --verbose -h --help' ;;
        probe:*) options='--up --stuck-after --json --utc -q --quiet -v --verbose -h --help' ;;
        tick:*) options='--json --utc -q --quiet -v --verbose -h --help' ;;
        takeover:*) options='-w --wait --kill-after --stuck-after --dry-run --json --utc -q --quiet -v --verbose -h --help' ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
        return
    fi
    case $at:$place in
        :0) mapfile -t COMPREPLY < <(compgen -W 'path run probe tick takeover' -- "$cur") ;;
        path:0 | run:0 | probe:0 | tick:0 | takeover:0) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        run:1) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
        run:*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    esac
}

complete -o bashdefault -F _orion_lease orion-lease
