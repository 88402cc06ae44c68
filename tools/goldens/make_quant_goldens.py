#!/usr/bin/env python3
"""What ggml makes of quantized blocks: decoded numbers to the last bit, and the error of its own encoders.

    python3 tools/goldens/make_quant_goldens.py LIBGGML_BASE.so > tests/backend/fixtures/quant.json

LIBGGML_BASE.so is llama.cpp's libggml-base, such as the npm package @node-llama-cpp/linux-x64 brings.
"""
import ctypes
import json
import struct
import sys

# name: (ggml's name, numbers of a block, bytes of a block, where its binary16 fields lie)
TYPES = {
    "q8_0": ("q8_0", 32, 34, [0]),
    "q4_0": ("q4_0", 32, 18, [0]),
    "q4_1": ("q4_1", 32, 20, [0, 2]),
    "q5_0": ("q5_0", 32, 22, [0]),
    "q5_1": ("q5_1", 32, 24, [0, 2]),
    "iq4_nl": ("iq4_nl", 32, 18, [0]),
    "q2_k": ("q2_K", 256, 84, [80, 82]),
    "q3_k": ("q3_K", 256, 110, [108]),
    "q4_k": ("q4_K", 256, 144, [0, 2]),
    "q5_k": ("q5_K", 256, 176, [0, 2]),
    "q6_k": ("q6_K", 256, 210, [208]),
    "iq4_xs": ("iq4_xs", 256, 136, [0]),
    "mxfp4": ("mxfp4", 32, 17, []),
}
ENCODED = ["q8_0", "q4_0", "q4_k", "q6_k"]
COLS = 4096
MASK = (1 << 64) - 1


class Lcg:
    """The test has the same generator: quant_test.cpp."""

    def __init__(self, seed):
        self.state = seed

    def bits(self, count):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK
        return self.state >> (64 - count)

    def normal(self):
        return (sum(self.bits(22) for _ in range(4)) - (1 << 23)) / (1 << 22)


def block(lcg, size, halves):
    data = bytearray(lcg.bits(8) for _ in range(size))
    for i, at in enumerate(halves):
        data[at : at + 2] = struct.pack("<e", (0.0137, -0.0291)[i] if lcg.bits(1) else (-0.0553, 0.0719)[i])
    return bytes(data)


def main():
    ggml = ctypes.CDLL(sys.argv[1])

    def decode(name, data, count):
        out = (ctypes.c_float * count)()
        getattr(ggml, "dequantize_row_" + name)(data, out, ctypes.c_int64(count))
        return out

    result = {}
    for number, (ours, (theirs, elements, size, halves)) in enumerate(TYPES.items()):
        data = block(Lcg(number + 1), size, halves)
        values = decode(theirs, data, elements)
        result[ours] = {"block": data.hex(), "bits": struct.pack(f">{elements}f", *values).hex()}
        if ours not in ENCODED:
            continue
        lcg = Lcg(77)
        x = [lcg.normal() for _ in range(COLS)]
        row = ctypes.create_string_buffer(COLS // elements * size)
        getattr(ggml, f"quantize_row_{theirs}_ref")((ctypes.c_float * COLS)(*x), row, ctypes.c_int64(COLS))
        back = decode(theirs, row, COLS)
        result[ours]["mean_square_error"] = sum((a - b) ** 2 for a, b in zip(x, back)) / COLS
    print("{\n" + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in result.items()) + "\n}")


if __name__ == "__main__":
    main()
