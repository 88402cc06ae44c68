// Every field of the published requests: what docs/serving.md says of it is what the server does.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fieldsOfRequests } from './schemas.mjs';
import { messages, TestServer } from './server.mjs';

const server = new TestServer();
before(() => server.start());
after(() => server.stop());

const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } };
const sampling = { temperature: 0.5, top_p: 0.5, frequency_penalty: 0.5, presence_penalty: 0.5, seed: 1, logit_bias: { 5: 1 } };
const openai = { model: 'x', metadata: { a: 'b' }, safety_identifier: 's', service_tier: 'auto', store: false, stream: true, user: 'u', prompt_cache_key: 'k', prompt_cache_options: { mode: 'explicit' }, prompt_cache_retention: '24h', parallel_tool_calls: false, tool_choice: 'auto', moderation: { model: 'm' } };

// Something to say in each field. What a field needs beside it stands in `beside`.
const values = {
  Chat: {
    ...sampling, ...openai, messages, audio: { format: 'wav', voice: 'alloy' }, function_call: 'auto', functions: [{ name: 'f' }],
    logprobs: true, max_completion_tokens: 2, max_tokens: 2, modalities: ['text'], n: 2, prediction: { type: 'content', content: 'Once' },
    reasoning_effort: 'low', response_format: { type: 'json_object' }, stop: ['x'], stream_options: { include_usage: true }, tools: [tool],
    top_logprobs: 2, verbosity: 'low', web_search_options: { search_context_size: 'low' },
  },
  Completion: {
    ...sampling, model: 'x', prompt: 'Once', best_of: 1, echo: true, logprobs: 2, max_tokens: 2, n: 2, stop: 'x', stream: true,
    stream_options: { include_usage: true }, suffix: 'end', user: 'u',
  },
  Response: {
    ...sampling, ...openai, input: 'Once', access_programs: { cyber: 'standard' }, background: true, context_management: [{ type: 'compaction' }],
    conversation: 'conv_1', image: { quality: 'low' }, include: ['message.output_text.logprobs'], instructions: 'Be kind.', max_output_tokens: 2,
    max_tool_calls: 3, previous_response_id: undefined, prompt: { id: 'p' }, reasoning: { effort: 'low' }, stream_options: { include_obfuscation: false },
    text: { format: { type: 'text' } }, tools: [{ type: 'function', name: 'f', parameters: { type: 'object' } }], top_logprobs: 2, truncation: 'auto',
  },
  ResponseCount: {
    model: 'x', input: 'Once', conversation: 'conv_1', instructions: 'Be kind.', parallel_tool_calls: false, personality: 'friendly',
    previous_response_id: undefined, reasoning: { effort: 'low' }, text: { format: { type: 'text' } }, tool_choice: 'auto',
    tools: [{ type: 'function', name: 'f', parameters: { type: 'object' } }], truncation: 'auto',
  },
  Embedding: { model: 'x', input: 'Once', dimensions: 8, encoding_format: 'base64', user: 'u' },
  Message: {
    max_tokens: 2, messages, model: 'x', cache_control: { type: 'ephemeral' }, container: { id: 'c' }, diagnostics: { previous_message_id: 'msg_1' },
    inference_geo: 'eu', metadata: { user_id: 'u' }, output_config: { effort: 'low' }, service_tier: 'auto', speed: 'fast', stop_sequences: ['x'], stream: true,
    system: 'Be kind.', thinking: { type: 'adaptive' }, tool_choice: { type: 'auto' }, tools: [{ name: 'f', input_schema: { type: 'object' } }],
    user_profile_id: 'u', workspace_id: 'w', temperature: 0.5, top_k: 5, top_p: 0.5,
  },
  OllamaChat: {
    model: 'x', messages, stream: false, format: 'json', keep_alive: '5m', tools: [tool], think: true, logprobs: true, top_logprobs: 2, options: { num_predict: 2 },
  },
  OllamaGenerate: {
    model: 'x', prompt: 'Once', suffix: 'end', system: 'Be kind.', template: '{{ .Prompt }}', context: [1, 2], stream: false, raw: true, format: 'json',
    images: ['aGk='], keep_alive: '5m', think: true, logprobs: true, top_logprobs: 2, width: 8, height: 8, steps: 3, options: { num_predict: 2 },
  },
  OllamaEmbed: { model: 'x', input: 'Once', truncate: true, keep_alive: '5m', dimensions: 8, options: { num_ctx: 64 } },
  OllamaOptions: {
    numa: true, num_ctx: 64, num_batch: 8, num_gpu: 1, main_gpu: 1, low_vram: true, f16_kv: true, logits_all: true, vocab_only: true, use_mmap: true,
    use_mlock: true, embedding_only: true, num_thread: 2, num_keep: 4, seed: 1, num_predict: 2, top_k: 5, top_p: 0.5, min_p: 0.1, tfs_z: 0.5, typical_p: 0.5,
    repeat_last_n: -1, temperature: 0.5, repeat_penalty: 1.1, presence_penalty: 0.5, frequency_penalty: 0.5, mirostat: 2, mirostat_tau: 5,
    mirostat_eta: 0.1, penalize_newline: true, stop: ['x'],
  },
};
values.BetaMessage = {
  ...values.Message, billing_policy: { a: 1 }, compaction: { type: 'auto' }, context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
  fallback_credit_token: 't', fallbacks: [{ model: 'y' }], mcp_servers: [{ type: 'url', url: 'http://x', name: 'x' }],
  output_format: { type: 'json_schema', schema: { type: 'object' } }, thread: { id: 't' }, betas: ['b'],
};
values.MessageCount = values.Message;

const schema = { type: 'object' };
const ephemeral = { type: 'ephemeral' };
values.Tool = { type: 'function', function: { name: 'f' } };
values.Function = { name: 'f', description: 'F.', parameters: schema, strict: true };
values.ResponseTool = {
  ...values.Function, type: 'function', allowed_callers: ['direct'], async: true, defer_loading: true, output_schema: schema,
};
values.MessageTool = {
  type: 'custom', name: 'f', description: 'F.', input_schema: schema, strict: true, allowed_callers: ['direct'], defer_loading: true,
  eager_input_streaming: true, input_examples: [{ a: 1 }], cache_control: ephemeral,
};
values.OllamaTool = values.Tool;
values.OllamaFunction = { ...values.Function, type: 'object' };
values.TextPart = { type: 'text', text: 'hi', prompt_cache_breakpoint: { mode: 'explicit' } };
values.InputText = { ...values.TextPart, type: 'input_text' };
values.OutputText = { type: 'output_text', text: 'hi', annotations: [{ type: 'file_path' }], logprobs: [{ token: 'hi' }] };
values.TextBlock = { type: 'text', text: 'hi', cache_control: ephemeral, citations: [{ type: 'char_location' }] };
values.ThinkingBlock = { type: 'thinking', thinking: 'hm', signature: 's' };
values.CacheControl = { type: 'ephemeral', ttl: '1h' };
values.ToolCall = { id: '1', type: 'function', function: { name: 'f', arguments: '{}' } };
values.OllamaCall = { function: { name: 'f', arguments: {} } };
values.ToolUse = { type: 'tool_use', id: '1', name: 'f', input: {}, cache_control: ephemeral, caller: { type: 'direct' }, toolset_name: 's' };
values.ToolResult = { type: 'tool_result', tool_use_id: '1', content: 'r', is_error: true, cache_control: ephemeral, toolset_name: 's' };

const beside = { top_logprobs: { logprobs: true, include: ['message.output_text.logprobs'] }, stream_options: { stream: true } };

// Where each is sent, with what, and the rows of the table that tell of it.
const kinds = {
  Chat: { path: '/v1/chat/completions', base: { messages, max_tokens: 2 }, rows: ["OpenAI's chats", "every API but Ollama's"] },
  Completion: { path: '/v1/completions', base: { prompt: 'Once', max_tokens: 2 }, rows: ['completions', "every API but Ollama's"] },
  Response: { path: '/v1/responses', base: { input: 'Once', max_output_tokens: 2 }, rows: ['responses', "every API but Ollama's"] },
  ResponseCount: { path: '/v1/responses/input_tokens', base: { input: 'Once' }, rows: ['responses', "every API but Ollama's"] },
  Embedding: { path: '/v1/embeddings', base: { input: 'Once' }, rows: ['vectors', "every API but Ollama's"] },
  Message: { path: '/v1/messages', base: { messages, max_tokens: 2 }, rows: ['Anthropic', "every API but Ollama's"] },
  BetaMessage: { path: '/v1/messages', base: { messages, max_tokens: 2 }, rows: ['Anthropic', "every API but Ollama's"] },
  MessageCount: { path: '/v1/messages/count_tokens', base: { messages }, rows: ['Anthropic', "every API but Ollama's"] },
  OllamaChat: { path: '/api/chat', base: { messages, stream: false, options: { num_predict: 2 } }, rows: ["Ollama's chats", "every API but Ollama's"] },
  OllamaGenerate: { path: '/api/generate', base: { prompt: 'Once', stream: false, options: { num_predict: 2 } }, rows: ["Ollama's `generate`", "Ollama's chats", "every API but Ollama's"] },
  OllamaEmbed: { path: '/api/embed', base: { input: 'Once' }, rows: ['vectors', "every API but Ollama's"] },
  OllamaOptions: { path: '/api/chat', base: { messages, stream: false }, rows: ["Ollama's `options`", "every API but Ollama's"] },
};

// Objects within a request: `wrap` puts one where it belongs.
const [ask] = messages;
const parts = {
  Tool: { of: 'Chat', base: { function: { name: 'f' } }, wrap: (tool) => ({ tools: [tool] }) },
  Function: { of: 'Chat', base: { name: 'f' }, wrap: (one) => ({ tools: [{ type: 'function', function: one }] }) },
  ResponseTool: { of: 'Response', base: { type: 'function', name: 'f' }, wrap: (tool) => ({ tools: [tool] }) },
  MessageTool: { of: 'BetaMessage', base: { name: 'f', input_schema: schema }, wrap: (tool) => ({ tools: [tool] }) },
  OllamaTool: { of: 'OllamaChat', base: { function: { name: 'f' } }, wrap: (tool) => ({ tools: [tool] }) },
  OllamaFunction: { of: 'OllamaChat', base: { name: 'f' }, wrap: (one) => ({ tools: [{ type: 'function', function: one }] }) },
  TextPart: { of: 'Chat', base: { type: 'text', text: 'hi' }, wrap: (part) => ({ messages: [{ role: 'user', content: [part] }] }) },
  InputText: { of: 'Response', base: { type: 'input_text', text: 'hi' }, wrap: (part) => ({ input: [{ role: 'user', content: [part] }] }) },
  OutputText: { of: 'Response', base: { type: 'output_text', text: 'hi' }, wrap: (part) => ({ input: [{ role: 'assistant', content: [part] }, ask] }) },
  TextBlock: { of: 'BetaMessage', base: { type: 'text', text: 'hi' }, wrap: (part) => ({ messages: [{ role: 'user', content: [part] }] }) },
  ThinkingBlock: { of: 'BetaMessage', base: { type: 'thinking' }, wrap: (part) => ({ messages: [ask, { role: 'assistant', content: [part] }, ask] }) },
  CacheControl: { of: 'BetaMessage', base: ephemeral, wrap: (mark) => ({ system: [{ type: 'text', text: 'hi', cache_control: mark }] }) },
  ToolCall: { of: 'Chat', base: values.OllamaCall, wrap: (call) => ({ messages: [ask, { role: 'assistant', tool_calls: [call] }, ask] }) },
  OllamaCall: { of: 'OllamaChat', base: values.OllamaCall, wrap: (call) => ({ messages: [ask, { role: 'assistant', content: '', tool_calls: [call] }, ask] }) },
  ToolUse: { of: 'BetaMessage', base: { type: 'tool_use', id: '1', name: 'f', input: {} }, wrap: (call) => ({ messages: [ask, { role: 'assistant', content: [call] }, ask] }) },
  ToolResult: { of: 'BetaMessage', base: { type: 'tool_result', tool_use_id: '1' }, wrap: (result) => ({ messages: [ask, { role: 'user', content: [result] }] }) },
};
for (const [name, { of, base, wrap }] of Object.entries(parts)) {
  const row = wrap(base).tools ? 'tools' : 'parts of messages';
  kinds[name] = { path: kinds[of].path, base, wrap: (part) => ({ ...kinds[of].base, ...wrap(part) }), rows: [row] };
}
kinds.OllamaOptions.wrap = (options) => ({ ...kinds.OllamaChat.base, options });
kinds.OllamaOptions.base = { num_predict: 2 };

const columns = ['done', 'harmless', 'refused'];

function readTable() {
  const page = readFileSync(join(process.env.KVASIR_MODELS, '../docs/serving.md'), 'utf8');
  const section = page.slice(page.indexOf('### Fields'), page.indexOf('### Answers that go on'));
  const rows = {};
  for (const line of section.split('\n').filter((one) => one.startsWith('| '))) {
    const [, name, ...cells] = line.split('|').map((cell) => cell.trim());
    rows[name] = cells.slice(0, 3).map((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, word]) => word));
  }
  return rows;
}

// 'done', 'harmless' or 'refused'; undefined: the table has no word of it.
function told(table, rows, name, value) {
  for (const word of [`${name}: ${JSON.stringify(value)}`, name]) {
    for (const row of rows) {
      const at = table[row].findIndex((words) => words.includes(word));
      if (at >= 0) return columns[at];
    }
  }
  return undefined;
}

const table = readTable();
const fields = fieldsOfRequests();

for (const [kind, { path, base, rows, wrap = (body) => body }] of Object.entries(kinds)) {
  test(`fields: ${kind}, ${fields[kind].length} of them`, async () => {
    const wrong = [];
    for (const name of fields[kind]) {
      if (!(name in values[kind])) {
        wrong.push(`${name} has no value here`);
        continue;
      }
      const value = values[kind][name];
      const wanted = told(table, rows, name, value);
      const more = { ...(beside[name] ?? {}), ...(value === undefined ? {} : { [name]: value }) };
      if (path !== '/v1/responses') delete more.include;
      if (path === '/v1/responses') delete more.logprobs;
      const body = wrap({ ...base, ...more });
      const response = await fetch(server.url + path, { method: 'POST', body: JSON.stringify(body) });
      const reply = await response.text();
      if (wanted === undefined) wrong.push(`${name} is not in the table (status ${response.status})`);
      if (wanted === 'refused' ? response.status !== 400 || !reply.includes(name) : wanted && response.status !== 200)
        wrong.push(`${name} is said to be ${wanted}: status ${response.status}, ${reply.slice(0, 200)}`);
    }
    assert.deepEqual(wrong, []);
  });
}
