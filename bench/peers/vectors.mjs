// Do we and llama.cpp make the same vectors, and the same scores, of GGUF files of encoders? Both read a file, tokenize
// a few texts and embed them, or score them as documents for a query. Printed is how far the directions are apart, as
// 1 - cosine, or the scores; and, to tell what that is worth, how far two texts of the peer's are from each other.
// llama.cpp takes GELU from a table of 16 bits.
//
//     python3 bench/peers/families.py build/kvasir FOLDER bert nomic_bert …
//     PEERS=/tmp/peers node bench/peers/vectors.mjs build/kvasir MODEL.gguf…
//
// Exits with 1 when anything is further away than LIMIT (1e-4 unless set); with 0 and a word where node-llama-cpp is
// not installed (kl.mjs says how).
import {spawnSync} from "node:child_process";
import {createRequire} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";

const query = "who had the cheese";
const texts = ["The crow had some cheese.", "A fox saw a crow in the high tree; it was hungry, and it began to praise her voice.",
  "Once upon a time there was a king", `${"the fox and the crow went far away ".repeat(12)}.`, "cheese"];
const limit = Number(process.env.LIMIT ?? 1e-4);
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

function lines(command, file, more) {
  const run = spawnSync(program, [command, "-m", file, "--activations", "f32", ...more], {encoding: "utf8", maxBuffer: 1 << 28});
  if (run.status !== 0) throw new Error(`${command}: ${run.stderr ?? run.error}`);
  return run.stdout.trim().split("\n").map((line) => JSON.parse(line));
}

function apart(a, b) {
  const dot = (x, y) => x.reduce((sum, one, i) => sum + one * y[i], 0);
  return 1 - dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

async function vectors(model, file) {
  const context = await model.createEmbeddingContext();
  const theirs = [];
  for (const text of texts) theirs.push((await context.getEmbeddingFor(text)).vector);
  const ours = lines("embed", file, texts);
  return {worst: Math.max(...ours.map((one, i) => apart(one, theirs[i]))), yardstick: apart(theirs[0], theirs[1])};
}

async function scores(model, file) {
  const context = await model.createRankingContext();
  const theirs = await context.rankAll(query, texts);
  const ours = lines("rerank", file, [query, ...texts]);
  return {worst: Math.max(...ours.map((one) => Math.abs(one.relevance_score - theirs[one.index]))),
    yardstick: Math.max(...theirs) - Math.min(...theirs)};
}

const {getLlama} = await loadPeer();
const llama = await getLlama({gpu: false, build: "never", logLevel: "error"});
let failed = false;
console.log("file".padEnd(36) + "what".padEnd(10) + "ours, peer".padStart(14) + "two texts".padStart(14));
for (const file of files) {
  const model = await llama.loadModel({modelPath: path.resolve(file), gpuLayers: 0});
  const ranks = path.basename(file).includes("reranker");
  const {worst, yardstick} = await (ranks ? scores : vectors)(model, file);
  await model.dispose();
  failed ||= !(worst < limit);
  console.log(path.basename(file).padEnd(36) + (ranks ? "scores" : "vectors").padEnd(10) +
    [worst, yardstick].map((n) => n.toExponential(2).padStart(14)).join(""));
}
process.exit(failed ? 1 : 0);
