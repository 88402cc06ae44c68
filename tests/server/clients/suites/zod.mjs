// zod.mjs: the kinds of schemas that zod 4 makes JSON Schema of; an answer is valid when ajv says so, and zod where its
// schema says all that it asks for.
import { z } from 'zod';
import { Answers, newAjv } from './answers.mjs';

const Node = z.object({ name: z.string().max(5), get next() { return Node.nullable(); } });

const kinds = {
  string: z.string(),
  'string min max': z.string().min(2).max(8),
  'string length': z.string().length(4),
  'string regex': z.string().regex(/^[a-c]{2,4}-\d+$/),
  'string startsWith': z.string().startsWith('fox'),
  'string endsWith': z.string().endsWith('fox'),
  'string includes': z.string().includes('fox').max(30),
  'string uppercase': z.string().uppercase(),
  'string lowercase': z.string().lowercase(),
  'string nonempty': z.string().nonempty().max(20),
  email: z.email(),
  uuid: z.uuid(),
  'uuid v4': z.uuidv4(),
  'uuid v7': z.uuidv7(),
  guid: z.guid(),
  url: z.url(),
  emoji: z.emoji(),
  nanoid: z.nanoid(),
  cuid: z.cuid(),
  cuid2: z.cuid2(),
  ulid: z.ulid(),
  xid: z.xid(),
  ksuid: z.ksuid(),
  ipv4: z.ipv4(),
  ipv6: z.ipv6(),
  cidrv4: z.cidrv4(),
  cidrv6: z.cidrv6(),
  base64: z.base64(),
  base64url: z.base64url(),
  e164: z.e164(),
  hostname: z.hostname(),
  jwt: z.jwt(),
  'iso date': z.iso.date(),
  'iso time': z.iso.time(),
  'iso datetime': z.iso.datetime(),
  'iso datetime offset': z.iso.datetime({ offset: true }),
  'iso duration': z.iso.duration(),
  'template literal': z.templateLiteral(['fox-', z.number(), '-', z.enum(['a', 'b'])]),
  number: z.number(),
  int: z.int(),
  int32: z.int32(),
  uint32: z.uint32(),
  float32: z.float32(),
  float64: z.float64(),
  'number between': z.number().gt(1.5).lte(9),
  'int positive multiple': z.int().positive().max(100).multipleOf(5),
  boolean: z.boolean(),
  stringbool: z.stringbool(),
  null: z.null(),
  any: z.any(),
  unknown: z.unknown(),
  literal: z.literal('fox'),
  'literal several': z.literal(['fox', 7, true, null]),
  enum: z.enum(['fox', 'crow']),
  nullable: z.string().max(9).nullable(),
  object: z.object({ name: z.string().max(9), age: z.int().min(0).max(9) }),
  'object optional': z.object({ name: z.string().max(9).optional(), age: z.int().max(9).default(3) }),
  strictObject: z.strictObject({ name: z.string().max(9) }),
  looseObject: z.looseObject({ name: z.string().max(9) }),
  catchall: z.object({ name: z.string().max(9) }).catchall(z.int()),
  array: z.array(z.string().max(9)).min(1).max(3),
  tuple: z.tuple([z.string().max(9), z.int()]),
  'tuple rest': z.tuple([z.string().max(9)], z.boolean()),
  record: z.record(z.string().max(9), z.int()),
  'record enum': z.record(z.enum(['fox', 'crow']), z.int()),
  'record partial': z.partialRecord(z.enum(['fox', 'crow']), z.int()),
  union: z.union([z.int(), z.string().max(9)]),
  discriminatedUnion: z.discriminatedUnion('kind', [z.object({ kind: z.literal('fox'), tail: z.int() }), z.object({ kind: z.literal('crow'), wings: z.boolean() })]),
  xor: z.xor([z.object({ fox: z.int() }), z.object({ crow: z.int() })]),
  intersection: z.intersection(z.object({ a: z.int() }), z.object({ b: z.boolean() })),
  lazy: z.lazy(() => z.object({ a: z.int() })),
  recursive: Node,
  readonly: z.array(z.int()).max(3).readonly(),
  catch: z.int().catch(3),
  prefault: z.int().prefault(3),
  pipe: z.pipe(z.string().max(9), z.string().min(1)),
  refine: z.int(),
  brand: z.int().brand('Age'),
  meta: z.string().max(9).meta({ title: 'Name', examples: ['fox'] }),
};

const unsaid = ['stringbool'];

const answers = new Answers();
await answers.open();
let unmade = 0;
for (const [name, kind] of Object.entries(kinds)) {
  let schema;
  try {
    schema = z.toJSONSchema(kind, { io: 'input' });
  } catch (error) {
    unmade += 1;
    console.log(`zod makes no JSON Schema of ${name}: ${error.message}`);
    continue;
  }
  const ajv = newAjv();
  const check = ajv.compile(schema);
  await answers.judge(name, schema, (value) => check(value) && (unsaid.includes(name) || kind.safeParse(value).success));
}
answers.report(`zod, ${Object.keys(kinds).length - unmade} kinds`);
await answers.close();
