// Codex from npm, to the end: it is told to run a shell twice, and to say what it found.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { call } from '../scripted_model.mjs';
import { packages, Workshop } from './workshop.mjs';

const shop = new Workshop();

before(async () => {
  await shop.open({
    steps: [
      `<think>\nI write with a shell.\n</think>\n\nFirst the file.\n${call('exec_command', { cmd: 'printf "a fox\\n" > fox.txt; echo written' })}`,
      `<think>\nNow I look at it.\n</think>\n\n${call('exec_command', { cmd: 'cat fox.txt' })}`,
      'The file fox.txt has one line: a fox.',
    ],
  });
  const provider = `[model_providers.kvasir]\nname = "kvasir"\nbase_url = "${shop.url}/v1"\nwire_api = "responses"\n`;
  writeFileSync(join(shop.home, 'config.toml'), `model = "scripted"\nmodel_provider = "kvasir"\n${provider}`);
});
after(() => shop.close(['ResponseStreamEvent']));

test('codex: a file written and read, thoughts and calls in the history', async () => {
  const args = [join(packages, '@openai/codex/bin/codex.js'), 'exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'];
  const done = await shop.run(process.execPath, [...args, 'Write a fox into fox.txt'], { CODEX_HOME: shop.home });
  assert.equal(done.code, 0, done.errors);
  assert.equal(done.text.trim(), 'The file fox.txt has one line: a fox.');
  assert.equal(readFileSync(join(shop.work, 'fox.txt'), 'utf8'), 'a fox\n');
  assert.equal(shop.requests.length, 3);
  const types = shop.requests[2].input.map((item) => item.type).slice(-7);
  assert.deepEqual(types, ['reasoning', 'message', 'function_call', 'function_call_output', 'reasoning', 'function_call', 'function_call_output']);
  // Hosted tools and namespaces are there, and no reason to refuse.
  const tools = new Set(shop.requests[0].tools.map((tool) => tool.type));
  assert.ok(tools.has('web_search') && tools.has('namespace'), [...tools].join());
  assert.match(shop.server.log, /skipped tools that are not functions: web_search/);
  // What was said before is found in the cache.
  const counts = [...shop.server.log.matchAll(/prompt_tokens=(\d+) cached_tokens=(\d+)/g)].map(([, prompt, cached]) => [+prompt, +cached]);
  assert.ok(counts[1][1] >= counts[0][0] - 1 && counts[2][1] >= counts[1][0] - 1, JSON.stringify(counts));
});
