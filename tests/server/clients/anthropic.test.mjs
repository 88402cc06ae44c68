// Anthropic's own client.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { messages, TestServer } from './server.mjs';

const server = new TestServer();
let anthropic;

before(async () => {
  await server.start();
  anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', fetch: server.fetch });
});
after(() => server.stop(['Message', 'MessageStreamEvent', 'MessageTokensCount']));

test('anthropic: messages, streamed and not, and what was cached', async () => {
  const body = { model: 'any', max_tokens: 12, temperature: 0, system: 'You tell stories to small children, and all of them end well.', messages };
  const cold = await anthropic.messages.create(body);
  assert.equal(cold.stop_reason, 'max_tokens');
  const final = await anthropic.messages.stream(body).finalMessage();
  assert.equal(final.content[0].text, cold.content[0].text);
  assert.ok(final.usage.cache_read_input_tokens > 0);
  const count = await anthropic.messages.countTokens({ model: 'any', system: body.system, messages });
  for (const { usage } of [cold, final]) {
    assert.equal(usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens, count.input_tokens);
  }
});

test('anthropic: cache_control, and what was written for how long', async () => {
  const text = 'The fox went home, and so did the crow. '.repeat(12);
  const cache_control = { type: 'ephemeral', ttl: '1h' };
  const body = { model: 'any', max_tokens: 4, system: [{ type: 'text', text, cache_control }], messages };
  const cold = (await anthropic.messages.create(body)).usage;
  assert.ok(cold.cache_creation.ephemeral_1h_input_tokens > 0);
  assert.equal(cold.cache_creation.ephemeral_1h_input_tokens + cold.cache_creation.ephemeral_5m_input_tokens, cold.cache_creation_input_tokens);
  const warm = (await anthropic.messages.create({ ...body, messages: [{ role: 'user', content: 'Who came?' }] })).usage;
  assert.ok(warm.cache_read_input_tokens >= cold.cache_creation.ephemeral_1h_input_tokens);
  const five = Array.from({ length: 5 }, () => ({ type: 'text', text: 'x', cache_control }));
  await assert.rejects(anthropic.messages.create({ ...body, system: five }), /at most 4/);
});

test('anthropic: errors', async () => {
  await assert.rejects(anthropic.messages.create({ model: 'any', max_tokens: 0, messages }), (error) => {
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.equal(error.error.error.type, 'invalid_request_error');
    return true;
  });
});
