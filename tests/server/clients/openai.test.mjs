// OpenAI's own client.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { animal, isAnimal, messages, TestServer } from './server.mjs';

const server = new TestServer();
let openai;

before(async () => {
  await server.start();
  openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', fetch: server.fetch });
});
after(() => server.stop(['ChatCompletion', 'ChatCompletionChunk', 'Completion', 'CompletionChunk', 'Response', 'ResponseStreamEvent', 'InputTokens', 'Model', 'ErrorObject']));

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

test('openai: a response that keeps to a schema, and its probabilities', async () => {
  const text = { format: { type: 'json_schema', name: 'animal', strict: true, schema: animal } };
  const body = { model: 'any', input: 'A fox', temperature: 1.5, seed: 1, max_output_tokens: 200, text, include: ['message.output_text.logprobs'], top_logprobs: 1 };
  const parsed = await openai.responses.parse(body);
  assert.equal(parsed.status, 'completed');
  isAnimal(JSON.stringify(parsed.output_parsed));
  const streamed = await openai.responses.stream(body).finalResponse();
  assert.equal(streamed.output_text, parsed.output_text);
  assert.deepEqual(streamed.output[0].content[0].logprobs, parsed.output[0].content[0].logprobs);
});

test('openai: a response that calls a function', async () => {
  const tools = [{ type: 'function', name: 'meet', parameters: animal, strict: true }];
  const body = { model: 'any', input: 'A fox', max_output_tokens: 200, temperature: 0, tools, tool_choice: 'required' };
  const [call] = (await openai.responses.create(body)).output;
  assert.equal(call.type, 'function_call');
  isAnimal(call.arguments);
  const final = await openai.responses.stream(body).finalResponse();
  assert.equal(final.output[0].arguments, call.arguments);
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
  assert.ok(await server.becomes(server.cancelled, 1));
  const leave = new AbortController();
  const whole = openai.chat.completions.create({ model: 'any', messages, max_tokens: 2000, n: 8, ignore_eos: true }, { signal: leave.signal });
  const left = assert.rejects(whole, OpenAI.APIUserAbortError);
  assert.ok(await server.becomes(() => server.metric('num_requests_running'), 8));
  leave.abort();
  await left;
  assert.ok(await server.becomes(server.cancelled, 2));
});

test('openai: an answer that keeps to a schema', async () => {
  const response_format = { type: 'json_schema', json_schema: { name: 'animal', strict: true, schema: animal } };
  const body = { model: 'any', messages, max_tokens: 200, temperature: 1.5, seed: 1, response_format };
  const parsed = await openai.chat.completions.parse(body);
  isAnimal(JSON.stringify(parsed.choices[0].message.parsed));
  const streamed = await openai.chat.completions.stream(body).finalChatCompletion();
  assert.equal(streamed.choices[0].message.content, parsed.choices[0].message.content);
  const bad = { type: 'json_schema', json_schema: { name: 'x', schema: { multipleOf: 0.1 } } };
  await assert.rejects(openai.chat.completions.create({ ...body, response_format: bad }), { param: 'response_format.json_schema.schema' });
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

test('openai: vectors, which its client asks for as base64', async () => {
  const { data, usage } = await openai.embeddings.create({ model: 'any', input: ['A fox', 'A crow saw a fox'] });
  assert.equal(data.length, 2);
  assert.ok(Math.abs(data[0].embedding.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
  const plain = await openai.embeddings.create({ model: 'any', input: 'A fox', encoding_format: 'float', dimensions: 8 });
  assert.equal(plain.data[0].embedding.length, 8);
  assert.ok(usage.prompt_tokens > plain.usage.prompt_tokens);
});
