// Vercel's AI SDK, through its provider for servers that speak as OpenAI does.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { messages, TestServer } from './server.mjs';

const server = new TestServer();
let model;

before(async () => {
  await server.start();
  model = createOpenAICompatible({ name: 'kvasir', baseURL: `${server.url}/v1`, fetch: server.fetch, includeUsage: true })('any');
});
after(() => server.stop(['ChatCompletion', 'ChatCompletionChunk']));

test('ai: generateText, and what was cached', async () => {
  const ask = () => generateText({ model, messages, maxOutputTokens: 20, temperature: 0 });
  const cold = await ask();
  const warm = await ask();
  assert.equal(warm.text, cold.text);
  assert.equal(warm.finishReason, 'length');
  assert.equal(warm.usage.outputTokens, 20);
  assert.equal(warm.usage.inputTokenDetails.cacheReadTokens, warm.usage.inputTokens - 1);
});

test('ai: streamText says the same', async () => {
  const options = { model, system: 'You tell stories.', messages, maxOutputTokens: 20, temperature: 0 };
  const whole = await generateText(options);
  const stream = streamText(options);
  let text = '';
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal(await stream.finishReason, 'length');
  const usage = await stream.usage;
  assert.equal(usage.outputTokens, 20);
  assert.equal(usage.inputTokenDetails.cacheReadTokens, usage.inputTokens - 1);
});

test('ai: errors are told', async () => {
  await assert.rejects(generateText({ model, messages, temperature: 5, maxRetries: 0 }), { statusCode: 400 });
});
