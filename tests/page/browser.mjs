// A server with the small shipped model and a cache that fills soon, and Chromium, which may talk to nobody else.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

export const program = process.env.KVASIR_PROGRAM;
const axe = readFileSync(new URL('./node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

export const kvasir = (...args) => execFileSync(program, args, { encoding: 'utf8' });

export class Server {
  log = '';

  async start(...more) {
    this.process = spawn(program, ['serve', '-m', 'tales-draft', '--port', '0', '-t', '1', ...more], { stdio: ['ignore', 'ignore', 'pipe'] });
    this.url = await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`no greeting: ${this.log}`)), 60000);
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

  async stop() {
    this.process.removeAllListeners('exit');
    const ended = new Promise((resolve) => this.process.on('exit', resolve));
    this.process.kill('SIGTERM');
    return ended;
  }

  async chat(text, more = {}) {
    const { key, ...fields } = more;
    const headers = { 'content-type': 'application/json', ...(key ? { authorization: `Bearer ${key}` } : {}) };
    const reply = await fetch(`${this.url}/v1/chat/completions`, { method: 'POST', headers, body: JSON.stringify({ messages: [{ role: 'user', content: text }], max_tokens: 32, ...fields }) });
    assert.equal(reply.status, 200);
    return reply.json();
  }
}

export class Browser {
  problems = [];

  async start() {
    this.folder = mkdtempSync(join(tmpdir(), 'kvasir-page-'));
    this.context = await chromium.launchPersistentContext(this.folder, {
      executablePath: process.env.KVASIR_CHROMIUM ?? 'chromium',
      headless: true,
      args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
      viewport: { width: 1280, height: 860 },
      colorScheme: 'light',
    });
  }

  // A page that tells of every error of its own, and of every request that goes elsewhere.
  async open(url) {
    const page = await this.context.newPage();
    page.setDefaultTimeout(60000);
    page.on('pageerror', (error) => this.problems.push(`error: ${error}`));
    page.on('console', (message) => {
      const expected = /status of 401/.test(message.text());
      if (message.type() === 'error' && !expected) this.problems.push(`console: ${message.text()}`);
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(url) && !request.url().startsWith('data:')) this.problems.push(`asked ${request.url()}`);
    });
    await page.goto(url);
    return page;
  }

  async close() {
    await this.context.close();
    rmSync(this.folder, { recursive: true, force: true });
    assert.deepEqual(this.problems, []);
  }
}

// What axe finds serious, in words. Its script comes by the debugger, past the page's content policy.
export async function faults(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.failureSummary}`).join('; ')}`);
}

export const number = (text) => Number(String(text).replace(/[^\d.]/g, ''));
