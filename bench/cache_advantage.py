#!/usr/bin/env python3
"""How much faster an answer is with the cache than when every token recomputes everything, by length.

    python3 bench/cache_advantage.py [--svg docs/cache-advantage.svg]

Runs build/kvasir bench with and without --no-cache, alternating, and prints a Markdown table."""
import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from svg_chart import line_chart  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]


def seconds(length, extra, repeats):
    command = [ROOT / "build" / "kvasir", "bench", "-n", str(length), "-r", str(repeats), "--json", *extra]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["results"][0]["median_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--lengths", default="64,128,256,512,1024")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows = []
    print("| tokens | with the cache | without | times faster |\n|---:|---:|---:|---:|")
    for length in map(int, options.lengths.split(",")):
        cached = seconds(length, [], options.repeats)
        recomputed = seconds(length, ["--no-cache"], options.repeats if length <= 256 else 1)
        rows.append((length, cached, recomputed))
        print(f"| {length} | {cached:.2f} s | {recomputed:.2f} s | {recomputed / cached:.1f} |", flush=True)
    if options.svg:
        options.svg.write_text(line_chart(
            "An answer with and without the KV cache", "tokens in the answer", "seconds",
            {"no cache": [(n, r) for n, _, r in rows], "with the cache": [(n, c) for n, c, _ in rows]}))


if __name__ == "__main__":
    main()
