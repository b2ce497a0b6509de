# bash completion for orion-mark(1); written from its options, see CONTRIBUTING.md.
# shellcheck shell=bash

_orion_mark() {
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
            :claim | :ready | :busy | :idle | :working | :question | :ended | :install | :check | :profile) at=$word ;;
            *:--dir | install:--file | check:--file)
                i=$((i + 1))
                [[ ${COMP_WORDS[i]} != = ]] || i=$((i + 1))
                ;;
            *:-*) ;;
            *) place=$((place + 1)) ;;
        esac
    done
    if [[ -n $prev ]]; then
        case $at:$prev in
            *:--dir)
                mapfile -t COMPREPLY < <(compgen -d -- "$cur")
                return
                ;;
            install:--file | check:--file)
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                return
                ;;
        esac
    fi
    case $at:$place in
        '':*) options='--strict --dir -h --help -V --version' ;;
        claim:*) options='--strict --dir -h --help' ;;
        ready:*) options='--strict --dir -h --help' ;;
        busy:*) options='--strict --dir -h --help' ;;
        idle:*) options='--strict --dir -h --help' ;;
        working:*) options='--strict --dir -h --help' ;;
        question:*) options='--strict --dir -h --help' ;;
        ended:*) options='--strict --dir -h --help' ;;
        install:*) options='--project --file --remove --dry-run --strict --dir -h --help' ;;
        check:*) options='--project --file --strict --dir -h --help' ;;
        profile:*) options='--json --strict --dir -h --help' ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
        return
    fi
    case $at:$place in
        :0) mapfile -t COMPREPLY < <(compgen -W 'claim ready busy idle working question ended install check profile' -- "$cur") ;;
    esac
}

complete -o bashdefault -F _orion_mark orion-mark
