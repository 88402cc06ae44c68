// The conversation, and how it is asked of the server.
import { batch, signal } from '@preact/signals';
import { events, post } from './api';
import { hello } from './live';

// Of an answer: why its prompt was reused so far and no further.
export interface Explanation {
  prompt_tokens: number;
  reused_tokens: number;
  reason: string;
  explanation: string;
  stopped_at: number;
  stopped_at_text: string | null;
  message: { index: number; role: string; part: string } | null;
}

export interface Message {
  role: 'user' | 'assistant';
  text: string;
  thoughts?: string;
  state?: 'waiting' | 'writing' | 'done' | 'stopped' | 'failed';
  error?: string;
  firstToken?: number; // seconds
  seconds?: number;
  answerTokens?: number;
  story?: Explanation;
  pieces?: string[]; // of the prompt, token by token
}

export interface Settings {
  system: string;
  temperature: string;
  topP: string;
  topK: string;
  maxTokens: string;
  seed: string;
  kv: string;
}

export const noSettings: Settings = { system: '', temperature: '', topP: '', topK: '', maxTokens: '', seed: '', kv: '' };
export const settings = signal<Settings>({ ...noSettings, ...(JSON.parse(localStorage.getItem('kvasir-settings') ?? '{}') as Partial<Settings>) });
export const messages = signal<Message[]>([]);
export const answering = signal(false);

let stopper: AbortController | null = null;

export function change(some: Partial<Settings>): void {
  settings.value = { ...settings.value, ...some };
  localStorage.setItem('kvasir-settings', JSON.stringify(settings.value));
}

const number = (text: string): number | undefined => (text.trim() === '' || Number.isNaN(Number(text)) ? undefined : Number(text));

// A model that has no template for chats continues texts.
function bodyOf(history: Message[]): { path: string; body: Record<string, unknown> } {
  const { system, temperature, topP, topK, maxTokens, seed, kv } = settings.value;
  const common = {
    model: hello.value?.model ?? 'kvasir',
    stream: true,
    stream_options: { include_usage: true },
    explain: true,
    temperature: number(temperature),
    top_p: number(topP),
    top_k: number(topK),
    max_tokens: number(maxTokens),
    seed: number(seed),
    kv: kv.trim() || undefined,
  };
  if (hello.value && !hello.value.chats) {
    const prompt = [system, ...history.map((message) => message.text)].filter(Boolean).join('\n');
    return { path: 'v1/completions', body: { ...common, prompt, max_tokens: common.max_tokens ?? 128 } };
  }
  const list = history.map(({ role, text }) => ({ role, content: text }));
  return { path: 'v1/chat/completions', body: { ...common, messages: system.trim() ? [{ role: 'system', content: system }, ...list] : list } };
}

function update(index: number, some: Partial<Message>): void {
  messages.value = messages.value.map((message, i) => (i === index ? { ...message, ...some } : message));
}

// The prompt's tokens as texts. The server's own template and tokenizer; where what they make does not have as many
// tokens as the prompt had, nothing is shown rather than something wrong.
async function piecesOf(asked: ReturnType<typeof bodyOf>, tokens: number): Promise<string[] | undefined> {
  if (tokens > 8192) return undefined;
  let prompt = asked.body.prompt as string | undefined;
  if (prompt === undefined) prompt = ((await (await post('apply-template', asked.body)).json()) as { prompt: string }).prompt;
  for (const add_special of [false, true]) {
    const reply = await post('tokenize', { content: prompt, with_pieces: true, add_special });
    const list = ((await reply.json()) as { tokens: { piece: string | number[] }[] }).tokens;
    if (list.length === tokens) return list.map(({ piece }) => (typeof piece === 'string' ? piece : '\ufffd'));
  }
  return undefined;
}

async function answer(): Promise<void> {
  const history = messages.value;
  const asked = bodyOf(history);
  const index = history.length;
  messages.value = [...history, { role: 'assistant', text: '', state: 'waiting' }];
  answering.value = true;
  stopper = new AbortController();
  const start = performance.now();
  let text = '';
  let thoughts = '';
  let first = 0;
  let tokens = 0;
  let story: Explanation | undefined;
  let shown = 0;
  const show = (state: Message['state']) => {
    const now = performance.now();
    const seconds = (now - start) / 1000;
    batch(() => update(index, { text, thoughts, state, firstToken: first || undefined, seconds, answerTokens: tokens, story }));
    shown = now;
  };
  try {
    const response = await post(asked.path, asked.body, stopper.signal);
    for await (const data of events(response)) {
      if (data === '[DONE]') break;
      const piece = JSON.parse(data);
      if (piece.error) throw new Error(piece.error.message);
      const choice = piece.choices?.[0];
      const more = choice?.delta?.content ?? choice?.text ?? '';
      const thought = choice?.delta?.reasoning_content ?? choice?.delta?.reasoning ?? '';
      if (more || thought) {
        first ||= (performance.now() - start) / 1000;
        tokens++;
      }
      text += more;
      thoughts += thought;
      if (piece.usage) tokens = piece.usage.completion_tokens ?? tokens;
      if (piece.kvasir) story = piece.kvasir;
      if (performance.now() - shown > 40) show('writing');
    }
    show('done');
    if (story) update(index, { pieces: await piecesOf(asked, story.prompt_tokens).catch(() => undefined) });
  } catch (error) {
    const stopped = stopper.signal.aborted;
    show(stopped ? 'stopped' : 'failed');
    if (!stopped) update(index, { error: error instanceof Error ? error.message : String(error) });
  } finally {
    answering.value = false;
  }
}

export function stop(): void {
  stopper?.abort();
}

export function send(text: string): void {
  if (answering.value || !text.trim()) return;
  messages.value = [...messages.value, { role: 'user', text }];
  void answer();
}

// What came behind a message goes with what it was.
export function edit(index: number, text: string): void {
  if (answering.value) return;
  messages.value = [...messages.value.slice(0, index), { role: 'user', text }];
  void answer();
}

export function regenerate(): void {
  if (answering.value || messages.value.length === 0) return;
  const last = messages.value.at(-1)!;
  if (last.role === 'assistant') messages.value = messages.value.slice(0, -1);
  void answer();
}

export function startOver(): void {
  stop();
  messages.value = [];
}
