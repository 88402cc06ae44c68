// A model that says what a test wants, for agents: their tools are called and their turns end as the script has it, and
// all of the program is there, from the socket to the sampler. Every piece of the script is a token of its own, whose
// embedding is what the one behind it is looked for with: after a token only one other is likely.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const kWidth = 128;
const kOne = 0x3f80; // of bfloat16
const kMinus = 0x8000;
const kFour = 0x4080;

const models = process.env.KVASIR_MODELS; // the shipped ones: their tokenizer is the script's

// GPT-2's alphabet: printable bytes are themselves, the others are characters from U+0100 on.
function byteAlphabet() {
  const plain = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(plain(byte) ? byte : next++));
}

// The shortest pieces that no other token is spelled as.
function cut(text, taken) {
  const pieces = [];
  for (let at = 0; at < text.length; ) {
    let end = at + 1;
    while (end < text.length && taken.has(text.slice(at, end))) end += 1;
    if (taken.has(text.slice(at, end))) {
      if (pieces.length === 0) throw new Error(`no token is left to say "${text}" with`);
      taken.delete(pieces.at(-1));
      pieces.push(pieces.pop() + text.slice(at, end));
      if (taken.has(pieces.at(-1))) throw new Error(`no token is left to end "${text}" with`);
    } else {
      pieces.push(text.slice(at, end));
    }
    taken.add(pieces.at(-1));
    at = end;
  }
  return pieces;
}

// Hermes' words for tools; the answer is chosen by how many results there are. Without tools it is the aside: agents
// ask for titles and summaries.
function chatTemplate(steps) {
  const marks = Array.from({ length: steps }, (_, i) => `"<|step-${i}|>"`).join(', ');
  return `{%- set marks = [${marks}] %}
{%- set done = messages | selectattr("role", "equalto", "tool") | list | length %}
{%- if tools %}<|user|>You may call these functions:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
Write a call as <tool_call>
{"name": NAME, "arguments": {…}}
</tool_call><|end|>{% endif %}
{%- for m in messages %}
{%- if m.role == "assistant" %}<|assistant|>
{%- if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}
{%- for call in m.tool_calls or [] %}
<tool_call>
{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}
</tool_call>
{%- endfor %}<|end|>
{%- else %}<|user|>{{ m.content }}<|end|>{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>{{ marks[[done, marks | length - 1] | min] if tools else "<|aside|>" }}{% endif %}`;
}

function writeTensors(path, tensors) {
  const header = {};
  let at = 0;
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    header[name] = { dtype: 'BF16', shape, data_offsets: [at, at + data.byteLength] };
    at += data.byteLength;
  }
  const text = Buffer.from(JSON.stringify(header).padEnd(Math.ceil(JSON.stringify(header).length / 8) * 8));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  const bodies = Object.values(tensors).map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  writeFileSync(path, Buffer.concat([size, text, ...bodies]));
}

// Signs from a generator of our own, so that the files are the same at every run.
function signs(count) {
  let state = 0x9e3779b9;
  return Uint16Array.from({ length: count }, () => {
    state = Math.imul(state ^ (state >>> 15), 0x85ebca6b) + 0x6d2b79f5;
    return kOne | ((state ^ (state >>> 13)) & 1 ? kMinus : 0);
  });
}

function weights(words, follows, ends, end) {
  const embedding = signs(words * kWidth);
  const head = new Uint16Array(words * kWidth);
  const row = (id) => embedding.subarray(id * kWidth, (id + 1) * kWidth);
  for (const [token, next] of follows) head.set(row(token).map((x) => x - kOne + kFour), next * kWidth);
  // Several tokens have the same end behind them, which is a sum of small whole numbers then.
  const sum = new Float32Array(kWidth);
  for (const token of ends) row(token).forEach((x, i) => (sum[i] += x & kMinus ? -4 : 4));
  new Uint32Array(sum.buffer).forEach((x, i) => (head[end * kWidth + i] = x >>> 16));
  const zeros = (rows, cols) => ({ shape: [rows, cols], data: new Uint16Array(rows * cols) });
  const ones = () => ({ shape: [kWidth], data: new Uint16Array(kWidth).fill(kOne) });
  const layer = 'model.layers.0.';
  return {
    'model.embed_tokens.weight': { shape: [words, kWidth], data: embedding },
    'lm_head.weight': { shape: [words, kWidth], data: head },
    'model.norm.weight': ones(),
    [`${layer}input_layernorm.weight`]: ones(),
    [`${layer}post_attention_layernorm.weight`]: ones(),
    [`${layer}self_attn.q_proj.weight`]: zeros(64, kWidth),
    [`${layer}self_attn.k_proj.weight`]: zeros(64, kWidth),
    [`${layer}self_attn.v_proj.weight`]: zeros(64, kWidth),
    [`${layer}self_attn.o_proj.weight`]: zeros(kWidth, 64),
    [`${layer}mlp.gate_proj.weight`]: zeros(kWidth, kWidth),
    [`${layer}mlp.up_proj.weight`]: zeros(kWidth, kWidth),
    [`${layer}mlp.down_proj.weight`]: zeros(kWidth, kWidth),
  };
}

// Writes the model into `folder`. `steps`: its answer when no tool has been run yet, after the first result, and so on;
// `aside`: where it is given no tools.
export function writeScriptedModel(folder, { steps, aside = 'Once upon a time.' }) {
  mkdirSync(folder, { recursive: true });
  const read = (name) => JSON.parse(readFileSync(join(models, 'tales-draft', name), 'utf8'));
  const tokenizer = read('tokenizer.json');
  const alphabet = byteAlphabet();
  const { vocab } = tokenizer.model;
  const spell = (text) => Array.from(Buffer.from(text), (byte) => alphabet[byte]).join('');
  const taken = new Set(Object.keys(vocab));
  let next = Object.keys(vocab).length;
  const follows = [];
  const ends = [];
  const say = (mark, text) => {
    tokenizer.added_tokens.push({ id: next, content: mark, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true });
    vocab[mark] = next++;
    for (const piece of cut(spell(text), taken)) {
      follows.push([next - 1, next]);
      vocab[piece] = next++;
    }
    ends.push(next - 1);
  };
  steps.forEach((text, i) => say(`<|step-${i}|>`, text));
  say('<|aside|>', aside);
  const end = vocab['<|end|>'];
  const config = {
    architectures: ['LlamaForCausalLM'], model_type: 'llama', hidden_size: kWidth, intermediate_size: kWidth, num_hidden_layers: 1,
    num_attention_heads: 1, num_key_value_heads: 1, head_dim: 64, vocab_size: next, max_position_embeddings: 65536, rms_norm_eps: 1e-5,
    hidden_act: 'silu', rope_theta: 10000, tie_word_embeddings: false, bos_token_id: 0, eos_token_id: [end], dtype: 'bfloat16',
  };
  const write = (name, json) => writeFileSync(join(folder, name), JSON.stringify(json));
  write('config.json', config);
  write('generation_config.json', { do_sample: false, eos_token_id: [end] });
  write('tokenizer.json', tokenizer);
  write('tokenizer_config.json', read('tokenizer_config.json'));
  writeFileSync(join(folder, 'chat_template.jinja'), chatTemplate(steps.length));
  writeTensors(join(folder, 'model.safetensors'), weights(next, follows, ends, end));
  return folder;
}

// A call, as the script writes it.
export const call = (name, args) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
