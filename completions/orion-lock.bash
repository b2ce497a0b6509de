# bash completion for orion-lock(1); written from its options, see CONTRIBUTING.md.
# shellcheck shell=bash

# Locks that were ever held in the directory of this command line, as they are to be typed.
_orion_lock_names() {
    local lock
    COMPREPLY=()
    while IFS= read -r lock; do
        [[ $lock != "$cur"* ]] || {
            printf -v lock %q "$lock"
            COMPREPLY+=("$lock")
        }
    done < <(orion-lock ${dir:+--dir "$dir"} list --names 2>/dev/null)
}

_orion_lock() {
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
        if [[ $at == run && $place -ge 1 ]]; then
            place=$((place + 1))
            continue
        fi
        case $at:$word in
            :run | :acquire | :release | :verify | :tick | :status | :wait | :list | :hold | :pause | :resume | :stop | :break | :log | :timeline | :check | :metrics | :prune | :where | :doctor | :init) at=$word ;;
            *:--dir | *:--via | run:-w | run:--wait | run:--max-waiting | run:--slots | run:--once | run:--once-ok | run:--cooldown | run:-E | run:--busy-code | run:--max-run | run:--kill-after | run:--status-file | run:--note | run:--grace | run:--fence | run:--frozen | acquire:--owner | acquire:--for | acquire:-w | acquire:--wait | acquire:--max-waiting | acquire:--slots | acquire:--once | acquire:--cooldown | acquire:-E | acquire:--busy-code | acquire:--note | release:--token | release:--owner | verify:--token | verify:--owner | tick:--token | tick:--owner | tick:--every | status:--user | wait:-w | wait:--wait | wait:--slots | list:--user | hold:-w | hold:--wait | hold:--max-waiting | hold:-E | hold:--busy-code | hold:--note | pause:--for | pause:--note | stop:--token | stop:-w | stop:--wait | stop:--kill-after | break:--token | log:--user | log:-n | log:--lines | log:--at | log:--since | log:--until | log:--event | timeline:--user | timeline:--since | timeline:--until | timeline:--html | timeline:--lease | check:--held-longer | check:--skips | check:--last-run-within | check:--waiting-longer | metrics:--most | prune:--older | where:--pulse | init:--grant | init:--max-grace)
                i=$((i + 1))
                [[ ${COMP_WORDS[i]} != = ]] || i=$((i + 1))
                [[ $word != --dir ]] || dir=${COMP_WORDS[i]-}
                ;;
            *:-*) ;;
            *) place=$((place + 1)) ;;
        esac
    done
    if [[ $at != run || $place -le 1 ]]; then
        case $at:$prev in
            where:--pulse)
                _orion_lock_names
                return
                ;;
            status:--user | list:--user | log:--user | timeline:--user)
                mapfile -t COMPREPLY < <(compgen -u -- "$cur")
                return
                ;;
            *:--dir)
                mapfile -t COMPREPLY < <(compgen -d -- "$cur")
                return
                ;;
            run:--status-file | timeline:--html | timeline:--lease)
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                return
                ;;
            acquire:--owner | acquire:--for | release:--owner | verify:--owner | tick:--owner)
                mapfile -t COMPREPLY < <(compgen -W "$(ps -u "$EUID" -o pid= 2>/dev/null)" -- "$cur")
                return
                ;;
            *:--via | run:-w | run:--wait | run:--max-waiting | run:--slots | run:--once | run:--once-ok | run:--cooldown | run:-E | run:--busy-code | run:--max-run | run:--kill-after | run:--note | run:--grace | run:--fence | run:--frozen | acquire:-w | acquire:--wait | acquire:--max-waiting | acquire:--slots | acquire:--once | acquire:--cooldown | acquire:-E | acquire:--busy-code | acquire:--note | release:--token | verify:--token | tick:--token | tick:--every | wait:-w | wait:--wait | wait:--slots | hold:-w | hold:--wait | hold:--max-waiting | hold:-E | hold:--busy-code | hold:--note | pause:--for | pause:--note | stop:--token | stop:-w | stop:--wait | stop:--kill-after | break:--token | log:-n | log:--lines | log:--at | log:--since | log:--until | log:--event | timeline:--since | timeline:--until | check:--held-longer | check:--skips | check:--last-run-within | check:--waiting-longer | metrics:--most | prune:--older | init:--grant | init:--max-grace)
                :
                return
                ;;
        esac
    fi
    case $at:$place in
        '':*) options='--dir --via --json --utc -q --quiet -v --verbose -h --help -V --version' ;;
        run:0) options='--dir --via --json --utc -q --quiet -v --verbose -n --nonblock -w --wait --max-waiting --slots -s --shared --once --once-ok --cooldown -E --busy-code --tree --max-run --kill-after -x --exclusive -F --no-fork --replace -o --owner-only --reentrant --status-file --note --grace --fence --frozen -h --help' ;;
        acquire:*) options='--dir --via --json --utc -q --quiet -v --verbose --owner --for -n --nonblock -w --wait --max-waiting --slots -s --shared --once --cooldown -E --busy-code --short-lived --pulse-stdin --note --print-token --reentrant --dry-run -h --help' ;;
        release:*) options='--dir --via --json --utc -q --quiet -v --verbose --token --owner -h --help' ;;
        verify:*) options='--dir --via --json --utc -q --quiet -v --verbose --token --owner --orphan-ok -h --help' ;;
        tick:*) options='--dir --via --json --utc -q --quiet -v --verbose --token --owner --every -h --help' ;;
        status:*) options='--dir --via --json --utc -q --quiet -v --verbose --user --all-users -h --help' ;;
        wait:*) options='--dir --via --json --utc -q --quiet -v --verbose -w --wait --slots -s --shared -h --help' ;;
        list:*) options='--dir --via --json --utc -q --quiet -v --verbose --user --all-users --all -h --help' ;;
        hold:*) options='--dir --via --json --utc -q --quiet -v --verbose -n --nonblock -w --wait --max-waiting -E --busy-code --note -h --help' ;;
        pause:*) options='--dir --via --json --utc -q --quiet -v --verbose --for --note --all -h --help' ;;
        resume:*) options='--dir --via --json --utc -q --quiet -v --verbose --all -h --help' ;;
        stop:*) options='--dir --via --json --utc -q --quiet -v --verbose --token -w --wait --kill-after -h --help' ;;
        break:*) options='--dir --via --json --utc -q --quiet -v --verbose --token --owner-is-alive --yes -h --help' ;;
        log:*) options='--dir --via --json --utc -q --quiet -v --verbose --user --all-users -n --lines --at --since --until --event -h --help' ;;
        timeline:*) options='--dir --via --json --utc -q --quiet -v --verbose --user --all-users --since --until --html --claims --lease -h --help' ;;
        check:*) options='--dir --via --json --utc -q --quiet -v --verbose --held-longer --skips --last-run-within --waiting-longer -h --help' ;;
        metrics:*) options='--dir --via --json --utc -q --quiet -v --verbose --most -h --help' ;;
        prune:*) options='--dir --via --json --utc -q --quiet -v --verbose --older --dry-run --logs -h --help' ;;
        where:*) options='--dir --via --json --utc -q --quiet -v --verbose --mark-private --mark-network --pulse -h --help' ;;
        doctor:*) options='--dir --via --json --utc -q --quiet -v --verbose -h --help' ;;
        init:*) options='--dir --via --json --utc -q --quiet -v --verbose --print --grant --max-grace -h --help' ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
        return
    fi
    case $at:$place in
        :0) mapfile -t COMPREPLY < <(compgen -W 'run acquire release verify tick status wait list hold pause resume stop break log timeline check metrics prune where doctor init' -- "$cur") ;;
        run:0 | acquire:0 | release:0 | verify:0 | tick:0 | status:0 | wait:0 | hold:0 | pause:0 | resume:0 | stop:0 | break:0 | log:0 | timeline:* | check:* | metrics:* | prune:*) _orion_lock_names ;;
        run:1) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
        run:*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    esac
}

complete -o bashdefault -F _orion_lock orion-lock
