// LangChain's models for OpenAI's API: chats and responses, streams, tools, forms and vectors.
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { z } from 'zod';
import { call, writeScriptedModel } from './scripted_model.mjs';
import { TestServer } from './server.mjs';

const City = z.object({ city: z.string(), unit: z.enum(['C', 'F']) });
const forecast = { city: 'Oslo', degrees: 20 };
const server = new TestServer();

before(async () => {
  const steps = [`<think>\nI ask.\n</think>\n\n${call('weather', { city: 'Oslo', unit: 'C' })}`, JSON.stringify(forecast)];
  await server.start(writeScriptedModel(mkdtempSync(join(tmpdir(), 'kvasir-script-')), { steps, aside: 'A fox met a crow.' }));
});
after(() => server.stop(['ChatCompletion', 'ChatCompletionChunk', 'Response', 'ResponseStreamEvent']));

const model = (more = {}) =>
  new ChatOpenAI({ model: 'any', apiKey: 'none', maxRetries: 0, configuration: { baseURL: `${server.url}/v1`, fetch: server.fetch }, ...more });
const weather = tool(({ city }) => `Sun in ${city}`, { name: 'weather', description: 'The weather of a city', schema: City });

for (const useResponsesApi of [false, true]) {
  const name = useResponsesApi ? 'responses' : 'chats';

  test(`langchain, ${name}: an answer, and the same as a stream`, async () => {
    const whole = await model({ useResponsesApi }).invoke('Tell me a story.');
    assert.equal(whole.text, 'A fox met a crow.');
    assert.ok(whole.usage_metadata.output_tokens > 0);
    let text = '';
    for await (const chunk of await model({ useResponsesApi }).stream('Tell me a story.')) text += chunk.text;
    assert.equal(text, whole.text);
  });

  test(`langchain, ${name}: a call, its result, and the answer`, async () => {
    const bound = model({ useResponsesApi }).bindTools([weather]);
    const asked = [new HumanMessage('How is the weather in Oslo?')];
    const first = await bound.invoke(asked);
    assert.deepEqual(first.tool_calls.map(({ name, args }) => [name, args]), [['weather', { city: 'Oslo', unit: 'C' }]]);
    const result = await weather.invoke(first.tool_calls[0]);
    assert.ok(result instanceof ToolMessage);
    assert.equal((await bound.invoke([...asked, first, result])).text, JSON.stringify(forecast));
    let streamed;
    for await (const chunk of await bound.stream(asked)) streamed = streamed ? streamed.concat(chunk) : chunk;
    assert.deepEqual(streamed.tool_calls[0].args, first.tool_calls[0].args);
  });

  test(`langchain, ${name}: a form, beside tools and as a call that must come`, async () => {
    const Forecast = z.object({ city: z.string().max(12), degrees: z.number().int().min(-60).max(60) });
    const json = model({ useResponsesApi, maxTokens: 200 }).withStructuredOutput(Forecast, { method: 'jsonSchema' });
    Forecast.parse(await json.invoke('The weather?'));
    const forced = model({ useResponsesApi, maxTokens: 200 }).withStructuredOutput(City, { method: 'functionCalling', name: 'weather' });
    City.parse(await forced.invoke('The weather?'));
  });
}

test('langchain: vectors', async () => {
  const embeddings = new OpenAIEmbeddings({ model: 'any', apiKey: 'none', configuration: { baseURL: `${server.url}/v1`, fetch: server.fetch } });
  const [fox, crow] = await embeddings.embedDocuments(['A fox', 'A crow']);
  assert.equal(fox.length, crow.length);
});

test('langchain: errors', async () => {
  await assert.rejects(model({ temperature: 5 }).invoke('x'), { status: 400 });
});
