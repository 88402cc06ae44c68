// Numbers as people read them.

export function count(n: number): string {
  return Math.round(n).toLocaleString('en');
}

export function short(n: number): string {
  if (n < 10_000) return count(n);
  const units = ['', 'k', 'M', 'G', 'T'];
  const i = Math.min(Math.floor(Math.log10(n) / 3), units.length - 1);
  return `${(n / 1000 ** i).toPrecision(3)}${units[i]}`;
}

export function bytes(n: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  const i = n < 1 ? 0 : Math.min(Math.floor(Math.log10(n) / 3), units.length - 1);
  const value = n / 1000 ** i;
  return `${i === 0 || value >= 100 ? Math.round(value) : value.toFixed(value >= 10 ? 1 : 2)} ${units[i]}`;
}

export function seconds(s: number): string {
  if (!Number.isFinite(s)) return '–';
  if (s < 0.001) return `${Math.round(s * 1e6)} µs`;
  if (s < 1) return `${Math.round(s * 1e3)} ms`;
  if (s < 90) return `${s.toFixed(s < 10 ? 2 : 1)} s`;
  if (s < 5400) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${Math.round((100 * part) / whole)}%` : '–';
}

export function clock(unixSeconds: number): string {
  return new Date(unixSeconds * 1000).toLocaleTimeString();
}

// What the cache says of why a prompt was not reused further, for people.
export const reasons: Record<string, string> = {
  whole_prompt: 'all of it was cached',
  short_tail: 'the rest does not fill a block',
  diverged: 'a cached text goes on differently there',
  evicted: 'it was cached, and made room for something else',
  window_dropped: 'a layer with a window no longer holds it',
  state_before: 'the nearest kept state lies before it',
  never_seen: 'nothing was ever cached after this point',
  other_policy: 'it is cached, under another KV policy',
  private: 'under this policy a request keeps its cache to itself',
  off: 'the cache is off',
};
