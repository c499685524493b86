# What bash has beyond a POSIX shell; shell.sh reads it.
mapfile -t lines <a; echo "${#lines[@]} ${lines[1]}"
diff <(sort a) <(sort -r a) || echo "differ"
cat <<<"a string" >string; echo "$(<string)" | tee >(cat >teed) >/dev/null; wait; cat string
shopt -s globstar nullglob; echo **/*.txt none*
exec {number}>>string; echo more >&"$number"; exec {number}>&-; cat string
until [ -s teed ]; do :; done; rm teed
