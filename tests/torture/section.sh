# shellcheck shell=bash
# A critical section that is seen from outside: section.sh NAME HOW [MILLISECONDS].
#
# The lock is taken by whoever calls, or with HOW starting with "guard-" here by the
# bash library. Inside, NAME.inside is flocked by this script and everything it
# starts, as long as any of it lives: who enters while another is there sees it.
# Its descriptor is above the pulse's, because a process that ends lets go of the
# highest first: so the inside is empty before the lock is free.
name=$1 how=$2 ms=${3-3}
if [[ $how == guard-* ]]; then
	# shellcheck source=/dev/null
	. "$ORION_BASH"
	orion_guard "$name" -w forever -q
	how=${how#guard-}
fi
exec 250>>"$name.inside"
flock -n 250 || echo "overlap $$ $ORION_LOCK_TOKEN" >>"$name.events"
echo "enter $$ $ORION_LOCK_TOKEN" >>"$name.events"
sleep "$(printf '0.%03d' "$ms")"
case $how in
die) kill -9 $$ ;;
# What is started lives on, and with it the lock.
fork) (sleep "$(printf '0.%03d' "$ms")") & ;;
exec) exec bash -c 'sleep 0.002; echo "leave $$ $ORION_LOCK_TOKEN" >>"$0.events"' "$name" ;;
esac
echo "leave $$ $ORION_LOCK_TOKEN" >>"$name.events"
if [[ -v __orion_held ]]; then
	flock -u 250
	orion_release "$name"
fi
