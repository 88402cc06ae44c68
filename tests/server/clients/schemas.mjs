// What OpenAI and Anthropic publish about their replies, as JSON schemas: made from the types of their own packages,
// once for each set of packages, and kept beside them.
import Ajv from 'ajv';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createGenerator } from 'ts-json-schema-generator';

// Our name for each kind of reply, and the type it must have.
const types = {
  ChatCompletion: 'OpenAI.Chat.Completions.ChatCompletion',
  ChatCompletionChunk: 'OpenAI.Chat.Completions.ChatCompletionChunk',
  Completion: 'OpenAI.Completion',
  // Of a stream, of which the published type says that every chunk is an end; OpenAI's are not.
  CompletionChunk:
    "Omit<OpenAI.Completion, 'choices'> & { choices: (Omit<OpenAI.CompletionChoice, 'finish_reason'> & { finish_reason: OpenAI.CompletionChoice['finish_reason'] | null })[] }",
  // The client itself puts output_text into a response.
  Response: "Omit<OpenAI.Responses.Response, 'output_text'>",
  ResponseStreamEvent: 'OpenAI.Responses.ResponseStreamEvent',
  InputTokens: 'OpenAI.Responses.InputTokens.InputTokenCountResponse',
  Model: 'OpenAI.Model',
  ErrorObject: 'OpenAI.ErrorObject',
  Message: 'Anthropic.Message',
  MessageStreamEvent: 'Anthropic.RawMessageStreamEvent',
  MessageTokensCount: 'Anthropic.MessageTokensCount',
};

// Whose fields a request may have.
const requests = {
  Chat: 'OpenAI.Chat.ChatCompletionCreateParamsNonStreaming',
  Completion: 'OpenAI.CompletionCreateParamsNonStreaming',
  Response: 'OpenAI.Responses.ResponseCreateParamsNonStreaming',
  ResponseCount: 'OpenAI.Responses.InputTokenCountParams',
  Embedding: 'OpenAI.EmbeddingCreateParams',
  Message: 'Anthropic.MessageCreateParamsNonStreaming',
  BetaMessage: 'Anthropic.Beta.Messages.MessageCreateParamsNonStreaming',
  MessageCount: 'Anthropic.MessageCountTokensParams',
  OllamaChat: 'Ollama.ChatRequest',
  OllamaGenerate: 'Ollama.GenerateRequest',
  OllamaEmbed: 'Ollama.EmbedRequest',
  OllamaOptions: 'Ollama.Options',
  // and objects within one
  Tool: 'OpenAI.Chat.Completions.ChatCompletionFunctionTool',
  Function: 'OpenAI.FunctionDefinition',
  ResponseTool: 'OpenAI.Responses.FunctionTool',
  MessageTool: 'Anthropic.Beta.Messages.BetaTool',
  OllamaTool: 'Ollama.Tool',
  OllamaFunction: "Ollama.Tool['function']",
  TextPart: 'OpenAI.Chat.Completions.ChatCompletionContentPartText',
  InputText: 'OpenAI.Responses.ResponseInputText',
  OutputText: 'OpenAI.Responses.ResponseOutputText',
  TextBlock: 'Anthropic.Beta.Messages.BetaTextBlockParam',
  ThinkingBlock: 'Anthropic.Beta.Messages.BetaThinkingBlockParam',
  CacheControl: 'Anthropic.Beta.Messages.BetaCacheControlEphemeral',
  ToolCall: 'OpenAI.Chat.Completions.ChatCompletionMessageFunctionToolCall',
  ToolUse: 'Anthropic.Beta.Messages.BetaToolUseBlockParam',
  ToolResult: 'Anthropic.Beta.Messages.BetaToolResultBlockParam',
  OllamaCall: 'Ollama.ToolCall',
};

const imports = ["import type OpenAI from 'openai';", "import type Anthropic from '@anthropic-ai/sdk';", "import type * as Ollama from 'ollama';"];

function generate() {
  const lines = [...imports];
  for (const [name, type] of Object.entries(types)) lines.push(`export type Reply${name} = ${type};`);
  for (const [name, type] of Object.entries(requests)) lines.push(`export type Fields${name} = keyof (${type});`);
  writeFileSync('replies.ts', lines.join('\n'));
  const compilerOptions = { module: 'nodenext', moduleResolution: 'nodenext', target: 'es2022', strict: true, skipLibCheck: true, types: [] };
  writeFileSync('tsconfig.json', JSON.stringify({ compilerOptions, files: ['replies.ts'] }));
  const generator = createGenerator({ path: 'replies.ts', tsconfig: 'tsconfig.json', type: '*', skipTypeCheck: true });
  const replies = Object.keys(types).map((name) => [name, generator.createSchema(`Reply${name}`)]);
  const fields = Object.keys(requests).map((name) => [name, generator.createSchema(`Fields${name}`).definitions[`Fields${name}`]]);
  const names = fields.map(([name, type]) => [name, type.enum ?? [type.const]]);
  return { ...Object.fromEntries(replies), fields: Object.fromEntries(names) };
}

export function writeSchemas() {
  if (!existsSync('schemas.json')) writeFileSync('schemas.json', JSON.stringify(generate()));
}

// The names of all fields of each kind of request.
export const fieldsOfRequests = () => JSON.parse(readFileSync('schemas.json', 'utf8')).fields;

// A stream's responses carry output_text in the package's types, and not on the wire.
function withoutClientsOwn(schema) {
  for (const definition of Object.values(schema.definitions ?? {})) {
    if (definition.properties?.output_text && definition.required)
      definition.required = definition.required.filter((name) => name !== 'output_text');
  }
  return schema;
}

// Throws for what is no reply of this kind. Fields of our own must be named here.
export class Validator {
  ajv = new Ajv({ strict: false, allErrors: true });
  schemas = JSON.parse(readFileSync('schemas.json', 'utf8'));
  checks = {};
  checked = {}; // how many of each kind

  check(name, reply) {
    const { kvasir, meta, store, ...rest } = structuredClone(reply);
    if (rest.response) {
      delete rest.response.kvasir;
      delete rest.response.store;
    }
    // Tools that are not functions are told back as they came.
    for (const holder of [rest, rest.response]) {
      if (Array.isArray(holder?.tools)) holder.tools = holder.tools.filter(({ type }) => type === 'function');
    }
    // Up to openai 6 this event had the function's name.
    if (rest.type === 'response.function_call_arguments.done') delete rest.name;
    // What others' reasoning models say beside OpenAI's fields.
    for (const { message, delta } of rest.choices ?? []) {
      delete (message ?? delta)?.reasoning_content;
      delete (message ?? delta)?.reasoning;
    }
    this.checked[name] = (this.checked[name] ?? 0) + 1;
    const check = (this.checks[name] ??= this.ajv.compile(withoutClientsOwn(this.schemas[name])));
    if (check(rest)) return;
    const why = check.errors.filter((error) => error.keyword !== 'anyOf').slice(0, 12);
    throw new Error(`not a ${name}: ${JSON.stringify(why.map(({ instancePath, message, params }) => [instancePath, message, params]))} in ${JSON.stringify(reply)}`);
  }
}
