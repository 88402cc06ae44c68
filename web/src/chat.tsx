// Chat, and beside each answer the cache's own story of its prompt.
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { type Explanation, type Message, answering, change, edit, messages, noSettings, regenerate, send, settings, startOver, stop } from './chat_model';
import { count, percent, reasons, seconds } from './format';
import { hello } from './live';
import { CopyButton, Markdown } from './markdown';

// What was reused is shaded; the token where that ended is marked.
function PromptTokens({ story, pieces }: { story: Explanation; pieces: string[] }) {
  const reused = pieces.slice(0, story.reused_tokens).join('');
  const at = Math.max(story.stopped_at, story.reused_tokens);
  const between = pieces.slice(story.reused_tokens, at).join('');
  const rest = pieces.slice(at + 1).join('');
  return (
    <div class="tokens" tabIndex={0} role="group" aria-label="The prompt as the model read it: what was reused is shaded">
      {reused && <mark class="reused">{reused}</mark>}
      {between && <span>{between}</span>}
      {at < pieces.length && (
        <mark class="stopped" title={reasons[story.reason] ?? story.reason}>
          {pieces[at]}
        </mark>
      )}
      {rest && <span class="computed">{rest}</span>}
    </div>
  );
}

function Story({ message, earlier }: { message: Message; earlier: Message[] }) {
  const { story, pieces, firstToken } = message;
  if (!story) return null;
  const computed = story.prompt_tokens - story.reused_tokens;
  // By what this page saw of prompts that were computed: seconds for each token.
  const seen = [...earlier, message].filter((one) => one.story && one.firstToken && one.story.prompt_tokens - one.story.reused_tokens >= 8);
  const rates = seen.map((one) => one.firstToken! / (one.story!.prompt_tokens - one.story!.reused_tokens));
  const saved = rates.length > 0 ? Math.min(...rates) * story.reused_tokens : undefined;
  return (
    <details class="story" open={message.state === 'done' && story.reused_tokens > 0}>
      <summary>
        <span class="bar" aria-hidden="true">
          <span style={{ width: `${(100 * story.reused_tokens) / Math.max(story.prompt_tokens, 1)}%` }} />
        </span>
        <span>
          <b>{percent(story.reused_tokens, story.prompt_tokens)}</b> of the prompt was reused: {count(story.reused_tokens)} of {count(story.prompt_tokens)} tokens
        </span>
      </summary>
      <p class="why">
        {story.explanation}.{' '}
        {story.reused_tokens > 0 && saved !== undefined && firstToken !== undefined && <>It saved about {seconds(saved)} before the first token; {count(computed)} tokens were computed.</>}
      </p>
      {pieces ? <PromptTokens story={story} pieces={pieces} /> : null}
    </details>
  );
}

function Answer({ message, last, earlier }: { message: Message; last: boolean; earlier: Message[] }) {
  const spent = (message.seconds ?? 0) - (message.firstToken ?? 0);
  const tokens = message.answerTokens ?? 0;
  // Where all came at once, with the first: over the whole time.
  const rate = tokens < 2 ? undefined : spent > 0.05 ? (tokens - 1) / spent : tokens / Math.max(message.seconds ?? 1, 0.001);
  const busy = message.state === 'waiting' || message.state === 'writing';
  return (
    <article class="answer" aria-label="Answer" aria-busy={busy}>
      {message.thoughts && (
        <details class="thoughts" open={busy && !message.text}>
          <summary>What it thought</summary>
          <Markdown text={message.thoughts} />
        </details>
      )}
      {message.text ? <Markdown text={message.text} /> : busy && <p class="dots" aria-label="The answer is on its way"><i /><i /><i /></p>}
      {message.error && <p class="error" role="alert">{message.error}</p>}
      <Story message={message} earlier={earlier} />
      {!busy && (
        <footer>
          <span class="numbers">
            {message.firstToken !== undefined && <span title="Time to the first token">first token {seconds(message.firstToken)}</span>}
            {rate !== undefined && <span>{rate.toFixed(rate < 100 ? 1 : 0)} tokens/s</span>}
            {message.answerTokens ? <span>{count(message.answerTokens)} tokens</span> : null}
            {message.state === 'stopped' && <span>stopped</span>}
          </span>
          <CopyButton text={message.text} />
          {last && (
            <button type="button" class="ghost small" onClick={regenerate} disabled={answering.value}>
              Regenerate
            </button>
          )}
        </footer>
      )}
    </article>
  );
}

function Question({ message, index }: { message: Message; index: number }) {
  const editing = useSignal(false);
  const text = useSignal(message.text);
  if (editing.value) {
    return (
      <form
        class="question editing"
        onSubmit={(event) => {
          event.preventDefault();
          editing.value = false;
          edit(index, text.value);
        }}
      >
        <label>
          <span class="hidden">Your message</span>
          <textarea rows={3} value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} ref={(element) => element?.focus()} />
        </label>
        <div class="row end">
          <button type="button" class="ghost small" onClick={() => (editing.value = false)}>
            Cancel
          </button>
          <button type="submit" class="small">
            Ask again
          </button>
        </div>
      </form>
    );
  }
  return (
    <article class="question" aria-label="You">
      <p>{message.text}</p>
      <button type="button" class="ghost small" disabled={answering.value} onClick={() => ((text.value = message.text), (editing.value = true))}>
        Edit
      </button>
    </article>
  );
}

function Settings() {
  const now = settings.value;
  const field = (name: keyof typeof noSettings, label: string, hint: string, mode: 'decimal' | 'numeric' | 'text' = 'decimal') => (
    <label>
      <span>{label}</span>
      <input value={now[name]} placeholder={hint} inputMode={mode} list={name === 'kv' ? 'policies' : undefined} autocomplete="off" spellcheck={false} onInput={(event) => change({ [name]: event.currentTarget.value })} />
    </label>
  );
  return (
    <div class="settings">
      <label class="wide">
        <span>System prompt</span>
        <textarea rows={2} value={now.system} placeholder="none" onInput={(event) => change({ system: event.currentTarget.value })} />
      </label>
      {field('temperature', 'Temperature', "the model's own")}
      {field('topP', 'Top p', "the model's own")}
      {field('topK', 'Top k', "the model's own", 'numeric')}
      {field('maxTokens', 'Most tokens', 'no limit', 'numeric')}
      {field('seed', 'Seed', 'a new one each time', 'numeric')}
      <datalist id="policies">{Array.isArray(hello.value?.kv_allowed) && hello.value.kv_allowed.map((policy) => <option value={String(policy)} />)}</datalist>
      {field('kv', 'KV policy', hello.value?.kv ?? "the server's", 'text')}
      <button type="button" class="ghost small" onClick={() => change(noSettings)}>
        Reset
      </button>
    </div>
  );
}

const examples = ['Tell me a story about a fox and a crow.', 'Tell me a story about a fox and a bear.', 'Once upon a time there was an old mill.'];

export function Chat() {
  const draft = useSignal('');
  const open = useSignal(false);
  const log = useRef<HTMLDivElement>(null);
  const list = messages.value;
  const length = list.reduce((sum, message) => sum + message.text.length, list.length);
  useEffect(() => {
    const element = log.current;
    if (element && element.scrollHeight - element.scrollTop - element.clientHeight < 240) element.scrollTop = element.scrollHeight;
  }, [length]);
  const submit = () => {
    if (answering.value) return;
    const text = draft.value;
    draft.value = '';
    send(text);
    requestAnimationFrame(() => log.current && (log.current.scrollTop = log.current.scrollHeight));
  };
  return (
    <section class="chat card" aria-label="Chat">
      <div class="log" ref={log} role="log" aria-live="polite" tabIndex={0} aria-label="Conversation">
        {list.length === 0 && (
          <div class="empty">
            <h2>Ask, and watch the cache answer for itself</h2>
            <p>Beside each answer stands which of your tokens were reused, where that stopped, and why. Ask two questions that begin alike.</p>
            <div class="examples">
              {examples.map((text) => (
                <button type="button" class="ghost" onClick={() => send(text)}>
                  {text}
                </button>
              ))}
            </div>
          </div>
        )}
        {list.map((message, i) =>
          message.role === 'user' ? <Question key={`${i}${message.text}`} message={message} index={i} /> : <Answer key={i} message={message} last={i === list.length - 1} earlier={list.slice(0, i)} />,
        )}
      </div>
      {open.value && <Settings />}
      <form
        class="ask"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <label>
          <span class="hidden">Message</span>
          <textarea
            rows={2}
            value={draft.value}
            placeholder="Write a message. Enter sends, Shift+Enter begins a line."
            onInput={(event) => (draft.value = event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
              event.preventDefault();
              submit();
            }}
          />
        </label>
        <div class="row">
          <button type="button" class="ghost small" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
            Settings
          </button>
          <button type="button" class="ghost small" disabled={list.length === 0} onClick={startOver}>
            New chat
          </button>
          <span class="grow" />
          {answering.value ? (
            <button type="button" class="danger" onClick={stop}>
              Stop
            </button>
          ) : (
            <button type="submit" disabled={!draft.value.trim()}>
              Send
            </button>
          )}
        </div>
      </form>
    </section>
  );
}
