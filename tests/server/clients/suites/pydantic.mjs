// pydantic.mjs SCHEMAS: the kinds of fields of pydantic 2, as pydantic_schemas.py prints them.
import { readFileSync } from 'node:fs';
import { Answers, newAjv } from './answers.mjs';

const schemas = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const answers = new Answers();
await answers.open();
for (const [name, schema] of Object.entries(schemas)) await answers.judge(name, schema, newAjv().compile(schema));
answers.report('pydantic');
await answers.close();
