"""PyTorch's attention on the shapes of cuda_attention_bench: what its kernels read or compute in a second.

  python3 bench/cuda/sdpa.py [decode|prefill]
"""
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

HEADS, KV_HEADS, DIM = 32, 8, 128
LEAST_SETS = 4  # as cuda_attention_bench has layers
KERNELS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def seconds_of(kernel, sets, causal):
    """One call's, as the median of replays of a graph that goes over all sets."""
    def all_sets():
        for q, k, v in sets:
            scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    with sdpa_kernel(kernel):
        all_sets()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            all_sets()
    times = []
    for i in range(13):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if i >= 2:
            times.append(begin.elapsed_time(end) / 1e3 / len(sets))
    return sorted(times)[len(times) // 2]


def sets_of(batch, rows, context, at_least):
    bytes_of_one = batch * KV_HEADS * context * DIM * 2 * 2
    count = max(LEAST_SETS, min(32, int(at_least / bytes_of_one) + 1))
    def draw(heads, tokens):
        return torch.randn(batch, heads, tokens, DIM, device="cuda", dtype=torch.bfloat16)
    return [(draw(HEADS, rows), draw(KV_HEADS, context), draw(KV_HEADS, context)) for _ in range(count)], bytes_of_one


def main():
    what = sys.argv[1] if len(sys.argv) > 1 else "decode"
    if what == "decode":
        print(f"{'kernel':>8} {'batch':>6} {'context':>8} {'us a layer':>12} {'TB/s':>8}")
        for name, kernel in KERNELS.items():
            for batch, context in [(1, 8192), (8, 8192), (32, 4096), (64, 8192), (128, 2048)]:
                sets, size = sets_of(batch, 1, context, 512e6)
                seconds = seconds_of(kernel, sets, False)
                print(f"{name:>8} {batch:>6} {context:>8} {seconds * 1e6:>12.1f} {size / seconds / 1e12:>8.2f}", flush=True)
    else:
        print(f"{'kernel':>8} {'tokens':>8} {'us a layer':>12} {'TFLOP/s':>10}")
        for name, kernel in KERNELS.items():
            for tokens in (2048, 8192):
                sets, _ = sets_of(1, tokens, tokens, 1)
                seconds = seconds_of(kernel, sets, True)
                print(f"{name:>8} {tokens:>8} {seconds * 1e6:>12.1f} {2 * tokens**2 * HEADS * DIM / seconds / 1e12:>10.0f}", flush=True)


main()
