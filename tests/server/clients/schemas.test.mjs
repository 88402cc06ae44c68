// The checks themselves: what is not of its type is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Validator } from './schemas.mjs';

test('schemas: a model is one, and anything else is not', () => {
  const validator = new Validator();
  const model = { id: 'x', object: 'model', created: 1, owned_by: 'y' };
  validator.check('Model', model);
  for (const wrong of [{ ...model, created: 'now' }, { ...model, more: 1 }, { id: 'x' }]) assert.throws(() => validator.check('Model', wrong), /not a Model/);
  assert.throws(() => validator.check('ChatCompletion', { id: 'x', choices: [] }), /required property/);
});
