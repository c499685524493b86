// Files by Node.js. Argument: the directory.
'use strict';
const fs = require('fs');
const path = require('path');
const { pipeline } = require('stream/promises');
const zlib = require('zlib');

const root = process.argv[2];
const at = (...names) => path.join(root, ...names);

function synchronously() {
  fs.mkdirSync(at('a', 'b'), { recursive: true });
  fs.writeFileSync(at('a', 'text'), 'zwei Wörter\n'.repeat(100));
  fs.appendFileSync(at('a', 'text'), 'more\n');
  fs.symlinkSync('a/text', at('link'));
  fs.linkSync(at('a', 'text'), at('hard'));
  console.log(fs.readdirSync(root, { recursive: true }).sort().join(' '), fs.readlinkSync(at('link')), fs.statSync(at('hard')).nlink);
  const file = fs.openSync(at('positions'), 'w+');
  fs.writeSync(file, Buffer.alloc(10000, 'p'), 0, 10000, 0);
  fs.writevSync(file, [Buffer.from('one'), Buffer.from('two')], 500);
  const read = Buffer.alloc(8);
  console.log(fs.readSync(file, read, 0, 8, 499), read.toString(), fs.fstatSync(file).size);
  fs.ftruncateSync(file, 600);
  fs.fsyncSync(file);
  fs.fdatasyncSync(file);
  fs.closeSync(file);
  fs.utimesSync(at('positions'), 1e9, 1e9);
  fs.chmodSync(at('positions'), 0o640);
  const stat = fs.statSync(at('positions'), { bigint: true });
  console.log(stat.size, stat.mtimeNs, (stat.mode & 0o777n).toString(8));
  for (const call of [() => fs.readFileSync(at('none')), () => fs.rmdirSync(at('a')), () => fs.mkdirSync(at('a')), () => fs.openSync(at('hard'), 'wx')]) {
    try { call(); console.log('no error'); } catch (error) { console.log(error.code, error.syscall); }
  }
  fs.renameSync(at('hard'), at('renamed'));
  console.log(fs.existsSync(at('hard')), fs.realpathSync(at('link')), fs.mkdtempSync(at('made-')).length > root.length);
  fs.rmSync(at(fs.readdirSync(root).find((name) => name.startsWith('made-'))), { recursive: true });
}

async function byPromises() {
  await Promise.all(Array.from({ length: 100 }, (_, n) => fs.promises.writeFile(at('a', 'b', `f${n}`), `${n}`.repeat(n))));
  const sizes = await Promise.all((await fs.promises.readdir(at('a', 'b'))).map(async (name) => (await fs.promises.stat(at('a', 'b', name))).size));
  console.log(sizes.length, sizes.reduce((a, b) => a + b));
  await fs.promises.copyFile(at('a', 'text'), at('copy'));
  await fs.promises.copyFile(at('copy'), at('renamed'), fs.constants.COPYFILE_EXCL).catch((error) => console.log(error.code));
  await fs.promises.cp(at('a'), at('whole'), { recursive: true });
  let count = 0;
  for await (const entry of await fs.promises.opendir(at('whole', 'b'))) count += entry.isFile() ? 1 : 0;
  const handle = await fs.promises.open(at('copy'), 'r+');
  await handle.write('FIRST', 0);
  const lines = [];
  for await (const line of handle.readLines()) lines.push(line);
  console.log(count, lines.length, lines[0]);
  await fs.promises.rm(at('whole', 'b'), { recursive: true });
  await fs.promises.truncate(at('renamed'), 12);
  console.log(fs.readdirSync(at('whole')).join(' '));
}

async function byStreams() {
  const big = fs.createWriteStream(at('stream'));
  for (let n = 0; n < 50000; n++) if (!big.write(`line ${n}\n`)) await new Promise((done) => big.once('drain', done));
  await new Promise((done) => big.end(done));
  await pipeline(fs.createReadStream(at('stream')), zlib.createGzip(), fs.createWriteStream(at('stream.gz')));
  await pipeline(fs.createReadStream(at('stream.gz')), zlib.createGunzip(), fs.createWriteStream(at('unpacked')));
  console.log(fs.readFileSync(at('stream')).equals(fs.readFileSync(at('unpacked'))), fs.statSync(at('stream')).size);
  const part = [];
  for await (const chunk of fs.createReadStream(at('stream'), { start: 100, end: 199 })) part.push(chunk);
  console.log(Buffer.concat(part).toString().split('\n').length);
  await new Promise((done, failed) => fs.readFile(at('link'), 'utf8', (error, text) => (error ? failed(error) : done(console.log(text.length)))));
}

synchronously();
byPromises().then(byStreams).catch((error) => { console.error(error); process.exit(1); });
