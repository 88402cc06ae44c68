#!/usr/bin/env python3
"""Writes the fixtures that tests/model and tests/text compare with. See README.md beside this file."""
import argparse
import copy
import json
import pathlib
from typing import NamedTuple

import safetensors.torch
import tokenizers
import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSIONS = ROOT / "tests" / "model" / "fixtures" / "versions.json"  # part -> what made it
VOCAB = 101  # not a multiple of any vector width


class Golden(NamedTuple):
    """A fixture: what its config says beyond its family's settings, how it is stored, and how long its prompt is."""
    family: str
    overrides: dict
    dtype: torch.dtype = torch.float32
    tokens: int = 40
    published: dict | None = None  # config.json as hubs have it, not as save_pretrained writes it: see publish()


def rope(theta, **scaling):
    return dict(rope_parameters=dict(dict(rope_type="default", rope_theta=theta), **scaling))


LLAMA = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=112, num_hidden_layers=2, max_position_embeddings=512,
             rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, **rope(10000.0))
SMALL = dict(LLAMA, hidden_size=40, intermediate_size=56, num_attention_heads=4, num_key_value_heads=2)
QWEN = dict(SMALL, rms_norm_eps=1e-6, use_sliding_window=False, **rope(1000000.0))

# family -> (config class, the settings of its fixtures)
FAMILIES = {
    "llama": ("LlamaConfig", LLAMA),
    "mistral": ("MistralConfig", dict(SMALL, sliding_window=None)),
    "qwen2": ("Qwen2Config", QWEN),
    "qwen3": ("Qwen3Config", dict(QWEN, head_dim=16)),
    "qwen3_moe": ("Qwen3MoeConfig", dict(QWEN, head_dim=16, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
                                         norm_topk_prob=True)),
    "mixtral": ("MixtralConfig", dict(SMALL, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)),
    "gemma2": ("Gemma2Config", dict(SMALL, head_dim=16, query_pre_attn_scalar=24, num_hidden_layers=4, sliding_window=9,
                                    attn_logit_softcapping=2.0, final_logit_softcapping=3.0, tie_word_embeddings=True)),
    "gemma3_text": ("Gemma3TextConfig", dict(SMALL, head_dim=16, query_pre_attn_scalar=24, num_hidden_layers=4, sliding_window=9,
                                             layer_types=["sliding_attention", "full_attention"] * 2, tie_word_embeddings=True)),
    "olmo2": ("Olmo2Config", dict(SMALL)),
    "olmo3": ("Olmo3Config", dict(SMALL, num_hidden_layers=4, sliding_window=8)),
    "exaone4": ("Exaone4Config", dict(SMALL, head_dim=16, sliding_window=None, layer_types=["full_attention"] * 2)),
    "granite": ("GraniteConfig", dict(SMALL, embedding_multiplier=6.0, attention_multiplier=0.2, residual_multiplier=0.3,
                                      logits_scaling=3.0)),
    "seed_oss": ("SeedOssConfig", dict(SMALL, head_dim=16, attention_bias=True, attention_out_bias=False)),
    "smollm3": ("SmolLM3Config", dict(SMALL, num_hidden_layers=4, pad_token_id=0)),
    "cohere2": ("Cohere2Config", dict({k: v for k, v in SMALL.items() if k != "rms_norm_eps"}, num_hidden_layers=4, head_dim=16,
                                      layer_norm_eps=1e-5, sliding_window=7, logit_scale=0.25, tie_word_embeddings=True)),
    "starcoder2": ("Starcoder2Config", dict({k: v for k, v in SMALL.items() if k != "rms_norm_eps"}, norm_epsilon=1e-5,
                                            sliding_window=None, use_bias=True, tie_word_embeddings=True)),
    "olmoe": ("OlmoeConfig", dict(SMALL, intermediate_size=24, num_experts=8, num_experts_per_tok=3)),
}
FULL, SLIDING = "full_attention", "sliding_attention"

GOLDENS = {
    "mha": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=4, head_dim=16)),
    "gqa": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16)),
    "mqa_tied": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=1, head_dim=16, tie_word_embeddings=True)),
    "odd_head_dim": Golden("llama", dict(hidden_size=42, num_attention_heads=3, num_key_value_heads=1, head_dim=20)),
    "narrow_head": Golden("llama", dict(hidden_size=36, intermediate_size=50, num_attention_heads=6, num_key_value_heads=3,
                                        head_dim=6)),
    "biases": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, attention_bias=True,
                                   mlp_bias=True)),
    "rope_llama3": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, **rope(
        500000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32)), tokens=300),
    "rope_linear": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                                        **rope(10000.0, rope_type="linear", factor=4.0)), tokens=80),
    "rope_yarn": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, **rope(
        10000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=32)), torch.bfloat16, tokens=100),
    "rope_yarn_tuned": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, **rope(
        500000.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16, beta_fast=16.0, beta_slow=2.0,
        attention_factor=1.3, truncate=False)), torch.bfloat16, tokens=100),
    "rope_yarn_mscale": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, **rope(
        10000.0, rope_type="yarn", factor=16.0, original_max_position_embeddings=32, mscale=0.7, mscale_all_dim=1.0)), torch.bfloat16, tokens=100),
    "bf16": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16), torch.bfloat16),
    "f16_tied": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True),
                       torch.float16),
    # Prompts are several windows long.
    "mistral_full": Golden("mistral", dict(head_dim=16)),
    "mistral_window": Golden("mistral", dict(sliding_window=7), tokens=64,
                             published=dict(drop=["head_dim"])),
    "mistral_window_tied": Golden("mistral", dict(sliding_window=16, head_dim=16, tie_word_embeddings=True, **rope(1000000.0)),
                                  torch.bfloat16, tokens=100),
    "mistral_tied": Golden("mistral", dict(num_key_value_heads=4, tie_word_embeddings=True), published=dict(drop=["head_dim"])),
    # Published files name a window which use_sliding_window turns off.
    "qwen2": Golden("qwen2", dict(), published=dict(drop=["layer_types"], put=dict(sliding_window=6, max_window_layers=1))),
    "qwen2_tied": Golden("qwen2", dict(tie_word_embeddings=True), torch.bfloat16),
    "qwen2_window": Golden("qwen2", dict(num_hidden_layers=3, use_sliding_window=True, sliding_window=6, max_window_layers=1),
                           tokens=50, published=dict(drop=["layer_types"])),
    "qwen2_layer_types": Golden("qwen2", dict(num_hidden_layers=3, use_sliding_window=True, sliding_window=9,
                                              max_window_layers=0, layer_types=[SLIDING, FULL, SLIDING]), tokens=50),
    "qwen3": Golden("qwen3", dict()),
    "qwen3_bias": Golden("qwen3", dict(attention_bias=True), published=dict(
        drop=["layer_types"], put=dict(sliding_window=6, max_window_layers=1))),
    "qwen3_tied": Golden("qwen3", dict(hidden_size=64, tie_word_embeddings=True), torch.bfloat16),
    "qwen3_default_head_dim": Golden("qwen3", dict(num_attention_heads=2, num_key_value_heads=1, head_dim=128),
                                     torch.bfloat16, published=dict(drop=["head_dim", "layer_types"])),
    "qwen3_window": Golden("qwen3", dict(num_hidden_layers=3, use_sliding_window=True, sliding_window=6, max_window_layers=2),
                           tokens=50, published=dict(drop=["layer_types"])),
    "qwen3_moe": Golden("qwen3_moe", dict(), torch.bfloat16),
    "qwen3_moe_dense_layers": Golden("qwen3_moe", dict(num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[3],
                                                       norm_topk_prob=False, attention_bias=True, tie_word_embeddings=True), torch.bfloat16),
    "qwen3_moe_window": Golden("qwen3_moe", dict(use_sliding_window=True, sliding_window=6, num_experts_per_tok=1),
                               torch.bfloat16, tokens=50),
    "mixtral": Golden("mixtral", dict(), torch.bfloat16),
    "mixtral_window": Golden("mixtral", dict(sliding_window=7, num_experts_per_tok=1, tie_word_embeddings=True), torch.bfloat16, tokens=64),
    "olmoe": Golden("olmoe", dict(), torch.bfloat16),
    "gemma2": Golden("gemma2", dict(), torch.bfloat16, tokens=60),
    "gemma2_uncapped": Golden("gemma2", dict(attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True),
                              torch.bfloat16, tokens=60),
    "gemma3": Golden("gemma3_text", dict(), torch.bfloat16, tokens=60),
    "gemma3_softcap": Golden("gemma3_text", dict(final_logit_softcapping=2.0, attention_bias=True, tie_word_embeddings=False,
                                                 hidden_activation="gelu"), torch.bfloat16, tokens=60),
    "olmo2": Golden("olmo2", dict(), torch.bfloat16),
    "olmo2_bias": Golden("olmo2", dict(attention_bias=True, num_key_value_heads=4, tie_word_embeddings=True), torch.bfloat16),
    "olmo3": Golden("olmo3", dict(), torch.bfloat16, tokens=60),
    "exaone4": Golden("exaone4", dict(), torch.bfloat16),
    "exaone4_hybrid": Golden("exaone4", dict(num_hidden_layers=4, sliding_window=8, sliding_window_pattern=4,
                                             layer_types=["sliding_attention"] * 3 + ["full_attention"]), torch.bfloat16, tokens=60),
    "granite": Golden("granite", dict(), torch.bfloat16),
    "granite_bias": Golden("granite", dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True), torch.bfloat16),
    "seed_oss": Golden("seed_oss", dict(), torch.bfloat16),
    "seed_oss_out_bias": Golden("seed_oss", dict(attention_bias=False, attention_out_bias=True, mlp_bias=True), torch.bfloat16),
    "smollm3": Golden("smollm3", dict(), torch.bfloat16),
    "smollm3_listed": Golden("smollm3", dict(no_rope_layers=[0, 1, 1, 0], attention_bias=True, tie_word_embeddings=True), torch.bfloat16),
    "cohere2": Golden("cohere2", dict(), torch.bfloat16, tokens=60),
    "cohere2_bias": Golden("cohere2", dict(attention_bias=True, layer_types=["full_attention", "sliding_attention"] * 2),
                           torch.bfloat16, tokens=60),
    "starcoder2": Golden("starcoder2", dict(), torch.bfloat16),
    "starcoder2_window": Golden("starcoder2", dict(sliding_window=9, use_bias=False, tie_word_embeddings=False), torch.bfloat16, tokens=60),
    "olmoe_normalized": Golden("olmoe", dict(norm_topk_prob=True, attention_bias=True, num_key_value_heads=4), torch.bfloat16),
}


def fill(tensor, key):
    """Random numbers for every tensor: initial norms of 1 and biases of 0 would hide one that is never read."""
    if key.endswith("bias"):
        return 0.1 * torch.randn_like(tensor)
    if "norm" in key:
        return 1.0 + 0.1 * torch.randn_like(tensor)
    return torch.randn_like(tensor) * (0.7 if "embed" in key else tensor.shape[-1] ** -0.5)


def publish(path, drop=(), put=None):
    """Writes config.json as files of a hub have it: rope_theta and torch_dtype at the top, and what transformers fills in left out."""
    config = json.loads(path.read_text())
    for key in drop:
        del config[key]
    config["torch_dtype"] = config.pop("dtype")
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = None if scaling["rope_type"] == "default" else scaling
    config.update(put or {})
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def check_folder(folder, tokens, logits):
    """The folder alone, read back by transformers and run with its other attention, gives the same logits."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        again = model(tokens[None]).logits[0]
    torch.testing.assert_close(again, logits, rtol=0, atol=1e-5 * float(logits.abs().max()), msg=lambda why: f"{folder}: {why}")


def write_model(name, out):
    golden = GOLDENS[name]
    config_class, settings = FAMILIES[golden.family]
    # A config may write into what it is given, and families share some of it.
    config = getattr(transformers, config_class)(**copy.deepcopy(dict(settings, **golden.overrides)))
    torch.manual_seed(sum(name.encode()))
    # Gemma 2's soft-caps of scores are in one of the two attentions alone.
    attention = "eager" if golden.family == "gemma2" else "sdpa"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(fill(parameter, key).to(golden.dtype).float())  # what is stored is what is computed with
        tokens = torch.randint(0, VOCAB, (golden.tokens,))
        logits = model.float()(tokens[None]).logits[0]
    folder = out / name
    model.to(golden.dtype).save_pretrained(folder)
    for extra in folder.glob("generation_config.json"):
        extra.unlink()
    if golden.published is not None:
        publish(folder / "config.json", **golden.published)
    check_folder(folder, tokens, logits)
    safetensors.torch.save_file({"tokens": tokens.to(torch.int32), "logits": logits.contiguous()}, folder / "golden.safetensors")


def write_sharded(out):
    """The gqa model again, in several files with an index."""
    model = transformers.LlamaForCausalLM.from_pretrained(out / "gqa", dtype=torch.float32)
    folder = out / "gqa_sharded"
    model.save_pretrained(folder, max_shard_size="120KB")
    for extra in folder.glob("generation_config.json"):
        extra.unlink()
    (folder / "golden.safetensors").write_bytes((out / "gqa" / "golden.safetensors").read_bytes())


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
    (out / "tales.json").write_text(json.dumps(dict(cases=cases, held_out=held_out, held_out_loss=loss, last_logits=[round(float(x), 6) for x in last])))


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
        (out / f"hf_{name}.json").write_text(json.dumps(fixture, ensure_ascii=True, separators=(",", ":")))
    shipped = Tokenizer.from_file(str(ROOT / "models" / "tales" / "tokenizer.json"))
    cases = [dict(text=text, ids=shipped.encode(text).ids, ids_no_special=shipped.encode(text, add_special_tokens=False).ids) for text in NASTY]
    (out / "tales_cases.json").write_text(json.dumps(dict(cases=cases), ensure_ascii=True, separators=(",", ":")))


def write_part(part, out):
    if part == "tales":
        write_tales(out / "model")
    elif part == "tokenizers":
        write_tokenizers(out / "text")
    else:
        for name, golden in GOLDENS.items():
            if golden.family == part:
                write_model(name, out / "model")
        if part == "llama":
            write_sharded(out / "model")


def main():
    parts = [*FAMILIES, "tales", "tokenizers"]
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
