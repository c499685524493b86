# Prints what a POSIX shell makes of a directory; with bash a little more. Argument: the directory.
set -eu
cd "$1"
echo one >a; echo two >>a; cat <a
cat >b <<END
here $(echo substituted)
  document
END
while read -r line; do echo "line: $line"; done <b
exec 5>c; echo five >&5; echo six >&5; exec 5>&-
exec 6<c; read -r first <&6; read -r second <&6; exec 6<&-; echo "$first $second"
exec 7<>c; read -r first <&7; echo over >&7; exec 7>&-; cat c
{ echo out; echo err >&2; } >both 2>&1; cat both

# Two processes: each line opened again, then one descriptor for all, inherited.
for who in x y; do (n=0; while [ $n -lt 100 ]; do echo "$who $n" >>appended; n=$((n + 1)); done) & done; wait
(for who in x y; do (n=0; while [ $n -lt 500 ]; do echo "$who $n"; n=$((n + 1)); done) & done; wait) >>inherited
sort -o appended appended; sort -o inherited inherited; wc -l appended inherited

set -C; (echo x >a) 2>/dev/null || echo "noclobber holds"; set +C
mkdir -p sub/deep; : >sub/1.txt; : >sub/2.txt; : >"sub/with space.txt"; : >sub/.hidden
echo sub/*.txt sub/[0-9].* sub/*/ sub/none*
touch -d '2001-01-01' old; [ a -nt old ] && echo newer; [ old -ot a ] && echo older; [ a -ef sub/../a ] && echo same
[ -d sub ] && [ -f a ] && [ -s a ] && [ ! -e none ] && [ -w a ] && [ ! -x a ] && echo tests
cd sub/deep; pwd; cd ..; pwd; (cd deep && echo in >inside); cat deep/inside; cd ..
ln -s sub/deep link; cd link; pwd -P; cd ..; ls
cat a | tee d | wc -l; echo "$(cat d)" | sort -r >e; cat e
umask 077; : >private; umask 022; ls -l private | cut -c1-10
cat >program <<'END'
echo "program $# $1"
END
sh program argument; sh <program; . ./program with
cat none 2>/dev/null || echo "no such file"
rm b; cat b 2>/dev/null || echo "removed"
if [ -n "${BASH_VERSION:-}" ]; then . "${0%/*}/bash_only.sh"; fi
