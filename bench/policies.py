#!/usr/bin/env python3
"""What every KV policy costs in quality and is worth in bytes and speed, as one Markdown table.

    python3 bench/policies.py --basis tales.basis --speed-model llama-3.2-1b-q4_0.gguf --speed-basis 1b.basis

Quality is `kvasir eval` on the shipped model and its held-out text, against a cache of f32. Speed is decode of the other model behind 2,048
and 8,192 tokens, as many times as fast as over f16 (`kvasir bench --versus`, which fills all caches first and lets the policies take turns: the
machine must be quiet for the turns only, but have room for all of them). Bases are what `kvasir tune --rank` wrote, for policies with rank= and
channels=. `--policy`, several times, replaces the list; `--resume FILE` keeps what eval has done."""
import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEPTHS = [2048, 8192]
POLICIES = [
    "f16", "bf16", "int8", "fp8_e4m3", "fp8_e5m2", "k=int8, v=int4", "int4", "int4, recent=64:f16, sinks=4", "int2",
    "int2, recent=64:f16, sinks=4", "int2, recent=256:f16, sinks=4", "int4, 1:int2, 2:int4/int2, 5-6:int4/int2, 8:int4/int2, recent=64:int8",
    "top50", "top25", "f16, rank=k:48/v:48", "f16, channels=60%", "f16, window=512", "f16, window=512, sinks=4", "f16, evict=fifo:256, sinks=4",
    "f16, evict=lru:256, sinks=4", "f16, evict=h2o:256, sinks=4", "f16, evict=tova:256, sinks=4", "f16, evict=snapkv:256, sinks=4",
    "f16, evict=snapkv:256, sinks=4, budgets=pyramid", "f16, evict=snapkv:256, sinks=4, heads=adaptive",
]


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


def speeds(options, policies):
    """By policy: decode behind each of DEPTHS, as many times as fast as f16's."""
    if not options.speed_model:
        return [["" for _ in DEPTHS] for _ in policies]
    command = ["bench", "-m", options.speed_model, "-n", 8, "-r", options.turns, "-d", ",".join(map(str, DEPTHS)), "--kv", "f16", "--json",
               *with_basis(options.speed_basis)]
    for policy in policies:
        command += ["--versus", policy]
    turns = run(*command)["turns"]
    of_depth = [[turn for turn in turns if turn["depth"] == depth][1:] for depth in DEPTHS]  # the first is f16 itself
    return [[f"{turn['times_first']:.2f}" for turn in both] for both in zip(*of_depth)]


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
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    policies = options.policy or POLICIES
    print("| policy | bytes/token | of f16 | perplexity | change | KL | top-1 | decode at 2,048 | at 8,192 |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for seen, (near, far) in zip(quality(options, policies), speeds(options, policies)):
        print(f"| `{seen['policy']}` | {seen['bytes_per_token']:,.0f} | 1/{seen['compression_against_f16']:.2f} "
              f"| {seen['perplexity']:.3f} | {100 * seen['perplexity_change']:+.2f}% | {seen['kl']['mean']:.1e} "
              f"| {100 * seen['same_top1']:.1f}% | {near} | {far} |", flush=True)


if __name__ == "__main__":
    main()
