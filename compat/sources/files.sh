# File tools at work. Arguments: the directory, a local tree to copy.
set -eu
cd "$1"
tree=$2
cp -a "$tree" copy; diff -r "$tree" copy; echo "copied"
cp -a copy second; diff -r copy second; echo "copied within"
cp -r --preserve=timestamps second/d3 plain; cp --sparse=always copy/d1/e1/* plain/ 2>/dev/null || true
find copy -type f | wc -l; find copy -type l | sort | head -5; find copy -size +8k | sort; find copy -perm 755 -name '*9.txt' | sort
find copy -type f -newermt 2001-01-01 -print0 | sort -z | xargs -0 sha256sum | sha256sum
find second -name '*7.txt' -delete; find second -type f | wc -l; find second -type d -empty | sort
(cd copy; find . -type f -exec md5sum {} + | sort -k2) >sums; (cd copy; md5sum --quiet -c ../sums) && echo "sums agree"
mv second/d1 moved; mv -n sums renamed; mv -t moved renamed; mv moved/renamed sums; [ ! -e renamed ] && echo "moved"
ln sums hard; ln -s sums soft; ln -sfn moved soft2; stat -c '%h %s %A %F' sums hard soft; readlink soft soft2; realpath --relative-to=. soft2
[ sums -ef hard ] && echo "one file"
seq 200000 | sort -R --random-source=sums | sort -n -S 1M -T . >sorted; tail -n 1 sorted; sort -c -n sorted && echo "sorted"
split -l 30000 sorted part.; ls part.*; cat part.* | cmp - sorted && echo "put together"; rm part.*
sed -i 's/^1/one/; 5d' sorted; head -n 6 sorted; sed -n '$=' sorted; sed -i.bak 1d sorted; cmp sorted sorted.bak || true
tac sorted.bak | head -n 2; comm -13 sorted sorted.bak 2>/dev/null | head -n 1; paste -d, sums sums | wc -l; cut -c1-8 sums | uniq | wc -l
dd if=sorted of=blocks bs=4k count=20 skip=3 status=none; dd if=sums of=blocks bs=512 seek=9 conv=notrunc,fsync status=none; sha256sum blocks
dd if=blocks of=direct bs=4k oflag=direct iflag=direct status=none 2>/dev/null || cp blocks direct; cmp blocks direct && echo "direct"
truncate -s 1M sparse; truncate -s -10 blocks; truncate -s +1000 direct; wc -c sparse blocks direct; cmp -n 1000 sparse /dev/zero && echo "zeros"
du --apparent-size -b copy/d5/e0/*.txt | sort -k2 | head -n 3
touch -d '1999-12-31 23:59:58.123456789' dated; stat -c '%y' dated; touch -r dated dated2; touch -a -d @86400 dated2; stat -c '%Y %X' dated2
mkdir -m 750 -p one/two; chmod -R g+w,o-r one; stat -c %a one one/two; rmdir -p one/two; mktemp -p . made.XXXXXXXX | wc -c; rm made.*
install -m 640 sums installed; stat -c '%a %s' installed; tee -a installed <sums >/dev/null; wc -l installed
head -c 5000 sparse | od -A d | tail -n 1; ls -A copy | head -n 4; ls -laR moved | wc -l; test "$(df --output=target . | wc -l)" = 2 && echo "df"
shred -u -n 1 installed; [ ! -e installed ] && echo "shredded"
rm -r second; rm -rf plain; [ ! -e second ] && echo "removed"; chmod -R u+w copy; find . -name '*.bak' -exec rm {} \;
# What differs by intent: the time of what is made here.
find . -not -path './copy*' -exec touch -h -d @1000000000 {} +
