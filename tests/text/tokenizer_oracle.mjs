// Writes fixtures/js_cases.json: what @huggingface/tokenizers (JavaScript) makes of texts, for variants of the tokenizers
// in fixtures/hf_*.json that those fixtures do not cover: added tokens, digits, whole words. (That library does not know
// single_word; a unit test has it.)
// Run it by hand and commit the result; the tests read the file only.
//
//     npm i --ignore-scripts @huggingface/tokenizers@0.2.0     # in a folder of its own
//     NODE_PATH=that/node_modules node tests/text/tokenizer_oracle.mjs
import fs from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

const {Tokenizer} = createRequire(import.meta.url)('@huggingface/tokenizers');
const fixtures = path.join(path.dirname(fileURLToPath(import.meta.url)), 'fixtures');

const TEXTS = [
  '', ' ', 'plain text', '<mask>', 'a<mask>b', 'a <mask> b', 'a   <mask>   b', '<mask><mask>', ' <mask> <mask> ', '\n<mask>\n',
  'a\u3000<mask>\u00a0b', 'word', 'a word here', 'sword', 'words', 'word.', '_word_', 'éword', 'wordé', 'word word', '-word-',
  '<think>', 'x<think>y</think>', '<think', '<|endoftext|>', 'a<|endoftext|><mask>', 'café cafe\u0301', 'A\u030A \u212B',
  'no 12345 digits ٣٤ ½', '1', '3.14', "I'LL don't", 'the the', 'hello\r\n\r\nworld', '中文，测试', '😀👨‍👩‍👧', 'ab cd  ef   gh',
];

function added(content, id, flags) {
  return {id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false, ...flags};
}

const byteLevel = (use_regex) => ({type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex});
const digits = (individual_digits) =>
    ({type: 'Sequence', pretokenizers: [{type: 'Digits', individual_digits}, byteLevel(true)]});

const GROUPS = [
  {name: 'lstrip', base: 'hf_gpt2.json', add: [['<mask>', {special: true, lstrip: true}]]},
  {name: 'rstrip', base: 'hf_gpt2.json', add: [['<mask>', {special: true, rstrip: true}]]},
  {name: 'both strips', base: 'hf_llama3.json', add: [['<mask>', {special: true, lstrip: true, rstrip: true}]]},
  {name: 'not special', base: 'hf_qwen2.json', add: [['<think>', {}], ['</think>', {}]]},
  {name: 'overlapping', base: 'hf_gpt2.json', add: [['<mas', {}], ['<mask>', {}], ['<mask><mask>', {}]]},
  {name: 'digits one by one', base: 'hf_gpt2.json', changes: {'/pre_tokenizer': digits(true)}},
  {name: 'digits together', base: 'hf_gpt2.json', changes: {'/pre_tokenizer': digits(false)}},
  {name: 'whole words', base: 'hf_llama3.json', changes: {'/model/ignore_merges': true}},
  {name: 'no regex', base: 'hf_gpt2.json', changes: {'/pre_tokenizer': byteLevel(false)}},
];

const groups = GROUPS.map(({name, base, add, changes = {}}) => {
  const json = JSON.parse(fs.readFileSync(path.join(fixtures, base))).tokenizer;
  if (add) {
    let id = Math.max(...Object.values(json.model.vocab), ...json.added_tokens.map((token) => token.id)) + 1;
    changes['/added_tokens'] = [...json.added_tokens, ...add.map(([content, flags]) => added(content, id++, flags))];
  }
  for (const [pointer, value] of Object.entries(changes)) {
    const keys = pointer.split('/').slice(1);
    const last = keys.pop();
    keys.reduce((at, key) => at[key], json)[last] = value;
  }
  const tokenizer = new Tokenizer(json, {});
  const ids = (text, add_special_tokens) => tokenizer.encode(text, {add_special_tokens}).ids;
  return {name, base, changes, cases: TEXTS.map((text) => ({text, ids: ids(text, true), ids_no_special: ids(text, false)}))};
});
fs.writeFileSync(path.join(fixtures, 'js_cases.json'), JSON.stringify({groups}) + '\n');
console.log(`${groups.length} groups of ${TEXTS.length} texts`);
