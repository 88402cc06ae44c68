// What the server's stream says, and what the page makes of it: types, and nothing that happens.
export const enum Sight {
  absent,
  free,
  inUse,
  shared,
  cached,
  pinned,
}
export const sightNames = ['absent', 'free', 'in use', 'shared', 'cached', 'pinned'];

export interface Cell {
  id: number;
  group: number;
  sight: Sight;
  refs: number;
  tenant: number; // -1: nobody's in particular
  place: number; // how many blocks come before it; -1: it has no name yet
  parent: number;
  born: number; // on the page's clock, in seconds
  used: number;
  key: string;
  change: string; // the last one that was seen, for people
}

export interface Group {
  policy: string;
  state: boolean;
  window: number;
  block_bytes: number;
}

export interface Running {
  id: number;
  request: string;
  tenant: number;
  phase: string;
  prompt: number;
  cached: number;
  reused: number;
  answer: number;
  blocks: number;
  pauses: number;
  kv: string;
}

export interface Finished {
  id: string;
  tasks: number[];
  path: string;
  tenant: number;
  created: number;
  finish_reasons: string[];
  prompt_tokens: number;
  reused_tokens: number;
  answer_tokens: number;
  computed_tokens: number;
  preemptions: number;
  first_token_seconds: number;
  seconds: number;
  queue_seconds?: number;
  reason: string | null;
  stopped_at: number | null;
  kv?: string;
}

export interface Latency {
  bounds: number[];
  counts: number[];
  sum: number;
}

export interface Speculation {
  drafts: number;
  draft_tokens: number;
  accepted_tokens: number;
  drafting_seconds: number;
  saved_seconds: number;
  drafters: [name: string, drafts: number, tokens: number, accepted: number][];
}

export interface Numbers {
  running?: number;
  waiting?: number;
  blocks?: number;
  held?: number;
  cached?: number;
  pinned?: number;
  swapped_bytes?: number;
  queried: number;
  hit: number;
  evicted: number;
  recomputes?: number;
  swaps?: number;
  speculation?: Speculation;
  prompt_tokens?: number;
  reused_tokens?: number;
  answer_tokens?: number;
  first_token?: Latency;
  next_token?: Latency;
  tenants: [id: number, blocks: number, bytes: number, queried: number, hit: number, evicted: number][];
}

export interface Hello {
  version: string;
  model: string;
  device: string;
  started: number;
  open: boolean;
  caller: string;
  operator: boolean;
  tenants: [number, string][];
  texts: boolean;
  chats: boolean;
  plans: boolean;
  context: number;
  parameters: number;
  weight_bytes: number;
  block_tokens: number;
  kv_bytes: number;
  kv: string;
  kv_allowed: unknown;
  eviction: string;
  max_sequences: number;
  max_batch_tokens: number;
}

export type Row = [number, number, Sight, number?, number?, number?, number?, number?, number?, string?];

export interface Piece {
  now: number;
  hello?: Hello;
  groups?: Group[];
  blocks?: Row[];
  gone?: number[];
  events?: [string, number, number, number][];
  lost?: number;
  requests?: Running[];
  finished?: Finished[];
  numbers?: Numbers;
}

// One stretch of a request's life.
export interface Stretch {
  from: number;
  to: number;
  phase: string;
}
export interface LaneHistory {
  key: string;
  id: number;
  label: string;
  tenant: number;
  stretches: Stretch[];
  prompt: number;
  reused: number;
  answer: number;
  live: boolean;
}

export interface Flash {
  kind: string;
  at: number;
}
