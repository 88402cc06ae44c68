// How smooth the page is over 20,000 blocks, and what watching costs the server.
//
//     sh bench/page/run.sh        after ./kvasir test has put the browser's tools below build/
//
// Frames are counted in Chromium on the cache's view, while four chats run. The server's cost is its processor time for
// the same work with somebody who watches and with nobody, in turns.
import { readFileSync } from 'node:fs';
import { get } from 'node:http';
import { Browser, Server } from './browser.mjs';

const blocks = 20000;
const seconds = 10;
const server = new Server();
await server.start('--kv-memory', process.env.KVASIR_PAGE_MEMORY ?? '166MB', '--draft', 'off', '-q');

const ticks = () => {
  const fields = readFileSync(`/proc/${server.process.pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
};
const write = (prompt, max_tokens) =>
  fetch(`${server.url}/v1/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ prompt, max_tokens, temperature: 0, ignore_eos: true }) }).then((reply) => reply.json());

// Texts that nobody has asked for, until the cache is full of them.
async function fill() {
  const words = ['fox', 'crow', 'mill', 'river', 'king', 'goose', 'lamp', 'snow', 'bread', 'moon'];
  for (let i = 0; i < 220; ++i) {
    const text = Array.from({ length: 1500 }, (_, j) => words[(i * 7 + j * j + ((i * j) >> 3)) % words.length]).join(' ');
    await write(`${i} ${text}`, 1);
  }
}

// A watcher that reads and throws away.
const watch = () => new Promise((resolve) => get(`${server.url}/kvasir/live`, (reply) => (reply.resume(), resolve(reply))));

async function costs() {
  const work = async () => {
    const [cpu, wall] = [ticks(), Date.now()];
    for (let i = 0; i < 12; ++i) await write(`Once upon a time there was a fox, number ${i}.`, 200);
    return { cpu: ticks() - cpu, wall: (Date.now() - wall) / 1000 };
  };
  await work();
  const rounds = [];
  for (let round = 0; round < 9; ++round) {
    const alone = await work();
    const watcher = await watch();
    await new Promise((done) => setTimeout(done, 500)); // the snapshot is not counted
    const watched = await work();
    watcher.destroy();
    rounds.push((100 * (watched.cpu - alone.cpu)) / watched.wall);
  }
  const watcher = await watch();
  await new Promise((done) => setTimeout(done, 500));
  const before = ticks();
  await new Promise((done) => setTimeout(done, 5000));
  const idle = (100 * (ticks() - before)) / 5;
  watcher.destroy();
  return { busy: rounds.sort((a, b) => a - b), idle };
}

async function frames() {
  const browser = new Browser();
  await browser.start();
  const page = await browser.open(server.url);
  await page.locator('.status.live').waitFor();
  await page.getByRole('link', { name: 'Cache', exact: true }).click();
  await page.waitForTimeout(2000);
  const cells = await page.locator('.legend[aria-label="Blocks by colour"] b').allInnerTexts();
  const count = async () =>
    page.evaluate(
      (long) =>
        new Promise((resolve) => {
          const gaps = [];
          let last = performance.now();
          const end = last + long * 1000;
          const step = (now) => {
            gaps.push(now - last);
            last = now;
            if (now < end) requestAnimationFrame(step);
            else resolve(gaps.slice(1));
          };
          requestAnimationFrame(step);
        }),
      seconds,
    );
  const told = (gaps) => {
    gaps.sort((a, b) => a - b);
    return { 'frames a second': (gaps.length / seconds).toFixed(1), 'median ms': gaps[gaps.length >> 1].toFixed(1), '99th ms': gaps[Math.floor(gaps.length * 0.99)].toFixed(1), 'worst ms': gaps.at(-1).toFixed(1) };
  };
  const idle = told(await count());
  let going = true;
  const load = Promise.all(Array.from({ length: 4 }, async (_, i) => {
    for (let turn = 0; going; ++turn) await write(`Once upon a time there was a crow, ${i} ${turn}. `.repeat(8), 400);
  }));
  await page.waitForTimeout(1000);
  const busy = told(await count());
  going = false;
  await load;
  browser.problems = browser.problems.filter((one) => !/status of 404/.test(one)); // texts of blocks that were evicted while the page asked for them
  await browser.close();
  return { cells: cells.map((text) => Number(text.replaceAll(',', ''))).reduce((a, b) => a + b, 0), idle, busy };
}

try {
  await fill();
  const cost = await costs();
  const seen = await frames();
  if (seen.cells < blocks) throw new Error(`only ${seen.cells} blocks; give more with KVASIR_PAGE_MEMORY`);
  console.log(`${seen.cells} blocks`);
  console.log('frames, nothing runs:   ', JSON.stringify(seen.idle));
  console.log('frames, four chats run: ', JSON.stringify(seen.busy));
  console.log(`server, watched by one, % of a core: idle ${cost.idle.toFixed(1)}, busy ${cost.busy.map((one) => one.toFixed(1)).join(' ')}`);
} finally {
  await server.stop();
}
