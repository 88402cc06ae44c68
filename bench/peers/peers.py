#!/usr/bin/env python3
"""Kvasir and llama.cpp on the same file, the same machine, the same run, in alternation.

    python3 bench/peers/peers.py model-q4_0.gguf [more.gguf] [--llama FOLDER] [--tests prefill,decode,batch]

Batches have prefixes of their own (own) and one for all (shared); batch is both.

Needs llama-bench (and llama-batched-bench for the batches) on PATH or in FOLDER. Each test is run by one, then by the
other, `--rounds` times; the medians and their ratio are printed. llama.cpp is given its better setting of flash
attention at every depth, found in the same run. `--kv f16,8bit` also decodes over caches of 8 bits: int8 here, q8_0 there
(which needs flash attention).
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from svg_chart import ratio_bars  # noqa: E402


def command(args, what):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-5:])
        sys.exit(f"{what} failed: {' '.join(map(str, args))}\n{tail}")
    return done.stdout


class Kvasir:
    def __init__(self, binary, threads):
        self.binary, self.threads = binary, threads

    def bench(self, model, *args):
        out = command([self.binary, "bench", "-m", model, "-t", self.threads, "-r", 1, "--json", *args], "kvasir")
        return json.loads(out)["results"][0]["tokens_per_second"]

    def prefill(self, model, tokens):
        return self.bench(model, "-p", tokens)

    def decode(self, model, tokens, depth, kv="f16"):
        return self.bench(model, "-n", tokens, "-d", depth, "--kv", "int8" if kv == "8bit" else "f16")

    def batch(self, model, tokens, depth, batch, shared):
        return self.bench(model, "-n", tokens, "-d", depth, "-b", batch, *(["--shared-prefix"] if shared else []))


class LlamaCpp:
    def __init__(self, folder, threads):
        self.folder, self.threads = folder, threads

    def find(self, name):
        path = shutil.which(name, path=self.folder) if self.folder else shutil.which(name)
        if path is None:
            sys.exit(f"{name} was not found: put it on PATH, or name its folder with --llama")
        return path

    def bench(self, model, *args):
        base = [self.find("llama-bench"), "-m", model, "-t", self.threads, "-r", 1, "-o", "json"]
        return json.loads(command([*base, *args], "llama-bench"))[0]["avg_ts"]

    def prefill(self, model, tokens):
        return self.bench(model, "-p", tokens, "-n", 0)

    def decode(self, model, tokens, depth, kv="f16"):
        base = ["-p", 0, "-n", tokens, "-d", depth]
        if kv == "8bit":
            return self.bench(model, *base, "-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0")
        flash = ["on", "off"] if depth else ["auto"]
        return max(self.bench(model, *base, "-fa", f) for f in flash)

    def batch(self, model, tokens, depth, batch, shared):
        context = batch * (depth + tokens + 16)  # it wants that much with a shared prefix, too
        base = [self.find("llama-batched-bench"), "-m", model, "-t", self.threads, "-c", context,
                "-npp", max(depth, 1), "-ntg", tokens, "-npl", batch, "--output-format", "jsonl"]
        best = 0.0
        for flash in ["on", "off"]:
            out = command([*base, *(["-pps"] if shared else []), "-fa", flash], "llama-batched-bench")
            rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
            best = max(best, rows[-1]["speed_tg"])
        return best


def tests_of(options):
    out = []
    if "prefill" in options.tests:
        out += [(f"prefill {n}", lambda side, m, n=n: side.prefill(m, n)) for n in options.prefill]
    if "decode" in options.tests:
        out += [(f"decode {options.tokens} at {d}{', 8-bit KV' if kv == '8bit' else ''}",
                 lambda side, m, d=d, kv=kv: side.decode(m, options.tokens, d, kv))
                for kv in options.kv for d in options.depths if d or kv == "f16"]
    for shared in [False, True]:
        if "batch" in options.tests or ("shared" if shared else "own") in options.tests:
            for b in options.batches:
                name = f"decode {options.tokens} x {b}, {options.prefix} {'shared' if shared else 'own'}"
                out.append((name, lambda side, m, b=b, s=shared: side.batch(m, options.tokens, options.prefix, b, s)))
    return out


def main():
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--llama", help="folder of llama.cpp's binaries")
    parser.add_argument("--kvasir", default=ROOT / "build/kvasir")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tests", type=lambda text: text.split(","), default=["prefill", "decode", "batch"])
    parser.add_argument("--prefill", type=numbers, default=[128, 512, 2048])
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--depths", type=numbers, default=[0, 2048, 8192])
    parser.add_argument("--kv", type=lambda text: text.split(","), default=["f16"], help="f16, 8bit")
    parser.add_argument("--batches", type=numbers, default=[1, 4, 16])
    parser.add_argument("--prefix", type=int, default=2048)
    parser.add_argument("--json", type=pathlib.Path, help="also write every measurement there")
    parser.add_argument("--svg", type=pathlib.Path, help="also draw the ratios there")
    options = parser.parse_args()
    sides = [Kvasir(options.kvasir, options.threads), LlamaCpp(options.llama, options.threads)]
    everything = []
    bars = []
    for file in options.files:
        print(f"\n{file.name}, {options.threads} threads, medians of {options.rounds}, tokens/s")
        print(f"{'test':<32} {'kvasir':>10} {'llama.cpp':>10} {'ratio':>7}")
        for name, run in tests_of(options):
            ours, theirs = [], []
            for _ in range(options.rounds):
                for side, found in zip(sides, [ours, theirs]):
                    found.append(run(side, file))
            a, b = statistics.median(ours), statistics.median(theirs)
            print(f"{name:<32} {a:>10.1f} {b:>10.1f} {a / b:>6.2f}x", flush=True)
            bars.append((f"{file.stem.rsplit('-', 1)[-1]}: {name}", a / b, f"{a:.0f} / {b:.0f}"))
            everything.append({"file": file.name, "test": name, "kvasir": ours, "llama.cpp": theirs})
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1) + "\n")
    if options.svg:
        options.svg.write_text(ratio_bars("Kvasir against llama.cpp: tokens/s, and their ratio", bars))


if __name__ == "__main__":
    main()
