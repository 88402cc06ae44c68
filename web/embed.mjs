// embed.mjs FOLDER OUT: the files that vite left in FOLDER, as a C++ source with the bytes of each, and the same
// compressed. Says how large the page is, and fails where it is too large to send.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';

const most = 100_000; // bytes, compressed, of all files together
const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' };

const [folder, out] = process.argv.slice(2);
const files = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
  .sort();

// Octal escapes are at most three digits long, so what follows never belongs to them.
const literal = (bytes) => {
  let text = '';
  for (const byte of bytes) text += byte >= 32 && byte < 127 && byte !== 34 && byte !== 92 && byte !== 63 ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, '0')}`;
  return text.match(/(?:\\[0-7]{3}|[^\\]){1,1000}/g)?.map((line) => `    "${line}"`).join('\n') ?? '    ""';
};

let total = 0;
const sources = files.map((file, i) => {
  const path = `/${relative(folder, file)}`.replace(/^\/index\.html$/, '/');
  const bytes = readFileSync(file);
  const gzip = gzipSync(bytes, { level: 9 });
  total += gzip.length;
  const row = `    {"${path}", "${types[extname(file)]}", {kBytes${i}, ${bytes.length}}, {kGzip${i}, ${gzip.length}}},`;
  return { row, text: `constexpr char kBytes${i}[] =\n${literal(bytes)};\nconstexpr char kGzip${i}[] =\n${literal(gzip)};\n` };
});
if (total > most) {
  console.error(`kvasir: the page has ${total} bytes compressed, more than ${most}`);
  process.exit(1);
}
writeFileSync(out, `// Made of web/ by web/embed.mjs.
#include <array>

#include "server/page/page.h"

namespace kvasir {
namespace {

${sources.map((one) => one.text).join('')}
constexpr std::array<PageFile, ${files.length}> kPageFiles{{
${sources.map((one) => one.row).join('\n')}
}};

}  // namespace

std::span<const PageFile> page_files() { return kPageFiles; }

}  // namespace kvasir
`);
console.log(`page: ${files.length} files, ${total} bytes compressed`);
