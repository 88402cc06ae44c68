// Do we and llama.cpp mean the same by a GGUF file? Both read it, tokenize one text and give the probabilities of all
// next tokens after each. Both round rows to 8 bits before they meet quantized weights, each in its way; so we compute
// them once more with no rounding at all. Printed are four Kullback-Leibler divergences, means over the text: of our
// answer from the exact one, of the peer's from the exact one, of ours from the peer's, and of the peer's from its own
// with flash attention: rounding makes different codes of numbers that differ in their last bits, so two programs
// are hardly nearer to each other than the peer is to itself. Two more numbers tell what these are worth: how far the
// peer's answers after one token and after the next are from each other, and how often the likeliest token is the
// same for both of us. families.py makes small random files of all families.
//
//     npm install --prefix /tmp/peers --ignore-scripts --omit=optional node-llama-cpp@3.22.1 @node-llama-cpp/linux-x64@3.22.1
//     ninja -C build next_token_probs
//     PEERS=/tmp/peers node bench/peers/kl.mjs build/next_token_probs MODEL.gguf…
//
// Exits with 1 when our answer is further than LIMIT (1e-3 unless set) from both the exact one and the peer's, or the
// tokens differ; with 0 and a word where node-llama-cpp is not installed.
import {spawnSync} from "node:child_process";
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";

const heldOut = new URL("../../models/held-out.txt", import.meta.url);
const text = process.env.TEXT ?? readFileSync(heldOut, "utf8").slice(0, 1900);
const limit = Number(process.env.LIMIT ?? 1e-3);
const [program, ...files] = process.argv.slice(2);

async function loadPeer() {
  const require = createRequire(path.join(process.env.PEERS ?? process.cwd(), "package.json"));
  try {
    return await import(pathToFileURL(require.resolve("node-llama-cpp")));
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
    console.log("skipped: node-llama-cpp is not installed; PEERS names the folder that has it");
    process.exit(0);
  }
}

function ours(file, activations) {
  const run = spawnSync(program, [file, "cpu", activations], {input: text, maxBuffer: 1 << 30});
  if (run.status !== 0) throw new Error(`${program}: ${run.stderr ?? run.error}`);
  const bytes = new Uint8Array(run.stdout).buffer;
  const [count, vocab] = new Int32Array(bytes, 0, 2);
  const tokens = Array.from(new Int32Array(bytes, 8, count));
  const rows = tokens.map((_, i) => new Map(new Float32Array(bytes, 8 + 4 * count + 4 * vocab * i, vocab).entries()));
  return {tokens, rows};
}

async function theirs(llama, file, flashAttention) {
  const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
  const tokens = model.tokenize(text, false);
  if (model.tokens.shouldPrependBosToken) tokens.unshift(model.tokens.bos);
  const context = await model.createContext({
    contextSize: 512, flashAttention, experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32",
  });
  const wanted = {generateNext: {probabilities: true, options: {temperature: 1, topK: 0, topP: 1, minP: 0}}};
  const results = await context.getSequence().controlledEvaluate(tokens.map((token) => [token, wanted]));
  const rows = results.map((result) => result.next.probabilities);  // token -> probability
  await model.dispose();
  return {tokens, rows};
}

// Without flash attention and with it; nothing where it does not load the file, which it says.
async function bothOfTheirs(llama, file) {
  try {
    return [await theirs(llama, path.resolve(file), false), await theirs(llama, path.resolve(file), true)];
  } catch (error) {
    console.log(`${file}: the peer does not run it: ${error.message}`);
    return [];
  }
}

// How far `q` is from what `p` expects, in nats; both as token -> probability. A peer's float32 sums miss 1 by some
// 1e-5: both are scaled to it.
function divergence(p, q) {
  const [all, others] = [p, q].map((row) => [...row.values()].reduce((a, b) => a + b));
  let sum = 0;
  for (const [token, probability] of p) {
    const scaled = probability / all;
    if (scaled > 0) sum += scaled * Math.log(scaled / Math.max((q.get(token) ?? 0) / others, 1e-30));
  }
  return sum;
}

function mean(from, of) {
  const all = from.map((row, i) => divergence(row, of[i]));
  return all.reduce((a, b) => a + b) / all.length;
}

function likeliest(row) {
  return [...row].reduce((best, one) => (one[1] > best[1] ? one : best))[0];
}

// What a divergence would be if one of us were a token off.
function yardstick(rows) {
  return mean(rows.slice(1), rows.slice(0, -1));
}

// Of tokens that are as likely as each other, as soft-caps make them, any will do.
function agreement(a, b) {
  return a.filter((row, i) => b[i].get(likeliest(row)) > 0.9999 * b[i].get(likeliest(b[i]))).length / a.length;
}

const {getLlama} = await loadPeer();
const llama = await getLlama({gpu: false, build: "never", logLevel: "error"});
let failed = false;
console.log("file".padEnd(32) + "ours, exact".padStart(14) + "peer, exact".padStart(14) + "ours, peer".padStart(14) +
  "peer, itself".padStart(14) + "a token off".padStart(14) + "same top".padStart(10));
for (const file of files) {
  const [mine, exact] = ["auto", "f32"].map((activations) => ours(file, activations));
  const [peer, other] = await bothOfTheirs(llama, file);
  if (!peer) {
    failed = true;
    continue;
  }
  const same = mine.tokens.length === peer.tokens.length && mine.tokens.every((token, i) => token === peer.tokens[i]);
  if (!same) {
    console.log(`${file}: other tokens: ours ${mine.tokens}, theirs ${peer.tokens}`);
    failed = true;
    continue;
  }
  const numbers = [mean(exact.rows, mine.rows), mean(exact.rows, peer.rows), mean(peer.rows, mine.rows),
    mean(peer.rows, other.rows)];
  failed ||= !(Math.min(numbers[0], numbers[2]) < limit);
  numbers.push(yardstick(peer.rows));
  console.log(path.basename(file).padEnd(32) + numbers.map((n) => n.toExponential(2).padStart(14)).join("") +
    `${(100 * agreement(mine.rows, peer.rows)).toFixed(1)}%`.padStart(10));
}
process.exit(failed ? 1 : 0);
