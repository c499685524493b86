# Arguments: the directory, gzip, zstd or xz.
set -eu
cd "$1"
program=$2
# gzip stores the time of its input, without -n.
unnamed=; [ "$program" != gzip ] || unnamed=-n
seq 300000 >data; cp data expected
"$program" -q -k data; rm data; packed=$(ls data.*); echo "$packed"
"$program" -t -q "$packed" && echo "tested"; "$program" -dc "$packed" | cmp - expected && echo "by a pipe"
"$program" -q -d "$packed"; cmp data expected && echo "in place"
"$program" -q -c -1 $unnamed <data >again; "$program" -dc <again | sha256sum; rm -f "$packed"
[ "$program" != gzip ] || { gzip -n -c data >z.gz; zcat z.gz | tail -n 1; zgrep -c 99 z.gz; }
