# Arguments: the directory, an archive of many small files, the tree it was made of, an archive of a large file.
set -eu
cd "$1"
mkdir many; tar -xpf "$2" -C many; find many -type f | wc -l
tar -df "$2" -C many && echo "archive and directory agree"
diff -r --no-dereference "$3" many && echo "trees agree"
tar --sort=name --numeric-owner --owner=0 --group=0 -C many -cf again.tar .; mkdir again; tar -xpf again.tar -C again ./d1 ./d2; diff -r --no-dereference many/d1 again/d1 && echo "packed and unpacked"
tar -C many -czf again.tgz ./d1; tar -tzf again.tgz | wc -l; rm again.tgz
rm -r again again.tar; tar -rf more.tar -C many ./d2; tar -uf more.tar -C many ./d2/e1; tar -tf more.tar | sort -u | wc -l; rm more.tar
tar -xf "$4"; tar -df "$4" && echo "the large file agrees"
tar -cf large.tar large; tar -df large.tar && echo "and its archive"; rm large.tar
touch -d @1000000000 large
