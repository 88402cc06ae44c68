// Writes fixtures/gguf_kinds.json: what llama.cpp makes of texts with vocabularies of the kinds that pieces_oracle.mjs
// does not have: "t5" (of fixtures/sentencepiece.json), "bert" (of fixtures/parts_models.json), "rwkv", and more names of
// pre-tokenizers. Run it by hand and commit the result; the tests read the file only.
//
//     npm i --ignore-scripts --omit=optional node-llama-cpp@3.22.1 @node-llama-cpp/linux-x64@3.22.1   # in a folder of its own
//     NODE_PATH=that/node_modules node tests/text/gguf_oracle.mjs
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';

const nodeLlama = path.join(process.env.NODE_PATH, 'node-llama-cpp/dist/index.js');
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(nodeLlama));
const here = path.dirname(fileURLToPath(import.meta.url));
const fixtures = path.join(here, 'fixtures');
const read = (name) => JSON.parse(fs.readFileSync(path.join(fixtures, name)));

class Bytes {
  parts = [];
  number(method, size, value) {
    const part = Buffer.alloc(size);
    part[method](value);
    this.parts.push(part);
  }
  u32(value) { this.number('writeUInt32LE', 4, value); }
  u64(value) { this.number('writeBigUInt64LE', 8, BigInt(value)); }
  text(value) {
    const bytes = Buffer.from(value);
    this.u64(bytes.length);
    this.parts.push(bytes);
  }
  value(type, value) {
    this.u32(TYPES[type]);
    this.plain(type, value);
  }
  plain(type, value) {
    if (type === 'u32') this.u32(value);
    if (type === 'i32') this.number('writeInt32LE', 4, value);
    if (type === 'f32') this.number('writeFloatLE', 4, value);
    if (type === 'bool') this.parts.push(Buffer.from([value ? 1 : 0]));
    if (type === 'text') this.text(value);
    if (type === 'u8') this.parts.push(Buffer.from([value]));
    if (type.startsWith('[')) {
      const of = type.slice(1);
      this.u32(TYPES[of]);
      this.u64(value.length);
      for (const one of value) this.plain(of, one);
    }
  }
}
const TYPES = {u32: 4, i32: 5, f32: 6, bool: 7, text: 8, '[text': 9, '[f32': 9, '[i32': 9, u8: 0, '[u8': 9};

const KEYS = {
  tokens: '[text', scores: '[f32', token_type: '[i32', merges: '[text', model: 'text', pre: 'text', add_space_prefix: 'bool', bos_token_id: 'u32',
  eos_token_id: 'u32', unknown_token_id: 'u32', seperator_token_id: 'u32', remove_extra_whitespaces: 'bool', precompiled_charsmap: '[u8',
};

function writeGguf(file, vocab) {
  const fields = [
    ['general.architecture', 'text', 'llama'], ['llama.block_count', 'u32', 1], ['llama.context_length', 'u32', 64],
    ['llama.embedding_length', 'u32', 64], ['llama.feed_forward_length', 'u32', 64], ['llama.attention.head_count', 'u32', 1],
    ['llama.attention.layer_norm_rms_epsilon', 'f32', 1e-5],
  ];
  for (const [key, value] of Object.entries(vocab)) fields.push([`tokenizer.ggml.${key}`, KEYS[key], value]);
  const out = new Bytes();
  out.parts.push(Buffer.from('GGUF'));
  out.u32(3);
  out.u64(0);
  out.u64(fields.length);
  for (const [key, type, value] of fields) {
    out.text(key);
    out.value(type, value);
  }
  fs.writeFileSync(file, Buffer.concat([...out.parts, Buffer.alloc(64)]));
}

const llama = await getLlama({gpu: false, build: 'never', logLevel: LlamaLogLevel.disabled});
async function idsOf(vocab, texts) {
  const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'vocab-')), 'vocab.gguf');
  writeGguf(file, vocab);
  const model = await llama.loadModel({modelPath: file, vocabOnly: true});
  const ids = texts.map((text) => Array.from(model.tokenize(text, false)));
  await model.dispose();
  fs.rmSync(path.dirname(file), {recursive: true});
  return ids;
}

const pieces = read('sentencepiece.json');
const parts = read('parts_models.json');
const groups = [];
for (const one of pieces.groups) {
  if (!one.name.startsWith('unigram') && one.name !== 't5') continue;
  const settings = {add_space_prefix: one.add_space_prefix, remove_extra_whitespaces: one.remove_extra_whitespaces};
  const vocab = {model: 't5', tokens: one.tokens, scores: one.scores, token_type: one.token_type, unknown_token_id: 0, eos_token_id: 2, ...settings};
  const charsmap = [...Buffer.from(one.charsmap, 'base64')];
  if (charsmap.length > 0) vocab.precompiled_charsmap = charsmap;
  groups.push({model: 't5', of: one.name, ...settings, ids: await idsOf(vocab, pieces.texts)});
}

// BERT's pieces as the converter writes them: a mark before what begins a word, and nothing before what goes on.
const bert = [];
for (const [text, id] of Object.entries(parts.bases.wordpiece.model.vocab)) {
  bert[id] = text.startsWith('[') && text.endsWith(']') && text.length > 2 ? text : text.startsWith('##') ? text.slice(2) : '▁' + text;
}
const types = bert.map((text) => text.startsWith('[') && text.endsWith(']') && text.length > 2 ? 3 : 1);
const bertVocab = {model: 'bert', tokens: bert, token_type: types, unknown_token_id: 0, bos_token_id: 1, seperator_token_id: 2};
groups.push({model: 'bert', tokens: bert, token_type: types, ids: await idsOf(bertVocab, pieces.texts)});

// All bytes and some strings, escaped as RWKV has them.
const rwkv = ['<s>'];
const escape = (byte) => byte === 92 ? '\\\\' : byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '\\x' + byte.toString(16).padStart(2, '0');
for (let byte = 0; byte < 256; ++byte) rwkv.push(escape(byte));
for (const text of ['the', ' the', 'th', ' a', 'ing', '\n\n', 'é', '日本', '日本語', '  ', 'quick ', 'a\\b', '\t\t']) {
  rwkv.push([...Buffer.from(text)].map(escape).join(''));
}
const rwkvTypes = rwkv.map((text, id) => id === 0 ? 3 : 1);
groups.push({model: 'rwkv', tokens: rwkv, token_type: rwkvTypes, ids: await idsOf({model: 'rwkv', tokens: rwkv, token_type: rwkvTypes}, pieces.texts)});
fs.writeFileSync(path.join(fixtures, 'gguf_kinds.json'), JSON.stringify({groups}) + '\n');
console.log(`${groups.length} groups of ${pieces.texts.length} texts`);
process.exit(0);
