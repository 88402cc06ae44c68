// The planner: what a model and its cache take. Every number is the server's own, as `kvasir plan --json` prints it.
import { signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { ask, post } from './api';
import { bytes, count } from './format';
import { hello } from './live';
import { CopyButton } from './markdown';

interface Choices {
  models: string[];
  gpus: { name: string; memory_bytes: number }[];
  weights_dtypes: string[];
  kv: string[];
}
interface Plan {
  model: string;
  parameters: number;
  weights_dtype: string;
  weights_bytes: number;
  context: number;
  users: number;
  kv: { policy: string; bytes_per_token: number; bytes_per_request: number; bytes_total: number };
  runtime_bytes: number;
  reserve_bytes: number;
  total_bytes: number;
  memory_bytes: number | null;
  fits: boolean | null;
  max_context: number | null;
  max_users: number | null;
  ways_out: { what: string; saves_bytes: number; then_total_bytes: number; fits: boolean }[];
  notes: string[];
}

const asked = signal({ model: '', context: 15, users: 0, kv: '', weights: '', gpu: '', memory: 24, reserve: 0 });
const choices = signal<Choices | null>(null);

// Sliders go by doublings, with steps between.
const contextOf = (x: number): number => Math.round(2 ** x / 256) * 256 || 256;
const usersOf = (x: number): number => Math.round(2 ** x);

function questionOf(now: typeof asked.value): Record<string, unknown> {
  return {
    model: now.model || undefined,
    context: contextOf(now.context),
    users: usersOf(now.users),
    kv: now.kv || undefined,
    weights_dtype: now.weights || undefined,
    gpu: now.gpu && now.gpu !== 'memory' ? now.gpu : undefined,
    memory: now.gpu === 'memory' ? `${now.memory}GB` : undefined,
    reserve: now.reserve > 0 ? `${now.reserve}GB` : undefined,
  };
}

function commandOf(now: typeof asked.value, plan: Plan): string {
  const parts = ['kvasir plan', `-m ${now.model || plan.model}`, `-c ${contextOf(now.context)}`, `-u ${usersOf(now.users)}`, `--kv "${plan.kv.policy}"`];
  if (now.weights) parts.push(`--weights-dtype ${now.weights}`);
  if (now.gpu === 'memory') parts.push(`--memory ${now.memory}GB`);
  else if (now.gpu) parts.push(`--gpu "${now.gpu}"`);
  if (now.reserve > 0) parts.push(`--reserve ${now.reserve}GB`);
  return parts.join(' ') + ' --json';
}

function Bar({ plan }: { plan: Plan }) {
  const memory = plan.memory_bytes ?? plan.total_bytes;
  const whole = Math.max(memory, plan.total_bytes, 1);
  const free = Math.max(memory - plan.total_bytes, 0);
  const parts = [
    { name: 'weights', size: plan.weights_bytes, kind: 'weights' },
    { name: 'KV cache', size: plan.kv.bytes_total, kind: 'kv' },
    { name: 'runtime', size: plan.runtime_bytes, kind: 'runtime' },
    { name: 'reserve', size: plan.reserve_bytes, kind: 'reserve' },
    { name: 'free', size: free, kind: 'free' },
  ].filter(({ size }) => size > 0);
  return (
    <div class="stack" role="img" aria-label={parts.map(({ name, size }) => `${name} ${bytes(size)}`).join(', ')}>
      <div class="stack-bar">
        {parts.map(({ name, size, kind }) => (
          <span class={`part ${kind}`} style={{ width: `${(100 * size) / whole}%` }} title={`${name} ${bytes(size)}`} />
        ))}
        {plan.memory_bytes !== null && plan.total_bytes > plan.memory_bytes && <span class="limit" style={{ left: `${(100 * plan.memory_bytes) / whole}%` }} />}
      </div>
      <ul class="legend">
        {parts.map(({ name, size, kind }) => (
          <li>
            <i class={`dot part ${kind}`} /> {name} <b>{bytes(size)}</b>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function Planner() {
  const plan = useSignal<Plan | null>(null);
  const raw = useSignal('');
  const failure = useSignal('');
  const now = asked.value;
  const set = (some: Partial<typeof now>) => (asked.value = { ...asked.value, ...some });
  useEffect(() => {
    if (choices.value === null)
      ask('kvasir/plan')
        .then((reply) => reply.json())
        .then((found: Choices) => (choices.value = found))
        .catch(() => undefined);
  }, []);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const text = await (await post('kvasir/plan', questionOf(now), stop.signal)).text();
        raw.value = text;
        plan.value = JSON.parse(text) as Plan;
        failure.value = '';
      } catch (error) {
        if (!stop.signal.aborted) failure.value = error instanceof Error ? error.message : String(error);
      }
    }, 60);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [JSON.stringify(now)]);
  const list = choices.value;
  const found = plan.value;
  const select = (label: string, value: string, options: [string, string][], take: (value: string) => void) => (
    <label>
      <span>{label}</span>
      <select value={value} onChange={(event) => take(event.currentTarget.value)}>
        {options.map(([name, text]) => (
          <option value={name}>{text}</option>
        ))}
      </select>
    </label>
  );
  const slider = (label: string, text: string, value: number, [min, max, step]: [number, number, number], take: (value: number) => void) => (
    <label class="slider">
      <span>
        {label} <output>{text}</output>
      </span>
      <input type="range" aria-label={label} aria-valuetext={text} min={min} max={max} step={step} value={value} onInput={(event) => take(Number(event.currentTarget.value))} />
    </label>
  );
  const verdict = !found ? '' : found.fits === null ? `needs ${bytes(found.total_bytes)}` : found.fits ? `fits: needs ${bytes(found.total_bytes)} of ${bytes(found.memory_bytes!)}` : `does not fit: needs ${bytes(found.total_bytes)}, ${bytes(found.total_bytes - found.memory_bytes!)} too much`;
  return (
    <div class="two">
      <section class="card plan-form" aria-label="Plan">
        <h3>Plan</h3>
        {select('Model', now.model, [['', `${hello.value?.model ?? 'this model'} (served here)`], ...(list?.models ?? []).map((name): [string, string] => [name, name])], (model) => set({ model }))}
        {slider('Context', `${count(contextOf(now.context))} tokens`, now.context, [8, 21, 0.125], (context) => set({ context }))}
        {slider('Users at a time', count(usersOf(now.users)), now.users, [0, 13, 0.125], (users) => set({ users }))}
        {select('KV cache', now.kv, [['', `as served (${hello.value?.kv ?? ''})`], ...(list?.kv ?? []).map((name): [string, string] => [name, name])], (kv) => set({ kv }))}
        {select('Weights', now.weights, [['', 'as the model has them'], ...(list?.weights_dtypes ?? []).map((name): [string, string] => [name, name])], (weights) => set({ weights }))}
        {select('Memory', now.gpu, [['', 'no limit'], ['memory', 'so much memory'], ...(list?.gpus ?? []).map(({ name, memory_bytes }): [string, string] => [name, `${name}, ${bytes(memory_bytes)}`])], (gpu) => set({ gpu }))}
        {now.gpu === 'memory' && slider('Memory', `${count(now.memory)} GB`, now.memory, [1, 512, 1], (memory) => set({ memory }))}
        {slider('Kept free for the rest', now.reserve === 0 ? 'nothing' : `${now.reserve} GB`, now.reserve, [0, 16, 0.5], (reserve) => set({ reserve }))}
      </section>
      <section class="card" aria-label="What it takes" aria-live="polite">
        <h3 class={found?.fits === false ? 'bad' : ''}>{verdict || 'Planning …'}</h3>
        {failure.value && <p class="error">{failure.value}</p>}
        {found && (
          <>
            <Bar plan={found} />
            <dl>
              <dt>weights</dt>
              <dd>
                {count(found.parameters)} parameters, {found.weights_dtype}
              </dd>
              <dt>KV for each token</dt>
              <dd>{count(found.kv.bytes_per_token)} B</dd>
              <dt>KV for each request</dt>
              <dd>
                {bytes(found.kv.bytes_per_request)} at {count(found.context)} tokens
              </dd>
              {found.max_context !== null && (
                <>
                  <dt>longest context</dt>
                  <dd>{found.max_context >= 2 ** 40 ? 'no limit' : `${count(found.max_context)} tokens`}</dd>
                  <dt>most users</dt>
                  <dd>{count(found.max_users!)}</dd>
                </>
              )}
            </dl>
            {found.ways_out.length > 0 && (
              <>
                <h4>Ways out</h4>
                <ol>
                  {found.ways_out.map((way) => (
                    <li>
                      {way.what}
                      {way.saves_bytes > 0 && ` saves ${bytes(way.saves_bytes)}${way.fits ? ', then it fits' : ''}`}
                    </li>
                  ))}
                </ol>
              </>
            )}
            {found.notes.map((note) => (
              <p class="quiet">{note}.</p>
            ))}
            <h4>The same in a terminal</h4>
            <div class="code">
              <figcaption>
                <span>shell</span>
                <CopyButton text={commandOf(now, found)} />
              </figcaption>
              <pre tabIndex={0}>{commandOf(now, found)}</pre>
            </div>
            <details>
              <summary>JSON</summary>
              <pre class="raw" tabIndex={0}>
                {raw.value}
              </pre>
            </details>
          </>
        )}
      </section>
    </div>
  );
}
