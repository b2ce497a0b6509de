# shellcheck shell=bash
# Locks of orion-lock(1) for bash scripts. Source it:
#
#   . /usr/local/share/orion/orion.bash
#   orion_guard sync                  # the lock, or the end of this script with 75
#   orion_guard sync -w 10m           # options of 'orion-lock acquire' follow the name
#   if orion_try sync; then …; fi     # the same, but it returns the code
#   orion_release sync                # before the script ends; not needed at its end
#
# No trap is set and none is needed: the lock ends when the shell that took it and
# everything it started have ended, however that happened. kill -9 of the script
# while its job works on does not free the lock.
#
# The owner is the shell that calls: in a subshell, that subshell. Only it can
# release; orion_release in a nested script, a subshell or somebody else's trap
# does nothing. Needs bash 4.4; works with set -euo pipefail.

# What this shell holds: name -> "BASHPID token descriptor".
declare -gA __orion_held

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
    local name=${1-} place='' pulse token fd option status
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
    __orion_held[$name]="$owner $token $fd $place"
    # As 'orion-lock run' does, so that verify and --reentrant work in what this shell starts.
    export ORION_LOCK_NAME=$name ORION_LOCK_TOKEN=$token ORION_LOCKS="${ORION_LOCKS:+$ORION_LOCKS }$name:$token"
}

# orion_release [NAME]: gives NAME back, or all that this very shell holds. 0 when there is nothing.
orion_release() {
    local IFS=' '
    local name owner token fd place status=0
    for name in "${!__orion_held[@]}"; do
        [[ -z ${1-} || $1 == "$name" ]] || continue
        read -r owner token fd place <<<"${__orion_held[$name]}"
        # A subshell inherits the variable, not the right.
        [[ $owner == "$BASHPID" ]] || continue
        "$__orion_lock" release ${place:+"$place"} --token "$token" "$name" || status=$?
        exec {fd}<&-
        unset "__orion_held[$name]"
        ORION_LOCKS=" ${ORION_LOCKS-} "
        ORION_LOCKS=${ORION_LOCKS/" $name:$token "/ }
        ORION_LOCKS=${ORION_LOCKS# } ORION_LOCKS=${ORION_LOCKS% }
        if [[ ${ORION_LOCK_TOKEN-} == "$token" ]]; then
            unset ORION_LOCK_NAME ORION_LOCK_TOKEN
        fi
    done
    return "$status"
}
