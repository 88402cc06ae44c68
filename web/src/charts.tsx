// What happened in the last ten minutes, as lines.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { count, percent, seconds } from './format';
import { numbers, series, seriesVersion } from './live';
import { scheme } from './theme';

interface Line {
  label: string;
  column: number;
  colour: string; // a CSS variable
  scale?: number;
}
interface Spec {
  title: string;
  unit: string;
  lines: Line[];
  top?: number;
}

const specs: Spec[] = [
  { title: 'Throughput', unit: 'tokens/s', lines: [{ label: 'prompt, computed', column: 1, colour: '--p-prefill' }, { label: 'answers', column: 2, colour: '--p-decode' }] },
  { title: 'Latency, median', unit: 'ms', lines: [{ label: 'first token', column: 3, colour: '--h1', scale: 1000 }, { label: 'next token', column: 4, colour: '--h2', scale: 1000 }] },
  { title: 'Requests', unit: '', lines: [{ label: 'running', column: 5, colour: '--b-use' }, { label: 'waiting', column: 6, colour: '--b-cached' }] },
  { title: 'Cache', unit: '%', top: 100, lines: [{ label: 'prompt tokens hit', column: 7, colour: '--f-hit' }, { label: 'blocks in use', column: 8, colour: '--b-shared' }] },
];

function Chart({ spec }: { spec: Spec }) {
  const box = useRef<HTMLDivElement>(null);
  const dark = scheme.value;
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const data = () => [series[0], ...spec.lines.map(({ column, scale = 1 }) => series[column].map((value) => (value === null ? null : value * scale)))] as uPlot.AlignedData;
    const axis = { stroke: colour('--quiet'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui' };
    const plot = new uPlot(
      {
        width: box.current!.clientWidth,
        height: 150,
        padding: [8, 8, 0, 0],
        cursor: { y: false },
        legend: { live: true },
        scales: { y: { range: (_, __, most) => [0, spec.top ?? Math.max(most * 1.1, 1)] } },
        axes: [{ ...axis, size: 30, space: 80, values: (_, at) => at.map((t) => new Date(t * 1000).toLocaleTimeString([], { hour12: false })) }, { ...axis, size: 46 }],
        series: [{ value: '{HH}:{mm}:{ss}' }, ...spec.lines.map(({ label, colour: name }) => ({ label, stroke: colour(name), width: 2, spanGaps: true, points: { show: false }, value: (_: uPlot, value: number | null) => (value === null ? '–' : `${value < 10 ? value.toFixed(1) : Math.round(value)} ${spec.unit}`) }))],
      },
      data(),
      box.current!,
    );
    const end = seriesVersion.subscribe(() => plot.setData(data()));
    const size = new ResizeObserver(() => box.current && plot.setSize({ width: box.current.clientWidth, height: 150 }));
    size.observe(box.current!);
    return () => {
      end();
      size.disconnect();
      plot.destroy();
    };
  }, [dark]);
  return (
    <section class="card chart" aria-label={`${spec.title}${spec.unit ? `, ${spec.unit}` : ''}`}>
      <h3>
        {spec.title} <small>{spec.unit}</small>
      </h3>
      <div ref={box} />
    </section>
  );
}

export function Charts() {
  return (
    <div class="charts">
      {specs.map((spec) => (
        <Chart spec={spec} />
      ))}
    </div>
  );
}

// What guessed tokens brought, by who guessed.
export function Earnings() {
  const of = numbers.value?.speculation;
  if (!of || of.drafters.length === 0) return null;
  const net = of.saved_seconds;
  return (
    <section class="card" aria-label="Speculation">
      <h3>
        Speculation{' '}
        <small>
          {percent(of.accepted_tokens, of.draft_tokens)} of {count(of.draft_tokens)} guessed tokens were right; {net >= 0 ? `saved ${seconds(net)}` : `cost ${seconds(-net)}`}, beside an estimate of the same tokens without
          guesses
        </small>
      </h3>
      <div class="scroll" tabIndex={0}>
        <table>
          <thead>
            <tr>
              {['who guessed', 'drafts', 'tokens', 'right', 'share'].map((name) => (
                <th scope="col">{name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {of.drafters.map(([name, drafts, tokens, accepted]) => (
              <tr data-drafter={name}>
                <td>{name}</td>
                <td>{count(drafts)}</td>
                <td>{count(tokens)}</td>
                <td>{count(accepted)}</td>
                <td>
                  <span class="meter wide" aria-hidden="true">
                    <span style={{ width: percent(accepted, tokens) }} />
                  </span>{' '}
                  {percent(accepted, tokens)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
