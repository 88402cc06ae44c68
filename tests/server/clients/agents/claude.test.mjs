// Claude Code from npm, to the end: its shell writes a file, its reader reads it, and the answer tells of it.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { call } from '../scripted_model.mjs';
import { packages, Workshop } from './workshop.mjs';

const shop = new Workshop();

before(() =>
  shop.open({
    steps: [
      `<think>\nI write the file.\n</think>\n\nFirst the file.\n${call('Bash', { command: 'printf "a fox\\n" > fox.txt; echo written', description: 'Writes' })}`,
      `<think>\nNow I look at it.\n</think>\n\n${call('Read', { file_path: join(shop.work, 'fox.txt') })}`,
      'The file fox.txt has one line: a fox.',
    ],
    aside: 'Of foxes',
  }),
);
after(() => shop.close(['MessageStreamEvent']));

test('claude code: a file written and read, thoughts and system messages in the history', async () => {
  const program = ['linux', 'darwin'].map((os) => join(packages, `@anthropic-ai/claude-code-${os}-${process.arch}/claude`)).find(existsSync);
  const env = { ANTHROPIC_BASE_URL: shop.url, ANTHROPIC_API_KEY: 'none', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', IS_SANDBOX: '1' };
  const done = await shop.run(program, ['-p', 'Write a fox into fox.txt', '--dangerously-skip-permissions'], env);
  assert.equal(done.code, 0, done.errors + done.text);
  assert.equal(done.text.trim(), 'The file fox.txt has one line: a fox.');
  assert.equal(readFileSync(join(shop.work, 'fox.txt'), 'utf8'), 'a fox\n');
  const turns = shop.requests.filter(({ messages, tools }) => messages && tools?.length > 0);
  assert.equal(turns.length, 3);
  // It puts system messages into the conversation, hands thoughts back, and asks for what others' servers do not know.
  const blocks = turns[2].messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  assert.ok(turns[2].messages.some(({ role }) => role === 'system'));
  assert.deepEqual(blocks.filter(({ type }) => type === 'tool_use').map(({ name }) => name), ['Bash', 'Read']);
  assert.ok(turns[0].output_config?.effort && turns[0].context_management?.edits && turns[0].thinking);
  // What was said before is found in the cache.
  const counts = [...shop.server.log.matchAll(/prompt_tokens=(\d+) cached_tokens=(\d+)/g)].map(([, prompt, cached]) => [+prompt, +cached]).slice(-3);
  assert.ok(counts[1][1] >= counts[0][0] - 64 && counts[2][1] >= counts[1][0] - 64, JSON.stringify(counts));
});
