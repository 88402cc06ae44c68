#!/usr/bin/env python3
"""Writes the fixtures that tests/model and tests/text compare with. See README.md beside this file."""
import argparse
import json
import pathlib

import tokenizers
import torch
import transformers
from encoder_decoders import ENCODER_DECODERS, write_encoder_decoder
from encoders import ENCODERS, write_encoder
from fixtures import FAMILIES, GOLDENS
from kimi_linear import write_kimi_linear
from rerankers import RERANKERS, write_reranker
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from write_model import fill, write_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSIONS = ROOT / "tests" / "model" / "fixtures" / "versions.json"  # part -> what made it


def write_sharded(out):
    """A model with grouped queries again, in several files with an index."""
    model = transformers.LlamaForCausalLM.from_pretrained(out / "biases")
    folder = out / "gqa_sharded"
    model.save_pretrained(folder, max_shard_size="30KB")
    for extra in folder.glob("generation_config.json"):
        extra.unlink()
    (folder / "golden.safetensors").write_bytes((out / "biases" / "golden.safetensors").read_bytes())


def write_tales(out):
    """What the shipped model says, in float32: greedy answers, one row of logits, and the loss on held-out text."""
    folder = ROOT / "models" / "tales"
    model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    openings = ["Once upon a time", "The fox said to the crow", "There was once a king who", "In a small village", "The little girl",
                "It was a cold winter night", "\"Come here,\" said the old woman", "Far away across the sea", "The wolf",
                "One morning the miller's son", "Deep in the forest", "The moon was bright", "A poor fisherman", "The princess laughed",
                "He ran", "Three brothers", "On the day of the fair", "The clock struck twelve", "\"I am hungry,\" said the bear.", "At last"]
    cases = []
    with torch.no_grad():
        for opening in openings:
            prompt = tokenizer.encode(opening).ids
            ids = list(prompt)
            past = None
            feed = torch.tensor([ids])
            for _ in range(64):
                result = model(feed, past_key_values=past, use_cache=True)
                past = result.past_key_values
                ids.append(int(result.logits[0, -1].argmax()))
                feed = torch.tensor([[ids[-1]]])
            cases.append(dict(text=opening, prompt=prompt, greedy=ids[len(prompt):]))
        held_out = tokenizer.encode((ROOT / "models" / "held-out.txt").read_text()[:12000]).ids[:1024]
        logits = model(torch.tensor([held_out])).logits[0]
        loss = torch.nn.functional.cross_entropy(logits[:-1].double(), torch.tensor(held_out[1:])).item()
        last = model(torch.tensor([cases[0]["prompt"]])).logits[0, -1]
    (out / "tales.json").write_text(json.dumps(dict(cases=cases, held_out=held_out, held_out_loss=loss, last_logits=[round(float(x), 6) for x in last]), separators=(",", ":")))


NASTY = [
    "", " ", "  ", "   leading", "trailing   ", "a  b   c    d", "\n", "\n\n\n", "\r\n\r\n", "a\r\nb\rc\nd", "\t\ttabs\t", " \n \n ",
    "I'm you're he's we'll they'd I've can't DON'T I'M 'S 'tis", "don’t ‘quote’ “double”", "1", "12", "123", "1234", "12345678901234567890", "3.14159e-10",
    "٣٤٥ १२३ ৪৫৬ ⅷ ½ x² 五六", "naïve café e\u0301 cafe\u0301 Å A\u030a ﬁ", "中文字符测试", "日本語のテキスト、カタカナ", "한국어 텍스트 \u1112\u1161\u11ab", "Привет, мир!", "مرحبا بالعالم",
    "👨‍👩‍👧‍👦 family 🏳️‍🌈 👍🏽", "🇩🇪🇫🇷", "nbsp\u00a0here\u3000wide\u0085next\u2028line", "zero\u200bwidth\ufeffbom", "\x00\x01\x7f", "<|endoftext|>", "before<|endoftext|>after",
    "<|user|>hi<|end|>", "<|im_start|>user\nHello<|im_end|>", "<|end", "|>", "<<|end|>>", "code: for (int i = 0; i < n; ++i) { x[i] += 1; }", "https://example.com/a?b=c&d=%20#frag",
    "snake_case CamelCase kebab-case SCREAMING_SNAKE", "____----====", "!!!???...", "...word", "word...", " 's", "'", "''", "a'b", "ǅ ǈ ß ẞ İ ı", "ſ K Å", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "a" * 300, "ab" * 200, " " * 100, "é" * 50, "x\u0301\u0302\u0303",
    "Once upon a time, in a land far away, there lived a fox.", "\"Tell me a story,\" said the child; \"a long one!\"", "hello\u00adworld", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "שלום", "\U0001F600\U0001F600",
]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def families():
    yield "gpt2", None, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), False
    yield "gpt2_prefix_space", None, pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True), False
    yield "llama3", None, split_then_bytes(LLAMA3), True
    yield "qwen2", normalizers.NFC(), split_then_bytes(QWEN2), False
    yield "smollm", None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]), False


def write_tokenizers(out):
    corpus = (ROOT / "models" / "held-out.txt").read_text()[:120000].split("\n") + NASTY * 4
    for name, normalizer, pre_tokenizer, bos in families():
        tokenizer = Tokenizer(models.BPE())
        if normalizer:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.decoder = decoders.ByteLevel()
        specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|user|>", "<|end|>"]
        tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
            vocab_size=900, special_tokens=specials, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
        if bos:
            tokenizer.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
        else:
            tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        cases = [dict(text=text, ids=tokenizer.encode(text).ids, ids_no_special=tokenizer.encode(text, add_special_tokens=False).ids) for text in NASTY]
        fixture = dict(tokenizer=json.loads(tokenizer.to_str()), cases=cases)
        (out / f"hf_{name}.json").write_text(json.dumps(fixture, ensure_ascii=False, separators=(",", ":")))
    shipped = Tokenizer.from_file(str(ROOT / "models" / "tales" / "tokenizer.json"))
    cases = [dict(text=text, ids=shipped.encode(text).ids, ids_no_special=shipped.encode(text, add_special_tokens=False).ids) for text in NASTY]
    (out / "tales_cases.json").write_text(json.dumps(dict(cases=cases), ensure_ascii=False, separators=(",", ":")))


def write_part(part, out):
    if part == "tales":
        write_tales(out / "model")
    elif part == "tokenizers":
        write_tokenizers(out / "text")
    elif part == "kimi_linear":
        write_kimi_linear(out / "model", fill)
    elif part in ENCODER_DECODERS:
        write_encoder_decoder(part, out / "model")
    elif part in ENCODERS:
        write_encoder(part, out / "model")
    elif part in RERANKERS:
        write_reranker(part, out / "model")
    else:
        for name, golden in GOLDENS.items():
            if golden.family == part:
                write_model(name, out / "model")
        if part == "llama":
            write_sharded(out / "model")


def main():
    parts = [*FAMILIES, *ENCODERS, *ENCODER_DECODERS, *RERANKERS, "kimi_linear", "tales", "tokenizers"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--part", nargs="+", choices=parts, default=parts, help="only these; all unless told")
    arguments = parser.parse_args()
    out = arguments.out
    (out / "model").mkdir(parents=True, exist_ok=True)
    (out / "text").mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # one order of summation
    versions = json.loads(VERSIONS.read_text()) if VERSIONS.exists() else {}
    for part in arguments.part:
        write_part(part, out)
        versions[part] = dict(torch=torch.__version__, transformers=transformers.__version__, tokenizers=tokenizers.__version__)
    (out / "model" / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")


if __name__ == "__main__":
    main()
