// Our tokenizer and Hugging Face's (the npm package `tokenizers`, its native library), one text, in alternation.
//
//   PEERS=FOLDER node bench/peers/tokenizers.mjs build/tokenizer_bench MODEL_FOLDER TEXT [MORE_MODEL_FOLDERS]
//
// FOLDER is where `npm install tokenizers` was run. Each folder's tokenizer.json is read by both; a text of 10 MB is made
// of TEXT, again and again. Prints MB/s (medians of the rounds), the ratio, and whether the tokens are the same.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

const require = createRequire(path.join(process.env.PEERS ?? process.cwd(), 'package.json'));
const { Tokenizer } = require('tokenizers');
const [ours, first, textFile, ...more] = process.argv.slice(2);
const kBytes = 10_000_000;
const kRounds = 3;

const once = fs.readFileSync(textFile, 'utf8');
let text = '';
while (Buffer.byteLength(text) < kBytes) text += once;
const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'tokenizers-')), 'text.txt');
fs.writeFileSync(file, text);
const megabytes = Buffer.byteLength(text) / 1e6;

function hashOf(ids) {
  let hash = 2166136261;
  for (const id of ids) hash = Math.imul(hash ^ id, 16777619) >>> 0;
  return hash;
}

const median = values => values.sort((a, b) => a - b)[values.length >> 1];

console.log('| tokenizer | ours, MB/s | Hugging Face, MB/s | ratio | same tokens |');
console.log('|---|---:|---:|---:|---|');
for (const folder of [first, ...more]) {
  const theirs = Tokenizer.fromFile(path.join(folder, 'tokenizer.json'));
  const speeds = { ours: [], theirs: [] };
  let same = true;
  for (let round = 0; round < kRounds; ++round) {
    const mine = JSON.parse(execFileSync(ours, [folder, file, '1'], { encoding: 'utf8' }));
    const start = performance.now();
    const encoding = await theirs.encode(text, null, { addSpecialTokens: false });
    speeds.theirs.push(megabytes / ((performance.now() - start) / 1e3));
    speeds.ours.push(mine.median);
    same &&= hashOf(encoding.getIds()) === mine.hash;
  }
  const [a, b] = [median(speeds.ours), median(speeds.theirs)];
  console.log(`| ${path.basename(folder)} | ${a.toFixed(1)} | ${b.toFixed(1)} | ${(a / b).toFixed(1)} | ${same ? 'yes' : 'no'} |`);
}
fs.rmSync(path.dirname(file), { recursive: true });
