// The clients people use, against `kvasir serve` with the small shipped model.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { after, before, test } from 'node:test';
import { Ollama } from 'ollama';
import OpenAI from 'openai';

const messages = [{ role: 'user', content: 'Tell me a story about a fox and a crow.' }];
let server;
let url;
let log = '';
let openai;
let anthropic;
let ollama;

before(async () => {
  server = spawn(process.env.KVASIR_PROGRAM, ['serve', '-m', 'tales-draft', '--port', '0', '-t', '1'], { stdio: ['ignore', 'ignore', 'pipe'] });
  url = await new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`no greeting: ${log}`)), 20000);
    server.on('exit', (code) => reject(new Error(`ended with ${code}: ${log}`)));
    server.stderr.on('data', (data) => {
      log += data;
      const found = log.match(/at (http:\/\/127\.0\.0\.1:\d+)/);
      if (!found) return;
      clearTimeout(late);
      resolve(found[1]);
    });
  });
  openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none' });
  anthropic = new Anthropic({ baseURL: url, apiKey: 'none' });
  ollama = new Ollama({ host: url });
});

after(async () => {
  const code = await new Promise((resolve) => {
    server.removeAllListeners('exit');
    server.on('exit', resolve);
    server.kill('SIGTERM');
  });
  assert.equal(code, 0, 'SIGTERM drains and ends with 0');
});

async function inFlight() {
  const page = await (await fetch(`${url}/metrics`)).text();
  return Number(page.match(/num_requests_running\{[^}]*\} (\d+)/)[1]) + Number(page.match(/num_requests_waiting\{[^}]*\} (\d+)/)[1]);
}

async function becomesIdle() {
  for (let i = 0; i < 200; ++i) {
    if ((await inFlight()) === 0) return true;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return false;
}

test('openai: chat, with usage of the cache', async () => {
  const ask = () => openai.chat.completions.create({ model: 'any', messages, max_tokens: 20, temperature: 0 });
  const cold = await ask();
  const { data, request_id } = await ask().withResponse();
  assert.equal(data.choices[0].message.content, cold.choices[0].message.content);
  assert.equal(data.choices[0].finish_reason, 'length');
  assert.equal(data.usage.prompt_tokens_details.cached_tokens, data.usage.prompt_tokens - 1);
  assert.match(request_id, /^req-/);
});

test('openai: a streamed chat says the same, and its usage', async () => {
  const body = { model: 'any', messages, max_tokens: 20, temperature: 0 };
  const whole = await openai.chat.completions.create(body);
  const stream = await openai.chat.completions.create({ ...body, stream: true, stream_options: { include_usage: true } });
  let text = '';
  let usage = null;
  let role = null;
  for await (const chunk of stream) {
    role ??= chunk.choices[0]?.delta.role;
    text += chunk.choices[0]?.delta.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(role, 'assistant');
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.completion_tokens, 20);
});

test('openai: its own helper puts a stream together', async () => {
  const runner = openai.chat.completions.stream({ model: 'any', messages, max_tokens: 10, temperature: 0, n: 2 });
  const done = await runner.finalChatCompletion();
  assert.equal(done.choices.length, 2);
  assert.equal(done.choices[0].finish_reason, 'length');
});

test('openai: completions', async () => {
  const one = await openai.completions.create({ model: 'any', prompt: 'Once upon a time', temperature: 0, echo: true });
  assert.ok(one.choices[0].text.startsWith('Once upon a time'));
  assert.equal(one.usage.completion_tokens, 16);
  const stream = await openai.completions.create({ model: 'any', prompt: 'Once upon a time', temperature: 0, echo: true, stream: true });
  let text = '';
  for await (const chunk of stream) text += chunk.choices[0].text;
  assert.equal(text, one.choices[0].text);
});

test('openai: responses, streamed and not, and one that goes on', async () => {
  const body = { model: 'any', input: messages[0].content, instructions: 'You tell stories.', max_output_tokens: 12, temperature: 0 };
  const whole = await openai.responses.create(body);
  assert.equal(whole.status, 'incomplete');
  const types = [];
  const runner = openai.responses.stream(body);
  for await (const event of runner) types.push(event.type);
  const final = await runner.finalResponse();
  assert.equal(types[0], 'response.created');
  assert.equal(types.at(-1), 'response.incomplete');
  assert.equal(final.output_text, whole.output_text);
  assert.equal(final.usage.input_tokens_details.cached_tokens, final.usage.input_tokens - 1);
  const next = await openai.responses.create({ model: 'any', input: 'And then?', previous_response_id: whole.id, max_output_tokens: 4 });
  assert.ok(next.usage.input_tokens > whole.usage.output_tokens);
  assert.equal((await openai.responses.retrieve(next.id)).output_text, next.output_text);
  const items = [];
  for await (const item of openai.responses.inputItems.list(next.id)) items.push(item.role);
  assert.deepEqual(items, ['user', 'assistant', 'user']);
  const count = await openai.responses.inputTokens.count({ input: body.input, instructions: body.instructions });
  assert.equal(count.input_tokens, whole.usage.input_tokens);
  await openai.responses.delete(next.id);
  await assert.rejects(openai.responses.retrieve(next.id), OpenAI.NotFoundError);
});

test('openai: models', async () => {
  const models = [];
  for await (const model of openai.models.list()) models.push(model.id);
  assert.deepEqual(models, ['tales-draft']);
  assert.equal((await openai.models.retrieve('tales-draft')).owned_by, 'kvasir');
});

test('openai: errors have their class and name the parameter', async () => {
  await assert.rejects(openai.chat.completions.create({ model: 'any', messages, temperature: 5 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'temperature');
    assert.equal(error.type, 'invalid_request_error');
    assert.match(error.requestID, /^req-/);
    return true;
  });
  await assert.rejects(openai.models.retrieve('other'), OpenAI.NotFoundError);
  await assert.rejects(openai.completions.create({ model: 'any', prompt: ' word'.repeat(4000) }), { code: 'context_length_exceeded' });
});

test('openai: leaving a stream ends the request', async () => {
  const stream = await openai.chat.completions.create({ model: 'any', messages, max_tokens: 2000, stream: true, ignore_eos: true });
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content) break;
  }
  assert.ok(await becomesIdle());
  const leave = new AbortController();
  const whole = openai.chat.completions.create({ model: 'any', messages, max_tokens: 2000, n: 8, ignore_eos: true }, { signal: leave.signal });
  setTimeout(() => leave.abort(), 20);
  await assert.rejects(whole, OpenAI.APIUserAbortError);
  assert.ok(await becomesIdle());
});

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

test('anthropic: errors', async () => {
  await assert.rejects(anthropic.messages.create({ model: 'any', max_tokens: 0, messages }), (error) => {
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.equal(error.error.error.type, 'invalid_request_error');
    return true;
  });
});

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

const schema = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 12 }, kind: { enum: ['fox', 'crow'] }, age: { type: 'integer', minimum: 0, maximum: 99 } },
  required: ['name', 'kind', 'age'],
  additionalProperties: false,
};

function isAnimal(text) {
  const animal = JSON.parse(text);
  assert.deepEqual(Object.keys(animal), ['name', 'kind', 'age']);
  assert.ok(['fox', 'crow'].includes(animal.kind) && Number.isInteger(animal.age));
}

test('openai: an answer that keeps to a schema', async () => {
  const response_format = { type: 'json_schema', json_schema: { name: 'animal', strict: true, schema } };
  const body = { model: 'any', messages, max_tokens: 200, temperature: 1.5, seed: 1, response_format };
  const parsed = await openai.chat.completions.parse(body);
  isAnimal(JSON.stringify(parsed.choices[0].message.parsed));
  const streamed = await openai.chat.completions.stream(body).finalChatCompletion();
  assert.equal(streamed.choices[0].message.content, parsed.choices[0].message.content);
  const bad = { type: 'json_schema', json_schema: { name: 'x', schema: { uniqueItems: true } } };
  await assert.rejects(openai.chat.completions.create({ ...body, response_format: bad }), { param: 'response_format.json_schema.schema' });
});

test('ollama: an answer that keeps to a schema', async () => {
  isAnimal((await ollama.chat({ model: 'any', messages, format: schema, options: { seed: 3 } })).message.content);
  assert.ok(JSON.parse((await ollama.generate({ model: 'any', prompt: 'A fox', format: { type: 'boolean' } })).response) !== null);
});

test('openai: probabilities', async () => {
  const body = { model: 'any', messages, max_tokens: 12, temperature: 0, logprobs: true, top_logprobs: 2 };
  const whole = await openai.chat.completions.create(body);
  const { content } = whole.choices[0].logprobs;
  assert.equal(Buffer.from(content.flatMap((token) => token.bytes)).toString(), whole.choices[0].message.content);
  const streamed = await openai.chat.completions.stream(body).finalChatCompletion();
  assert.deepEqual(streamed.choices[0].logprobs.content, content);
  const completion = await openai.completions.create({ model: 'any', prompt: 'Once', temperature: 0, logprobs: 2 });
  assert.equal(completion.choices[0].logprobs.tokens.join(''), completion.choices[0].text);
});
