// `kvasir serve` with the small shipped model or a scripted one, and a fetch that looks at every reply before the client does.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { webcrypto } from 'node:crypto';
import { createServer } from 'node:http';
import { Validator } from './schemas.mjs';

// Node 18, which Debian 12 has, keeps it from programs; LangChain's wants it.
globalThis.crypto ??= webcrypto;

export const messages = [{ role: 'user', content: 'Tell me a story about a fox and a crow.' }];

export const animal = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 12 }, kind: { enum: ['fox', 'crow'] }, age: { type: 'integer', minimum: 0, maximum: 99 } },
  required: ['name', 'kind', 'age'],
  additionalProperties: false,
};

export function isAnimal(text) {
  const read = JSON.parse(text);
  assert.deepEqual(Object.keys(read), ['name', 'kind', 'age']);
  assert.ok(['fox', 'crow'].includes(read.kind) && Number.isInteger(read.age));
}

const kinds = [
  ['/v1/chat/completions', 'ChatCompletion', 'ChatCompletionChunk'],
  ['/v1/completions', 'Completion', 'CompletionChunk'],
  ['/v1/responses/input_tokens', 'InputTokens'],
  ['/v1/responses', 'Response', 'ResponseStreamEvent'],
  ['/v1/messages/count_tokens', 'MessageTokensCount'],
  ['/v1/messages', 'Message', 'MessageStreamEvent'],
];

export class TestServer {
  log = '';
  problems = [];
  validator = new Validator();

  async start(model = 'tales-draft', more = []) {
    this.process = spawn(process.env.KVASIR_PROGRAM, ['serve', '-m', model, '--port', '0', '-t', '1', ...more], { stdio: ['ignore', 'ignore', 'pipe'] });
    this.url = await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`no greeting: ${this.log}`)), 60000);
      this.process.on('error', reject);
      this.process.on('exit', (code) => reject(new Error(`ended with ${code}: ${this.log}`)));
      this.process.stderr.on('data', (data) => {
        this.log += data;
        const found = this.log.match(/at (http:\/\/127\.0\.0\.1:\d+)/);
        if (!found) return;
        clearTimeout(late);
        resolve(found[1]);
      });
    });
  }

  // SIGTERM drains and ends with 0; and every reply on the way was of its published type. `kinds` are those there must
  // have been.
  async stop(kinds = []) {
    this.between?.closeAllConnections();
    this.between?.close();
    assert.equal(this.process.exitCode, null, this.log);
    const code = await new Promise((resolve) => {
      this.process.removeAllListeners('exit');
      this.process.on('exit', resolve);
      this.process.kill('SIGTERM');
    });
    assert.equal(code, 0);
    assert.deepEqual(this.problems, []);
    for (const kind of kinds) assert.ok(this.validator.checked[kind] > 0, `no ${kind} was checked`);
  }

  // For the clients: checks each reply on its way to them. A client that leaves a stream leaves the server, too.
  fetch = async (input, init) => {
    const response = await fetch(input, init);
    const path = new URL(typeof input === 'string' || input instanceof URL ? input : input.url).pathname;
    const { status, headers } = response;
    if ((headers.get('content-type') ?? '').startsWith('text/event-stream')) return new Response(response.body.pipeThrough(this.streamCheck(path)), { status, headers });
    const text = await response.text();
    this.try(() => this.checkReply(path, init?.method ?? 'GET', response.ok, JSON.parse(text)));
    return new Response(text, { status, headers });
  };

  // For programs, which bring their own fetch: the address of a server that hands all on to ours, and checks it.
  async proxy() {
    this.between = createServer(async (request, reply) => {
      const parts = [];
      for await (const part of request) parts.push(part);
      const { host, connection, 'content-length': length, ...headers } = request.headers;
      const body = parts.length > 0 ? Buffer.concat(parts) : undefined;
      const response = await this.fetch(this.url + request.url, { method: request.method, headers, body });
      reply.writeHead(response.status, { 'content-type': response.headers.get('content-type') ?? 'application/json' });
      for await (const piece of response.body ?? []) reply.write(piece);
      reply.end();
    });
    await new Promise((resolve) => this.between.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${this.between.address().port}`;
  }

  try(check) {
    try {
      check();
    } catch (error) {
      this.problems.push(String(error));
    }
  }

  checkReply(path, method, ok, reply) {
    if (path.startsWith('/v1/messages') && !ok) return;
    if (!ok) return this.validator.check('ErrorObject', reply.error);
    if (path === '/v1/models') return reply.data.forEach((model) => this.validator.check('Model', model));
    if (path.startsWith('/v1/models/')) return this.validator.check('Model', reply);
    if (method === 'DELETE' || path.endsWith('/input_items')) return;
    const kind = kinds.find(([start]) => path.startsWith(start));
    if (kind) this.validator.check(kind[1], reply);
  }

  streamCheck(path) {
    const kind = kinds.find(([start]) => path.startsWith(start));
    const decoder = new TextDecoder();
    let rest = '';
    return new TransformStream({
      transform: (bytes, controller) => {
        controller.enqueue(bytes);
        const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
        rest = lines.pop();
        const events = lines.filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]' && line !== 'data: {"type":"ping"}');
        for (const line of events) this.try(() => this.validator.check(kind[2], JSON.parse(line.slice(6))));
      },
    });
  }

  // A sample of the metrics page, by its name and something in its labels.
  async metric(name, label = '') {
    const page = await (await fetch(`${this.url}/metrics`)).text();
    const sample = page.split('\n').find((line) => line.startsWith(`vllm:${name}{`) && line.includes(label));
    return Number(sample.split(' ').at(-1));
  }

  cancelled = () => this.metric('request_success_total', 'abort');

  // Waits until a reading is `wanted`. The bound is there for a test that fails; a busy machine may need seconds.
  async becomes(read, wanted) {
    for (let i = 0; i < 1000; ++i) {
      if ((await read()) === wanted) return true;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return false;
  }
}
