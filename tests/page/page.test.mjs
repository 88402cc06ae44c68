// The page of `kvasir serve` in a browser: the cache moves, explains itself, and plans as the command does.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { get } from 'node:http';
import { Browser, Server, faults, kvasir, number } from './browser.mjs';

const server = new Server();
const browser = new Browser();
const shots = process.env.KVASIR_SCREENSHOTS;
let page;

const shoot = async (name, of = page) => shots && of.screenshot({ path: join(shots, `${name}.png`) });
// A picture for the documents: WebP, as the browser itself packs it.
async function shootSmall(name) {
  const png = (await page.screenshot()).toString('base64');
  const blank = await browser.context.newPage();
  const webp = await blank.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
    canvas.getContext('2d').drawImage(image, 0, 0);
    return canvas.toDataURL('image/webp', 0.5).split(',')[1];
  }, png);
  await blank.close();
  writeFileSync(join(shots, `${name}.png`), Buffer.from(png, 'base64'));
  writeFileSync(join(shots, `${name}.webp`), Buffer.from(webp, 'base64'));
}
const live = (of = page) => of.locator('.status.live').waitFor();
const happened = async (kind) => number(await page.locator(`.happenings [data-kind=${kind}] b`).first().innerText());
const blocks = async (state) => number(await page.locator('.legend[aria-label="Blocks by colour"] li', { hasText: state }).first().locator('b').innerText());
async function eventually(read, wanted, why) {
  const end = Date.now() + 60000;
  for (;;) {
    const got = await read();
    if (wanted(got)) return got;
    assert.ok(Date.now() < end, `${why}: ${got}`);
    await page.waitForTimeout(50);
  }
}
const view = async (name) => {
  await page.getByRole('link', { name, exact: true }).click();
  await page.waitForFunction((hash) => location.hash === hash, `#${name.toLowerCase()}`);
};

before(async () => {
  await server.start('--kv-memory', '1500KB');
  await browser.start();
  page = await browser.open(server.url);
  await live();
});
after(async () => {
  await browser.close();
  assert.equal(await server.stop(), 0); // with the page open: it ends a drain at once
});

test('the page is small, and is the same compressed', async () => {
  const bytes = (path, encoding) =>
    new Promise((resolve) => get(`${server.url}${path}`, { headers: { 'accept-encoding': encoding } }, (reply) => {
      const parts = [];
      reply.on('data', (part) => parts.push(part));
      reply.on('end', () => resolve(Buffer.concat(parts)));
    }));
  const html = (await bytes('/', 'identity')).toString();
  const paths = ['/', ...[...html.matchAll(/(?:src|href)="\.(\/page\/[^"]+)"/g)].map(([, path]) => path)];
  assert.equal(paths.length, 4);
  let total = 0;
  for (const path of paths) {
    const small = await bytes(path, 'gzip');
    total += small.length;
    assert.ok(gunzipSync(small).equals(await bytes(path, 'identity')));
  }
  assert.ok(total < 100_000, `${total} bytes`);
  console.log(`the page has ${total} bytes`);
});

test('under load blocks are taken, shared, found again and evicted', async () => {
  const all = await eventually(() => blocks('free'), (n) => n > 0, 'no free blocks');
  const beginning = 'Tell me a long story about a fox who lived in an old mill by the river with a crow. ';
  const load = (async () => {
    for (let round = 0; round < 6; ++round) await Promise.all(Array.from({ length: 6 }, (_, i) => server.chat(`${beginning.repeat(3)} ${round} ${i}`, { max_tokens: 96 })));
  })();
  await eventually(() => blocks('in use'), (n) => n > 0, 'nothing in use');
  await eventually(() => blocks('shared'), (n) => n > 0, 'nothing shared');
  await shoot('load');
  await load;
  await eventually(() => blocks('cached'), (n) => n > 0, 'nothing cached');
  for (let i = 0; (await happened('evicted')) === 0; ++i) {
    assert.ok(i < 60, 'nothing was evicted');
    await server.chat(`${i} ${'Another tale of quite another kind. '.repeat(12)}`, { max_tokens: 64 });
  }
  for (const kind of ['taken', 'hit', 'published']) assert.ok((await happened(kind)) > 0, kind);
  await eventually(async () => (await blocks('free')) + (await blocks('cached')) + (await blocks('in use')) + (await blocks('shared')) + (await blocks('pinned')), (n) => n === all, 'blocks were lost');
});

test('requests that pause are seen with their blocks in host memory, and come back', async () => {
  const long = Promise.all(Array.from({ length: 8 }, (_, i) => server.chat(`Tell me story ${i}.`, { max_tokens: 1200, ignore_eos: true, temperature: 0 })));
  await page.locator('.swapped button').first().waitFor();
  assert.match(await page.locator('.swapped button').first().getAttribute('aria-label'), /paused, with [1-9]\d* blocks/);
  await shoot('swapped');
  await eventually(() => happened('swapped'), (n) => n > 0, 'nothing was swapped out');
  await eventually(() => happened('restored'), (n) => n > 0, 'nothing was swapped in');
  await long;
  await eventually(() => page.locator('.swapped').count(), (n) => n === 0, 'somebody is still paused');
});

const ask = async (text) => {
  const answers = await page.locator('article.answer').count();
  await page.getByRole('textbox', { name: 'Message', exact: true }).fill(text);
  await page.keyboard.press('Enter');
  const answer = page.locator('article.answer').nth(answers);
  await answer.locator('.numbers').waitFor();
  await answer.locator('.story').waitFor();
  return answer;
};

test('an answer tells what of its prompt was reused, and shades it', async () => {
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Most tokens').fill('40');
  await page.getByLabel('Temperature').fill('0');
  await page.getByRole('button', { name: 'Settings' }).click();
  await ask('Tell me a story about a fox and a crow.');
  await page.getByRole('button', { name: 'New chat' }).click();
  const answer = await ask('Tell me a story about a fox and a bear.');
  const [, reused, tokens] = (await answer.locator('.story summary').innerText()).match(/: ([\d,]+) of ([\d,]+) tokens/);
  assert.ok(number(reused) > 4 && number(reused) < number(tokens), `${reused} of ${tokens}`);
  const shaded = await answer.locator('mark.reused').innerText();
  const stopped = await answer.locator('mark.stopped').innerText();
  assert.match(shaded, /Tell me a story about a fox and a $|Tell me a story about a fox and a$/);
  assert.match(await answer.locator('.why').innerText(), new RegExp(`${reused} of ${tokens} prompt tokens reused`));
  assert.ok(stopped.trim().length > 0);
  assert.match(await answer.locator('.numbers').innerText(), /first token .*tokens\/s/s);
  if (!shots) return;
  // The picture of docs/page.md.
  await page.setViewportSize({ width: 1160, height: 720 });
  await page.evaluate(() => document.querySelector('.log').scrollTo(0, 1e6));
  const load = Promise.all(Array.from({ length: 6 }, (_, i) => server.chat(`Tell me a long story about a fox who lived in an old mill by the river with a crow. ${i}`, { max_tokens: 300, ignore_eos: true })));
  await eventually(() => blocks('in use'), (n) => n > 50, 'nothing in use');
  await shootSmall('page');
  await load;
  await page.setViewportSize({ width: 1280, height: 860 });
});

test('an answer can be stopped, made again, and its question edited', async () => {
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Most tokens').fill('1500');
  await page.getByRole('button', { name: 'Settings' }).click();
  // Alone the shipped model would be done before anybody could click.
  const load = Promise.all(Array.from({ length: 8 }, (_, i) => server.chat(`Tell me a long story about an old mill. ${i}`, { max_tokens: 1200, ignore_eos: true })));
  await eventually(() => blocks('in use'), (n) => n > 50, 'nothing in use');
  await page.getByRole('textbox', { name: 'Message', exact: true }).fill('Tell me a very long story.');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.locator('article.answer').last().getByText('stopped').waitFor();
  await load;
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Most tokens').fill('12');
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'Regenerate' }).click();
  await page.locator('article.answer').last().getByText('12 tokens', { exact: true }).waitFor();
  await page.locator('article.question').first().getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Your message').fill('**Bold** question <b>with marks</b>');
  await page.getByRole('button', { name: 'Ask again' }).click();
  await eventually(() => page.locator('article.answer').count(), (n) => n === 1, 'what came later is still there');
  await page.locator('article.answer').last().getByText('12 tokens').waitFor();
});

test('what a model writes is text, and never a part of the page', async () => {
  const text = ['# Title', '', 'A **bold** word, `code` and <img src=x onerror="document.title=1">.', '', '- one', '- two', '', '| a | b |', '|---|---|', '| 1 | 2 |', '', '[bad](javascript:alert(1)) and [good](https://example.org/)', '', '```js', '<script>document.title = 2</script>', '```'].join('\n');
  const piece = (fields) => `data: ${JSON.stringify({ choices: [fields] })}\n\n`;
  const body = piece({ delta: { content: text.slice(0, 70) } }) + piece({ delta: { content: text.slice(70) } }) + piece({ delta: {}, finish_reason: 'stop' }) + 'data: [DONE]\n\n';
  await page.route('**/v1/chat/completions', (route) => route.fulfill({ contentType: 'text/event-stream', body }));
  await page.getByRole('button', { name: 'New chat' }).click();
  await page.getByRole('textbox', { name: 'Message', exact: true }).fill('Write Markdown.');
  await page.keyboard.press('Enter');
  const answer = page.locator('article.answer .markdown');
  await answer.locator('table td').first().waitFor();
  for (const [what, n] of [['h3', 1], ['strong', 1], ['li', 2], ['td', 2], ['figure.code', 1], ['img', 0], ['script', 0]]) assert.equal(await answer.locator(what).count(), n, what);
  assert.deepEqual(await answer.locator('a').evaluateAll((links) => links.map((link) => link.href)), ['https://example.org/']);
  assert.equal(await answer.locator('figure.code code').textContent(), '<script>document.title = 2</script>');
  assert.match(await page.title(), /Kvasir/);
  await page.unroute('**/v1/chat/completions');
});

test('a request explains itself, and its blocks are found', async () => {
  const asked = await server.chat('Tell me a story about a fox and a wolf.', { explain: true });
  await view('Requests');
  const row = page.getByRole('button', { name: /Explain request/ }).first();
  const details = page.locator('.request-details');
  const newest = async () => { // the page hears of a request a moment after it ended
    await row.click();
    return details.innerText();
  };
  await eventually(newest, (text) => text.includes(asked.kvasir.explanation), asked.kvasir.explanation);
  await page.locator('.u-legend').first().waitFor();
  const earnings = page.getByRole('region', { name: 'Speculation' });
  assert.match(await earnings.innerText(), /\d+% of [\d,]+ guessed tokens were right; (saved|cost) /);
  const right = await earnings.locator('tr[data-drafter] td:nth-child(4)').allInnerTexts();
  assert.ok(right.map(number).reduce((a, b) => a + b, 0) > 0, `none was right: ${right}`);
  await shoot('requests');
  await view('Cache');
  const chosen = async () => { // what is pressed before the map is drawn chooses nothing
    await page.locator('.map').focus();
    for (const key of ['ArrowRight', 'ArrowRight', 'Enter']) await page.keyboard.press(key);
    await page.waitForTimeout(200);
    return page.locator('.details dl').count();
  };
  await eventually(chosen, (n) => n > 0, 'no block was chosen');
  await eventually(() => page.locator('.tree li').count(), (n) => n > 0, 'the prefix tree is empty');
  await page.locator('.tree button').first().click();
  await page.locator('.details pre.tokens').waitFor();
  const tip = async () => {
    await page.locator('.map .over').hover({ position: { x: 25, y: 5 } });
    await page.locator('.map .over').hover({ position: { x: 5, y: 5 } });
    await page.waitForTimeout(200);
    return page.locator('.map .tip q').count();
  };
  await eventually(tip, (n) => n > 0, 'the first block tells no text');
  await shoot('cache');
});

test('the planner answers as the command does, to the byte', async () => {
  await view('Plan');
  const set = async (label, value) => page.getByRole('slider', { name: label }).fill(String(value));
  const cases = [
    [14, 0, '', ''],
    [17, 3.5, 'llama-3.1-8b', 'memory'],
    [20, 6, 'llama-3.1-8b', 'memory'],
  ];
  for (const [context, users, model, memory] of cases) {
    await page.getByRole('combobox', { name: 'Model' }).selectOption(model);
    await page.getByRole('combobox', { name: 'Memory' }).selectOption(memory);
    await set('Context', context);
    await set('Users at a time', users);
    const wanted = `-c ${Math.round(2 ** context / 256) * 256} -u ${Math.round(2 ** users)}`;
    const command = await eventually(() => page.locator('.code pre').innerText(), (text) => text.includes(wanted) && (model === '' || text.includes(model)) && text.includes('--memory') === (memory !== ''), wanted);
    await page.getByText('JSON', { exact: true }).click();
    const args = command.trim().match(/"[^"]*"|\S+/g).map((word) => word.replaceAll('"', ''));
    const answer = kvasir(...args.slice(1));
    await eventually(() => page.locator('pre.raw').textContent(), (shown) => shown === answer, `not ${answer}`); // it comes a moment after the command
    await page.getByText('JSON', { exact: true }).click();
  }
  await page.locator('.stack-bar .limit').waitFor(); // the last one does not fit
  await shoot('plan');
});

test('nothing serious stands in the way of a screen reader, light or dark, wide or narrow', async () => {
  for (const [theme, size] of [['light', [1280, 860]], ['dark', [1280, 860]], ['light', [390, 780]]]) {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width: size[0], height: size[1] });
    for (const name of ['Chat', 'Cache', 'Requests', 'Plan', 'Connect']) {
      await view(name);
      await page.waitForTimeout(200);
      assert.deepEqual(await faults(page), [], `${name}, ${theme}, ${size}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${name} is ${wide} pixels too wide for ${size}`);
      await shoot(`${name}-${theme}-${size[0]}`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 860 });
  await page.evaluate(() => (document.querySelector('.status').style.color = '#e4e2dc'));
  assert.match((await faults(page)).join(), /color-contrast/); // that it finds something where there is something
});

test('with keys the page shows nothing before it has one, and then its own', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'kvasir-keys-')), 'keys.json');
  const alice = kvasir('keys', 'add', 'alice', '--file', file).match(/kv-[\w-]+/)[0];
  const bob = kvasir('keys', 'add', 'bob', '--file', file).match(/kv-[\w-]+/)[0];
  const locked = new Server();
  await locked.start('--keys', file, '--kv-memory', '1500KB');
  const other = await browser.open(locked.url);
  await other.getByRole('heading', { name: 'This server asks for a key' }).waitFor();
  await locked.chat('A secret tale that is nobody else’s.', { key: bob });
  assert.equal(await other.locator('.model').innerText(), '');
  await other.getByLabel('Key', { exact: true }).fill('kv-wrong');
  await other.keyboard.press('Enter');
  await other.getByText('This key is not known here.').waitFor();
  await other.getByLabel('Key', { exact: true }).fill(alice);
  await other.keyboard.press('Enter');
  await live(other);
  const mapped = () => other.locator('.legend[aria-label="Blocks by colour"]').innerText();
  assert.match(await mapped(), /free\s+0/);
  assert.match(await mapped(), /cached\s+0/);
  await locked.chat('Tell me a story about a fox.', { key: alice });
  await other.waitForFunction(() => /cached\s+[1-9]/.test(document.querySelector('.legend[aria-label="Blocks by colour"]').innerText));
  await other.getByRole('link', { name: 'Requests', exact: true }).click();
  await other.getByRole('button', { name: /Explain request/ }).first().waitFor();
  assert.equal(await other.getByRole('button', { name: /Explain request/ }).count(), 1);
  await other.close();
  assert.equal(await locked.stop(), 0);
});
