// json_schema.mjs FOLDER [ANSWERS]: JSON Schema's own test suite (github.com/json-schema-org/JSON-Schema-Test-Suite), draft 2020-12.
// ajv judges where it passes the suite's own tests of the schema. With ANSWERS, a file, all answers are written there.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { Answers, newAjv } from './answers.mjs';

const root = process.argv[2];
const draft = join(root, 'tests/draft2020-12');
const files = (folder) => readdirSync(folder, { withFileTypes: true, recursive: true }).filter((file) => file.isFile() && file.name.endsWith('.json')).map((file) => join(file.parentPath ?? file.path, file.name)).sort();

const answers = new Answers();
await answers.open();
for (const file of files(draft)) {
  for (const { description, schema, tests } of JSON.parse(readFileSync(file, 'utf8'))) {
    let valid = null;
    try {
      const ajv = newAjv();
      for (const remote of files(join(root, 'remotes')).filter((path) => !/draft(3|4|6|7|2019)|v1/.test(path)))
        ajv.addSchema(JSON.parse(readFileSync(remote, 'utf8')), `http://localhost:1234/${relative(join(root, 'remotes'), remote)}`);
      const check = ajv.compile(schema);
      if (tests.every(({ data, valid: wanted }) => check(data) === wanted)) valid = check;
    } catch {
      // ajv takes no such schema
    }
    await answers.judge(`${relative(draft, file)}, ${description}`, schema, valid);
  }
}
if (process.argv[3]) writeFileSync(process.argv[3], JSON.stringify(answers.all));
answers.report('JSON Schema test suite');
await answers.close();
