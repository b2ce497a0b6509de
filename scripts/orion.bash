# shellcheck shell=bash
# Locks of orion-lock(1) and tickets of orion-claim(1) for bash scripts. Source it:
#
#   . /usr/local/share/orion/orion.bash
#   orion_guard sync                  # the lock, or the end of this script with 75
#   orion_guard sync -w 10m           # options of 'orion-lock acquire' follow the name
#   if orion_try sync; then …; fi     # the same, but it returns the code
#   orion_release sync                # before the script ends; not needed at its end
#
#   orion_claim 42                    # the ticket, or the end of this script with 75
#   orion_claim_release ready         # hands it over: ready, ci-wait, queue or failed
#
# No trap is set and none is needed: the lock ends when the shell that took it and
# everything it started have ended, however that happened. kill -9 of the script
# while its job works on does not free the lock.
#
# The owner is the shell that calls: in a subshell, that subshell. Only it can
# release; orion_release in a nested script, a subshell or somebody else's trap
# does nothing. Needs bash 4.4; works with set -euo pipefail.

# What this shell holds: name -> "BASHPID token descriptor".
declare -gA __orion_held __orion_name

# Our programs: in PATH, or where this file was installed beside them; cron knows few directories.
__orion_lock=orion-lock
if ! command -v orion-lock >/dev/null && [[ -x ${BASH_SOURCE[0]%/*}/../../bin/orion-lock ]]; then
    __orion_lock=${BASH_SOURCE[0]%/*}/../../bin/orion-lock
fi

# orion_guard NAME [OPTION...]: holds NAME from here on, or ends this shell: with 75
# when somebody else holds it, with another code of orion-lock(1) when it cannot tell.
orion_guard() {
    orion_try "$@" || exit
}

# orion_try NAME [OPTION...]: as orion_guard, but returns. Nothing but 0 means that the lock is ours.
orion_try() {
    # Before the command substitutions below, where it would be theirs.
    local owner=$BASHPID
    local IFS=' '
    local name=${1-} place='' pulse stem token slot fd option status
    if [[ -z $name || $name == -* ]]; then
        printf 'orion_guard: the name of the lock comes first: orion_guard NAME [-w DUR] [-q]\n' >&2
        return 64
    fi
    shift
    for ((option = 1; option <= $#; option++)); do
        case ${!option} in
            --dir=*) place=${!option} ;;
            --dir)
                option=$((option + 1))
                place=--dir=${!option-}
                ;;
            --print-token | --json | --dry-run | --owner | --owner=* | --for | --for=*)
                printf 'orion_guard: %s is not for here: this shell owns the lock; see orion-lock(1)\n' "${!option}" >&2
                return 64
                ;;
        esac
    done
    pulse=$("$__orion_lock" where ${place:+"$place"} --pulse "$name") || return
    # Everything this shell starts inherits the descriptor, and the lock lives while any of it does.
    { exec {fd}<"$pulse"; } 2>/dev/null || {
        printf 'orion_guard: %s cannot be opened\n' "$pulse" >&2
        return 74
    }
    token=$("$__orion_lock" acquire --owner "$owner" --short-lived --pulse-stdin --print-token "$@" "$name" <&"$fd")
    status=$?
    if ((status)) || [[ -z $token ]]; then
        exec {fd}<&-
        # --reentrant prints no token: a caller's lock covers this shell, and there is nothing to release.
        return "$status"
    fi
    # In a slot its number stands behind the token.
    IFS=' ' read -r token slot <<<"$token"
    # A name may be any text: what its files are called is safe as a subscript, and in ORION_LOCKS.
    stem=${pulse##*/}
    stem=${stem%.pulse}
    __orion_held[$stem]="$owner $token $fd $place"
    __orion_name[$stem]=$name
    # As 'orion-lock run' does, so that verify and --reentrant work in what this shell starts.
    unset ORION_LOCK_SLOT
    [[ -z $slot ]] || export ORION_LOCK_SLOT=$slot
    export ORION_LOCK_NAME=$name ORION_LOCK_TOKEN=$token ORION_LOCKS="${ORION_LOCKS:+$ORION_LOCKS }$stem:$token"
}

# orion_release [NAME]: gives NAME back, or all that this very shell holds. 0 when there is nothing.
orion_release() {
    local IFS=' '
    local name stem owner token fd place status=0
    for stem in "${!__orion_held[@]}"; do
        name=${__orion_name[$stem]}
        [[ -z ${1-} || $1 == "$name" ]] || continue
        read -r owner token fd place <<<"${__orion_held[$stem]}"
        # A subshell inherits the variable, not the right.
        [[ $owner == "$BASHPID" ]] || continue
        "$__orion_lock" release ${place:+"$place"} --token "$token" "$name" || status=$?
        exec {fd}<&-
        unset "__orion_held[$stem]" "__orion_name[$stem]"
        ORION_LOCKS=" ${ORION_LOCKS-} "
        ORION_LOCKS=${ORION_LOCKS/" $stem:$token "/ }
        ORION_LOCKS=${ORION_LOCKS# } ORION_LOCKS=${ORION_LOCKS% }
        if [[ ${ORION_LOCK_TOKEN-} == "$token" ]]; then
            unset ORION_LOCK_NAME ORION_LOCK_TOKEN ORION_LOCK_SLOT
        fi
    done
    return "$status"
}

# The ticket that this shell holds: "BASHPID token descriptor KEY".
__orion_ticket=''

# orion_claim KEY [OPTION...]: claims the ticket for this shell and everything it starts, or ends
# this shell: with 75 when it cannot be had, with another code of orion-claim(1) when that cannot be
# told. Options of 'orion-claim acquire' follow the key; the tracker is named by ORION_TRACKER or the
# settings. Killed without orion_claim_release, the ticket goes back to the queue when what this shell
# started has ended.
orion_claim() {
    # Before the command substitutions below, where it would be theirs.
    local owner=$BASHPID
    local IFS=' '
    local key=${1-} pulse token fd option status program=${__orion_lock%orion-lock}orion-claim
    if [[ -z $key || $key == -* ]]; then
        printf 'orion_claim: the ticket comes first: orion_claim KEY [--branch NAME] [--worktree DIR]\n' >&2
        exit 64
    fi
    shift
    for option in "$@"; do
        case $option in
            --tracker | --tracker=* | --config | --config=* | --dir | --dir=* | --arbiter | --arbiter=* | --single-machine)
                printf 'orion_claim: %s is not for here: export ORION_TRACKER, ORION_CLAIM_CONFIG, ORION_DIR, ORION_ARBITER or ORION_SINGLE_MACHINE\n' "$option" >&2
                exit 64
                ;;
            --print-token | --json | --owner | --owner=* | --for | --for=*)
                printf 'orion_claim: %s is not for here: this shell owns the claim; see orion-claim(1)\n' "$option" >&2
                exit 64
                ;;
        esac
    done
    if [[ $__orion_ticket == "$owner "* ]]; then
        printf 'orion_claim: this shell holds %s; orion_claim_release WHERE first\n' "${__orion_ticket##* }" >&2
        exit 64
    fi
    pulse=$("$program" where --pulse "$key") || exit
    # Everything this shell starts inherits the descriptor, and the claim lives while any of it does.
    { exec {fd}<"$pulse"; } 2>/dev/null || {
        printf 'orion_claim: %s cannot be opened\n' "$pulse" >&2
        exit 74
    }
    token=$("$program" acquire --owner "$owner" --short-lived --pulse-stdin --print-token "$@" "$key" <&"$fd")
    status=$?
    if ((status)) || [[ -z $token ]]; then
        exit "$((status ? status : 70))"
    fi
    __orion_ticket="$owner $token $fd $key"
    # As 'orion-claim run' does, so that verify, stage and tick work in what this shell starts.
    export ORION_TICKET=$key ORION_CLAIM_TOKEN=$token
}

# orion_claim_release WHERE: hands the ticket of this very shell over: to ready, ci-wait, queue or failed.
# What this shell started and what still works on it is waited for by the next reconcile pass.
# Without WHERE it is 64; 0 when there is nothing.
orion_claim_release() {
    local IFS=' '
    local owner token fd key status=0 program=${__orion_lock%orion-lock}orion-claim
    if [[ -z ${1-} ]]; then
        printf 'orion_claim_release: say where the ticket goes: ready, ci-wait, queue or failed\n' >&2
        return 64
    fi
    read -r owner token fd key <<<"$__orion_ticket"
    # A subshell inherits the variable, not the right.
    [[ $owner == "$BASHPID" ]] || return 0
    "$program" release --token "$token" --to "$1" "$key" || status=$?
    # A tracker that is away: the decision is written down, and each pass tries again.
    exec {fd}<&-
    __orion_ticket=''
    unset ORION_TICKET ORION_CLAIM_TOKEN
    return "$status"
}
