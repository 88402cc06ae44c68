// Writes what other libraries make of the vocabularies of two fixtures: of fixtures/pieces.json (SentencePiece, see
// pieces_oracle.py) and of models/tales/tokenizer.json (byte-level).
//
// fixtures/gguf_cases.json: llama.cpp, which reads each as a vocabulary in a GGUF file, with and without special tokens.
// fixtures/pieces_hf.json: Hugging Face's tokenizers (the library in Rust, as a package of node), which read the pieces
// as a tokenizer.json with byte fallback, in the forms that models have them.
// Run it by hand and commit the results; the tests read the files only.
//
//     npm i --ignore-scripts --omit=optional node-llama-cpp@3.22.1 @node-llama-cpp/linux-x64@3.22.1 \
//         @anush008/tokenizers@0.6.0 @anush008/tokenizers-linux-x64-gnu@0.6.0        # in a folder of its own
//     NODE_PATH=that/node_modules node tests/text/pieces_oracle.mjs
import fs from 'node:fs';
import {createRequire} from 'node:module';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';

const require = createRequire(import.meta.url);
const {Tokenizer} = require('@anush008/tokenizers');
const nodeLlama = path.join(process.env.NODE_PATH, 'node-llama-cpp/dist/index.js');
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(nodeLlama));

const here = path.dirname(fileURLToPath(import.meta.url));
const fixtures = path.join(here, 'fixtures');
const pieces = JSON.parse(fs.readFileSync(path.join(fixtures, 'pieces.json')));
const tales = JSON.parse(fs.readFileSync(path.join(here, '../../models/tales/tokenizer.json')));

const MORE = [
  '<s>', 'a<s>b', '<s> a </s>', '</s></s>', '<|end|>', 'hello<|end|>world', '<user>', 'a<user>b', 'a <user> b', '<user>>', '<user><user>>x',
  '<unk>', '<s', 'x<s>y<s>', ' <s>', '<s>  ',
];
const WORDS = [
  '', ' ', '  ', '\n', ' \n', '\n\n', 'a', 'the king', ' the king', "don't", "I'LL we'Ve 'S", '1', '12', '123', '1234', '12345678', 'a1b22c333',
  'x = 10 + 22;', '(a){b}[c]', '...!?', '  two  spaces  ', 'tab\tand\r\nlines\n\n\nmore', 'under_score', 'CamelCase HTTPServer', '$5.00 <= 3^2 ~ |x|',
  'the\u00a0king', 'naïve café', '日本語 中文 한국어', '你好，世界。', '“quoted” — dash…', '😀😀 👍🏽', 'a\u0301e\u0301', 'Привет мир', 'ÀÉ àé', 'עברית',
  '½ Ⅷ ٣٤', '#include <x>\n\tint a;', "it's the king's 3rd day's end", 'www.example.org/a?b=c', '    indented\n        more', 'trailing ', 'a`b`c',
];
// One of each kind that src/text/gguf_pretokenizer.cpp knows.
const PRES = [
  'default', 'gpt-2', 'smollm', 'llama-bpe', 'dbrx', 'qwen2', 'qwen35', 'tekken', 'gpt-4o', 'seed-coder', 'bailingmoe', 'bloom', 'viking', 'falcon',
  'deepseek-llm', 'deepseek-coder', 'deepseek-v3',
];
// llama.cpp tells the case of ASCII letters only, and takes marks for no letters, in these.
const APPROXIMATE = {'tekken': /[^\x00-\x7f]/, 'gpt-4o': /[^\x00-\x7f]/};

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
    if (type.startsWith('[')) {
      const of = type.slice(1);
      this.u32(TYPES[of]);
      this.u64(value.length);
      for (const one of value) this.plain(of, one);
    }
  }
}
const TYPES = {u32: 4, i32: 5, f32: 6, bool: 7, text: 8, '[text': 9, '[f32': 9, '[i32': 9};

function writeGguf(file, vocab) {
  const fields = [
    ['general.architecture', 'text', 'llama'], ['llama.block_count', 'u32', 1], ['llama.context_length', 'u32', 64],
    ['llama.embedding_length', 'u32', 64], ['llama.feed_forward_length', 'u32', 64], ['llama.attention.head_count', 'u32', 1],
    ['llama.attention.layer_norm_rms_epsilon', 'f32', 1e-5],
  ];
  const types = {tokens: '[text', scores: '[f32', token_type: '[i32', merges: '[text', model: 'text', pre: 'text', add_space_prefix: 'bool',
                 bos_token_id: 'u32', eos_token_id: 'u32', unknown_token_id: 'u32'};
  for (const [key, value] of Object.entries(vocab)) fields.push([`tokenizer.ggml.${key}`, types[key], value]);
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

async function llamaCases(llama, vocab, texts) {
  const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'vocab-')), 'vocab.gguf');
  writeGguf(file, vocab);
  const model = await llama.loadModel({modelPath: file, vocabOnly: true});
  const cases = texts.map((text) => ({text, plain: model.tokenize(text, false), parse: model.tokenize(text, true)}));
  await model.dispose();
  fs.rmSync(path.dirname(file), {recursive: true});
  return cases;
}

async function writeLlamaCpp() {
  const llama = await getLlama({gpu: false, build: 'never', logLevel: LlamaLogLevel.disabled});
  const spm = {model: 'llama', tokens: pieces.tokens, scores: pieces.scores, token_type: pieces.token_type, bos_token_id: 1, eos_token_id: 2,
               unknown_token_id: 0};
  const texts = [...pieces.cases.map((one) => one.text), ...MORE];
  const groups = [];
  for (const add_space_prefix of [true, false]) {
    groups.push({model: 'llama', add_space_prefix, cases: await llamaCases(llama, {...spm, add_space_prefix}, texts)});
  }
  const tokens = [];
  for (const [text, id] of Object.entries(tales.model.vocab)) tokens[id] = text;
  const token_type = tokens.map(() => 1);
  for (const token of tales.added_tokens) {
    tokens[token.id] = token.content;
    token_type[token.id] = 3;
  }
  const merges = tales.model.merges.map((merge) => Array.isArray(merge) ? merge.join(' ') : merge);
  for (const pre of PRES) {
    const exact = WORDS.filter((text) => !APPROXIMATE[pre]?.test(text));
    const bpe = {model: 'gpt2', pre, tokens, token_type, merges, bos_token_id: 0, eos_token_id: 0};
    groups.push({model: 'gpt2', pre, cases: await llamaCases(llama, bpe, exact)});
  }
  fs.writeFileSync(path.join(fixtures, 'gguf_cases.json'), JSON.stringify({groups}) + '\n');
  console.log(`llama.cpp: ${groups.length} groups`);
}

const replace = (from, to) => ({type: 'Replace', pattern: {String: from}, content: to});
const sequence = (key, list) => ({type: 'Sequence', [key]: list});
const metaspace = (prepend_scheme, split) => ({type: 'Metaspace', replacement: '▁', prepend_scheme, split});
const decoder = (strip) => sequence('decoders', [
  replace('▁', ' '), {type: 'ByteFallback'}, {type: 'Fuse'}, ...(strip ? [{type: 'Strip', content: ' ', start: 1, stop: 0}] : [])]);

const FORMS = [
  {name: 'Llama 2', normalizer: sequence('normalizers', [{type: 'Prepend', prepend: '▁'}, replace(' ', '▁')]), strip: true},
  {name: 'first Llamas', normalizer: sequence('normalizers', [{type: 'Prepend', prepend: '▁'}, replace(' ', '▁')]), strip: true, normalized: true},
  {name: 'Mistral', pre_tokenizer: metaspace('first', false), strip: true},
  {name: 'Metaspace for all', pre_tokenizer: metaspace('always', true), strip: true},
  {name: 'Metaspace never', pre_tokenizer: metaspace('never', true), strip: false},
  {name: 'Gemma', normalizer: replace(' ', '▁'),
   pre_tokenizer: {type: 'Split', pattern: {String: ' '}, behavior: 'MergedWithPrevious', invert: false}, strip: false},
  {name: 'old Metaspace', pre_tokenizer: {type: 'Metaspace', replacement: '▁', add_prefix_space: true}, strip: true},
  {name: 'whole words', pre_tokenizer: metaspace('always', true), strip: true, ignore_merges: true},
];

// Every way to cut a piece in two, the best piece first.
function mergesOf({tokens, scores, token_type}) {
  const known = new Map(tokens.map((text, id) => [text, id]).filter(([, id]) => token_type[id] === 1));
  const merges = [];
  for (const [text, id] of known) {
    const characters = [...text];
    for (let cut = 1; cut < characters.length; ++cut) {
      const [left, right] = [characters.slice(0, cut).join(''), characters.slice(cut).join('')];
      if (known.has(left) && known.has(right)) merges.push({left, right, score: scores[id]});
    }
  }
  merges.sort((a, b) => b.score - a.score);
  return merges.map(({left, right}) => [left, right]);
}

async function writeHuggingFace() {
  const vocab = Object.fromEntries(pieces.tokens.map((text, id) => [text, id]));
  const added = pieces.tokens.map((content, id) => ({id, content, special: pieces.token_type[id] !== 4}))
                    .filter(({id}) => [2, 3, 4].includes(pieces.token_type[id]))
                    .map((token) => ({...token, single_word: false, lstrip: false, rstrip: false}));
  const post_processor = {
    type: 'TemplateProcessing', single: [{SpecialToken: {id: '<s>', type_id: 0}}, {Sequence: {id: 'A', type_id: 0}}],
    pair: [{Sequence: {id: 'A', type_id: 0}}, {Sequence: {id: 'B', type_id: 0}}], special_tokens: {'<s>': {id: '<s>', ids: [1], tokens: ['<s>']}},
  };
  const merges = mergesOf(pieces);
  const texts = [...pieces.cases.map((one) => one.text), ...MORE];
  const groups = [];
  for (const {name, normalizer = null, pre_tokenizer = null, strip, ignore_merges = false, normalized = false} of FORMS) {
    const parts = {added_tokens: added.map((token) => ({...token, normalized})), normalizer, pre_tokenizer, decoder: decoder(strip)};
    const model = {type: 'BPE', unk_token: '<unk>', fuse_unk: true, byte_fallback: true, ignore_merges, vocab, merges};
    const tokenizer = Tokenizer.fromString(JSON.stringify({version: '1.0', post_processor, ...parts, model}));
    const cases = [];
    for (const text of texts) {
      const ids = async (addSpecialTokens) => (await tokenizer.encode(text, null, {addSpecialTokens})).getIds();
      const one = {text, ids: await ids(true), ids_no_special: await ids(false)};
      cases.push({...one, kept: await tokenizer.decode(one.ids_no_special, false), skipped: await tokenizer.decode(one.ids_no_special, true)});
    }
    groups.push({name, changes: parts, ignore_merges, cases});
  }
  fs.writeFileSync(path.join(fixtures, 'pieces_hf.json'), JSON.stringify({post_processor, merges, groups}) + '\n');
  console.log(`Hugging Face: ${groups.length} forms of ${texts.length} texts`);
}

await writeHuggingFace();
await writeLlamaCpp();
process.exit(0);
