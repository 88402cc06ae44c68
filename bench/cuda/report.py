"""Attention on a GPU beside PyTorch's, in one run: rounds of ours and theirs in turns, medians of the rounds.

  python3 bench/cuda/report.py BUILD [--rounds 3]     BUILD: where cuda_attention_bench is, like build or build-portable

`./kvasir bench --device cuda` runs it behind the model's bench. Where this python3 has no PyTorch, ours stand alone.
"""
import argparse
import importlib.util
import pathlib
import statistics
import subprocess
import sys

FORMATS = ["bf16", "fp8_e4m3", "int8", "int4", "int2"]
PEERS = ["cudnn", "flash"]


def rows_of(output):
    """Lines of cuda_attention_bench and sdpa.py: {(kernel, numbers before the time…): µs}."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    header = next((line for line in lines if line[0] in ("format", "kernel")), None)
    if header is None or "us" not in header:
        raise ValueError(f"no table in what was printed:\n{output}")
    keys = header.index("us")  # the names of what comes before the time
    return {(line[0], *map(int, line[1:keys])): float(line[keys])
            for line in lines if line[0] in FORMATS + PEERS and len(line) > keys}


def medians(rounds):
    return {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}


def table(head, lines):
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    def text(line):
        return "  ".join([line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])])
    return "\n".join([text(head), *map(text, lines)])


def decode_table(ours, peers):
    """µs a layer by batch and context; what bf16 reads in a second, and how much longer cuDNN takes than it."""
    kernels = [name for name in PEERS if any(key[0] == name for key in peers)]
    head = ["batch x context", *kernels, *FORMATS, "bf16 TB/s", *(["cudnn / bf16"] if "cudnn" in kernels else [])]
    lines = []
    for batch, context in [key[1:] for key in ours if key[0] == "bf16"]:
        us = ours["bf16", batch, context]
        line = [f"{batch} x {context:,}"]
        line += [f"{peers[name, batch, context]:.1f}" for name in kernels]
        line += [f"{ours[name, batch, context]:.1f}" for name in FORMATS]
        line += [f"{batch * context * 8 * 128 * 2 * 2 / us / 1e6:.2f}"]
        if "cudnn" in kernels:
            line += [f"{peers['cudnn', batch, context] / us:.2f}"]
        lines.append(line)
    return table(head, lines)


def prefill_table(ours, peers):
    """TFLOP/s by the prompt's tokens."""
    def speed(us, tokens):
        return f"{2 * tokens**2 * 32 * 128 / us / 1e6:.0f}"
    kernels = [name for name in PEERS if any(key[0] == name for key in peers)]
    lines = []
    for tokens in (2048, 8192):
        line = [f"{tokens:,}", *(speed(peers[name, tokens], tokens) for name in kernels)]
        lines.append(line + [speed(ours[name, 1, tokens], tokens) for name in FORMATS])
    return table(["tokens", *kernels, *FORMATS], lines)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def measure(build, rounds):
    bench = str(build / "cuda_attention_bench")
    sdpa = str(pathlib.Path(__file__).with_name("sdpa.py"))
    with_torch = importlib.util.find_spec("torch") is not None
    results = {}
    for i in range(rounds):
        for what, shapes in (("decode", []), ("prefill", ["1x2048", "1x8192"])):
            if sys.stderr.isatty():
                print(f"\rround {i + 1} of {rounds}: {what}  ", end="", file=sys.stderr, flush=True)
            ours, peers = results.setdefault(what, ([], []))
            ours.append(rows_of(run(bench, what, *FORMATS, *shapes)))
            if with_torch:
                peers.append(rows_of(run(sys.executable, sdpa, what)))
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    return {what: (medians(ours), medians(peers) if peers else {}) for what, (ours, peers) in results.items()}


def self_test():
    ours = rows_of("  format  batch  context   us a layer us a token     TB/s\n"
                   + "".join(f"{name:>8}     64     8192 {us:>12.1f}      7.530     4.45\n"
                             for name, us in zip(FORMATS, (482.0, 261.2, 265.7, 159.0, 146.3))))
    peers = rows_of("  kernel  batch  context   us a layer     TB/s\n   cudnn     64     8192        484.1     4.45\n"
                    "   flash     64     8192        785.7     2.73\n")
    assert ours["int4", 64, 8192] == 159.0 and peers["flash", 64, 8192] == 785.7
    assert medians([{1: 3.0}, {1: 9.0}, {1: 4.0}]) == {1: 4.0}
    lines = decode_table(ours, peers).splitlines()
    assert lines[1].split() == "64 x 8,192 484.1 785.7 482.0 261.2 265.7 159.0 146.3 4.46 1.00".split(), lines
    assert len({len(line) for line in lines}) == 1, lines
    assert "cudnn" not in decode_table(ours, {})
    prompts = rows_of("  format  batch   tokens   us a layer    TFLOP/s\n"
                      + "".join(f"{name:>8}      1 {tokens:>8} {us:>12.1f}        416\n"
                                for name in FORMATS for tokens, us in ((2048, 119.0), (8192, 1322.0))))
    theirs = rows_of("  kernel   tokens   us a layer    TFLOP/s\n   cudnn     2048         90.0        382\n"
                     "   cudnn     8192        898.0        612\n")
    assert prefill_table(prompts, theirs).splitlines()[2].split()[:3] == ["8,192", "612", "416"]
    try:
        rows_of("no CUDA-capable device is detected\n")
    except ValueError:
        return
    raise AssertionError("what is no table was taken for one")


def main():
    parser = argparse.ArgumentParser(description="Attention on a GPU beside PyTorch's.")
    parser.add_argument("build", type=pathlib.Path, nargs="?", default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if not (options.build / "cuda_attention_bench").exists():
        sys.exit(f"report.py: there is no cuda_attention_bench in {options.build}: build with CUDA and tests first")
    try:
        results = measure(options.build, options.rounds)
    except subprocess.CalledProcessError as error:
        sys.exit(f"report.py: {' '.join(error.cmd)} failed:\n{error.stderr}")
    print(f"Attention of a decode step, µs a layer: 32 query heads, 8 KV heads of 128, blocks of 16; medians of {options.rounds}")
    print(decode_table(*results["decode"]))
    print("\nAttention of a prompt, TFLOP/s")
    print(prefill_table(*results["prefill"]))
    if not results["decode"][1]:
        print("\nThis python3 has no PyTorch to compare with.")


main()
