// Schemas in, answers out: which are accepted, and whether what the model writes under each satisfies it, by ajv.
import Ajv2020 from 'ajv/dist/2020.js';
import { TestServer } from '../server.mjs';

const kSeeds = [1, 2, 3, 4, 5];
const kLongest = 600; // tokens; an answer that is cut there is a beginning, and not judged

export class Answers {
  server = new TestServer();
  counts = { schemas: 0, accepted: 0, refused: 0, answers: 0, valid: 0, cut: 0, unjudged: 0 };
  refused = [];
  all = [];
  invalid = [];

  open = () => this.server.start();
  close = () => this.server.stop();

  async ask(schema, seed) {
    const messages = [{ role: 'user', content: 'Tell me a story about a fox and a crow.' }];
    const body = { messages, seed, max_tokens: kLongest, temperature: 1, top_p: 1, guided_json: schema };
    const response = await fetch(`${this.server.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
    const reply = await response.json();
    return response.ok ? { text: reply.choices[0].message.content, cut: reply.choices[0].finish_reason === 'length' } : { error: reply.error.message };
  }

  // `isValid` judges a value; null: whatever is JSON.
  async judge(name, schema, isValid) {
    this.counts.schemas += 1;
    const answers = [];
    for (const seed of kSeeds) {
      const answer = await this.ask(schema, seed);
      if (answer.error) {
        this.counts.refused += 1;
        this.refused.push(`${name}: ${answer.error}`);
        return;
      }
      answers.push(answer);
    }
    this.counts.accepted += 1;
    for (const { text, cut } of answers) {
      this.counts.answers += 1;
      if (!cut) this.all.push({ name, schema, text });
      if (cut) {
        this.counts.cut += 1;
      } else if (isValid === null) {
        JSON.parse(text);
        this.counts.unjudged += 1;
      } else if (isValid(JSON.parse(text))) {
        this.counts.valid += 1;
      } else {
        this.invalid.push(`${name}: ${text} under ${JSON.stringify(schema)}`);
      }
    }
  }

  report(title) {
    for (const line of this.refused) console.log(`refused: ${line}`);
    for (const line of this.invalid) console.log(`INVALID: ${line}`);
    const { schemas, accepted, answers, valid, cut, unjudged } = this.counts;
    console.log(`${title}: ${accepted} of ${schemas} schemas accepted; of ${answers} answers over ${kSeeds.length} seeds ${valid} are valid, ${this.invalid.length} are not, ${cut} were cut at ${kLongest} tokens, ${unjudged} had no judge`);
    if (this.invalid.length > 0) process.exitCode = 1;
  }
}

// Formats that ajv alone does not know: those that Node can judge without a library.
export function newAjv() {
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: true });
  const formats = {
    'date-time': (text) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i.test(text) && !Number.isNaN(Date.parse(text.replace(/:60/, ':59'))),
    date: (text) => /^\d{4}-\d\d-\d\d$/.test(text) && new Date(`${text}T00:00:00Z`).toISOString().startsWith(text),
    time: (text) => /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?$/i.test(text),
    duration: (text) => /^[+-]?P(?!$)(\d+([.,]\d+)?Y)?(\d+([.,]\d+)?M)?(\d+([.,]\d+)?W)?(\d+([.,]\d+)?D)?(T(?=\d)(\d+([.,]\d+)?H)?(\d+([.,]\d+)?M)?(\d+([.,]\d+)?S)?)?$/.test(text),
    email: (text) => /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(text),
    uuid: (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text),
    uri: (text) => URL.canParse(text),
    ipv4: (text) => /^((25[0-5]|2[0-4]\d|1?\d?\d)(\.(?!$)|$)){4}$/.test(text),
    regex: (text) => Boolean(new RegExp(text, 'u')),
  };
  for (const [name, validate] of Object.entries(formats)) ajv.addFormat(name, { type: 'string', validate });
  return ajv;
}
