// The block map: every block a cell. What changed is drawn anew, on one canvas; what flashes or is pointed at, on another
// above it.
import { signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { ask } from './api';
import { textOf } from './block_text';
import { count, seconds } from './format';
import { type Cell, Sight, blocksVersion, cells, dirty, flashes, groups, hello, layoutVersion, pageNow, running, sightNames, touched } from './live';
import { scheme } from './theme';

type ColourBy = 'state' | 'tenant' | 'policy' | 'age';
export const colourBy = signal<ColourBy>('state');
export const selectedCell = signal<number | null>(null);
export const selectedRequest = signal<number | null>(null);
export const highlighted = signal<Set<number>>(new Set());

const flashSeconds = 0.9;
const palette = () => {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return {
    sights: ['transparent', of('--b-free'), of('--b-use'), of('--b-shared'), of('--b-cached'), of('--b-pinned')],
    hues: [1, 2, 3, 4, 5, 6, 7, 8].map((i) => of(`--h${i}`)),
    flashes: { taken: of('--f-taken'), hit: of('--f-hit'), published: of('--f-published'), evicted: of('--f-evicted'), moved: of('--f-moved'), swapped: of('--f-swapped'), restored: of('--f-restored') } as Record<string, string>,
    text: of('--text'),
    mark: of('--accent'),
    old: of('--b-cached'),
    young: of('--b-use'),
  };
};
type Palette = ReturnType<typeof palette>;

const ages = [1, 10, 60, 300, 1800];
export const ageNames = ['under 1 s', 'under 10 s', 'under 1 min', 'under 5 min', 'under 30 min', 'older'];
const ageOf = (cell: Cell, now: number): number => {
  if (cell.sight === Sight.inUse || cell.sight === Sight.shared) return 0;
  const age = now - cell.used;
  const i = ages.findIndex((bound) => age < bound);
  return i < 0 ? ages.length : i;
};

function colourOf(cell: Cell, by: ColourBy, colours: Palette, now: number): string {
  if (cell.sight === Sight.free || by === 'state') return colours.sights[cell.sight];
  if (by === 'age') return colours.hues[ageOf(cell, now)];
  const n = by === 'tenant' ? Math.max(cell.tenant, 0) : cell.group;
  return colours.hues[n % colours.hues.length];
}

interface Layout {
  order: number[];
  place: Map<number, number>;
  columns: number;
  size: number;
  gap: number;
  width: number;
  height: number;
}

function layOut(width: number, most: number): Layout {
  const order = [...cells.keys()].sort((a, b) => cells.get(a)!.group - cells.get(b)!.group || a - b);
  const place = new Map(order.map((id, i) => [id, i]));
  const n = Math.max(order.length, 1);
  let size = Math.max(2, Math.min(22, Math.floor(Math.sqrt((width * most) / n))));
  while (size > 2 && Math.ceil(n / Math.floor(width / size)) * size > most) --size;
  const columns = Math.max(1, Math.floor(width / size));
  return { order, place, columns, size, gap: size >= 9 ? 2 : size >= 4 ? 1 : 0, width, height: Math.ceil(n / columns) * size };
}

class Painter {
  layout: Layout = layOut(300, 200);
  colours = palette();
  private seenLayout = -1;
  private drawn = '';

  constructor(
    private base: HTMLCanvasElement,
    private top: HTMLCanvasElement,
  ) {}

  private context(canvas: HTMLCanvasElement, fresh: boolean): CanvasRenderingContext2D {
    const ratio = window.devicePixelRatio || 1;
    const { width, height } = this.layout;
    const context = canvas.getContext('2d')!;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    } else if (fresh) {
      context.clearRect(0, 0, canvas.width, canvas.height);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
  }

  xy(i: number): [number, number] {
    return [(i % this.layout.columns) * this.layout.size, Math.floor(i / this.layout.columns) * this.layout.size];
  }

  private fill(context: CanvasRenderingContext2D, id: number, now: number): void {
    const i = this.layout.place.get(id);
    const cell = cells.get(id);
    if (i === undefined || !cell) return;
    const [x, y] = this.xy(i);
    const side = this.layout.size - this.layout.gap;
    context.clearRect(x, y, this.layout.size, this.layout.size);
    context.fillStyle = colourOf(cell, colourBy.value, this.colours, now);
    context.fillRect(x, y, side, side);
  }

  // Whether something still moves.
  paint(width: number, most: number, hover: number | null): boolean {
    const now = pageNow();
    const how = `${width} ${most} ${colourBy.value} ${scheme.value} ${window.devicePixelRatio} ${colourBy.value === 'age' ? Math.floor(now) : 0}`;
    if (this.seenLayout !== layoutVersion || this.drawn !== how) {
      this.seenLayout = layoutVersion;
      this.drawn = how;
      this.colours = palette();
      this.layout = layOut(width, most);
      const context = this.context(this.base, true);
      for (const id of this.layout.order) this.fill(context, id, now);
    } else if (dirty.size > 0) {
      const context = this.context(this.base, false);
      for (const id of dirty) this.fill(context, id, now);
    }
    dirty.clear();
    this.paintTop(now, hover);
    return flashes.size > 0;
  }

  private paintTop(now: number, hover: number | null): void {
    const context = this.context(this.top, true);
    const side = this.layout.size - this.layout.gap;
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    for (const [id, flash] of flashes) {
      const age = (now - flash.at) / flashSeconds;
      const i = this.layout.place.get(id);
      if (age >= 1 || i === undefined) {
        flashes.delete(id);
        continue;
      }
      const [x, y] = this.xy(i);
      context.globalAlpha = calm ? 0.5 : 1 - age;
      context.fillStyle = this.colours.flashes[flash.kind] ?? this.colours.text;
      const grow = calm ? 0 : Math.min(2, side / 4) * (1 - age);
      context.fillRect(x - grow, y - grow, side + 2 * grow, side + 2 * grow);
    }
    context.globalAlpha = 1;
    const outline = (id: number, colour: string, width: number) => {
      const i = this.layout.place.get(id);
      if (i === undefined) return;
      const [x, y] = this.xy(i);
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(x - 0.5, y - 0.5, side + 1, side + 1);
    };
    for (const id of highlighted.value) outline(id, this.colours.text, 1.5);
    if (selectedCell.value !== null) outline(selectedCell.value, this.colours.mark, 2.5);
    if (hover !== null) outline(hover, this.colours.text, 2);
  }

  at(x: number, y: number): number | null {
    const column = Math.floor(x / this.layout.size);
    if (column < 0 || column >= this.layout.columns || y < 0) return null;
    return this.layout.order[Math.floor(y / this.layout.size) * this.layout.columns + column] ?? null;
  }

  neighbour(id: number | null, by: 'left' | 'right' | 'up' | 'down'): number | null {
    const { order, place, columns } = this.layout;
    const i = id === null ? -1 : (place.get(id) ?? -1);
    const step = { left: -1, right: 1, up: -columns, down: columns }[by];
    return order[i < 0 ? 0 : Math.max(0, Math.min(order.length - 1, i + step))] ?? null;
  }
}

const tenantName = (id: number): string => (id < 0 ? 'everybody' : (hello.value?.tenants.find(([one]) => one === id)?.[1] ?? `tenant ${id}`));

export function describeCell(id: number): string {
  const cell = cells.get(id);
  if (!cell) return '';
  const now = pageNow();
  const parts = [sightNames[cell.sight]];
  if (cell.refs > 1) parts.push(`${cell.refs} holders`);
  if (cell.place >= 0) parts.push(`tokens ${cell.place * (hello.value?.block_tokens ?? 16)} and on`);
  if (cell.sight === Sight.cached) parts.push(`last used ${seconds(now - cell.used)} ago`);
  if (cell.change) parts.push(cell.change);
  return parts.join(' · ');
}

export async function selectRequest(id: number | null): Promise<void> {
  selectedRequest.value = id;
  const known = new Set(id === null ? [] : touched.get(id));
  if (id !== null && running.value.some((one) => one.id === id)) {
    const reply = await ask(`kvasir/running/${id}`).catch(() => null);
    if (reply) for (const cell of ((await reply.json()) as { cells: number[] }).cells) known.add(cell);
  }
  if (selectedRequest.value === id) highlighted.value = known;
}

interface BlockDetails {
  text: string | null;
  tokens: number;
  requests: number[];
}

export function CellDetails() {
  const details = useSignal<BlockDetails | null>(null);
  const id = selectedCell.value;
  blocksVersion.value;
  const cell = id === null ? undefined : cells.get(id);
  const name = cell?.key ?? '';
  useEffect(() => {
    details.value = null;
    if (!name) return;
    let current = true;
    ask(`kvasir/blocks/${name}`)
      .then((reply) => reply.json())
      .then((found: BlockDetails) => current && (details.value = found))
      .catch(() => undefined);
    return () => {
      current = false;
    };
  }, [name]);
  if (!cell) return <p class="quiet">Point at a block, or choose one with the arrow keys and Enter.</p>;
  const holders = new Set(details.value?.requests ?? []);
  for (const [request, seen] of touched) if (seen.has(cell.id)) holders.add(request);
  const group = groups.value[cell.group];
  return (
    <div class="details" aria-live="polite">
      <dl>
        <dt>state</dt>
        <dd>
          <i class={`dot s${cell.sight}`} /> {sightNames[cell.sight]}
          {cell.refs > 0 && `, ${count(cell.refs)} ${cell.refs === 1 ? 'holder' : 'holders'}`}
        </dd>
        <dt>tenant</dt>
        <dd>{cell.sight === Sight.free ? '–' : tenantName(cell.tenant)}</dd>
        <dt>policy</dt>
        <dd>{group?.policy || '–'}</dd>
        <dt>tokens</dt>
        <dd>{cell.place >= 0 ? `${count(cell.place * (hello.value?.block_tokens ?? 0))} … ${count((cell.place + 1) * (hello.value?.block_tokens ?? 0) - 1)}` : cell.sight === Sight.free ? '–' : 'being written'}</dd>
        <dt>named</dt>
        <dd>{cell.key ? `${seconds(pageNow() - cell.born)} ago` : '–'}</dd>
        <dt>key</dt>
        <dd class="mono">{cell.key || '–'}</dd>
        <dt>last change</dt>
        <dd>{cell.change || 'before this page looked'}</dd>
        <dt>requests</dt>
        <dd>
          {holders.size === 0 && '–'}
          {[...holders].slice(-6).map((request) => (
            <button type="button" class="ghost small" onClick={() => selectRequest(request)}>
              {request}
            </button>
          ))}
        </dd>
      </dl>
      {details.value?.text && <pre class="tokens">{details.value.text}</pre>}
    </div>
  );
}

export function BlockMap({ most }: { most: number }) {
  const box = useRef<HTMLDivElement>(null);
  const base = useRef<HTMLCanvasElement>(null);
  const top = useRef<HTMLCanvasElement>(null);
  const hover = useSignal<number | null>(null);
  const pointer = useSignal<[number, number]>([0, 0]);
  const painter = useRef<Painter | null>(null);
  const text = useSignal('');
  const pointed = hover.value;
  useEffect(() => {
    text.value = '';
    const timer = setTimeout(async () => {
      const found = await textOf(cells.get(pointed ?? -1)?.key ?? '');
      if (hover.peek() === pointed) text.value = found ?? '';
    }, 200);
    return () => clearTimeout(timer);
  }, [pointed]);
  useEffect(() => {
    const made = new Painter(base.current!, top.current!);
    painter.current = made;
    let frame = 0;
    let again = true;
    const loop = () => {
      frame = requestAnimationFrame(loop);
      if (!again && dirty.size === 0 && flashes.size === 0) return;
      const width = Math.floor(box.current?.clientWidth ?? 0);
      if (width > 0) again = made.paint(width, most, hover.peek());
    };
    frame = requestAnimationFrame(loop);
    const wake = () => void (again = true);
    const watching = [blocksVersion, colourBy, selectedCell, highlighted, hover, scheme].map((one) => one.subscribe(wake));
    const size = new ResizeObserver(wake);
    size.observe(box.current!);
    return () => {
      cancelAnimationFrame(frame);
      size.disconnect();
      watching.forEach((end) => end());
    };
  }, [most]);
  const point = (event: PointerEvent) => {
    const rect = base.current!.getBoundingClientRect();
    pointer.value = [event.clientX - rect.left, event.clientY - rect.top];
    hover.value = painter.current?.at(...pointer.value) ?? null;
  };
  const move = (event: KeyboardEvent) => {
    const by = { ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: 'up', ArrowDown: 'down' }[event.key] as 'left' | undefined;
    if (by) {
      hover.value = painter.current?.neighbour(hover.value ?? selectedCell.value, by) ?? null;
      const i = painter.current?.layout.place.get(hover.value ?? -1);
      if (i !== undefined) pointer.value = painter.current!.xy(i);
    } else if (event.key === 'Enter' || event.key === ' ') selectedCell.value = hover.value;
    else if (event.key === 'Escape') (selectedCell.value = hover.value = null), selectRequest(null);
    else return;
    event.preventDefault();
  };
  return (
    <div class="map" ref={box} tabIndex={0} role="application" aria-roledescription="block map" aria-label="Block map. Arrow keys move, Enter chooses a block." onKeyDown={move} onBlur={() => (hover.value = null)}>
      <canvas ref={base} aria-hidden="true" />
      <canvas ref={top} aria-hidden="true" class="over" onPointerMove={point} onPointerLeave={() => (hover.value = null)} onClick={() => (selectedCell.value = hover.value)} />
      {hover.value !== null && (
        <div class="tip" role="status" style={{ left: `${Math.min(pointer.value[0] + 12, (box.current?.clientWidth ?? 300) - 210)}px`, top: `${pointer.value[1] + 16}px` }}>
          {describeCell(hover.value)}
          {text.value && <q>{text.value.replace(/\s+/g, ' ')}</q>}
        </div>
      )}
    </div>
  );
}

export function Legend() {
  blocksVersion.value;
  const by = colourBy.value;
  const counts = new Map<number, number>();
  const now = pageNow();
  for (const cell of cells.values()) {
    const n = by === 'state' ? cell.sight : cell.sight === Sight.free ? -2 : by === 'tenant' ? cell.tenant : by === 'policy' ? cell.group : ageOf(cell, now);
    counts.set(n, (counts.get(n) ?? 0) + 1);
  }
  const names = (n: number): string => (by === 'state' ? sightNames[n] : n === -2 ? 'free' : by === 'tenant' ? tenantName(n) : by === 'policy' ? `${groups.value[n]?.policy || 'a policy'}${groups.value[n]?.window ? `, window ${groups.value[n].window}` : ''}${groups.value[n]?.state ? ', states' : ''}` : ageNames[n]);
  const shown = by === 'state' ? [Sight.inUse, Sight.shared, Sight.cached, Sight.pinned, Sight.free] : [...counts.keys()].sort((a, b) => a - b);
  const colour = (n: number): string => (by === 'state' ? `s${n}` : n === -2 ? 's1' : `h${(Math.max(n, 0) % 8) + 1}`);
  return (
    <ul class="legend" aria-label="Blocks by colour">
      {shown.map((n) => (
        <li>
          <i class={`dot ${colour(n)}`} /> {names(n)} <b>{count(counts.get(n) ?? 0)}</b>
        </li>
      ))}
    </ul>
  );
}

export function ColourChoice() {
  return (
    <label class="inline">
      <span>colour by</span>
      <select value={colourBy.value} onChange={(event) => (colourBy.value = event.currentTarget.value as ColourBy)}>
        {['state', 'tenant', 'policy', 'age'].map((name) => (
          <option value={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}
