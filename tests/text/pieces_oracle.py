#!/usr/bin/env python3
"""Writes fixtures/pieces.json: a small SentencePiece vocabulary, and what SentencePiece makes of texts with it.

The model is trained here on the README and documents of the project and a few lines in other scripts: BPE with byte
fallback and no normalization, as Llama 2's. pieces_oracle.mjs adds what other libraries make of it.
Run it by hand and commit the results; the tests read the files only.

    apt install python3-sentencepiece
    python3 tests/text/pieces_oracle.py
    node tests/text/pieces_oracle.mjs       # see there
"""
import io
import json
import pathlib

import sentencepiece

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "tests/text/fixtures/pieces.json"

LINES = [
    "Once upon a time there was a king who had three daughters.",
    "日本語のテキスト、中文文本，한국어 텍스트.",
    "Ein König hieß Jörg; où est le café? ¿Dónde está?",
    "שלום עולם — привет, мир! γειά σου",
    "def f(x):\n    return x * 2  # twice",
    '{"name": "value", "list": [1, 2, 3], "null": null}',
]

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n", "\t", "\t\t\n", " \n \t", "a", " a", "  a", "a ", "a  ", "a  b", "the", " the",
    "Once upon a time", "The cache never changes the answer.", "hello world", "Hello, World!", "don't I'LL we've",
    "1", "12", "1234567890", "3.14159", "café", "cafe\u0301", "naïve", "中文", "日本語のテキスト", "한국어", "שלום",
    "привет", "😀", "👨‍👩‍👧 family", "a😀b", "\u00a0x\u3000y", "\u200b", "x\u0000y", "\ufeffbom", "\ufffd",
    "def f(x):\n    return x\n", '{"name": "value"}', '{"a": [1, 2.5, null]}', "<0x41>", "<0x", "a▁b", "▁", "▁▁a",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    " " * 33, "the " * 40, "=" * 20, "-----", "https://example.org/a?b=c&d=%20", "ÀÉÎÕÜ ß ﬁ Ⅷ ½", "\r\n\r\n", "a\r\nb",
    "\U0010ffff", "𝒳𝓎", "٣٤", "x" * 70 + "é" * 10,
]


def train():
    texts = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    lines = LINES * 20 + [line for text in texts for line in text.read_text().splitlines()]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=700, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True,
        split_digits=True, allow_whitespace_only_pieces=True, character_coverage=0.999,
        user_defined_symbols=["<user>", "<user>>"], control_symbols=["<|end|>"], minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def main():
    model = train()
    kinds = [(model.is_unknown, 2), (model.is_control, 3), (model.is_unused, 5), (model.is_byte, 6)]
    tokens, scores, types = [], [], []
    for token in range(model.get_piece_size()):
        piece = model.id_to_piece(token)
        kind = next((value for test, value in kinds if test(token)), 1)
        tokens.append(piece)
        scores.append(model.get_score(token))
        types.append(4 if piece.startswith("<user>") else kind)
    cases = [{"text": text, "ids": model.encode(text)} for text in TEXTS]
    for case in cases:
        case["decoded"] = model.decode(case["ids"])
    fixture = {"tokens": tokens, "scores": scores, "token_type": types, "cases": cases}
    FIXTURE.write_text(json.dumps(fixture, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{len(tokens)} tokens, {len(cases)} texts")


main()
