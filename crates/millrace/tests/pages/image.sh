#!/bin/bash
# Makes an image of programs that this host has installed, because there is no registry: PostgreSQL, a shell, and
# millrace where its own image has it. Like the image postgres:17 it has a user postgres with number 999, and
# PostgreSQL's programs in PATH.
#
# usage: image.sh NAME
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
programs=$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1)")
version=$(basename "$(dirname "$programs")")

chmod 755 "$root"
mkdir -p "$root"/{etc,run,tmp,var,proc,sys,dev,usr/{bin,lib,lib64,sbin}}
for name in bin lib lib64 sbin; do ln -s "usr/$name" "$root/$name"; done
ln -s ../run "$root/var/run"
mkdir -m 777 "$root/run/postgresql"

copy() { # files, with the libraries they need
  local file library
  for file in "$@"; do
    mkdir -p "$root$(dirname "$file")"
    cp -L "$file" "$root$file"
    for library in $(ldd "$file" 2>/dev/null | grep -o '/[^ ]*' || true); do
      [ -e "$root$library" ] || { mkdir -p "$root$(dirname "$library")"; cp -L "$library" "$root$library"; }
    done
  done
}
copy /bin/sh /usr/bin/id /usr/bin/ls /usr/bin/kill "$programs"/{postgres,initdb,pg_ctl,psql} "/usr/lib/postgresql/$version"/lib/*.so
cp -a "/usr/share/postgresql" "$root/usr/share.postgresql"
mkdir -p "$root/usr/share" && mv "$root/usr/share.postgresql" "$root/usr/share/postgresql"
cp -a /usr/share/zoneinfo "$root/usr/share/"
millrace=$(command -v millrace)
install -D "$millrace" "$root/usr/bin/millrace"
install -D -m 644 "$(dirname "$millrace")/../lib/millrace/libmillrace_preload.so" "$root/usr/lib/millrace/libmillrace_preload.so"
for library in $(ldd "$millrace" | grep -o '/[^ ]*'); do [ -e "$root$library" ] || cp -L "$library" "$root$library"; done
printf 'root:x:0:0::/root:/bin/sh\npostgres:x:999:999::/tmp:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\npostgres:x:999:\n' >"$root/etc/group"
tar -C "$root" -c . | podman import --change "ENV PATH=/usr/bin:$programs" --change "USER postgres" --change "STOPSIGNAL SIGINT" - "$1"
