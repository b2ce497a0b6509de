-- Locks across machines. One transaction; typed twice it changes nothing.
-- Whose it is: the role orion_owner, which nobody can log in as. Who uses it needs EXECUTE only.
begin;
select pg_advisory_xact_lock(1869769071);
do $do$ begin
  if current_setting('server_version_num')::int < 140000 then
    raise exception 'PostgreSQL 14 or later is needed, this is %', current_setting('server_version');
  end if;
  if not exists (select from pg_catalog.pg_roles where rolname = 'orion_owner') then
    create role orion_owner nologin;
  end if;
  if not (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
    execute format('grant orion_owner to %I', current_user);
  end if;
end $do$;
create schema if not exists orion authorization orion_owner;
set local role orion_owner;

create table if not exists orion.meta(
  one bool primary key default true check (one),
  version int not null, sysid bigint not null, timeline text not null, max_grace_ms int not null);

do $do$ begin
  if exists (select from orion.meta where version > 1) then
    raise exception 'the schema orion here is of a newer version of these tools';
  end if;
end $do$;

create table if not exists orion.lock(
  id int generated always as identity primary key,
  kind text not null, name text not null, unique(kind, name),
  token bigint not null default 0, gen int not null default 0, nonce text, backend int,
  grace_ms int, once_key text, holder jsonb,
  acquired_at timestamptz, seen_at timestamptz, last_tick jsonb,
  stop_asked_at timestamptz, stop_kill bool not null default false,
  released_at timestamptz, released_by jsonb,
  ran_token bigint, ran_at timestamptz, ran_key text, ran_ended_at timestamptz, ran_status int
) with (fillfactor = 50);

create table if not exists orion.event(
  at timestamptz not null default clock_timestamp(),
  kind text, name text, token bigint, event text, detail jsonb);
create index if not exists event_of on orion.event(kind, name, at);

-- Below: helpers, for the functions that follow them only.

create or replace function orion.young_() returns bool
language sql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
  select m.timeline <> left(pg_walfile_name(pg_current_wal_lsn()), 8)
      or m.sysid <> (select system_identifier from pg_control_system()) from orion.meta m
$fn$;

create or replace function orion.say_(p_kind text, p_name text, p_token bigint, p_event text, p_detail jsonb) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
begin
  insert into orion.event(kind, name, token, event, detail) values (p_kind, p_name, p_token, p_event, p_detail);
  if random() < 0.05 then
    delete from orion.event where kind = p_kind and name = p_name and at < (
      select at from orion.event where kind = p_kind and name = p_name order by at desc offset 499 limit 1);
  end if;
end $fn$;

-- Which session has the lock of a row; null: nobody.
create or replace function orion.locker_(p_id int) returns int
language sql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
  select pid from pg_locks where locktype = 'advisory' and classid = 1869769071 and objid = p_id::oid and objsubid = 2
     and granted and database = (select oid from pg_database where datname = current_database()) limit 1
$fn$;

create or replace function orion.row_(r orion.lock) returns jsonb
language sql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
  select to_jsonb(r) || jsonb_build_object('locker', orion.locker_(r.id),
    'held_s', extract(epoch from clock_timestamp() - r.acquired_at),
    'silent_s', extract(epoch from clock_timestamp() - (r.last_tick->>'at')::timestamptz),
    'ran_ended_s', extract(epoch from clock_timestamp() - r.ran_ended_at))
$fn$;

-- The protocol. The number is its version: an upgrade adds _2 beside it.

create or replace function orion.take_1(p_kind text, p_name text, p_nonce text, p_grace_ms int, p_holder jsonb,
  p_once text, p_once_ok bool, p_cooldown_ms bigint, p_over bigint, p_over_gen int,
  p_floor bigint) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
declare
  v_id int; v_token bigint; v_why text; r orion.lock; m orion.meta; v_young bool;
  v_over bool := false;
begin
  select * into m from orion.meta;
  if p_grace_ms > m.max_grace_ms then
    return jsonb_build_object('answer', 'grace', 'max_grace_ms', m.max_grace_ms);
  end if;
  -- Not by insert alone: every try would use up a number.
  select id into v_id from orion.lock where kind = p_kind and name = p_name;
  if v_id is null then
    insert into orion.lock(kind, name) values (p_kind, p_name) on conflict do nothing;
    select id into v_id from orion.lock where kind = p_kind and name = p_name;
  end if;
  -- Never twice: session locks are counted.
  if orion.locker_(v_id) is distinct from pg_backend_pid() and not pg_try_advisory_lock(1869769071, v_id) then
    return jsonb_build_object('answer', 'held');
  end if;
  -- Only now: an older snapshot shows the last holder.
  select * into r from orion.lock where id = v_id for update;
  v_young := orion.young_();
  if (r.token, r.gen) is distinct from (p_over, p_over_gen) then
    if r.token > 0 and r.released_at is null then
      -- Numbers of backends come back: this one must not look like a holder's again.
      update orion.lock set backend = null where id = v_id;
      return jsonb_build_object('answer', 'cut', 'young', v_young, 'max_grace_ms', m.max_grace_ms, 'row', orion.row_(r));
    end if;
    if v_young then
      return jsonb_build_object('answer', 'young', 'young', v_young, 'max_grace_ms', m.max_grace_ms, 'row', orion.row_(r));
    end if;
  end if;
  if r.token > 0 and r.released_at is null then
    v_over := true;
    if r.ran_token = r.token and r.ran_ended_at is null then
      r.ran_ended_at := clock_timestamp();
    end if;
  end if;
  if p_once is not null and r.ran_key = p_once and (not p_once_ok or r.ran_status = 0) then
    v_why := 'ran_already';
  elsif p_cooldown_ms is not null and r.ran_ended_at > clock_timestamp() - p_cooldown_ms * interval '1 ms' then
    v_why := 'too_soon';
  end if;
  if v_why is not null then
    if v_over then
      update orion.lock set released_at = clock_timestamp(), released_by = p_holder || '{"how":"found ended"}', backend = null,
        ran_ended_at = r.ran_ended_at where id = v_id;
      perform orion.say_(p_kind, p_name, r.token, 'ended', p_holder);
      perform pg_notify('orion', p_kind || '/' || p_name);
    end if;
    perform pg_advisory_unlock(1869769071, v_id);
    return jsonb_build_object('answer', v_why, 'row', orion.row_(r));
  end if;
  if v_young then
    update orion.meta set timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8),
      sysid = (select system_identifier from pg_control_system());
  end if;
  -- Who keeps records under a token of its own brings it; else the clock.
  v_token := greatest(r.token + 1, coalesce(p_floor, floor(extract(epoch from clock_timestamp()) * 1000)::bigint + 1));
  update orion.lock set token = v_token, gen = 0, nonce = p_nonce, backend = pg_backend_pid(), grace_ms = p_grace_ms,
    once_key = p_once, holder = p_holder, acquired_at = clock_timestamp(), seen_at = null, last_tick = null,
    stop_asked_at = null, stop_kill = false, released_at = null, released_by = null, ran_ended_at = r.ran_ended_at
    where id = v_id;
  perform orion.say_(p_kind, p_name, v_token, case when v_over then 'reclaimed' else 'acquired' end,
    p_holder || case when v_over then jsonb_build_object('over', r.token) else '{}' end);
  return jsonb_build_object('answer', 'taken', 'id', v_id, 'token', v_token, 'over', case when v_over then r.token end);
end $fn$;

-- What a claimant reads while it waits with the lock of a cut row.
create or replace function orion.settle_1(p_kind text, p_name text) returns jsonb
language sql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
  select jsonb_build_object('token', token, 'gen', gen, 'released', released_at is not null,
    'ours', orion.locker_(id) is not distinct from pg_backend_pid()) from orion.lock where kind = p_kind and name = p_name
$fn$;

-- A claimant that steps back.
create or replace function orion.unlock_1(p_kind text, p_name text) returns bool
language sql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
  select pg_advisory_unlock(1869769071, id) from orion.lock where kind = p_kind and name = p_name
     and orion.locker_(id) = pg_backend_pid()
$fn$;

create or replace function orion.beat_1(p_id int, p_token bigint, p_nonce text, p_began bool) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
declare r orion.lock;
begin
  if pg_is_in_recovery() then return 'adrift'; end if;
  select * into r from orion.lock where id = p_id;
  if r.token is distinct from p_token or r.nonce is distinct from p_nonce or r.released_at is not null then
    return 'lost';
  end if;
  if r.backend is distinct from pg_backend_pid() or orion.locker_(p_id) is distinct from pg_backend_pid() then
    return 'adrift';
  end if;
  if p_began and r.ran_token is distinct from p_token then
    update orion.lock set ran_token = token, ran_at = acquired_at, ran_key = once_key, ran_ended_at = null, ran_status = null
      where id = p_id;
  end if;
  if current_setting('synchronous_standby_names') <> '' then
    -- A commit that an isolated old primary cannot make.
    update orion.lock set seen_at = clock_timestamp() where id = p_id;
  end if;
  return case when r.stop_asked_at is null then 'ok' when r.stop_kill then 'kill' else 'stop' end;
end $fn$;

create or replace function orion.attach_1(p_kind text, p_name text, p_nonce text, p_token bigint, p_grace_ms int,
  p_once text, p_holder jsonb) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
declare v_id int; v_got bool; v_locker int; r orion.lock;
begin
  if pg_is_in_recovery() then return jsonb_build_object('answer', 'recovery'); end if;
  -- By name: the row may have been lost with its id.
  select id into v_id from orion.lock where kind = p_kind and name = p_name;
  if v_id is null then
    insert into orion.lock(kind, name) values (p_kind, p_name) on conflict do nothing;
    select id into v_id from orion.lock where kind = p_kind and name = p_name;
  end if;
  v_got := orion.locker_(v_id) is not distinct from pg_backend_pid() or pg_try_advisory_lock(1869769071, v_id);
  select * into r from orion.lock where id = v_id for update;
  v_locker := orion.locker_(v_id);
  if r.token > p_token
     or (r.token = p_token and (r.nonce is distinct from p_nonce or r.released_at is not null))
     or (r.token < p_token and r.token > 0 and r.released_at is null and v_locker = r.backend and v_locker <> pg_backend_pid()) then
    if v_got then perform pg_advisory_unlock(1869769071, v_id); end if;
    return jsonb_build_object('answer', 'lost');
  end if;
  update orion.lock set token = p_token, nonce = p_nonce, backend = pg_backend_pid(), gen = gen + 1, grace_ms = p_grace_ms,
    once_key = p_once, holder = p_holder, released_at = null, released_by = null,
    acquired_at = case when token = p_token then acquired_at else to_timestamp(p_token / 1000.0) end where id = v_id;
  if v_got then
    perform orion.say_(p_kind, p_name, p_token, 'attached', null);
  end if;
  -- Our own half-open session: whoever attaches ends it by its own right (it is its own role's).
  return jsonb_build_object('answer', case when v_got then 'ok' else 'contended' end, 'id', v_id, 'young', orion.young_(),
    'old', case when not v_got and r.token = p_token and v_locker = r.backend then v_locker end);
end $fn$;

create or replace function orion.release_1(p_kind text, p_name text, p_token bigint, p_nonce text, p_executed bool,
  p_status int, p_by jsonb) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
declare r orion.lock;
begin
  select * into r from orion.lock where kind = p_kind and name = p_name for update;
  if r.token is distinct from p_token or r.nonce is distinct from p_nonce then return 'other'; end if;
  if r.released_at is not null then return 'before'; end if;
  if p_executed then
    r.ran_token := r.token; r.ran_at := r.acquired_at; r.ran_key := r.once_key;
    r.ran_ended_at := clock_timestamp(); r.ran_status := p_status;
  elsif r.ran_token = r.token then
    r.ran_ended_at := clock_timestamp();
  end if;
  update orion.lock set released_at = clock_timestamp(), released_by = p_by, backend = null, ran_token = r.ran_token,
    ran_at = r.ran_at, ran_key = r.ran_key, ran_ended_at = r.ran_ended_at, ran_status = r.ran_status where id = r.id;
  perform orion.say_(p_kind, p_name, p_token, 'ended', p_by || jsonb_build_object('status', p_status, 'executed', p_executed));
  perform pg_notify('orion', p_kind || '/' || p_name);
  if orion.locker_(r.id) = pg_backend_pid() then perform pg_advisory_unlock(1869769071, r.id); end if;
  return 'released';
end $fn$;

-- Takes no lock: the next look would see it as life.
create or replace function orion.look_1(p_kind text, p_name text) returns jsonb
language sql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
  select jsonb_build_object('version', m.version, 'max_grace_ms', m.max_grace_ms, 'now', clock_timestamp(),
    'rows', (select coalesce(jsonb_agg(orion.row_(l) order by l.name), '[]') from orion.lock l
             where l.kind = p_kind and (p_name is null or l.name = p_name))) from orion.meta m
$fn$;

create or replace function orion.tick_1(p_kind text, p_name text, p_token bigint, p_every_s bigint) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
declare r orion.lock; v_every bigint;
begin
  select * into r from orion.lock where kind = p_kind and name = p_name for update;
  if r.token is distinct from p_token then return 'other'; end if;
  if r.released_at is not null then return 'before'; end if;
  v_every := case when p_every_s is null then (r.last_tick->>'every_s')::bigint when p_every_s > 0 then p_every_s end;
  update orion.lock set last_tick = jsonb_build_object('at', clock_timestamp(), 'every_s', v_every) where id = r.id;
  return 'ok';
end $fn$;

create or replace function orion.stop_1(p_kind text, p_name text, p_token bigint, p_kill bool, p_by jsonb) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
declare r orion.lock;
begin
  select * into r from orion.lock where kind = p_kind and name = p_name for update;
  if r.token is distinct from p_token then return 'other'; end if;
  if r.released_at is not null then return 'before'; end if;
  update orion.lock set stop_asked_at = coalesce(stop_asked_at, clock_timestamp()), stop_kill = stop_kill or p_kill where id = r.id;
  perform orion.say_(p_kind, p_name, p_token, 'stopped', p_by);
  perform pg_notify('orion', p_kind || '/' || p_name);
  return 'asked';
end $fn$;

create or replace function orion.break_1(p_kind text, p_name text, p_token bigint, p_alive bool, p_by jsonb) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
declare r orion.lock;
begin
  select * into r from orion.lock where kind = p_kind and name = p_name for update;
  if r.token is distinct from p_token then return 'other'; end if;
  if r.released_at is not null then return 'before'; end if;
  if not p_alive and r.backend is not null and orion.locker_(r.id) = r.backend then return 'alive'; end if;
  update orion.lock set released_at = clock_timestamp(), released_by = p_by, backend = null,
    ran_ended_at = case when ran_token = token then coalesce(ran_ended_at, clock_timestamp()) else ran_ended_at end where id = r.id;
  perform orion.say_(p_kind, p_name, p_token, 'broken', p_by);
  perform pg_notify('orion', p_kind || '/' || p_name);
  return 'broken';
end $fn$;

create or replace function orion.log_1(p_kind text, p_name text, p_lines int, p_since_s double precision) returns jsonb
language sql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
  select coalesce(jsonb_agg(to_jsonb(e) order by e.at), '[]') from (
    select * from orion.event where kind = p_kind and (p_name is null or name = p_name)
       and (p_since_s is null or at > clock_timestamp() - p_since_s * interval '1 s')
     order by at desc limit p_lines) e
$fn$;

-- For the run's own transaction: the write and the proof commit together, and who takes over waits for that commit.
create or replace function orion.fence(p_name text, p_token bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $fn$
begin
  perform from orion.lock where kind = 'lock' and name = p_name and token = p_token and released_at is null for share;
  if not found then
    raise exception 'the lock % is not held under token % any more', p_name, p_token using errcode = 'OR001';
  end if;
end $fn$;

insert into orion.meta(version, sysid, timeline, max_grace_ms)
  select 1, system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), :max_grace_ms from pg_control_system()
  on conflict (one) do update set max_grace_ms = excluded.max_grace_ms;

revoke all on schema orion from public;
revoke all on all tables in schema orion from public;
revoke all on all functions in schema orion from public;
