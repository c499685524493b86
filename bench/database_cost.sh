#!/usr/bin/env bash
# What an order costs the database: the functions of this load beside HammerDB's stored procedures, on one server in turns.
# usage: bench/database_cost.sh MILLRACE OURS THEIRS [SECONDS] [ROUNDS]
#   OURS    DSN of a throw-away database on this host, loaded with `orders load --mode functions`; its user is a superuser
#   THEIRS  DSN of one of the same server in which HammerDB built TPROC-C with pg_storedprocs true, as many warehouses
#
# Every process of the server counts, those that ended too. pgbench calls HammerDB's procedures in the mix of HammerDB's own
# driver, each user in its own warehouse, so that both sides have a client that costs little. It draws customers and names
# evenly, where HammerDB's driver and ours draw some of them more often.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
millrace=$1 ours=$2 theirs=$3 seconds=${4:-10} rounds=${5:-6} users=8
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
pgbench=$(command -v pgbench || echo /usr/lib/postgresql/15/bin/pgbench)
number() { psql -XAtq -d "$1" -c "$2"; }
postmaster=$(number "$ours" "SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)")
[ "$postmaster" = "$(number "$theirs" "SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)")" ] ||
  { echo "the two databases are not of one server: load both there" >&2; exit 1; }
warehouses=$(number "$ours" "SELECT warehouses FROM millrace_orders.config")
[ "$warehouses" = "$(number "$theirs" "SELECT count(*) FROM warehouse")" ] ||
  { echo "the two databases differ in warehouses: load $warehouses in both" >&2; exit 1; }

syllables="(ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING'])"
name="($syllables[:x + 1] || $syllables[:y + 1] || $syllables[:z + 1])::varchar"
now="now()::timestamp"
scripts=()
script() { # name, weight, statement
  { printf '\\set w :client_id %% %s + 1\n\\set d random(1, 10)\n\\set c random(1, 3000)\n\\set n random(5, 15)\n' "$warehouses"
    printf '\\set x random(0, 9)\n\\set y random(0, 9)\n\\set z random(0, 9)\n\\set t random(10, 20)\n\\set a random(100, 500000)\n'
    printf '\\set home random(1, 100)\n\\set v random(1, %s)\n\\set e random(1, 10)\n' "$warehouses"
    printf '\\set cw case when :home <= 85 then :w else :v end\n\\set cd case when :home <= 85 then :d else :e end\n'
    echo "$3;"; } >"$work/$1.sql"
  scripts+=(-f "$work/$1.sql@$2")
}
payment() { # by name, name, customer
  local blanks; blanks=$(printf "'0',%.0s" {1..18})
  echo "CALL payment(:w, :d, :cw, :cd, $1, :a / 100.0, '0', $2, $3, $blanks $now, 0.0, 0.0, 0.0, '', $now)"
}
status() { echo "CALL ostat(:w, :d, $3, $1, $2, '', '', 0.0, 0, $now, 0, '')"; }
# A deck of 23: ten New-Orders, ten Payments (six by name), one of each of the others.
script neword 100 "CALL neword(:w, $warehouses, :d, :c, :n, 0.0, '', '', 0.0, 0.0, 0, $now)"
script payment_by_id 40 "$(payment 0 "'0'" :c)"
script payment_by_name 60 "$(payment 1 "$name" 0)"
script ostat_by_id 4 "$(status 0 "''" :c)"
script ostat_by_name 6 "$(status 1 "$name" 0)"
script delivery 10 "CALL delivery(:w, :d, $now)"
script slev 10 "CALL slev(:w, :d, :t, 0)"

spent() { # processor seconds of the server so far
  python3 - "$postmaster" <<'P'
import os, sys
postmaster, ticks = int(sys.argv[1]), 0
for entry in filter(str.isdigit, os.listdir("/proc")):
    try:
        field = open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()
    except OSError:
        continue  # it ended: the postmaster has its time
    if int(entry) == postmaster:
        ticks += sum(map(int, field[11:15]))
    elif int(field[1]) == postmaster:
        ticks += sum(map(int, field[11:13]))
print(ticks / os.sysconf("SC_CLK_TCK"))
P
}
ours() { # prints its orders
  "$millrace" orders run --db "$ours" --mode functions --users $users --threads 1 --warmup 0 --seconds "$seconds" \
    --record "$work/run.json" >/dev/null 2>"$work/err" || { cat "$work/err" >&2; return 1; }
  python3 -c "import json; print(json.load(open('$work/run.json'))['orders'])"
}
theirs() {
  "$pgbench" -n -c $users -j 1 -T "$seconds" "${scripts[@]}" "$theirs" >"$work/pgbench" 2>"$work/err" || { cat "$work/err" >&2; return 1; }
  grep -A2 'neword.sql' "$work/pgbench" | grep -oP '^ - \K\d+(?= transactions)'
}
cost() { # ours|theirs
  local before orders; before=$(spent)
  orders=$("$1")
  sleep 1 # sessions that end are waited for by the server
  awk -v before="$before" -v after="$(spent)" -v orders="$orders" 'BEGIN { printf "%.0f", (after - before) / orders * 1e6 }'
}
for round in $(seq "$rounds"); do
  # Turn about, so that what grows and what the host does meets both.
  if [ $((round % 2)) = 1 ]; then a=$(cost ours) b=$(cost theirs); else b=$(cost theirs) a=$(cost ours); fi
  awk -v a="$a" -v b="$b" 'BEGIN { printf "us of the database for each order: functions %d, HammerDB'\''s procedures %d: %.2f\n", a, b, a / b }' |
    tee -a "$work/rounds"
done
sort -t: -k3 -n "$work/rounds" | awk -F': ' '{ ratio[NR] = $3 } END { printf "median of %d rounds: %s\n", NR, ratio[int((NR + 1) / 2)] }'
