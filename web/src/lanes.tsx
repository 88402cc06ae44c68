// Requests as lanes on a time axis that can be moved back ten minutes.
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { selectRequest, selectedRequest } from './block_map';
import { count, seconds } from './format';
import { type LaneHistory, historySeconds, lanes, pageNow } from './live';
import { scheme } from './theme';

const rowHeight = 22;
const axisHeight = 20;
const phases = ['queued', 'prefill', 'decode', 'stalled', 'preempted', 'swapped'];

interface View {
  end: number; // seconds before now
  span: number;
}

// Those that were alive in the view, the newest last, one below the other where there is room.
function visible(view: View, now: number, rows: number): LaneHistory[] {
  const to = now - view.end;
  const from = to - view.span;
  const found = [...lanes.values()].filter((lane) => lane.stretches.length > 0 && lane.stretches[0].from < to && lane.stretches.at(-1)!.to > from);
  found.sort((a, b) => a.stretches[0].from - b.stretches[0].from);
  return found.slice(-rows);
}

function paint(canvas: HTMLCanvasElement, width: number, rows: number, view: View): LaneHistory[] {
  const ratio = window.devicePixelRatio || 1;
  const now = pageNow();
  const list = visible(view, now, rows);
  const height = axisHeight + rowHeight * rows;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const context = canvas.getContext('2d')!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const to = now - view.end;
  const x = (t: number) => width - ((to - t) / view.span) * width;
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  const step = [1, 2, 5, 10, 30, 60, 120].find((one) => (one / view.span) * width >= 70) ?? 120;
  for (let ago = Math.ceil(view.end / step) * step; ago < view.end + view.span; ago += step) {
    const at = x(now - ago);
    context.fillStyle = colour('--line');
    context.fillRect(Math.round(at), 0, 1, height - axisHeight);
    context.fillStyle = colour('--quiet');
    context.fillText(ago === 0 ? 'now' : `−${seconds(ago).replace('.00', '').replace('.0', '')}`, Math.min(at + 3, width - 28), height - axisHeight / 2);
  }
  list.forEach((lane, i) => {
    const y = i * rowHeight + 3;
    for (const stretch of lane.stretches) {
      const left = Math.max(x(stretch.from), 0);
      const right = Math.min(x(stretch.to), width);
      if (right <= 0 || left >= width) continue;
      context.fillStyle = colour(`--p-${stretch.phase}`);
      context.fillRect(left, y, Math.max(right - left, 1.5), rowHeight - 6);
    }
    const start = Math.max(x(lane.stretches[0].from), 2);
    const end = x(lane.stretches.at(-1)!.to);
    const label = `${lane.id} · ${lane.prompt} in, ${lane.reused} reused, ${lane.answer} out`;
    const wide = context.measureText(label).width + 8;
    const at = end + wide < width ? end + 6 : start - wide;
    if (at > 0) {
      context.fillStyle = colour('--card');
      context.fillRect(at - 3, y, wide - 2, rowHeight - 6);
      context.fillStyle = colour('--text');
      context.fillText(label, at, y + (rowHeight - 6) / 2);
    }
    if (selectedRequest.value === lane.id) {
      context.strokeStyle = colour('--accent');
      context.lineWidth = 2;
      context.strokeRect(start - 2, y - 2, Math.max(Math.min(end, width) - start, 2) + 4, rowHeight - 2);
    }
  });
  return list;
}

export function Lanes({ rows }: { rows: number }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const shown = useRef<LaneHistory[]>([]);
  const end = useSignal(0);
  const span = useSignal(30);
  const tip = useSignal<{ text: string; x: number; y: number } | null>(null);
  useEffect(() => {
    let frame = 0;
    let last = 0;
    const loop = (at: number) => {
      frame = requestAnimationFrame(loop);
      if (at - last < 50) return; // of a slow axis nobody sees more
      last = at;
      const width = Math.floor(box.current?.clientWidth ?? 0);
      scheme.peek();
      if (width > 0) shown.current = paint(canvas.current!, width, rows, { end: end.peek(), span: span.peek() });
    };
    frame = requestAnimationFrame(loop);
    return () => cancelAnimationFrame(frame);
  }, [rows]);
  const laneAt = (event: PointerEvent | MouseEvent) => shown.current[Math.floor((event.clientY - canvas.current!.getBoundingClientRect().top) / rowHeight)];
  const point = (event: PointerEvent) => {
    const lane = laneAt(event);
    const rect = canvas.current!.getBoundingClientRect();
    if (!lane) return void (tip.value = null);
    const parts = lane.stretches.map((stretch) => `${stretch.phase} ${seconds(stretch.to - stretch.from)}`).slice(-4);
    tip.value = { text: `${lane.label}: ${count(lane.prompt)} tokens in, ${count(lane.reused)} reused, ${count(lane.answer)} out. ${parts.join(', ')}`, x: event.clientX - rect.left, y: event.clientY - rect.top };
  };
  return (
    <div>
      <div class="row wrap">
        <ul class="legend" aria-label="Phases by colour">
          {phases.map((phase) => (
            <li>
              <i class={`dot p-${phase}`} /> {phase}
            </li>
          ))}
        </ul>
        <span class="grow" />
        <label class="inline">
          <span>show</span>
          <select value={String(span.value)} onChange={(event) => (span.value = Number(event.currentTarget.value))}>
            <option value="10">10 s</option>
            <option value="30">30 s</option>
            <option value="120">2 min</option>
            <option value="600">10 min</option>
          </select>
        </label>
        <label class="inline">
          <span>go back</span>
          <input type="range" min={0} max={historySeconds} step={1} value={end.value} onInput={(event) => (end.value = Number(event.currentTarget.value))} aria-valuetext={`${end.value} seconds back`} />
          <output>{end.value === 0 ? 'live' : `${seconds(end.value)} back`}</output>
        </label>
      </div>
      <div class="lanes" ref={box}>
        <canvas ref={canvas} role="img" aria-label="Requests over time; the table of requests has the same in words" onPointerMove={point} onPointerLeave={() => (tip.value = null)} onClick={(event) => selectRequest(laneAt(event)?.id ?? null)} />
        {tip.value && (
          <div class="tip" style={{ left: `${Math.min(tip.value.x + 12, (box.current?.clientWidth ?? 300) - 210)}px`, top: `${tip.value.y + 16}px` }}>
            {tip.value.text}
          </div>
        )}
      </div>
    </div>
  );
}
