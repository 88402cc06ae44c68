// Where an agent works: a folder of its own, a home that is empty, a model that says what the test wants, and a server
// between that looks at all replies.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeScriptedModel } from '../scripted_model.mjs';
import { TestServer } from '../server.mjs';

export const packages = join(dirname(fileURLToPath(import.meta.url)), 'node_modules');

export class Workshop {
  server = new TestServer();
  root = mkdtempSync(join(tmpdir(), 'kvasir-agent-'));
  home = join(this.root, 'home');
  work = join(this.root, 'work');
  requests = [];

  async open(script) {
    mkdirSync(this.home);
    mkdirSync(this.work);
    await this.server.start(writeScriptedModel(join(this.root, 'scripted'), script));
    const fetch = this.server.fetch;
    this.server.fetch = (input, init) => {
      if (init?.body) this.requests.push(JSON.parse(init.body));
      return fetch(input, init);
    };
    this.url = await this.server.proxy();
  }

  close = (kinds) => this.server.stop(kinds);

  // What the program prints. It knows nothing of this machine's user but PATH.
  run(program, args, env = {}) {
    const child = spawn(program, args, { cwd: this.work, env: { PATH: process.env.PATH, HOME: this.home, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    const out = { text: '', errors: '' };
    child.stdout.on('data', (data) => (out.text += data));
    child.stderr.on('data', (data) => (out.errors += data));
    const late = setTimeout(() => child.kill('SIGKILL'), 120000);
    return new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code) => {
        clearTimeout(late);
        resolve({ ...out, code });
      });
    });
  }
}
