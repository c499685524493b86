#!/usr/bin/env bash
# The driver beside pgbench, both calling the stored functions of the load in its mix: processor time of the client for each order.
# usage: bench/driver_cost.sh MILLRACE DSN [SECONDS] [ROUNDS]   — DSN of a throw-away database on this host, loaded with --mode functions
#
# pgbench draws simpler inputs, keeps no times by transaction and checks no answer: about the least a client can cost here.
set -euo pipefail
millrace=$1 dsn=$2 seconds=${3:-6} rounds=${4:-5} users=8
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
export PGOPTIONS="-c search_path=millrace_orders -c client_min_messages=warning"
pgbench=$(command -v pgbench || echo /usr/lib/postgresql/15/bin/pgbench)
warehouses=$(psql -XAtq -d "$dsn" -c "SELECT warehouses FROM config")
name=$(psql -XAtq -d "$dsn" -c "SELECT c_last FROM customer WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1")
# A deck of 23: ten New-Orders, ten Payments (six by name), one of each of the others.
script() { # name, weight, statement
  { printf '\\set w random(1, %s)\n\\set d random(1, 10)\n\\set c random(1, 3000)\n\\set a random(100, 500000)\n\\set i random(1, 9000)\n' "$warehouses"
    echo "$3;"; } >"$work/$1.sql"
  scripts+=(-f "$work/$1.sql@$2")
}
lines() { local list; list=$(printf "$1," 1 2 3 4 5 6 7 8 9 10); echo "array[${list%,}]::int[]"; }
nulls=$(printf 'NULL,%.0s' {1..18})
scripts=()
script new_order 10 "CALL new_order(:w::int, :d::int, :c::int, $(lines %d), $(lines ':i+100*%d'), $(lines ':w'), $(lines 5), 1, 10, ${nulls%,})"
script by_id 4 "SELECT * FROM payment_by_id(:w, :d, :w, :d, :c, :a)"
script by_name 6 "SELECT * FROM payment_by_name(:w, :d, :w, :d, '$name', :a)"
script order_status 1 "SELECT * FROM order_status_by_id(:w, :d, :c)"
script delivery 1 "SELECT * FROM delivery(:w, :d)"
script stock_level 1 "SELECT * FROM stock_level(:w, :d, 15)"

TIMEFORMAT='%U %S'
for round in $(seq "$rounds"); do
  { time "$millrace" orders run --db "$dsn" --mode functions --users $users --threads 1 --warmup 0 --seconds "$seconds" \
    --record "$work/run.json" >/dev/null 2>"$work/err"; } 2>"$work/ours" || { cat "$work/err" >&2; exit 1; }
  { time "$pgbench" -n -M prepared -c $users -j 1 -T "$seconds" "${scripts[@]}" "$dsn" >"$work/pgbench" 2>"$work/err"; } 2>"$work/theirs" ||
    { cat "$work/err" >&2; exit 1; }
  python3 - "$work" <<'P' | tee -a "$work/rounds"
import json, re, sys
work = sys.argv[1]
seconds = lambda name: sum(map(float, open(f"{work}/{name}").read().split()))
run = json.load(open(f"{work}/run.json"))
ours = seconds("ours") / run["orders"] * 1e6
count = int(re.search(r"processed: (\d+)", open(f"{work}/pgbench").read())[1])
theirs = seconds("theirs") / (count * 10 / 23) * 1e6
print(f"us of the client for each order: driver {ours:.1f} ({run['orders'] * 60 / run['measured_s']:.0f} orders/min), "
      f"pgbench {theirs:.1f}: {ours / theirs:.2f}")
P
done
sort -t: -k3 -n "$work/rounds" | awk -F': ' '{ ratio[NR] = $3 } END { printf "median of %d rounds: %s\n", NR, ratio[int((NR + 1) / 2)] }'
