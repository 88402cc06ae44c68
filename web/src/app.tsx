// The page: a bar with what matters at a glance, and five views.
import { signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { key, keyRefused, setKey } from './api';
import { BlockMap, CellDetails, ColourChoice, Legend, selectRequest } from './block_map';
import { Charts, Earnings } from './charts';
import { Chat } from './chat';
import { Connect } from './connect';
import { bytes, count, percent, short } from './format';
import { Lanes } from './lanes';
import { blocksVersion, cells, eventCounts, hello, numbers, running, series, seriesVersion, status } from './live';
import { Planner } from './plan';
import { RecentRequests } from './requests';
import { type Choice, choice, choose } from './theme';
import { PrefixTree } from './tree';

const views = { chat: 'Chat', cache: 'Cache', requests: 'Requests', plan: 'Plan', connect: 'Connect' };
type View = keyof typeof views;
const fromHash = (): View => (Object.keys(views).find((name) => `#${name}` === location.hash) as View) ?? 'chat';
const view = signal<View>(fromHash());
addEventListener('hashchange', () => (view.value = fromHash()));

const statusTexts = { connecting: 'connecting', live: 'live', lost: 'no connection', key: 'needs a key', busy: 'too many watch' };

function Figures() {
  seriesVersion.value;
  const now = numbers.value;
  const last = (column: number) => series[column].at(-1) ?? null;
  const rate = last(2);
  const queued = running.value.filter(({ phase }) => phase === 'queued').length;
  return (
    <ul class="figures" aria-label="At a glance">
      <li>
        <b>{count(running.value.length - queued)}</b> running
      </li>
      <li>
        <b>{count(Math.max(queued, queued > 0 ? (now?.waiting ?? 0) : 0))}</b> waiting
      </li>
      <li>
        <b>{rate === null ? '–' : short(rate)}</b> tokens/s
      </li>
      <li title="Of all prompt tokens so far, those that were found in the cache">
        <b>{now ? percent(now.hit, now.queried) : '–'}</b> reused
      </li>
    </ul>
  );
}

function KeyForm() {
  const text = useSignal('');
  const remember = useSignal(false);
  return (
    <form
      class="card key"
      onSubmit={(event) => {
        event.preventDefault();
        setKey(text.value.trim(), remember.value);
      }}
    >
      <h2>This server asks for a key</h2>
      <p>Whoever runs it makes one with <code>kvasir keys add NAME</code>. Without it this page shows nothing.</p>
      <label>
        <span>Key</span>
        <input type="password" value={text.value} autocomplete="off" spellcheck={false} onInput={(event) => (text.value = event.currentTarget.value)} />
      </label>
      <label class="inline">
        <input type="checkbox" checked={remember.value} onChange={(event) => (remember.value = event.currentTarget.checked)} />
        <span>remember it in this browser</span>
      </label>
      {keyRefused.value && key.value && <p class="error" role="alert">This key is not known here.</p>}
      <button type="submit" disabled={!text.value.trim()}>
        Enter
      </button>
    </form>
  );
}

const happenings = { taken: 'taken', hit: 'found again', published: 'filled', evicted: 'evicted', moved: 'packed', swapped: 'swapped out', restored: 'swapped in' };

function Happenings() {
  return (
    <ul class="legend happenings" aria-label="What happened to blocks since this page was opened">
      {Object.entries(happenings).map(([kind, name]) => (
        <li data-kind={kind}>
          <i class={`dot f-${kind}`} /> {name} <b>{short(eventCounts.value[kind] ?? 0)}</b>
        </li>
      ))}
    </ul>
  );
}

// Requests that are paused with their blocks in host memory: a cell for each block, beside the map of the device's.
function Swapped() {
  const paused = running.value.filter(({ phase }) => phase === 'swapped');
  if (paused.length === 0) return null;
  return (
    <ul class="swapped" aria-label="Blocks in host memory">
      {paused.map((one) => (
        <li>
          <button type="button" class="link" onClick={() => selectRequest(one.id)} aria-label={`Request ${one.id} is paused, with ${one.blocks} blocks in host memory`}>
            <i style={{ width: `${Math.min(one.blocks, 120) * 7}px` }} /> {one.id}
          </button>
        </li>
      ))}
    </ul>
  );
}

function MapCard({ most, details }: { most: number; details: boolean }) {
  blocksVersion.value;
  const now = numbers.value;
  return (
    <section class="card" aria-label="Blocks">
      <div class="row wrap">
        <h3>
          KV cache <small>{short(cells.size)} blocks{now?.swapped_bytes ? `, ${bytes(now.swapped_bytes)} swapped out` : ''}</small>
        </h3>
        <span class="grow" />
        <ColourChoice />
      </div>
      <Legend />
      <BlockMap most={most} />
      <Swapped />
      <Happenings />
      {details && <CellDetails />}
    </section>
  );
}

function Shares() {
  const now = numbers.value;
  const names = new Map(hello.value?.tenants ?? []);
  if (!now || now.tenants.length === 0 || hello.value?.open) return null;
  const all = Math.max(hello.value?.kv_bytes ?? 0, 1);
  return (
    <section class="card" aria-label="Tenants">
      <h3>
        Tenants <small>of {bytes(all)}</small>
      </h3>
      <div class="scroll" tabIndex={0}>
        <table>
          <thead>
            <tr>
              {['tenant', 'has', '', 'prompt tokens', 'reused', 'evicted'].map((name) => (
                <th scope="col">{name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {now.tenants.map(([id, , size, queried, hit, evicted]) => (
              <tr>
                <td>{names.get(id) ?? id}</td>
                <td>{bytes(size)}</td>
                <td>
                  <span class="meter wide" aria-hidden="true">
                    <span style={{ width: `${(100 * size) / all}%` }} />
                  </span>
                </td>
                <td>{short(queried)}</td>
                <td>{percent(hit, queried)}</td>
                <td>{short(evicted)} blocks</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Views() {
  switch (view.value) {
    case 'chat':
      return (
        <div class="side">
          <Chat />
          <div class="stackup beside">
            <MapCard most={260} details={false} />
            <section class="card" aria-label="Requests over time">
              <h3>Requests</h3>
              <Lanes rows={10} />
            </section>
          </div>
        </div>
      );
    case 'cache':
      return (
        <div class="stackup">
          <MapCard most={460} details />
          <Shares />
          <PrefixTree />
        </div>
      );
    case 'requests':
      return (
        <div class="stackup">
          <section class="card" aria-label="Requests over time">
            <h3>Over time</h3>
            <Lanes rows={12} />
          </section>
          <RecentRequests />
          <Charts />
          <Earnings />
        </div>
      );
    case 'plan':
      return hello.value && !hello.value.plans ? <p>This server has no planner.</p> : <Planner />;
    case 'connect':
      return <Connect />;
  }
}

const nextChoice: Record<Choice, Choice> = { system: 'light', light: 'dark', dark: 'system' };

export function App() {
  useEffect(() => {
    if (location.hash !== `#${view.value}`) history.replaceState(null, '', `#${view.value}`);
  }, [view.value]);
  const locked = status.value === 'key';
  return (
    <>
      <a class="skip" href="#main">
        To the content
      </a>
      <header>
        <h1>
          <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
            <path class="l1" d="M4 4h6v6H4zM4 13h6v6H4zM4 22h6v6H4z" />
            <path class="l2" d="M13 13h6v6h-6zM22 4h6v6h-6zM22 22h6v6h-6z" />
          </svg>
          Kvasir
        </h1>
        <span class="model" title="The model">{hello.value?.model ?? ''}</span>
        <span class={`status ${status.value}`} role="status">
          {statusTexts[status.value]}
        </span>
        <nav class="tabs" aria-label="Views">
          {Object.entries(views).map(([name, text]) => (
            <a href={`#${name}`} aria-current={view.value === name ? 'page' : undefined}>
              {text}
            </a>
          ))}
        </nav>
        <Figures />
        <button type="button" class="ghost small" onClick={() => choose(nextChoice[choice.value])} aria-label={`Theme: ${choice.value}`}>
          {choice.value === 'system' ? '◐' : choice.value === 'light' ? '☀' : '☾'}
        </button>
        {key.value && !locked && (
          <button type="button" class="ghost small" onClick={() => setKey('', false)}>
            Forget key
          </button>
        )}
      </header>
      <main id="main" tabIndex={-1}>
        {locked ? <KeyForm /> : <Views />}
      </main>
    </>
  );
}
