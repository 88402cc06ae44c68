#!/usr/bin/env python3
"""What every KV policy costs in quality and is worth in bytes and speed, as one Markdown table.

    python3 bench/policies.py --basis tales.basis --speed-model llama-3.2-1b-q4_0.gguf --speed-basis 1b.basis

Quality is `kvasir eval` on the shipped model and its held-out text, against a cache of f32. Speed is decode of the other model behind 2,048
and 8,192 tokens, relative to f16's, which is measured anew before every fourth policy. Bases are what `kvasir tune --rank` wrote, for policies
with rank= and channels=. What cannot be measured, for want of a basis or of layers, says so on stderr. `--policy`, several times, replaces the
list; `--resume FILE` keeps what eval has done."""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEPTHS = [2048, 8192]
POLICIES = [
    "f16", "bf16", "int8", "fp8_e4m3", "fp8_e5m2", "k=int8, v=int4", "int4", "int4, recent=64:f16, sinks=4", "int2",
    "int2, recent=64:f16, sinks=4", "int2, recent=256:f16, sinks=4", "int4, 1:int2, 2:int4/int2, 5-6:int4/int2, 8:int4/int2, recent=64:int8",
    "top50", "top25", "f16, rank=k:48/v:48", "f16, channels=60%", "f16, window=512", "f16, window=512, sinks=4", "f16, evict=fifo:256, sinks=4",
    "f16, evict=lru:256, sinks=4", "f16, evict=h2o:256, sinks=4", "f16, evict=tova:256, sinks=4", "f16, evict=snapkv:256, sinks=4",
    "f16, evict=snapkv:256, sinks=4, budgets=pyramid", "f16, evict=snapkv:256, sinks=4, heads=adaptive",
]
SAME_BASE = 4  # policies that are compared with one measurement of f16


def run(*arguments):
    done = subprocess.run([ROOT / "build" / "kvasir", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def with_basis(basis):
    return ["--kv-basis", basis] if basis else []


def quality(options, policies):
    command = ["eval", "--text", options.text, "--ctx", options.ctx, "--tokens", options.tokens, "--needles", 0, "--json",
               *with_basis(options.basis)]
    if options.model:
        command += ["-m", options.model]
    if options.resume:
        command += ["--resume", options.resume]
    for policy in policies:
        command += ["--kv", policy]
    return run(*command)["policies"][1:]  # the first is the reference


def tokens_per_second(options, policy):
    basis = with_basis(options.speed_basis if "rank=" in policy or "channels=" in policy else None)
    results = run("bench", "-m", options.speed_model, "-n", 8, "-r", options.repeats, "-d", ",".join(map(str, DEPTHS)), "--kv", policy, *basis,
                  "--json")
    return [result["tokens_per_second"] for result in results["results"]]


class Speeds:
    """Decode of one model, relative to f16's."""

    def __init__(self, options):
        self.options, self.base, self.compared = options, None, 0

    def of(self, policy):
        if not self.options.speed_model:
            return ["" for _ in DEPTHS]
        try:
            if self.compared % SAME_BASE == 0:
                self.base = tokens_per_second(self.options, "f16")
            self.compared += 1
            own = tokens_per_second(self.options, policy)
        except RuntimeError as error:
            print(f"no speed for {policy}: {error}", file=sys.stderr)
            return ["" for _ in DEPTHS]
        return [f"{mine / theirs:.2f}" for mine, theirs in zip(own, self.base)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", help="judged; default: the shipped one")
    parser.add_argument("--basis", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "models" / "held-out.txt")
    parser.add_argument("--ctx", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--policy", action="append")
    parser.add_argument("--resume", type=pathlib.Path)
    parser.add_argument("--speed-model", help="a model with room for 8,192 tokens")
    parser.add_argument("--speed-basis", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    policies = options.policy or POLICIES
    speeds = Speeds(options)
    print("| policy | bytes/token | of f16 | perplexity | change | KL | top-1 | decode at 2,048 | at 8,192 |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for policy, seen in zip(policies, quality(options, policies)):
        near, far = speeds.of(policy)
        print(f"| `{seen['policy']}` | {seen['bytes_per_token']:,.0f} | 1/{seen['compression_against_f16']:.2f} "
              f"| {seen['perplexity']:.3f} | {100 * seen['perplexity_change']:+.2f}% | {seen['kl']['mean']:.1e} "
              f"| {100 * seen['same_top1']:.1f}% | {near} | {far} |", flush=True)


if __name__ == "__main__":
    main()
