#!/usr/bin/env bash
# The loader against a plain `psql \copy` of the same bytes: seconds of the rows, CPU seconds of the client, side by side.
# usage: bench/load_rate.sh MILLRACE DSN [WAREHOUSES] [JOBS]   — DSN of an empty throw-away PostgreSQL database on this host.
set -euo pipefail
millrace=$1 dsn=$2 warehouses=${3:-4} jobs=${4:-2}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
tables="order_line stock customer orders history new_order"
export PGOPTIONS="-c client_min_messages=warning"
sql() { psql -XAtq -v ON_ERROR_STOP=1 -d "$dsn" "$@"; }
times() { awk '{print $1 + $2}' "$1"; } # user + sys of a command run under `measured`
measured() { # file for "user sys wall", command…
  local TIMEFORMAT='%U %S %R' out=$1; shift
  { time "$@" >/dev/null 2>"$work/err"; } 2>"$out" || { cat "$work/err" >&2; return 1; }
}

measured "$work/ours" sh -c '"$0" orders load --db "$1" --warehouses "$2" -j "$3" --json >"$4"' \
  "$millrace" "$dsn" "$warehouses" "$jobs" "$work/report.json"
ours_s=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["copy_seconds"])' "$work/report.json")

bytes=0
for table in $tables; do
  sql -c "\\copy millrace_orders.$table TO '$work/$table' (FORMAT binary)"
  bytes=$((bytes + $(stat -c %s "$work/$table")))
  sql -c "CREATE SCHEMA IF NOT EXISTS plain" -c "CREATE TABLE plain.$table (LIKE millrace_orders.$table)"
done
sql -c CHECKPOINT
copy_all() { # the same tables, as many at a time
  printf '%s\n' $tables | xargs -P "$jobs" -I{} psql -Xq -v ON_ERROR_STOP=1 -d "$dsn" -c "\\copy plain.{} FROM '$work/{}' (FORMAT binary)"
}
measured "$work/theirs" copy_all
theirs_s=$(awk '{print $3}' "$work/theirs")
sql -c "DROP SCHEMA plain CASCADE" -c "DROP SCHEMA millrace_orders CASCADE"
awk -v b="$bytes" -v o="$ours_s" -v t="$theirs_s" -v oc="$(times "$work/ours")" -v tc="$(times "$work/theirs")" 'BEGIN {
  printf "rows: %.0f MiB in binary; loader %.1f s (%.0f MiB/s), psql \\copy %.1f s (%.0f MiB/s): %.2f of its rate\n",
    b / 1048576, o, b / 1048576 / o, t, b / 1048576 / t, t / o
  printf "client CPU: loader %.2f s with generating the rows, indexes awaited; psql %.2f s\n", oc, tc }'
