"""Files of a model that are refused: the whole program says why and ends by itself, never by a signal."""
import json
import pathlib
import subprocess
import tempfile

from attack import Attack, MODEL, check


def changed(path, change):
    value = json.loads((MODEL / path).read_text())
    change(value)
    return json.dumps(value)


def set_(*path_and_value):
    *path, last, value = path_and_value

    def change(root):
        for key in path:
            root = root[key]
        root[last] = value
    return change


def drop(*path):
    *path, last = path

    def change(root):
        for key in path:
            root = root[key]
        root.pop(last, None)
    return change


TOKENIZER = "tokenizer.json"
REFUSED = {
    "WordPiece": changed(TOKENIZER, set_("model", "type", "WordPiece")),
    "WordLevel": changed(TOKENIZER, set_("model", "type", "WordLevel")),
    "no type of model": changed(TOKENIZER, set_("model", "type", 7)),
    "no model": changed(TOKENIZER, drop("model")),
    "no vocabulary": changed(TOKENIZER, drop("model", "vocab")),
    "vocabulary is a list": changed(TOKENIZER, set_("model", "vocab", [1, 2])),
    "unknown decoder": changed(TOKENIZER, set_("decoder", {"type": "Magic"})),
    "unknown pre-tokenizer": changed(TOKENIZER, set_("pre_tokenizer", {"type": "Magic"})),
    "unknown normalizer": changed(TOKENIZER, set_("normalizer", {"type": "Magic"})),
    "unknown post-processor": changed(TOKENIZER, set_("post_processor", {"type": "Magic"})),
    "bad pattern": changed(TOKENIZER, set_("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated"})),
    "bad merges": changed(TOKENIZER, set_("model", "merges", ["a b c d"])),
    "merges of unknown pieces": changed(TOKENIZER, set_("model", "merges", ["qqqq zzzz"])),
    "added tokens are text": changed(TOKENIZER, set_("added_tokens", "none")),
    "negative id": changed(TOKENIZER, set_("model", "vocab", "a", -5)),
    "huge id": changed(TOKENIZER, set_("model", "vocab", "a", 2**40)),
    "a fraction for an id": changed(TOKENIZER, set_("model", "vocab", "a", 1.5)),
    "no JSON": "not json",
    "cut short": (MODEL / TOKENIZER).read_text()[:100_000],
    "empty": "",
    "a list": "[]",
    "deep": '{"a":' * 200_000,
    "many objects": '{"x":[' + ",".join(["{}"] * 100_000) + "]}",
}
OTHERS = {
    "config.json": {"no JSON": "{", "empty": "", "a list": "[]", "deep": "[" * 300_000,
                    "no layers": changed("config.json", drop("num_hidden_layers")),
                    "text for a number": changed("config.json", set_("hidden_size", "many")),
                    "another kind": changed("config.json", set_("architectures", ["MagicForCausalLM"])),
                    "too many heads": changed("config.json", set_("num_attention_heads", 2**31))},
    "tokenizer_config.json": {"no JSON": "{", "deep": "[" * 300_000},
    "generation_config.json": {"no JSON": "{", "deep": "[" * 300_000},
    "model.safetensors": {"empty": "", "text": "A" * 100, "huge header": "\xff\xff\xff\x7f" * 4},
    "chat_template.jinja": {"open block": "{% for", "refusing": "{{ raise_exception('x') }}",
                            "endless": "{% for a in range(10**9) %}{% for b in range(10**9) %}x{% endfor %}{% endfor %}"},
}
ACCEPTED = {
    "bos_token_id beyond the vocabulary": ("config.json", changed("config.json", set_("bos_token_id", 99_999))),
    "byte_fallback false": (TOKENIZER, changed(TOKENIZER, set_("model", "byte_fallback", False))),
}


def run_with(lab, name, text, verb=("run", "-n", "2", "--chat", "-p", "Once upon")):
    """`kvasir run` on the shipped model with one file replaced."""
    with tempfile.TemporaryDirectory(prefix="kvasir-attack-") as folder:
        folder = pathlib.Path(folder)
        for path in MODEL.iterdir():
            if path.name != name:
                (folder / path.name).symlink_to(path)
        (folder / name).write_text(text, encoding="latin-1" if name.endswith("tensors") else "utf-8")
        return subprocess.run([lab.program, verb[0], "-m", str(folder), *verb[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)


def refuse(lab, name, cases):
    for what, text in cases:
        done = run_with(lab, name, text)
        check(0 <= done.returncode < 128, f"{name}, {what}: exit code {done.returncode}: {done.stderr[-200:].decode(errors='replace')}")
        check(done.returncode == 0 or done.stderr.strip(), f"{name}, {what}: exit code {done.returncode} without a word")
        check(len(done.stderr) < 8192, f"{name}, {what}: {len(done.stderr):,} bytes of error")
    return len(cases)


def tokenizers(lab):
    count = refuse(lab, TOKENIZER, list(REFUSED.items()))
    return f"{count} bad tokenizers are refused"


def other_files(lab):
    return f"{sum(refuse(lab, name, list(cases.items())) for name, cases in OTHERS.items())} bad files are refused"


def served_files(lab):
    """A server that cannot load its model says why, and does not end as if all were well."""
    cases = [(TOKENIZER, "no JSON"), (TOKENIZER, "WordPiece"), ("config.json", "empty"), ("config.json", "too many heads"),
             ("model.safetensors", "text"), ("chat_template.jinja", "open block")]
    for name, what in cases:
        done = run_with(lab, name, (REFUSED if name == TOKENIZER else OTHERS[name])[what], ("serve", "--port", "0"))
        said = done.stderr.decode(errors="replace")
        check(0 < done.returncode < 128 and name in said, f"{name}, {what}: exit code {done.returncode}: {said[-200:]}")
    for flags in [("--kv-memory", "1KiB"), ("--kv-memory", "x"), ("--swap-memory", "x"), ("--kv", "nonsense")]:
        done = run_with(lab, "config.json", (MODEL / "config.json").read_text(), ("serve", "--port", "0", *flags))
        said = done.stderr.decode(errors="replace")
        check(0 < done.returncode < 128 and said.strip(), f"{flags}: exit code {done.returncode}: {said[-200:]}")
    return f"{len(cases)} bad files and 4 bad flags end kvasir serve with a reason"


def real_checkpoints(lab):
    plain = run_with(lab, "config.json", (MODEL / "config.json").read_text())
    check(plain.returncode == 0, f"the model as it is: {plain.stderr[-300:].decode(errors='replace')}")
    for what, (name, text) in ACCEPTED.items():
        done = run_with(lab, name, text)
        check(done.returncode == 0, f"{what}: {done.stderr[-300:].decode(errors='replace')}")
    return f"{len(ACCEPTED)} files that real models have"


ATTACKS = [
    Attack("bad tokenizers", tokenizers),
    Attack("other bad files", other_files),
    Attack("serve bad files", served_files),
    Attack("real checkpoints", real_checkpoints),
]
