#!/usr/bin/env python3
"""What drafters gain and cost: tokens a second with them beside those without, by task and batch.

    python3 bench/speculation.py [--svg docs/speculation.svg] [--model "-m tales --draft tales-draft …"]

Runs build/kvasir bench --draft, which measures both in turns, and prints a Markdown table. Without --model: texts that
copy, and noise, on the shape of a 1B model with random weights."""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from svg_chart import ratio_bars  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHAPE = "--shape llama-3.2-1b --draft auto --task edit,agent,noise -p 128 -n 64"


def results(arguments, batch, repeats):
    command = [ROOT / "build" / "kvasir", "bench", *shlex.split(arguments), "-b", str(batch), "-r", str(repeats), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["drafts"]


def middle(values):
    return sorted(values)[len(values) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--model", default=SHAPE, help="arguments of kvasir bench")
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path, help="what was measured: read if it is there, and added to")
    options = parser.parse_args()
    rows = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    for batch in map(int, options.batches.split(",")) if options.batches else []:
        rows += results(options.model, batch, options.repeats)
        if options.json:
            options.json.write_text(json.dumps(rows))
    print("| task | batch | without, tokens/s | with | ratio | right of guessed |\n|---|---:|---:|---:|---:|---|")
    for row in rows:
        tokens = row["batch"] * row["generate"]
        right = ", ".join(f"{name} {one['accepted_tokens']} of {one['draft_tokens']}"
                          for name, one in row["drafters"].items() if one["draft_tokens"])
        print(f"| {row['task']} | {row['batch']} | {tokens / middle(row['plain_seconds']):.1f} | "
              f"{tokens / middle(row['drafted_seconds']):.1f} | {row['ratio']:.2f} | {right or 'nothing was verified'} |")
    if options.svg:
        options.svg.write_text(ratio_bars("Tokens a second with drafts, beside without", [
            (f"{row['task']}, batch {row['batch']}", row["ratio"], "") for row in rows]))


if __name__ == "__main__":
    main()
