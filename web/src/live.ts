// What the server tells of its cache and its requests, and its last ten minutes, which only this page remembers.
import { batch, signal } from '@preact/signals';
import { ApiFailure, ask, events, key } from './api';
import { type Cell, type Group, type Running, type Finished, type Latency, type Numbers, type Hello, type Row, type Piece, type LaneHistory, type Flash } from './live_types';
export * from './live_types';

export const historySeconds = 600;
export const pageNow = (): number => performance.now() / 1000;

export const status = signal<'connecting' | 'live' | 'lost' | 'key' | 'busy'>('connecting');
export const hello = signal<Hello | null>(null);
export const groups = signal<Group[]>([]);
export const running = signal<Running[]>([]);
export const finished = signal<Finished[]>([]); // newest first
export const numbers = signal<Numbers | null>(null);
export const blocksVersion = signal(0); // rises with every change of cells
export const cells = new Map<number, Cell>();
export const dirty = new Set<number>(); // cells to draw anew
export const flashes = new Map<number, Flash>();
export const lanes = new Map<string, LaneHistory>();
export const eventCounts = signal<Record<string, number>>({}); // since the page watches
export const touched = new Map<number, Set<number>>(); // request -> cells it took or found, while this page looked
export let layoutVersion = 0; // rises where cells come or go

// Columns: time, prompt tokens/s, answer tokens/s, first token, next token, running, waiting, hit rate, use.
export const series: number[][] = Array.from({ length: 9 }, () => []);
export const seriesVersion = signal(0);

const changes: Record<string, string> = { taken: 'taken', hit: 'found again', published: 'filled and named', evicted: 'evicted', moved: 'moved' };

function median(now: Latency, before: Latency | undefined): number | null {
  const counts = now.counts.map((n, i) => n - (before?.counts[i] ?? 0));
  const all = counts.reduce((a, b) => a + b, 0);
  if (all <= 0) return null;
  let seen = 0;
  for (let i = 0; i < counts.length; ++i) {
    if (seen + counts[i] < all / 2) {
      seen += counts[i];
      continue;
    }
    const low = i === 0 ? 0 : now.bounds[i - 1];
    const high = now.bounds[i] ?? low * 2;
    return low + ((high - low) * (all / 2 - seen)) / counts[i];
  }
  return null;
}

let before: { at: number; numbers: Numbers } | null = null;

function addNumbers(now: Numbers): void {
  const at = Date.now() / 1000;
  if (before && at > before.at) {
    const per = (a?: number, b?: number) => (a === undefined || b === undefined ? null : Math.max(0, (a - b) / (at - before!.at)));
    const old = before.numbers;
    const asked = now.queried - old.queried;
    const row = [
      at,
      per((now.prompt_tokens ?? now.queried) - (now.reused_tokens ?? now.hit), (old.prompt_tokens ?? old.queried) - (old.reused_tokens ?? old.hit)),
      per(now.answer_tokens, old.answer_tokens),
      now.first_token ? median(now.first_token, old.first_token) : null,
      now.next_token ? median(now.next_token, old.next_token) : null,
      now.running ?? running.value.length,
      now.waiting ?? 0,
      asked > 0 ? (100 * (now.hit - old.hit)) / asked : null,
      now.blocks ? (100 * (now.held ?? 0)) / now.blocks : null,
    ];
    row.forEach((value, i) => series[i].push(value as number));
    while (series[0].length > historySeconds) for (const column of series) column.shift();
    seriesVersion.value++;
  }
  before = { at, numbers: now };
  numbers.value = now;
}

function addRows(rows: Row[], now: number): void {
  for (const [id, group, sight, refs = 0, tenant = -1, place = -1, parent = -1, born = 0, used = 0, name = ''] of rows) {
    const old = cells.get(id);
    if (!old) layoutVersion++;
    cells.set(id, { id, group, sight, refs, tenant, place, parent, born: now - born, used: now - used, key: name, change: old?.change ?? '' });
    dirty.add(id);
  }
}

function addEvents(list: NonNullable<Piece['events']>, now: number): void {
  for (const [kind, cell, request] of list) {
    flashes.set(cell, { kind, at: now });
    const known = cells.get(cell);
    if (known) known.change = `${changes[kind] ?? kind}${request ? (kind === 'evicted' ? ` to make room for request ${request}` : ` by request ${request}`) : ''}`;
    if (!request || kind === 'evicted') continue;
    if (!touched.has(request)) touched.set(request, new Set());
    touched.get(request)!.add(cell);
  }
  while (touched.size > 256) touched.delete(touched.keys().next().value!);
  const counts = { ...eventCounts.value };
  for (const [kind] of list) counts[kind] = (counts[kind] ?? 0) + 1;
  eventCounts.value = counts;
}

// Blocks that went to host memory with a paused request, and those that came back.
function addSwaps(list: Running[], now: number): void {
  const before = new Map(running.value.map((one) => [one.id, one]));
  const counts = { ...eventCounts.value };
  for (const one of list) {
    const old = before.get(one.id);
    if (!old || (old.phase === 'swapped') === (one.phase === 'swapped')) continue;
    const kind = one.phase === 'swapped' ? 'swapped' : 'restored';
    counts[kind] = (counts[kind] ?? 0) + (kind === 'swapped' ? one.blocks : old.blocks);
    for (const id of touched.get(one.id) ?? []) {
      flashes.set(id, { kind, at: now });
      const cell = cells.get(id);
      if (cell) cell.change = `${kind === 'swapped' ? 'swapped out' : 'swapped in'} with request ${one.id}`;
    }
  }
  eventCounts.value = counts;
}

function addRunning(list: Running[], now: number): void {
  const seen = new Set<string>();
  addSwaps(list, now);
  for (const one of list) {
    const name = `task ${one.id}`;
    seen.add(name);
    let lane = lanes.get(name);
    if (!lane) {
      lane = { key: name, id: one.id, label: one.request, tenant: one.tenant, stretches: [], prompt: one.prompt, reused: 0, answer: 0, live: true };
      lanes.set(name, lane);
    }
    lane.reused = one.reused;
    lane.answer = one.answer;
    const last = lane.stretches.at(-1);
    if (last) last.to = now;
    if (last?.phase !== one.phase) lane.stretches.push({ from: now, to: now, phase: one.phase });
  }
  for (const lane of lanes.values()) {
    if (!lane.live || seen.has(lane.key)) continue;
    lane.live = false;
    lane.stretches.at(-1)!.to = now;
  }
  running.value = list;
}

// A finished request's record has its times to the microsecond; looks at it while it ran were a few a second.
function addFinished(list: Finished[], now: number): void {
  const wall = Date.now() / 1000;
  for (const one of list) {
    const id = one.tasks[0];
    if (id === undefined) continue;
    const old = lanes.get(`task ${id}`);
    const end = old ? old.stretches.at(-1)!.to : now - Math.max(0, wall - one.created - one.seconds);
    const start = end - one.seconds;
    const queued = one.queue_seconds ?? 0;
    const lane: LaneHistory = old ?? { key: `task ${id}`, id, label: one.id, tenant: one.tenant, stretches: [], prompt: one.prompt_tokens, reused: 0, answer: 0, live: false };
    lane.prompt = one.prompt_tokens;
    lane.reused = one.reused_tokens;
    lane.answer = one.answer_tokens;
    if (one.preemptions === 0) {
      lane.stretches = [
        { from: start, to: start + queued, phase: 'queued' },
        { from: start + queued, to: start + one.first_token_seconds, phase: 'prefill' },
        { from: start + one.first_token_seconds, to: end, phase: 'decode' },
      ];
    }
    lane.live = false;
    lanes.set(lane.key, lane);
  }
  finished.value = [...list.slice().reverse(), ...finished.value].slice(0, 200);
}

function forget(now: number): void {
  for (const [name, lane] of lanes) {
    if (!lane.live && (lane.stretches.at(-1)?.to ?? 0) < now - historySeconds) lanes.delete(name);
  }
  while (lanes.size > 600) lanes.delete(lanes.keys().next().value!);
}

export function take(piece: Piece): void {
  const now = pageNow();
  batch(() => {
    if (piece.hello) {
      cells.clear();
      flashes.clear();
      finished.value = [];
      before = null;
      layoutVersion++;
      hello.value = piece.hello;
      document.title = `Kvasir · ${piece.hello.model}`;
    }
    if (piece.groups) groups.value = piece.groups;
    if (piece.blocks) addRows(piece.blocks, now);
    if (piece.gone) {
      for (const id of piece.gone) cells.delete(id);
      layoutVersion++;
    }
    if (piece.events) addEvents(piece.events, now);
    if (piece.requests) addRunning(piece.requests, now);
    else for (const lane of lanes.values()) if (lane.live) lane.stretches.at(-1)!.to = now;
    if (piece.finished) addFinished(piece.finished, now);
    if (piece.numbers) addNumbers(piece.numbers);
    if (piece.blocks || piece.gone || piece.events) blocksVersion.value++;
    forget(now);
  });
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

// Watches as long as the page is open. Hidden pages do not watch: the server collects nothing for nobody.
export async function watch(): Promise<never> {
  for (let wait = 500; ; wait = Math.min(wait * 2, 10_000)) {
    if (document.hidden) await new Promise((resolve) => document.addEventListener('visibilitychange', resolve, { once: true }));
    const used = key.value;
    const stop = new AbortController();
    const hide = () => document.hidden && stop.abort();
    document.addEventListener('visibilitychange', hide);
    const unsubscribe = key.subscribe((value) => value !== used && stop.abort());
    try {
      const response = await ask('kvasir/live', { signal: stop.signal });
      for await (const data of events(response)) {
        take(JSON.parse(data) as Piece);
        status.value = 'live';
        wait = 500;
      }
      status.value = 'lost';
    } catch (error) {
      const code = error instanceof ApiFailure ? error.status : 0;
      status.value = code === 401 ? 'key' : code === 429 ? 'busy' : 'lost';
      if (code === 401) {
        hello.value = null;
        await new Promise<void>((resolve) => {
          const done = key.subscribe((value) => {
            if (value === used) return;
            queueMicrotask(() => done());
            resolve();
          });
        });
        wait = 250;
      }
    } finally {
      unsubscribe();
      document.removeEventListener('visibilitychange', hide);
    }
    await pause(wait);
  }
}
