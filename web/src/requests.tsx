// The last requests, and of one why its prompt was reused so far and no further.
import { signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { ask } from './api';
import { highlighted, selectRequest, selectedRequest } from './block_map';
import { clock, count, percent, reasons, seconds } from './format';
import { type Finished, finished, hello, running } from './live';

interface Record {
  cache: { explanation: string; reason: string; stopped_at: number; stopped_at_text: string | null; message: { index: number; role: string } | null };
  tasks: { kv: string; queue_seconds: number; computed_tokens: number; steps: number; chunks: { position: number; tokens: number; seconds: number }[]; pauses: { how: string; kept_tokens: number; of_tokens: number }[] }[];
}

export const opened = signal<Finished | null>(null);

function Details({ of }: { of: Finished }) {
  const record = useSignal<Record | null | 'others'>(null);
  useEffect(() => {
    let current = true;
    record.value = null;
    ask(`kvasir/requests/${encodeURIComponent(of.id)}`)
      .then((reply) => reply.json())
      .then((found: Record) => current && (record.value = found))
      .catch(() => current && (record.value = 'others'));
    return () => {
      current = false;
    };
  }, [of.id]);
  const known = record.value;
  const full = known !== null && known !== 'others' ? known : null;
  const task = full?.tasks[0];
  return (
    <aside class="card request-details" aria-label="Request" aria-live="polite">
      <div class="row">
        <h3>Request {of.tasks[0]}</h3>
        <span class="grow" />
        <button type="button" class="ghost small" onClick={() => ((opened.value = null), selectRequest(null))}>
          Close
        </button>
      </div>
      <p class="why">{full ? `${full.cache.explanation}.` : `${count(of.reused_tokens)} of ${count(of.prompt_tokens)} prompt tokens reused${of.reason ? `: ${reasons[of.reason] ?? of.reason}` : ''}.`}</p>
      <dl>
        <dt>id</dt>
        <dd class="mono">{of.id}</dd>
        <dt>asked</dt>
        <dd>
          {clock(of.created)}, {of.path}
        </dd>
        <dt>prompt</dt>
        <dd>
          {count(of.prompt_tokens)} tokens, {count(of.computed_tokens)} computed in all
        </dd>
        <dt>answer</dt>
        <dd>
          {count(of.answer_tokens)} tokens, ended by {of.finish_reasons.join(', ')}
        </dd>
        <dt>policy</dt>
        <dd>{of.kv ?? '–'}</dd>
        <dt>times</dt>
        <dd>
          waited {seconds(of.queue_seconds ?? 0)}, first token {seconds(of.first_token_seconds)}, in all {seconds(of.seconds)}
        </dd>
        {full?.cache.stopped_at_text != null && (
          <>
            <dt>stopped at</dt>
            <dd>
              token {count(full.cache.stopped_at)}, <code>{JSON.stringify(full.cache.stopped_at_text)}</code>
              {full.cache.message && `, in message ${full.cache.message.index} (${full.cache.message.role})`}
            </dd>
          </>
        )}
        {task && task.chunks.length > 0 && (
          <>
            <dt>steps of the prompt</dt>
            <dd>{task.chunks.slice(0, 12).map((chunk) => `${count(chunk.tokens)} at ${count(chunk.position)} (${seconds(chunk.seconds)})`).join(', ')}</dd>
          </>
        )}
        {task && task.pauses.length > 0 && (
          <>
            <dt>pauses</dt>
            <dd>{task.pauses.map((pause) => `${pause.how}, kept ${count(pause.kept_tokens)} of ${count(pause.of_tokens)}`).join('; ')}</dd>
          </>
        )}
        <dt>blocks</dt>
        <dd>{highlighted.value.size > 0 ? `${count(highlighted.value.size)}, outlined in the block map` : 'none that this page saw'}</dd>
      </dl>
      {known === 'others' && <p class="quiet">Its record is its own tenant's.</p>}
    </aside>
  );
}

const open = (one: Finished) => {
  opened.value = one;
  void selectRequest(one.tasks[0] ?? null);
};

export function RecentRequests() {
  const list = finished.value;
  const rate = (one: Finished) => (one.answer_tokens > 1 && one.seconds > one.first_token_seconds ? (one.answer_tokens - 1) / (one.seconds - one.first_token_seconds) : null);
  const several = (hello.value?.tenants.length ?? 1) > 1;
  const tenant = (id: number) => hello.value?.tenants.find(([one]) => one === id)?.[1] ?? id;
  return (
    <>
      {opened.value && <Details of={opened.value} />}
      <section class="card" aria-label="Requests">
        <h3>
          Requests <small>{running.value.length > 0 ? `${count(running.value.length)} now, ` : ''}the last {count(list.length)}</small>
        </h3>
        <div class="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                {['request', 'asked', ...(several ? ['tenant'] : []), 'prompt', 'reused', 'why no more', 'answer', 'first token', 'tokens/s', 'end'].map((name) => (
                  <th scope="col">{name}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {running.value.map((one) => (
                <tr class={selectedRequest.value === one.id ? 'chosen' : ''}>
                  <td>
                    <button type="button" class="link" onClick={() => selectRequest(one.id)}>
                      {one.id}
                    </button>
                  </td>
                  <td>now</td>
                  {several && <td>{tenant(one.tenant)}</td>}
                  <td>{count(one.prompt)}</td>
                  <td>{percent(one.reused, one.prompt)}</td>
                  <td class="quiet">{one.phase}</td>
                  <td>{count(one.answer)}</td>
                  <td />
                  <td />
                  <td />
                </tr>
              ))}
              {list.slice(0, 60).map((one) => (
                <tr class={opened.value?.id === one.id ? 'chosen' : ''}>
                  <td>
                    <button type="button" class="link" aria-label={`Explain request ${one.tasks[0] ?? one.id}`} onClick={() => open(one)}>
                      {one.tasks[0] ?? '–'}
                    </button>
                  </td>
                  <td>{clock(one.created)}</td>
                  {several && <td>{tenant(one.tenant)}</td>}
                  <td>{count(one.prompt_tokens)}</td>
                  <td>
                    <span class="meter" aria-hidden="true">
                      <span style={{ width: percent(one.reused_tokens, one.prompt_tokens) }} />
                    </span>{' '}
                    {percent(one.reused_tokens, one.prompt_tokens)}
                  </td>
                  <td>{one.reason ? (reasons[one.reason] ?? one.reason) : ''}</td>
                  <td>{count(one.answer_tokens)}</td>
                  <td>{seconds(one.first_token_seconds)}</td>
                  <td>{rate(one)?.toFixed(0) ?? '–'}</td>
                  <td>{one.finish_reasons[0]}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {list.length === 0 && running.value.length === 0 && <p class="quiet">None yet. Ask something in the chat, or with one of the snippets under Connect.</p>}
        </div>
      </section>
    </>
  );
}
