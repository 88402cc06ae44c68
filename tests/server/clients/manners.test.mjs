// A busy server as OpenAI's and Anthropic's clients meet it: what they try again, and when.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { messages, TestServer } from './server.mjs';

// A server, and both clients with their own retries; `seen` has the replies that they got.
async function withServer(model, args, run) {
  const server = new TestServer();
  await server.start(model, args);
  const seen = [];
  const fetch = async (input, init) => {
    const response = await server.fetch(input, init);
    seen.push({ status: response.status, after: Number(response.headers.get('retry-after')), again: response.headers.get('x-should-retry') });
    return response;
  };
  const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', fetch });
  const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', fetch });
  try {
    await run({ server, seen, openai, anthropic });
  } finally {
    await server.stop();
  }
}

test('manners: an answer that takes too long is not asked for again', () =>
  withServer('tales', ['--request-timeout', '1'], async ({ seen, openai, anthropic }) => {
    const late = { model: 'any', messages, max_tokens: 2000, ignore_eos: true };
    await assert.rejects(openai.chat.completions.create(late), (error) => {
      assert.ok(error instanceof OpenAI.InternalServerError && error.status === 504 && error.type === 'timeout_error', String(error));
      return true;
    });
    await assert.rejects(anthropic.messages.create(late), (error) => {
      assert.ok(error.status === 504 && error.error.error.type === 'timeout_error', String(error));
      return true;
    });
    assert.deepEqual(seen, [{ status: 504, after: 0, again: 'false' }, { status: 504, after: 0, again: 'false' }]);
  }));

test('manners: who is sent away comes back when told to', () =>
  withServer('tales-draft', ['--max-queued', '0'], async ({ server, seen, openai, anthropic }) => {
    const leave = new AbortController();
    const many = { model: 'any', messages, max_tokens: 1900, n: 128, ignore_eos: true };
    const held = [1, 2].map(() => assert.rejects(openai.chat.completions.create(many, { signal: leave.signal })));
    assert.ok(await server.becomes(() => server.metric('num_requests_running'), 256));
    seen.length = 0;
    const one = { model: 'any', messages, max_tokens: 2 };
    const began = Date.now();
    const answers = [openai.chat.completions.create(one), anthropic.messages.create(one)];
    assert.ok(await server.becomes(async () => seen.length, 2));
    assert.deepEqual(seen.map(({ status }) => status), [429, 429]);
    assert.ok(seen.every(({ after }) => after >= 1 && after <= 59), JSON.stringify(seen));
    leave.abort();
    await Promise.all([...held, ...answers]);
    assert.deepEqual(seen.slice(2).map(({ status }) => status), [200, 200]);
    assert.ok(Date.now() - began >= 1000 * Math.max(...seen.slice(0, 2).map(({ after }) => after)) - 50);
  }));
