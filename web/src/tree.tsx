// The prefix tree: which cached texts begin alike. A run of blocks without a branch is one line.
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { selectedCell } from './block_map';
import { textOf } from './block_text';
import { count } from './format';
import { type Cell, Sight, blocksVersion, cells, hello } from './live';

interface Line {
  depth: number;
  run: Cell[];
  branches: number;
}

const mostLines = 120;

// Of the first group that has names: the others hold the same texts.
function linesOf(): { lines: Line[]; more: number } {
  const children = new Map<number, Cell[]>();
  const roots: Cell[] = [];
  let group = Infinity;
  for (const cell of cells.values()) if (cell.place >= 0) group = Math.min(group, cell.group);
  for (const cell of cells.values()) {
    if (cell.place < 0 || cell.group !== group) continue;
    if (cell.parent < 0 || !cells.has(cell.parent)) roots.push(cell);
    else children.set(cell.parent, [...(children.get(cell.parent) ?? []), cell]);
  }
  const size = new Map<number, number>();
  const sizeOf = (cell: Cell): number => {
    const path = [cell];
    const order: Cell[] = [];
    while (path.length > 0) {
      const next = path.pop()!;
      order.push(next);
      path.push(...(children.get(next.id) ?? []));
    }
    for (const one of order.reverse()) size.set(one.id, 1 + (children.get(one.id) ?? []).reduce((sum, child) => sum + (size.get(child.id) ?? 1), 0));
    return size.get(cell.id)!;
  };
  roots.forEach(sizeOf);
  const larger = (a: Cell, b: Cell) => (size.get(b.id) ?? 0) - (size.get(a.id) ?? 0);
  const lines: Line[] = [];
  let more = 0;
  const todo = roots.sort(larger).reverse().map((cell) => ({ cell, depth: 0 }));
  while (todo.length > 0) {
    const { cell, depth } = todo.pop()!;
    const run = [cell];
    let next = children.get(cell.id) ?? [];
    while (next.length === 1) {
      run.push(next[0]);
      next = children.get(next[0].id) ?? [];
    }
    if (lines.length < mostLines) lines.push({ depth, run, branches: next.length });
    else more++;
    for (const child of next.sort(larger).reverse()) todo.push({ cell: child, depth: depth + 1 });
  }
  return { lines, more };
}

function Beginning({ cell }: { cell: Cell }) {
  const text = useSignal<string | null>(null);
  useEffect(() => {
    let current = true;
    void textOf(cell.key).then((found) => current && (text.value = found));
    return () => {
      current = false;
    };
  }, [cell.key]);
  return text.value === null ? <span class="mono quiet">{cell.key.slice(0, 8)}</span> : <q>{text.value.replace(/\s+/g, ' ').trim().slice(0, 90)}</q>;
}

export function PrefixTree() {
  const now = useSignal(0);
  useEffect(() => {
    const timer = setInterval(() => (now.value = blocksVersion.peek()), 1000);
    now.value = blocksVersion.peek();
    return () => clearInterval(timer);
  }, []);
  now.value;
  const { lines, more } = linesOf();
  const tokens = hello.value?.block_tokens ?? 16;
  const state = (run: Cell[]) => {
    const held = run.filter((cell) => cell.sight !== Sight.cached).length;
    return held === 0 ? 'cached' : held === run.length ? 'held' : `${count(held)} held`;
  };
  return (
    <section class="card" aria-label="Prefix tree">
      <h3>
        Prefix tree <small>what is cached, and where texts part</small>
      </h3>
      {lines.length === 0 && <p class="quiet">Nothing is cached yet.</p>}
      <ul class="tree">
        {lines.map(({ depth, run, branches }) => (
          <li key={run[0].id} style={{ '--depth': String(Math.min(depth, 12)) }}>
            <button type="button" class="link" onClick={() => (selectedCell.value = run[0].id)}>
              <Beginning cell={run[0]} />
            </button>
            <small>
              {count(run.length * tokens)} tokens · {state(run)}
              {branches > 0 && ` · then ${count(branches)} ways on`}
            </small>
          </li>
        ))}
      </ul>
      {more > 0 && <p class="quiet">and {count(more)} more</p>}
    </section>
  );
}
