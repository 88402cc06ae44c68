#!/usr/bin/env python3
"""Writes what each fuzzer begins with into OUT/NAME/: its seeds, and inputs made of the checkout's models and fixtures.

    make_corpus.py ROOT OUT NAME…
"""
import base64
import functools
import json
import math
import pathlib
import shutil
import sys

TEXT = "\0 the  don't 123 café 中文 😀\n<s> x"  # what a tokenizer is given


def copy_seeds(root, out):
    seeds = root / "fuzz/seeds" / out.name
    for seed in seeds.iterdir() if seeds.is_dir() else ():
        shutil.copyfile(seed, out / seed.name)


# Modules of quantized weights with 8 outputs and 64 inputs, and two experts with 2 and 32: suffix, type, shape.
QUANTIZED = {
    "gptq": [("a.qweight", "I32", [8, 8]), ("a.qzeros", "I32", [2, 1]), ("a.scales", "F16", [2, 8]), ("a.g_idx", "I32", [64])],
    "awq": [("a.qweight", "I32", [64, 1]), ("a.qzeros", "I32", [2, 1]), ("a.scales", "F16", [2, 8])],
    "packed": [("a.weight_packed", "I32", [8, 8]), ("a.weight_scale", "BF16", [8, 2]), ("a.weight_zero_point", "I32", [1, 2])],
    "int8": [("a.weight", "I8", [8, 64]), ("a.weight_scale", "F32", [8, 1]), ("a.weight_zero_point", "I8", [8, 1])],
    "fp8": [("a.weight", "F8_E4M3", [8, 64]), ("a.weight_scale_inv", "F32", [2, 2])],
    "mxfp4": [("e_blocks", "U8", [2, 2, 1, 16]), ("e_scales", "U8", [2, 2, 1])],
}
BYTES = {"I32": 4, "F32": 4, "F16": 2, "BF16": 2}


def safetensors(root, out):
    for folder in (root / "tests/model/fixtures").iterdir():
        if (folder / "golden.safetensors").exists():
            shutil.copyfile(folder / "golden.safetensors", out / folder.name)
    for name, tensors in QUANTIZED.items():
        header, data = {}, b""
        for tensor, dtype, shape in tensors:
            size = BYTES.get(dtype, 1) * math.prod(shape)
            header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
            data += bytes(size) if tensor.endswith("g_idx") else bytes(i * 37 % 60 for i in range(size))
        text = json.dumps(header).encode()
        (out / f"quantized_{name}").write_bytes(len(text).to_bytes(8, "little") + text + data)


def config(root, out):
    for folder in (root / "tests/model/fixtures").iterdir():
        if (folder / "config.json").exists():
            shutil.copyfile(folder / "config.json", out / folder.name)


def chat_template(root, out):
    """A template, and after a NUL a message."""
    shutil.copyfile(root / "models/tales/chat_template.jinja", out / "tales")
    templates = json.loads((root / "tests/text/fixtures/jinja_cases.json").read_text())["templates"]
    for number, template in enumerate(sorted(template for template in templates if len(template) < 2000)):
        (out / f"case_{number}").write_text(template + "\0 a message")


def json_schema(root, out):
    """A schema, and after a NUL the choices made among what it allows."""
    for seed in (root / "fuzz/seeds/json_schema").iterdir():
        chosen = seed.read_bytes() + b"\0the quick brown fox jumps over the lazy dog 0123456789"
        (out / f"chosen_{seed.name}").write_bytes(chosen)


def first_of(tokenizer, count, alphabet):
    """The same tokenizer with a small vocabulary: the smaller an input, the more of them a fuzzer tries."""
    model = tokenizer["model"]
    added = {token["content"] for token in tokenizer.get("added_tokens") or []}
    kept = {spelled for spelled in model["vocab"]
            if spelled in added or (len(spelled) == 1 or spelled.startswith("<0x")) and alphabet(spelled)}
    kept.add(model.get("unk_token"))
    merges = []
    for merge in model["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        if len(merges) < count and {left, right} <= kept and left + right in model["vocab"]:
            kept.add(left + right)
            merges.append(merge)
    vocab = {spelled: token for spelled, token in model["vocab"].items() if spelled in kept}
    return {**tokenizer, "model": {**model, "vocab": vocab, "merges": merges}}


def tokenizer(root, out):
    """A tokenizer.json, and after a NUL a text."""
    fixtures = root / "tests/text/fixtures"

    def all_letters(_):
        return True

    def few_letters(spelled):
        return spelled in "abdehnotxĠĊ▁'123.<>" or spelled.startswith("<0xC")

    def write(name, value, alphabet=few_letters):
        small = first_of(value, 12, alphabet)
        (out / name).write_text(json.dumps(small, ensure_ascii=False, separators=(",", ":")) + TEXT)

    for path in fixtures.glob("hf_*.json"):
        write(path.stem, json.loads(path.read_text())["tokenizer"], all_letters if path.stem == "hf_gpt2" else few_letters)
    pieces, forms = (json.loads((fixtures / name).read_text()) for name in ("pieces.json", "pieces_hf.json"))
    vocab = {piece: token for token, piece in enumerate(pieces["tokens"])}
    for form in forms["groups"]:
        model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                 "ignore_merges": form["ignore_merges"], "vocab": vocab, "merges": forms["merges"]}
        whole = {**form["changes"], "post_processor": forms["post_processor"], "model": model}
        write(form["name"], whole)
    write("all bytes", whole, all_letters)
    write("no byte fallback", {**whole, "model": {**model, "byte_fallback": False}})
    for name in ("models", "normalizers", "pretokenizers", "decoders"):
        parts = json.loads((fixtures / f"parts_{name}.json").read_text())
        for group in parts["groups"]:
            whole = changed(parts["bases"][group["base"]], group["changes"])
            text = json.dumps(few_pieces(whole), ensure_ascii=False, separators=(",", ":")) + TEXT
            (out / f"{name} {group['name']}").write_text(text)
    for group in json.loads((fixtures / "sentencepiece.json").read_text())["groups"]:
        (out / f"spm {group['name']}").write_bytes(base64.b64decode(group["model"]))


def changed(value, changes):
    """A copy with other values at some JSON pointers."""
    value = json.loads(json.dumps(value))
    for pointer, new in changes.items():
        *path, last = pointer.split("/")[1:]
        functools.reduce(dict.__getitem__, path, value)[last] = new
    return value


def few_pieces(tokenizer):
    """The same with less of a vocabulary."""
    model = tokenizer["model"]
    if model["type"] == "Unigram":
        tokenizer["model"]["vocab"] = model["vocab"][:60]
    elif "merges" not in model:
        added = {token["content"] for token in tokenizer.get("added_tokens") or []}
        kept = {text for text, token in model["vocab"].items() if token % 8 == 0}
        model["vocab"] = {text: token for text, token in model["vocab"].items() if text in kept | added}
    else:
        tokenizer = first_of(tokenizer, 12, lambda text: text in "abdehnotxĠĊ▁'123.<>")
        suffixes = {text for text in model["vocab"] if text.endswith("</w>") and len(text) == 5}
        tokenizer["model"]["vocab"].update({text: model["vocab"][text] for text in suffixes})
    return tokenizer


MADE = {made.__name__: made for made in (safetensors, config, chat_template, json_schema, tokenizer)}


def main():
    root, folder = map(pathlib.Path, sys.argv[1:3])
    for name in sys.argv[3:]:
        out = folder / name
        out.mkdir(parents=True, exist_ok=True)
        copy_seeds(root, out)
        if name in MADE:
            MADE[name](root, out)
        if not any(out.iterdir()):
            sys.exit(f"the fuzzer {name} has nothing to begin with: put a few inputs into fuzz/seeds/{name}/")


if __name__ == "__main__":
    main()
