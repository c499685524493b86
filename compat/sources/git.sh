# Argument: the directory.
set -eu
cd "$1"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='2001-02-03T04:05:06Z' GIT_COMMITTER_DATE='2001-02-03T04:05:06Z'
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
git init -q -b main repository; cd repository
n=0
while [ $n -lt 200 ]; do
  n=$((n + 1))
  printf 'commit refs/heads/main\ncommitter a <a@example.org> %d +0000\ndata 2\nc\n' $((1000000000 + n))
  text=$(seq $n $((n + 40)))
  printf 'M 644 inline d%d/f%d\ndata %d\n%s\n' $((n % 7)) $((n % 31)) ${#text} "$text"
done | git fast-import --quiet
git reset -q --hard; git rev-list --count HEAD; git rev-parse HEAD
for n in 1 2 3 4 5 6 7 8 9 10; do echo $n >>hand; git add hand; git commit -q -m "by hand $n"; done
git rev-parse HEAD; git checkout -q -b side HEAD~3; echo side >side; git add side; git commit -q -m side; git checkout -q main
git merge -q -m merged side; git log --oneline | wc -l; git diff --stat HEAD~2 | tail -n 1
echo stash >>hand; git stash -q; git status --porcelain | wc -l; git stash pop -q; git status --porcelain; git checkout -q hand
git gc -q; git count-objects -v | grep -v size; git fsck --strict --no-progress && echo "sound"
git clone -q . ../clone; cd ../clone; git rev-parse HEAD; git fsck --no-progress && echo "clone is sound"
git rebase -q HEAD~3 && git grep -c 200 | head -n 2; git archive HEAD | sha256sum; git worktree add -q ../tree side; ls ../tree
git repack -adq; git blame hand | wc -l; git tag -m t t; git verify-pack .git/objects/pack/*.idx && echo "packs verified"
