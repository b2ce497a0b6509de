# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# Rows of locks of many machines, sourced by scripts/bench: a PostgreSQL and an etcd of the bench's own.

# The newest PostgreSQL that is installed.
postgres_programs() { printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1; }

# Its programs refuse root.
as_postgres() {
    if ((EUID == 0)); then setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"; else "$@"; fi
}

bench_via() {
    local programs data=$state/pg url port=54329
    programs=$(postgres_programs)
    if [[ ! -x $programs/initdb ]]; then
        echo "| locks of many machines | no PostgreSQL is installed here | |"
        return
    fi
    # The server's user has to find its way.
    chmod 711 "$state"
    mkdir "$data"
    ((EUID != 0)) || chown postgres: "$data"
    (
        cd /
        as_postgres "$programs/initdb" -U postgres -A trust --no-sync -D "$data/db" >/dev/null
        as_postgres "$programs/pg_ctl" -D "$data/db" -l "$data/log" -w -s -o "-k $data -p $port -c listen_addresses=127.0.0.1" start
    )
    holders+=("$(head -n 1 "$data/db/postmaster.pid")")
    psql -qXh "$data" -p "$port" -U postgres -c 'create role job login'
    psql -qXh "$data" -p "$port" -U postgres -c 'create database locks'
    orion-lock --via "postgres://postgres@/locks?host=$data&port=$port" init --grant job
    url="postgres://job@/locks?host=$data&port=$port"
    measure "flock -n $lock true" "orion-lock --via $url run bench true" "orion-lock --via postgres://job@127.0.0.1:$port/locks run bench true"
    row '`orion-lock --via` by a socket, `run NAME true`' 1
    row '`orion-lock --via` by TCP without TLS, `run NAME true`' 2
    holder orion-lock --via "$url" run busy
    measure "flock -n $lock.held true" "orion-lock --via $url -q run busy true" "orion-lock --dir $state/other --via $url -q run busy true" \
        "orion-precheck --via $url -q busy"
    row 'refusal by this host, `--via` (against a refusal by `flock -n`)' 1
    row 'refusal by the database (against a refusal by `flock -n`)' 2
    row '`orion-precheck --via -q`, held (against a refusal by `flock -n`)' 3
    if have etcd && have etcdctl; then
        local etcd=$state/etcd
        etcd --data-dir "$etcd" --listen-client-urls http://127.0.0.1:54331 --advertise-client-urls http://127.0.0.1:54331 \
            --listen-peer-urls http://127.0.0.1:54332 --initial-advertise-peer-urls http://127.0.0.1:54332 \
            --initial-cluster default=http://127.0.0.1:54332 >/dev/null 2>&1 &
        holders+=($!)
        export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=http://127.0.0.1:54331
        until etcdctl get x >/dev/null 2>&1; do sleep 0.1; done
        measure "flock -n $lock true" "etcdctl lock bench true"
        row '`etcdctl lock NAME true`' 1
    fi
}
bench_via
