# Arguments: the directory, a local tree.
set -eu
cd "$1"
rsync -aH "$2/" copy; diff -r --no-dereference "$2" copy && echo "copied"
echo "second run: $(rsync -aHi "$2/" copy | wc -l) changes"
rsync -a copy/ second; chmod -R u+w second; echo changed >>"second/d1/e1/file 1.txt"; rm -r second/d2; echo new >second/new
rsync -ain --delete copy/ second | grep -v '^\.d' | cut -c1-3,12- | sort | head -n 5
rsync -a --delete copy/ second; diff -r --no-dereference copy second && echo "mirrored"
seq 100000 >large; cp large larger; echo more >>larger; rsync -a --inplace --no-whole-file larger large; cmp large larger && echo "in place"
rsync -a --checksum --partial --append-verify larger large; rsync -a --remove-source-files large moved; ls
touch -d @1000000000 larger moved
