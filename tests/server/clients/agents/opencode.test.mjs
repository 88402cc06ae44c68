// opencode from npm, to the end: its shell writes a file, its reader reads it, and the answer tells of it.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { call } from '../scripted_model.mjs';
import { packages, Workshop } from './workshop.mjs';

const shop = new Workshop();

before(async () => {
  await shop.open({
    steps: [
      `<think>\nI write the file.\n</think>\n\nFirst the file.\n${call('bash', { command: 'printf "a fox\\n" > fox.txt; echo written', description: 'Writes' })}`,
      `<think>\nNow I look at it.\n</think>\n\n${call('read', { filePath: join(shop.work, 'fox.txt') })}`,
      'The file fox.txt has one line: a fox.',
    ],
    aside: 'Of foxes',
  });
  const models = { scripted: { name: 'scripted', tool_call: true, reasoning: true, limit: { context: 65536, output: 4096 } } };
  const options = { baseURL: `${shop.url}/v1`, apiKey: 'none' };
  const provider = { kvasir: { npm: '@ai-sdk/openai-compatible', name: 'kvasir', options, models } };
  const config = { model: 'kvasir/scripted', small_model: 'kvasir/scripted', autoupdate: false, share: 'disabled', permission: 'allow', provider };
  writeFileSync(join(shop.work, 'opencode.json'), JSON.stringify(config));
});
after(() => shop.close(['ChatCompletionChunk']));

test('opencode: a file written and read', async () => {
  const platform = ['linux', 'darwin'].map((os) => join(packages, `opencode-${os}-${process.arch}/bin/opencode`)).find(existsSync);
  const env = { OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1' };
  const done = await shop.run(platform, ['run', '--format', 'json', 'Write a fox into fox.txt'], env);
  assert.equal(done.code, 0, done.errors);
  const events = done.text.trim().split('\n').map((line) => JSON.parse(line));
  const parts = events.map(({ part }) => part).filter(({ type }) => type === 'text' || type === 'tool');
  const told = parts.map((part) => (part.type === 'text' ? part.text : `${part.tool} ${part.state.status}`));
  assert.deepEqual(told, ['First the file.', 'bash completed', 'read completed', 'The file fox.txt has one line: a fox.']);
  assert.equal(readFileSync(join(shop.work, 'fox.txt'), 'utf8'), 'a fox\n');
  // Its title is asked for without tools, beside three turns with them.
  const turns = shop.requests.filter(({ tools }) => tools?.length > 0);
  assert.equal(turns.length, 3);
  const last = turns[2].messages.map(({ role }) => role);
  assert.deepEqual(last.slice(-4), ['assistant', 'tool', 'assistant', 'tool']);
});
