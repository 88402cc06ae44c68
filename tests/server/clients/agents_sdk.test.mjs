// OpenAI's agents: tools, forms and handoffs over responses and over chats.
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, tool } from '@openai/agents';
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { z } from 'zod';
import { call, writeScriptedModel } from './scripted_model.mjs';
import { TestServer } from './server.mjs';

const server = new TestServer();
const runner = new Runner({ tracingDisabled: true });
let client;

before(async () => {
  const steps = [
    `<think>\nI hand it on.\n</think>\n\n${call('transfer_to_weatherman', {})}`,
    call('weather', { city: 'Oslo' }),
    '{"city": "Oslo", "degrees": 20}',
  ];
  await server.start(writeScriptedModel(mkdtempSync(join(tmpdir(), 'kvasir-script-')), { steps }));
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', fetch: server.fetch });
});
after(() => server.stop(['ChatCompletion', 'ChatCompletionChunk', 'Response', 'ResponseStreamEvent']));

for (const [name, Model] of [['responses', OpenAIResponsesModel], ['chats', OpenAIChatCompletionsModel]]) {
  const agents = (asked) => {
    const model = new Model(client, 'any');
    const weather = tool({
      name: 'weather',
      description: 'The weather of a city',
      parameters: z.object({ city: z.string() }),
      execute: ({ city }) => asked.push(city) && `Sun in ${city}, 20 degrees`,
    });
    const outputType = z.object({ city: z.string(), degrees: z.number().int() });
    const weatherman = new Agent({ name: 'weatherman', instructions: 'You know the weather.', model, tools: [weather], outputType });
    return new Agent({ name: 'host', instructions: 'Hand on what others know.', model, handoffs: [weatherman] });
  };

  test(`agents, ${name}: a handoff, a call, and an answer that keeps to its form`, async () => {
    const asked = [];
    const result = await runner.run(agents(asked), 'How is the weather in Oslo?');
    assert.deepEqual(result.finalOutput, { city: 'Oslo', degrees: 20 });
    assert.deepEqual(asked, ['Oslo']);
    assert.equal(result.lastAgent.name, 'weatherman');
  });

  test(`agents, ${name}: the same as a stream`, async () => {
    const asked = [];
    const result = await runner.run(agents(asked), 'How is the weather in Oslo?', { stream: true });
    let text = '';
    for await (const piece of result.toTextStream()) text += piece;
    await result.completed;
    assert.deepEqual(JSON.parse(text), { city: 'Oslo', degrees: 20 });
    assert.deepEqual(result.finalOutput, { city: 'Oslo', degrees: 20 });
    assert.deepEqual(asked, ['Oslo']);
  });
}
