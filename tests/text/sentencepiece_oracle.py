#!/usr/bin/env python3
"""Writes fixtures/sentencepiece.json: small models of SentencePiece, as tokenizer.model has them, and what the library
makes of texts with them.

The models are trained here on the lines and texts of parts_oracle.py's fixtures, unigram and BPE, with every option of
the normalizer on and off. Their table of characters is a few lines (the library's own has 240 KB). Run it by hand and
commit the result; the tests read the file only. gguf_oracle.mjs adds what llama.cpp makes of them.

    apt install python3-sentencepiece
    /usr/bin/python3 tests/text/sentencepiece_oracle.py
"""
import base64
import io
import json
import pathlib
import sys
import tempfile

import sentencepiece

FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"
RULES = {"ﬁ": "fi", "ﬂ": "fl", "½": "1/2", "²": "2", "Ⅷ": "VIII", "\u3000": " ", "\u00a0": " ", "e\u0301": "é", "\u200b": "",
         "ﾊ": "ハ", "ﾊﾟ": "パ", "\t": " ", "\n": " ", "A": "a", "B": "b", "T": "t", "\ufeff": "", "…": "..."}
LINES = [
    "Once upon a time there was a king who had three daughters, and all of them were beautiful.",
    "The quick brown fox jumps over the lazy dog; it did not look back, and didn't care.",
    "日本語のテキスト、中文文本，한국어 텍스트.", "東京は日本の首都です。北京是中国的首都。",
    "Ein König hieß Jörg; où est le café? ¿Dónde está la niña?", "שלום עולם — привет, мир! γειά σου Κόσμε",
    "def f(x):\n    return x * 2  # twice", '{"name": "value", "list": [1, 2, 3], "null": null}',
    "unbelievable unhappiness reading writing walked talking playing player played in 1984 and 365 days",
]
MORE = ["<user>", "a<user>b", "a <user> b", " <user>", "<user><user>>x", "<user", "A B T", "  a  b  ", "a\u3000\u3000b", " ▁ ", "a▁"]
OPTIONS = [
    {"name": "t5", "model_type": "unigram"},
    {"name": "unigram, bytes", "model_type": "unigram", "byte_fallback": True, "remove_extra_whitespaces": False},
    {"name": "unigram, no prefix", "model_type": "unigram", "add_dummy_prefix": False},
    {"name": "unigram, bare", "model_type": "unigram", "add_dummy_prefix": False, "remove_extra_whitespaces": False},
    {"name": "unigram, user", "model_type": "unigram", "user_defined_symbols": ["<user>", "<user>>"]},
    {"name": "bpe", "model_type": "bpe"},
    {"name": "llama", "model_type": "bpe", "byte_fallback": True, "remove_extra_whitespaces": False, "tsv": False},
    {"name": "bpe, user", "model_type": "bpe", "user_defined_symbols": ["<user>", "<user>>"], "add_dummy_prefix": False},
    {"name": "bpe, bytes", "model_type": "bpe", "byte_fallback": True, "control_symbols": ["<|end|>"]},
]


def fields(message):
    """(number, value) of each field of a message of protocol buffers."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        size = {0: None, 1: 8, 5: 4}.get(tag & 7, 0)
        if size is None:
            yield tag >> 3, varint()
            continue
        size = size or varint()
        yield tag >> 3, message[at:at + size]
        at += size


def train(options, folder):
    options = dict(options)
    options.pop("name")
    if options.pop("tsv", True):
        rules = folder / "rules.tsv"
        code = lambda text: " ".join(f"{ord(c):X}" for c in text)
        rules.write_text("".join(f"{code(key)}\t{code(value)}\n" for key, value in RULES.items()))
        options["normalization_rule_tsv"] = str(rules)
    else:
        options["normalization_rule_name"] = "identity"
    if len(sys.argv) > 1:  # the library's own table, for a look; the fixture would be large
        options.pop("normalization_rule_tsv", None)
        options["normalization_rule_name"] = sys.argv[1]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20), model_writer=model, hard_vocab_limit=False, character_coverage=0.985, minloglevel=2,
        vocab_size=600 if options.get("byte_fallback") else 330, **options)
    return model.getvalue()


def main():
    texts = json.loads((FIXTURES / "parts_models.json").read_text())["texts"] + MORE
    groups = []
    with tempfile.TemporaryDirectory() as folder:
        for options in OPTIONS:
            proto = train(options, pathlib.Path(folder))
            model = sentencepiece.SentencePieceProcessor(model_proto=proto)
            charsmap = [value for number, part in fields(proto) if number == 3 for number, value in fields(part) if number == 2]
            kinds = [(model.is_unknown, 2), (model.is_control, 3), (model.is_unused, 5), (model.is_byte, 6)]
            pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
            types = [next((value for test, value in kinds if test(i)), 1) for i in range(len(pieces))]
            user = options.get("user_defined_symbols", [])
            groups.append({
                "name": options["name"], "model": base64.b64encode(proto).decode(), "tokens": pieces,
                "scores": [model.get_score(i) for i in range(len(pieces))],
                "token_type": [4 if piece in user else kind for piece, kind in zip(pieces, types)],
                "charsmap": base64.b64encode(charsmap[0] if charsmap else b"").decode(),
                "add_space_prefix": options.get("add_dummy_prefix", True),
                "remove_extra_whitespaces": options.get("remove_extra_whitespaces", True),
                "ids": [model.encode(text) for text in texts],
                "decoded": [model.decode(model.encode(text)) for text in texts],
            })
    fixture = {"texts": texts, "groups": groups}
    (FIXTURES / "sentencepiece.json").write_text(json.dumps(fixture, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{len(groups)} models, {len(texts)} texts")


main()
