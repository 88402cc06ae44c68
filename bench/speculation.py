#!/usr/bin/env python3
"""What drafters gain and cost: tokens a second with them beside those without, by task and batch.

    python3 bench/speculation.py --json sweep.json --seconds 200          # again, until it says that all is measured
    python3 bench/speculation.py --json sweep.json --seconds 0 --svg docs/speculation.svg    # what is there, drawn
    python3 bench/speculation.py --part edit:1,noise:16                   # these alone
    python3 bench/speculation.py --model "-m tales --draft tales-draft --text FILE -p 64 -n 256" --tasks text

A part is a task with a batch: a process of its own (build/kvasir bench --draft), which measures with drafters and
without in turns, after a first turn that warms up. Each part is written to --json as soon as it is measured, and what
is there is not measured again; no part is begun that would not be done within --seconds, going by those before it.
Without --model: texts that copy, and noise, on the shape of a 1B model with random weights. Prints a Markdown table."""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from svg_chart import ratio_bars  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHAPE = "--shape llama-3.2-1b --draft auto -p 64 -n 64"
MEASURED, LEFT = 0, 3  # how it ends: with all parts, or with some left


def say(text):
    print(text, file=sys.stderr, flush=True)


def measure(arguments, task, batch, repeats):
    command = [ROOT / "build" / "kvasir", "bench", *shlex.split(arguments), "--task", task, "-b", str(batch),
               "-r", str(repeats), "--json"]
    began = time.monotonic()
    row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["drafts"][0]
    return {**row, "of": arguments, "seconds": time.monotonic() - began}


def is_part(row, arguments, task, batch):
    return (row["of"], row["task"], row["batch"]) == (arguments, task, batch)


def guess_seconds(rows, arguments, batch):
    """Of a part: as long as the slowest of its batch, or of others by their batch; None: nobody knows."""
    own = [row["seconds"] for row in rows if row["of"] == arguments and row["batch"] == batch]
    others = [row["seconds"] * max(batch / row["batch"], 1) for row in rows if row["of"] == arguments]
    return max(own or others, default=None)


def save(path, rows):
    if path is None:
        return
    new = path.with_suffix(".new")
    new.write_text(json.dumps(rows, indent=1))
    new.replace(path)


def run(options, parts, rows):
    """Measures the parts that are not there, as long as there is time. How many are left."""
    ends = time.monotonic() + options.seconds
    missing = [part for part in parts if not any(is_part(row, options.model, *part) for row in rows)]
    for number, (task, batch) in enumerate(missing):
        guess = guess_seconds(rows, options.model, batch)
        if options.seconds <= 0 or time.monotonic() + (guess or 0) > ends:
            return len(missing) - number
        about = f", about {guess:.0f} s" if guess else ""
        say(f"part {len(parts) - len(missing) + number + 1} of {len(parts)}: {task}, batch {batch}{about}")
        rows.append(measure(options.model, task, batch, options.repeats))
        save(options.json, rows)
        say(f"  ratio {rows[-1]['ratio']:.2f} after {rows[-1]['seconds']:.0f} s")
    return 0


def middle(values):
    return sorted(values)[len(values) // 2]


def print_table(rows):
    print("| task | batch | without, tokens/s | with | ratio | right of guessed |\n|---|---:|---:|---:|---:|---|")
    for row in rows:
        tokens = row["batch"] * row["generate"]
        right = ", ".join(f"{name} {one['accepted_tokens']} of {one['draft_tokens']}"
                          for name, one in row["drafters"].items() if one["draft_tokens"])
        print(f"| {row['task']} | {row['batch']} | {tokens / middle(row['plain_seconds']):.1f} | "
              f"{tokens / middle(row['drafted_seconds']):.1f} | {row['ratio']:.2f} | {right or 'nothing was verified'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--model", default=SHAPE, help="arguments of kvasir bench")
    parser.add_argument("--tasks", default="edit,agent,noise")
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--part", help="task:batch, or several, in place of every task with every batch")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1e9, help="no part is begun that would end later")
    parser.add_argument("--json", type=pathlib.Path, help="what was measured: read if it is there, and added to")
    options = parser.parse_args()
    parts = [(task, int(batch)) for batch in options.batches.split(",") for task in options.tasks.split(",")]
    if options.part:
        parts = [(task, int(batch)) for task, batch in (part.split(":") for part in options.part.split(","))]
    rows = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    left = run(options, parts, rows)
    shown = [row for part in sorted(parts) for row in rows if is_part(row, options.model, *part)]
    print_table(shown)
    if options.svg and shown:
        options.svg.write_text(ratio_bars("Tokens a second with drafts, beside without", [
            (f"{row['task']}, batch {row['batch']}", row["ratio"], "") for row in shown]))
    if left:
        say(f"{left} of {len(parts)} parts are left: run it again, with the same --json")
    return LEFT if left else MEASURED


if __name__ == "__main__":
    sys.exit(main())
