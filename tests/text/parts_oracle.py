#!/usr/bin/env python3
"""Writes fixtures/parts_*.json: what Hugging Face's tokenizers (the library in Rust) make of texts, for tokenizers that
have each kind of model, normalizer, pre-tokenizer, post-processor and decoder that there is.

The vocabularies are trained here on the lines below. Each file has tokenizers as JSON pointers to change in a base, and
for each the ids of all texts, and what these are decoded to. Run it by hand and commit the results; the tests read the
files only.

    pip install tokenizers==0.23.1          # or Debian's python3-tokenizers
    python3 tests/text/parts_oracle.py
"""
import base64
import json
import pathlib
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"

LINES = [
    "Once upon a time there was a king who had three daughters, and all of them were beautiful.",
    "The quick brown fox jumps over the lazy dog; it did not look back, and didn't care.",
    "She said: 'I do not know what you mean.' He's sure they've been there, we're not.",
    "日本語のテキスト、中文文本，한국어 텍스트.", "東京は日本の首都です。北京是中国的首都。",
    "Ein König hieß Jörg; où est le café? ¿Dónde está la niña?", "שלום עולם — привет, мир! γειά σου Κόσμε",
    "def f(x):\n    return x * 2  # twice", '{"name": "value", "list": [1, 2, 3], "null": null}',
    "In 1984 there were 365 days and 12 months.", "naïve façade, coöperate, résumé; ﬁne ﬂow ½ ² Ⅷ",
    "unbelievable unhappiness reading writing walked talking playing player played",
]

TEXTS = [
    "", " ", "  ", "\n", "\t\t\n", " \n \t", "a", " a", "  a", "a ", "a  ", "a  b", "the", " the", "The King",
    "Once upon a time", "THE QUICK BROWN FOX", "hello world", "Hello, World!", "don't I'LL we've they're", "do not",
    "1", "12", "1234567890", "3.14159", "x1y22z333", "café", "cafe\u0301", "CAFÉ", "naïve", "İstanbul ISPARTA ß ẞ",
    "ΣΊΣΥΦΟΣ", "中文", "日本語のテキスト", "カタカナとひらがなー", "한국어", "שלום", "привет", "😀", "👨‍👩‍👧 family", "a😀b",
    "\u00a0x\u3000y", "\u200b", "x\u200dy\u200cz", "x\u0001y\u007fz\u0085w", "\ufeffbom", "\ufffd", "a\u00adb",
    "def f(x):\n    return x\n", '{"a": [1, 2.5, null]}', "<0x41>", "a▁b", "▁", "▁▁a", "</w>", "##ing ##", "a_b-c/d\\e",
    "a" * 120, "ab" * 60, " " * 17, "the " * 20, "=" * 20, "-----", "https://example.org/a?b=c&d=%20", "\r\n\r\n",
    "ÀÉÎÕÜ ﬁ Ⅷ ½ ² ﷺ", "\U0010ffff\ue000", "𝒳𝓎 𠀀", "٣٤", "e\u0301\u0327\u0323", "\u0301x", "q\u0323\u0307",
    "क्षत्रिय", "ไทยภาษา", "가각\u1100\u1161\u11a8", "(a){b}[c]<d>", "“quoted” — dash…", "¡¿«»", "$5 + 3 = 8 ^ ~ ` |",
    "[CLS]", "[UNK] x", "[MASK]", "x [MASK] y", "a[SEP]b", "<unk>", "<s>a</s>", "it 's . , ! ?", "a' b n't",
    "the\u2028king\u2029end", "\u1680\u180e\u205f", "Ǆ ǅ ǆ Ŀ ŀ", "\u0378\u0530", "x\u20ddy", "\u0903\u0940",
    "K Å", "ﾊﾟ ｶﾞ", "①②", "…", "a\u0300\u0301\u0302b", "🇩🇪🇫🇷", "👍🏽", "1\ufe0f\u20e3",
]


def random_texts(count):
    """Odd texts from a fixed seed: pieces of the lines, marks, controls, and characters from everywhere."""
    rng = random.Random(7)
    pools = [" \t\n\r\u00a0\u3000", "abcdefghij THE", "\u0301\u0308\u0323\u200d\ufe0f", "中文日本語カナ", "😀👩🇩👍🏽",
             "0123456789", ".,!?'\"()[]{}#_-", "éèüñçßÀ", "\u0000\u0001\u001f\u007f\u0085\u200b\ufeff\ufffd", "ﬁﬂⅧ½²Ａ１ﾊ"]
    out = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 9)):
            kind = rng.random()
            if kind < 0.35:
                line = rng.choice(LINES)
                at = rng.randrange(len(line))
                parts.append(line[at:at + rng.randint(1, 9)])
            elif kind < 0.85:
                parts.append(rng.choice(rng.choice(pools)))
            else:
                code = rng.choice([rng.randrange(0x250), rng.randrange(0x3100), rng.randrange(0x10000), rng.randrange(0x20000)])
                parts.append("" if 0xD800 <= code < 0xE000 else chr(code))
        out.append("".join(parts))
    return out


TEXTS += random_texts(110)
SPECIAL = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def trained(model, trainer, pre):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre
    tokenizer.train_from_iterator(LINES * 3, trainer)
    return json.loads(tokenizer.to_str())


def bases():
    bert = pre_tokenizers.BertPreTokenizer()
    out = {
        "wordpiece": trained(models.WordPiece(unk_token="[UNK]"),
                             trainers.WordPieceTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False), bert),
        "wordlevel": trained(models.WordLevel(unk_token="[UNK]"),
                             trainers.WordLevelTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False),
                             pre_tokenizers.Whitespace()),
        "unigram": trained(models.Unigram(),
                           trainers.UnigramTrainer(vocab_size=400, special_tokens=["<unk>", "<s>", "</s>"],
                                                   unk_token="<unk>", show_progress=False), pre_tokenizers.Metaspace()),
        "bpe": trained(models.BPE(unk_token="[UNK]"),
                       trainers.BpeTrainer(vocab_size=420, special_tokens=SPECIAL, show_progress=False), bert),
        "bpe_suffix": trained(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"),
                              trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, end_of_word_suffix="</w>",
                                                  show_progress=False), bert),
        "bpe_prefix": trained(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"),
                              trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, continuing_subword_prefix="##",
                                                  show_progress=False), bert),
        "bpe_bytes": trained(models.BPE(), trainers.BpeTrainer(vocab_size=400, show_progress=False,
                                                               initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
                             pre_tokenizers.ByteLevel()),
    }
    # Bytes for what unigram does not know.
    fallback = json.loads(json.dumps(out["unigram"]))
    fallback["model"]["vocab"] += [[f"<0x{byte:02X}>", -20.0 - byte / 100] for byte in range(256)]
    fallback["model"]["byte_fallback"] = True
    out["unigram_bytes"] = fallback
    return out


def charsmap():
    """A table as SentencePiece writes it, with the rules of a few characters: see its builder of double arrays."""
    rules = {"ﬁ": "fi", "ﬂ": "fl", "½": "1/2", "²": "2", "Ⅷ": "VIII", "\u3000": " ", "\u00a0": " ", "é": "e", "e\u0301": "é",
             "\u200b": "", "Å": "Å", "ﾊ": "ハ", "ﾊﾟ": "パ", "\t": " ", "\n": " ", "中": "中国", "a\u0300": "à", "\ufeff": ""}
    return base64.b64encode(darts({key.encode(): value.encode() for key, value in rules.items()})).decode()


def darts(rules):
    """A double array in the form of Darts-clone, and its results: each found with no thought for size."""
    results, offsets = b"", {}
    for value in sorted(set(rules.values())):
        offsets[value] = len(results)
        results += value + b"\0"
    trie = {}
    for key, value in rules.items():
        node = trie
        for byte in key:
            node = node.setdefault(byte, {})
        node[0] = offsets[value]  # 0 ends a key
    units, used = [0] * 256, {0}

    def place(node, at):
        labels = list(node)
        offset = 1
        while any(((at ^ offset) ^ label) in used or (at ^ offset) ^ label == 0 for label in labels) or offset >= 1 << 21:
            offset += 1
        base = at ^ offset
        size = (base | 255) + 256
        units.extend([0] * max(0, size - len(units)))
        units[at] |= offset << 10 | (0x100 if 0 in node else 0)
        for label in labels:
            used.add(base ^ label)
        for label in labels:
            if label == 0:
                units[base] = 0x80000000 | node[0]
            else:
                units[base ^ label] |= label
                place(node[label], base ^ label)

    place(trie, 0)
    array = b"".join(unit.to_bytes(4, "little") for unit in units)
    return len(array).to_bytes(4, "little") + array + results


def part(value):
    return json.loads(value.__getstate__())


def groups(name):
    """(name, base, changes)"""
    normal = {
        "lowercase": normalizers.Lowercase(), "nfd": normalizers.NFD(), "nfkd": normalizers.NFKD(), "nfkc": normalizers.NFKC(),
        "nmt": normalizers.Nmt(), "strip": normalizers.Strip(), "strip left": normalizers.Strip(left=True, right=False),
        "strip right": normalizers.Strip(left=False, right=True),
        "accents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
        "bert": normalizers.BertNormalizer(), "bert cased": normalizers.BertNormalizer(lowercase=False),
        "bert accents": normalizers.BertNormalizer(strip_accents=False),
        "bert stripped": normalizers.BertNormalizer(strip_accents=True, lowercase=False, clean_text=False),
        "bert bare": normalizers.BertNormalizer(False, False, False, False),
        "replace": normalizers.Sequence([normalizers.Replace("th", "TH"), normalizers.Replace(Regex(r"\s{2,}|[\n\r]"), " ")]),
        "prepend": normalizers.Prepend("_"), "nothing": normalizers.Sequence([]),
    }
    pre = {
        "whitespace": pre_tokenizers.Whitespace(), "whitespace split": pre_tokenizers.WhitespaceSplit(),
        "punctuation": pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]),
        "delimiter": pre_tokenizers.CharDelimiterSplit(" "), "scripts": pre_tokenizers.UnicodeScripts(),
        "fixed": pre_tokenizers.FixedLength(4), "digits": pre_tokenizers.Digits(True), "numbers": pre_tokenizers.Digits(False),
        "split": pre_tokenizers.Split(Regex(r"\p{L}+"), "isolated", True), "bert": pre_tokenizers.BertPreTokenizer(),
        "literal": pre_tokenizers.Split("a.", "removed", False), "byte level": pre_tokenizers.ByteLevel(False, use_regex=True),
    }
    for behavior in ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]:
        pre["punctuation " + behavior] = pre_tokenizers.Punctuation(behavior)
        pre["split " + behavior] = pre_tokenizers.Split(Regex(r"[aeiou\s]"), behavior, False)
    decode = {
        "wordpiece": decoders.WordPiece(), "wordpiece bare": decoders.WordPiece(prefix="##", cleanup=False),
        "metaspace": decoders.Metaspace(), "metaspace never": decoders.Metaspace(prepend_scheme="never"),
        "suffix": decoders.BPEDecoder(), "ctc": decoders.CTC(pad_token="a", word_delimiter_token="e"),
        "ctc bare": decoders.CTC(pad_token="a", word_delimiter_token="e", cleanup=False), "fuse": decoders.Fuse(),
        "strip": decoders.Strip("a", 1, 0), "strip all": decoders.Sequence([decoders.Fuse(), decoders.Strip("a", 2, 0)]),
        "strip end": decoders.Sequence([decoders.Fuse(), decoders.Strip("e", 0, 1)]),
        "replace": decoders.Replace(Regex("[aeiou]"), "*"), "byte level": decoders.ByteLevel(),
        "replace all": decoders.Sequence([decoders.Fuse(), decoders.Replace("the", "THE"), decoders.Replace("E", "")]),
        "pieces": decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)]), "none": None,
    }
    surround = {"bert": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
                "roberta": {"type": "RobertaProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1], "trim_offsets": True,
                            "add_prefix_space": False}}
    if name == "normalizers":
        for key, value in normal.items():
            yield key, "bpe", {"/normalizer": part(value)}
        yield "precompiled", "bpe", {"/normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap()}}
        yield "byte level", "bpe_bytes", {"/normalizer": {"type": "ByteLevel"}, "/pre_tokenizer": None,
                                          "/decoder": part(decoders.ByteLevel())}
        yield "byte level, cut", "bpe_bytes", {"/normalizer": {"type": "ByteLevel"}, "/decoder": part(decoders.ByteLevel()),
                                               "/pre_tokenizer": part(pre_tokenizers.Split("Ġ", "merged_with_next"))}
    if name == "pretokenizers":
        for key, value in pre.items():
            decoder = part(decoders.ByteLevel()) if key == "byte level" else None
            yield key, "bpe", {"/pre_tokenizer": part(value), "/decoder": decoder}
        yield "none", "bpe", {"/pre_tokenizer": None}
        yield "byte level first", "bpe_bytes", {"/decoder": part(decoders.ByteLevel()), "/pre_tokenizer": part(
            pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(False), pre_tokenizers.FixedLength(3)]))}
        yield "whole words", "wordlevel", {}
        yield "words", "wordlevel", {"/pre_tokenizer": part(pre_tokenizers.WhitespaceSplit())}
    if name == "models":
        bert = part(normalizers.BertNormalizer())
        yield "wordpiece", "wordpiece", {}
        yield "bert", "wordpiece", {"/normalizer": bert, "/decoder": part(decoders.WordPiece()), "/post_processor": surround["bert"]}
        yield "short words", "wordpiece", {"/model/max_input_chars_per_word": 5}
        yield "other prefix", "wordpiece", {"/model/continuing_subword_prefix": "@@"}
        yield "no prefix", "wordpiece", {"/model/continuing_subword_prefix": ""}
        yield "no cut", "wordpiece", {"/pre_tokenizer": None}
        yield "unigram", "unigram", {}
        yield "t5", "unigram", {"/decoder": part(decoders.Metaspace())}
        yield "one word", "unigram", {"/pre_tokenizer": part(pre_tokenizers.Metaspace(split=False))}
        yield "first", "unigram", {"/pre_tokenizer": part(pre_tokenizers.Metaspace(prepend_scheme="first"))}
        yield "bytes", "unigram_bytes", {"/decoder": part(decode["pieces"])}
        yield "xlnet", "unigram", {"/normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap()},
                                   "/decoder": part(decoders.Metaspace())}
        yield "suffix", "bpe_suffix", {"/decoder": part(decoders.BPEDecoder()), "/normalizer": bert}
        yield "suffix, whole words", "bpe_suffix", {"/model/ignore_merges": True}
        yield "suffix, byte level", "bpe_suffix", {"/pre_tokenizer": part(pre_tokenizers.ByteLevel(False)),
                                                   "/decoder": part(decoders.ByteLevel())}
        yield "prefix", "bpe_prefix", {"/decoder": part(decoders.WordPiece())}
        yield "prefix, fused", "bpe_prefix", {"/model/fuse_unk": True, "/post_processor": surround["roberta"]}
        yield "fused", "bpe", {"/model/fuse_unk": True}
        yield "no unknown", "bpe", {"/model/unk_token": None}
        yield "byte level", "bpe_bytes", {"/decoder": part(decoders.ByteLevel())}
        yield "byte level and fallback", "bpe_bytes", {"/decoder": part(decoders.ByteLevel()), "/model/byte_fallback": True}
        yield "byte level words", "bpe_bytes", {"/model/ignore_merges": True, "/decoder": part(decoders.ByteLevel())}
    if name == "decoders":
        for key, value in decode.items():
            base = "wordpiece" if "wordpiece" in key else "bpe_suffix" if key == "suffix" else "unigram_bytes"
            base = "bpe_bytes" if key == "byte level" else base
            yield key, base, {"/decoder": part(value) if value else None}


def at(json_value, pointer, value):
    keys = pointer.split("/")[1:]
    for key in keys[:-1]:
        json_value = json_value[key]
    json_value[keys[-1]] = value


def decode(tokenizer, ids):
    try:
        return tokenizer.decode(ids, skip_special_tokens=False)
    except BaseException:  # Strip panics where a text has less than it takes
        return None


def refer_to_earlier(written):
    """A list that an earlier group has as well becomes that group's number."""
    for field in ("ids", "decoded"):
        seen = {}
        for number, group in enumerate(written):
            text = json.dumps(group[field])
            if text in seen:
                group[field] = seen[text]
            else:
                seen[text] = number


def main():
    all_bases = bases()
    for name in ["models", "normalizers", "pretokenizers", "decoders"]:
        written, used = [], {}
        for title, base, changes in groups(name):
            tokenizer_json = json.loads(json.dumps(all_bases[base]))
            used[base] = all_bases[base]
            for pointer, value in changes.items():
                at(tokenizer_json, pointer, value)
            tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json))
            ids, decoded = [], []
            for text in TEXTS:
                encoded = tokenizer.encode(text, add_special_tokens=False).ids
                ids.append(encoded)
                decoded.append(decode(tokenizer, encoded))
            around = tokenizer.encode("", add_special_tokens=True).ids
            written.append({"name": title, "base": base, "changes": changes, "around": around, "ids": ids, "decoded": decoded})
        if name != "models":  # which other tests read, too
            refer_to_earlier(written)
        fixture = {"texts": TEXTS, "bases": used, "groups": written}
        (FIXTURES / f"parts_{name}.json").write_text(json.dumps(fixture, ensure_ascii=False, separators=(",", ":")) + "\n")
        print(f"{name}: {len(written)} groups of {len(TEXTS)} texts")


main()
