// Requests to the server that the page came from, with the key if there is one. No other host is ever asked.
import { signal } from '@preact/signals';

const stored = () => sessionStorage.getItem('kvasir-key') ?? localStorage.getItem('kvasir-key') ?? '';

export const key = signal(stored());
export const keyRefused = signal(false);

export function setKey(value: string, remember: boolean): void {
  sessionStorage.removeItem('kvasir-key');
  localStorage.removeItem('kvasir-key');
  if (value) (remember ? localStorage : sessionStorage).setItem('kvasir-key', value);
  keyRefused.value = false;
  key.value = value;
}

export const urlOf = (path: string): string => new URL(path.replace(/^\//, ''), document.baseURI).href;

export class ApiFailure extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfter: number,
  ) {
    super(message);
  }
}

export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (key.value) headers.set('authorization', `Bearer ${key.value}`);
  if (init.body) headers.set('content-type', 'application/json');
  const response = await fetch(urlOf(path), { ...init, headers });
  if (response.ok) return response;
  if (response.status === 401) keyRefused.value = true;
  let message = `the server answered ${response.status}`;
  try {
    const body = await response.json();
    message = body.error?.message ?? message;
  } catch {
    // not JSON: the status says enough
  }
  throw new ApiFailure(response.status, message, Number(response.headers.get('retry-after') ?? 0));
}

export const post = (path: string, body: unknown, signal?: AbortSignal): Promise<Response> => ask(path, { method: 'POST', body: JSON.stringify(body), signal });

// The data of server-sent events, one after the other, until the stream ends.
export async function* events(response: Response): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split('\n\n');
      rest = parts.pop()!;
      for (const part of parts) {
        const data = part
          .split('\n')
          .filter((line) => line.startsWith('data: '))
          .map((line) => line.slice(6))
          .join('\n');
        if (data) yield data;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
