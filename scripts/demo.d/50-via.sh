# shellcheck shell=bash disable=SC2004,SC2016,SC2034,SC2154
# Sourced by scripts/demo: three hosts with one crontab line, one database. A host is a state directory of its own.

# Its programs refuse root.
as_postgres() {
    if ((EUID == 0)); then setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"; else "$@"; fi
}

via_demo() {
    local programs data port=54328 server host first
    programs=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    if [[ ! -x $programs/initdb ]]; then
        say "Three hosts, one job: skipped, no PostgreSQL is installed here (package postgresql)."
        return
    fi
    # The server's user has to find its way.
    chmod 711 "$place"
    data=$place/pg
    mkdir "$data"
    ((EUID != 0)) || chown postgres: "$data"
    (
        cd /
        as_postgres "$programs/initdb" -U postgres -A trust --no-sync -D "$data/db" >/dev/null
        as_postgres "$programs/pg_ctl" -D "$data/db" -l "$data/log" -w -s -o "-k $data -p $port -c listen_addresses=" start
    )
    server=$(head -n 1 "$data/db/postmaster.pid")
    working[$server]=1
    psql -qXh "$data" -p "$port" -U postgres -c 'create role job login'
    psql -qXh "$data" -p "$port" -U postgres -c 'create database locks'
    export VIA="postgres://job@/locks?host=$data&port=$port"

    say "Three hosts with the same crontab line, and one database: one of them runs the job."
    orion-lock --via "postgres://postgres@/locks?host=$data&port=$port" init --grant job
    for host in 1 2 3; do
        orion-lock --dir "$place/host$host" --via "$VIA" run --fence 2s --grace 4s nightly \
            sh -c 'while :; do echo >>"$0"; sleep 0.02; done' "$place/ticks$host" 2>"$place/said$host" &
        working[$!]=1
        hosts[host]=$!
    done
    first=
    until [[ $first ]]; do
        sleep 0.05
        for host in 1 2 3; do [[ ! -s $place/ticks$host ]] || first=$host; done
    done
    for host in 1 2 3; do
        ((host == first)) || {
            wait "${hosts[host]}" && exit 1
            unset "working[${hosts[host]}]"
        }
    done
    type 75 "orion-lock --dir $place/host4 --via \$VIA run nightly true"
    says "nightly is held by pid"

    say "That host is cut off: its job stands before another host's begins."
    local stopped before
    mv "$data/.s.PGSQL.$port" "$data/away"
    ln -s "$data/away" "$data/.s.PGSQL.1"
    psql -qAtXh "$data" -p 1 -U postgres -c "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'job'" >/dev/null
    export VIA="postgres://job@/locks?host=$data&port=1"
    before='stat -c %s "$0"; sleep 0.3; stat -c %s "$0"'
    type 0 "orion-lock --dir $place/host5 --via \$VIA run nightly sh -c '$before' $place/ticks$first"
    says "taken over from the run with token"
    stopped=$(grep -E '^[0-9]+$' <<<"$out" | sort -u | wc -l)
    if ((stopped != 1)); then
        echo "demo: the job of the host that was cut off still ran" >&2
        exit 1
    fi
    mv "$data/away" "$data/.s.PGSQL.$port"
    local code=0
    wait "${hosts[first]}" || code=$?
    unset "working[${hosts[first]}]"
    echo "# the job of the host that was cut off ended with $code: $(tail -n 1 "$place/said$first")"
    if ((code != 77)); then
        echo "demo: the host that was cut off does not know that it was overtaken" >&2
        exit 1
    fi
    (cd / && as_postgres "$programs/pg_ctl" -D "$data/db" -m immediate -s stop)
    unset "working[$server]"
}
declare -a hosts=()
via_demo
