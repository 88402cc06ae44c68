// Markdown as models write it, to elements: nothing of a text is ever read as HTML.
import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';

const inlineRule = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*(?=\S)([\s\S]+?)\*\*|__(?=\S)([\s\S]+?)__|\*(?=\S)([^*\n]+?)\*|\b_(?=\S)([^_\n]+?)_\b|~~(?=\S)([\s\S]+?)~~|\[([^\]\n]+)\]\(([^()\s]+(?:\([^()\s]*\))?)\)|\b(https?:\/\/[^\s<>")\]]+)/g;

function link(href: string, children: ComponentChildren): ComponentChildren {
  if (!/^(https?:|mailto:)/i.test(href)) return children;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

function inline(text: string): ComponentChildren[] {
  const out: ComponentChildren[] = [];
  let at = 0;
  for (const match of text.matchAll(inlineRule)) {
    if (match.index > at) out.push(text.slice(at, match.index));
    at = match.index + match[0].length;
    const [, , code, strong, strong2, em, em2, gone, name, href, url] = match;
    if (code !== undefined) out.push(<code>{code}</code>);
    else if (strong ?? strong2) out.push(<strong>{inline((strong ?? strong2)!)}</strong>);
    else if (em ?? em2) out.push(<em>{inline((em ?? em2)!)}</em>);
    else if (gone) out.push(<del>{inline(gone)}</del>);
    else if (href) out.push(link(href, name));
    else if (url) out.push(link(url, url));
  }
  if (at < text.length) out.push(text.slice(at));
  return out;
}

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [said, say] = useState('');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say('Copied');
    } catch {
      say('Not allowed');
    }
    setTimeout(() => say(''), 1500);
  };
  return (
    <button type="button" class="ghost small" onClick={copy}>
      {said || label}
    </button>
  );
}

function CodeBlock({ language, text }: { language: string; text: string }) {
  return (
    <figure class="code">
      <figcaption>
        <span>{language || 'text'}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
    </figure>
  );
}

const fence = /^\s{0,3}(`{3,}|~{3,})\s*([^\s`]*)/;
const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const rule = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;
const tableRule = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

const row = (line: string): string[] =>
  line
    .trim()
    .replace(/^\||\|$/g, '')
    .split('|')
    .map((cell) => cell.trim());

function list(lines: string[], start: number): [VNode, number] {
  const first = item.exec(lines[start])!;
  const indent = first[1].length;
  const ordered = /\d/.test(first[2]);
  const items: ComponentChildren[] = [];
  let i = start;
  while (i < lines.length) {
    const head = item.exec(lines[i]);
    if (!head || head[1].length !== indent || /\d/.test(head[2]) !== ordered) break;
    const body = [head[3]];
    for (++i; i < lines.length; ++i) {
      const next = item.exec(lines[i]);
      const deeper = lines[i].search(/\S/) > indent;
      if (next ? next[1].length <= indent : !deeper && (lines[i].trim() === '' ? item.exec(lines[i + 1] ?? '') === null : true)) break;
      body.push(lines[i].slice(Math.min(indent + 2, Math.max(lines[i].search(/\S/), 0))));
    }
    while (i < lines.length && lines[i].trim() === '' && item.exec(lines[i + 1] ?? '')?.[1].length === indent) ++i;
    items.push(<li>{body.length === 1 ? inline(body[0]) : blocks(body)}</li>);
  }
  return [ordered ? <ol start={parseInt(first[2], 10)}>{items}</ol> : <ul>{items}</ul>, i];
}

function blocks(lines: string[]): VNode[] {
  const out: VNode[] = [];
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    const open = fence.exec(line);
    const heading = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    if (line.trim() === '') {
      ++i;
    } else if (open) {
      const body: string[] = [];
      for (++i; i < lines.length && !lines[i].trim().startsWith(open[1]); ++i) body.push(lines[i]);
      ++i;
      out.push(<CodeBlock language={open[2]} text={body.join('\n')} />);
    } else if (heading) {
      const Heading = `h${Math.min(heading[1].length + 2, 6)}` as 'h3';
      out.push(<Heading>{inline(heading[2])}</Heading>);
      ++i;
    } else if (rule.test(line)) {
      out.push(<hr />);
      ++i;
    } else if (/^\s{0,3}>/.test(line)) {
      const body: string[] = [];
      for (; i < lines.length && /^\s{0,3}>/.test(lines[i]); ++i) body.push(lines[i].replace(/^\s{0,3}> ?/, ''));
      out.push(<blockquote>{blocks(body)}</blockquote>);
    } else if (item.test(line)) {
      const [made, next] = list(lines, i);
      out.push(made);
      i = next;
    } else if (line.includes('|') && tableRule.test(lines[i + 1] ?? '') && (lines[i + 1] ?? '').includes('-')) {
      const head = row(line);
      const rows: string[][] = [];
      for (i += 2; i < lines.length && lines[i].includes('|'); ++i) rows.push(row(lines[i]));
      out.push(
        <div class="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>{head.map((cell) => <th scope="col">{inline(cell)}</th>)}</tr>
            </thead>
            <tbody>{rows.map((cells) => <tr>{cells.map((cell) => <td>{inline(cell)}</td>)}</tr>)}</tbody>
          </table>
        </div>,
      );
    } else {
      const body: string[] = [];
      for (; i < lines.length && lines[i].trim() !== '' && !fence.test(lines[i]) && !/^\s{0,3}(#{1,6}\s|>)/.test(lines[i]) && !(body.length > 0 && item.test(lines[i])); ++i) body.push(lines[i]);
      out.push(<p>{body.flatMap((text, n) => (n === 0 ? inline(text) : [<br />, ...inline(text)]))}</p>);
    }
  }
  return out;
}

export function Markdown({ text }: { text: string }) {
  return <div class="markdown">{blocks(text.split('\n'))}</div>;
}
