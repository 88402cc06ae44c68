// Ollama's own client.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Ollama } from 'ollama';
import { animal, isAnimal, messages, TestServer } from './server.mjs';

const server = new TestServer();
let ollama;

before(async () => {
  await server.start();
  ollama = new Ollama({ host: server.url });
});
after(() => server.stop());

test('ollama: chat, generate, list', async () => {
  const options = { num_predict: 12, temperature: 0 };
  const whole = await ollama.chat({ model: 'any', messages, options });
  let text = '';
  for await (const part of await ollama.chat({ model: 'any', messages, options, stream: true })) text += part.message.content;
  assert.equal(text, whole.message.content);
  assert.equal(whole.done_reason, 'length');
  const generated = await ollama.generate({ model: 'any', prompt: messages[0].content, options });
  assert.equal(generated.response, text);
  assert.equal((await ollama.list()).models[0].name, 'tales-draft');
});

test('ollama: an answer that keeps to a schema', async () => {
  isAnimal((await ollama.chat({ model: 'any', messages, format: animal, options: { seed: 3 } })).message.content);
  assert.ok(JSON.parse((await ollama.generate({ model: 'any', prompt: 'A fox', format: { type: 'boolean' } })).response) !== null);
});

test('ollama: vectors', async () => {
  const { embeddings } = await ollama.embed({ model: 'any', input: ['A fox', 'A crow'] });
  assert.equal(embeddings.length, 2);
  assert.deepEqual((await ollama.embeddings({ model: 'any', prompt: 'A crow' })).embedding, embeddings[1]);
});
