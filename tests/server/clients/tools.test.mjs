// Tools, with the clients' own helpers. The model has never seen a tool: it calls because it must.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { messages, TestServer } from './server.mjs';

const parameters = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 10 }, unit: { enum: ['C', 'F'] } },
  required: ['city', 'unit'],
  additionalProperties: false,
};
const tools = [{ type: 'function', function: { name: 'get_weather', description: 'The weather', parameters } }];
const server = new TestServer();
let openai;
let anthropic;
let ollama;

before(async () => {
  await server.start();
  openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', fetch: server.fetch });
  anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', fetch: server.fetch });
  ollama = new Ollama({ host: server.url });
});
after(() => server.stop(['ChatCompletion', 'ChatCompletionChunk', 'Message', 'MessageStreamEvent']));

function isWeather({ city, unit }) {
  assert.equal(typeof city, 'string');
  assert.ok(['C', 'F'].includes(unit));
}

test('openai: a call, its result, and the answer after it', async () => {
  const body = { model: 'any', messages, max_tokens: 200, temperature: 1.2, seed: 1, tools, tool_choice: 'required' };
  const whole = (await openai.chat.completions.create(body)).choices[0];
  assert.equal(whole.finish_reason, 'tool_calls');
  assert.equal(whole.message.content, null);
  const [call] = whole.message.tool_calls;
  isWeather(JSON.parse(call.function.arguments));
  const streamed = (await openai.chat.completions.stream(body).finalChatCompletion()).choices[0];
  assert.equal(streamed.finish_reason, 'tool_calls');
  assert.deepEqual({ ...streamed.message.tool_calls[0].function, parsed_arguments: undefined }, { ...call.function, parsed_arguments: undefined });
  const after = [...messages, whole.message, { role: 'tool', tool_call_id: call.id, content: 'Sun, 20 degrees' }];
  const answer = await openai.chat.completions.create({ model: 'any', messages: after, max_tokens: 8, ignore_eos: true, tools });
  assert.equal(answer.choices[0].finish_reason, 'length');
});

test('openai: its runner calls the function', async () => {
  let called = 0;
  const weather = (args) => {
    isWeather(args);
    called += 1;
    return 'Sun';
  };
  const runnable = { type: 'function', function: { ...tools[0].function, function: weather, parse: JSON.parse } };
  const tool_choice = { type: 'function', function: { name: 'get_weather' } };
  const runner = openai.chat.completions.runTools({ model: 'any', messages, max_tokens: 200, seed: 2, tools: [runnable], tool_choice });
  await runner.finalFunctionToolCallResult();
  assert.equal(called, 1);
});

test('anthropic: a call, its result, and the answer after it', async () => {
  const box = [{ name: 'get_weather', input_schema: parameters }];
  const body = { model: 'any', messages, max_tokens: 200, seed: 3, tools: box, tool_choice: { type: 'tool', name: 'get_weather' } };
  const whole = await anthropic.messages.create(body);
  assert.equal(whole.stop_reason, 'tool_use');
  const [block] = whole.content;
  isWeather(block.input);
  const streamed = await anthropic.messages.stream(body).finalMessage();
  assert.deepEqual(streamed.content[0].input, block.input);
  const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: block.id, content: 'Sun' }] };
  const answer = await anthropic.messages.create({ ...body, max_tokens: 8, ignore_eos: true, tool_choice: { type: 'auto' }, messages: [...messages, whole, result] });
  assert.equal(answer.stop_reason, 'max_tokens');
});

test('ollama: a call and its result', async () => {
  const body = { model: 'any', messages, tools, tool_choice: 'required', options: { seed: 4 } };
  const whole = await ollama.chat(body);
  isWeather(whole.message.tool_calls[0].function.arguments);
  let call;
  for await (const part of await ollama.chat({ ...body, stream: true })) call ??= part.message.tool_calls?.[0];
  assert.deepEqual(call, whole.message.tool_calls[0]);
  const after = [...messages, whole.message, { role: 'tool', tool_name: 'get_weather', content: 'Sun' }];
  assert.equal((await ollama.chat({ model: 'any', messages: after, tools, options: { num_predict: 5, ignore_eos: true } })).done_reason, 'length');
});
