// How to ask this server from elsewhere, and how it runs.
import { useSignal } from '@preact/signals';
import { key, urlOf } from './api';
import { bytes, clock, count, seconds } from './format';
import { hello } from './live';
import { CopyButton } from './markdown';

function snippets(base: string, model: string, locked: boolean): Record<string, string> {
  const secret = locked ? '$KVASIR_KEY' : 'none';
  return {
    curl: `curl ${base}v1/chat/completions \\\n  -H 'content-type: application/json' \\${locked ? `\n  -H "authorization: Bearer ${secret}" \\` : ''}\n  -d '{"model": "${model}", "explain": true, "messages": [{"role": "user", "content": "Tell me a story about a fox."}]}'`,
    Python: `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${base}v1", api_key=${locked ? 'os.environ["KVASIR_KEY"]' : '"none"'})\nanswer = client.chat.completions.create(\n    model="${model}",\n    messages=[{"role": "user", "content": "Tell me a story about a fox."}],\n    extra_body={"explain": True},\n)\nprint(answer.choices[0].message.content)\nprint(answer.model_extra["kvasir"]["explanation"])`,
    JavaScript: `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: '${base}v1', apiKey: ${locked ? 'process.env.KVASIR_KEY' : "'none'"} });\nconst answer = await client.chat.completions.create({\n  model: '${model}',\n  messages: [{ role: 'user', content: 'Tell me a story about a fox.' }],\n  explain: true,\n});\nconsole.log(answer.choices[0].message.content);\nconsole.log(answer.kvasir.explanation);`,
    Anthropic: `curl ${base}v1/messages \\\n  -H 'content-type: application/json' \\${locked ? `\n  -H "x-api-key: ${secret}" \\` : ''}\n  -d '{"model": "${model}", "max_tokens": 100, "messages": [{"role": "user", "content": "Tell me a story about a fox."}]}'`,
    Ollama: `OLLAMA_HOST=${base.replace(/\/$/, '')} ollama run ${model}`,
  };
}

export function Connect() {
  const chosen = useSignal('curl');
  const now = hello.value;
  const all = snippets(urlOf('/'), now?.model ?? 'kvasir', key.value !== '');
  return (
    <div class="two">
      <section class="card" aria-label="Snippets">
        <h3>Ask from elsewhere</h3>
        <div class="tabs small" role="tablist" aria-label="Language">
          {Object.keys(all).map((name) => (
            <button type="button" role="tab" aria-selected={chosen.value === name} aria-controls="snippet" onClick={() => (chosen.value = name)}>
              {name}
            </button>
          ))}
        </div>
        <figure class="code" id="snippet" role="tabpanel" aria-label={chosen.value}>
          <figcaption>
            <span>{chosen.value}</span>
            <CopyButton text={all[chosen.value]} />
          </figcaption>
          <pre tabIndex={0}>
            <code>{all[chosen.value]}</code>
          </pre>
        </figure>
        <p class="quiet">OpenAI's, Anthropic's and Ollama's APIs are answered alike. With <code>"explain": true</code> the cache says why.</p>
      </section>
      <section class="card" aria-label="Configuration">
        <h3>What runs here</h3>
        {now && (
          <dl>
            <dt>kvasir</dt>
            <dd>
              {now.version}, up {seconds(Date.now() / 1000 - now.started)}, since {clock(now.started)}
            </dd>
            <dt>model</dt>
            <dd>
              {now.model}, {count(now.parameters)} parameters, {bytes(now.weight_bytes)}
            </dd>
            <dt>device</dt>
            <dd>{now.device}</dd>
            <dt>context</dt>
            <dd>{count(now.context)} tokens at most</dd>
            <dt>KV cache</dt>
            <dd>
              {bytes(now.kv_bytes)}, policy {now.kv}, blocks of {now.block_tokens} tokens, {now.eviction} eviction
            </dd>
            <dt>requests may ask for</dt>
            <dd>{Array.isArray(now.kv_allowed) ? now.kv_allowed.join('; ') || 'no other policy' : String(now.kv_allowed)}</dd>
            <dt>at once</dt>
            <dd>
              {count(now.max_sequences)} requests, {count(now.max_batch_tokens)} tokens in a step
            </dd>
            <dt>you are</dt>
            <dd>{now.open ? 'anybody: no keys are asked for' : `${now.caller}${now.operator ? ', an operator' : ''}`}</dd>
          </dl>
        )}
      </section>
    </div>
  );
}
