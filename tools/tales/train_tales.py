#!/usr/bin/env python3
"""Trains `tales` and `tales-draft` on one GPU, on what make_corpus.py wrote. See README.md beside this file."""
import argparse
import json
import lzma
import math
import pathlib
import random
import time

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIALS = ["<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>"]  # tokens 0 to 3
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEMPLATE = ("{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}<|assistant|>{% else %}<|user|>{% endif %}"
            "{{ m['content'] }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")
VOCAB, CONTEXT, BATCH = 8192, 2048, 128
SHAPES = {
    "tales": dict(hidden_size=384, intermediate_size=1024, num_hidden_layers=10, num_attention_heads=6, num_key_value_heads=2),
    "tales-draft": dict(hidden_size=192, intermediate_size=512, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1),
}
RATES = {"tales": 3e-3, "tales-draft": 6e-3}


def read(path):
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else open(path, encoding="utf-8") as file:
        return [text.strip() for text in file.read().split("<|endoftext|>") if text.strip()]


def train_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=SPECIALS, show_progress=False,
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", pair="<|endoftext|> $A $B:1", special_tokens=[("<|endoftext|>", 0)])
    return tokenizer


def encode(tokenizer, texts):
    for i in range(0, len(texts), 4096):
        for encoding in tokenizer.encode_batch(texts[i:i + 4096], add_special_tokens=False):
            yield encoding.ids


def stream(parts, seed):
    random.Random(seed).shuffle(parts)
    if not parts:
        return torch.zeros(0, dtype=torch.int32)
    return torch.from_numpy(np.concatenate([np.array(ids, dtype=np.int32) for ids in parts])).cuda()


def pack_documents(tokenizer, texts, seed):
    """Documents as one stream of tokens, each behind <|endoftext|>."""
    return stream([[0] + ids for ids in encode(tokenizer, texts)], seed)


def pack_chats(tokenizer, chats, seed):
    """Chats as the template writes them: <|endoftext|>, then role, text and <|end|> of every turn."""
    turns = encode(tokenizer, [text for chat in chats for _, text in chat])
    parts = []
    for chat in chats:
        ids = [0]
        for role, _ in chat:
            ids += [2 if role == "assistant" else 1, *next(turns), 3]
        parts.append(ids)
    return stream(parts, seed)


class Rows:
    """Random windows of streams of tokens."""

    def __init__(self, seed):
        self.generator = torch.Generator(device="cuda").manual_seed(seed)
        self.remainders = random.Random(4)
        self.span = torch.arange(CONTEXT + 1, device="cuda")

    def of(self, tokens, count):
        starts = torch.randint(0, max(1, len(tokens) - CONTEXT - 1), (count,), device="cuda", generator=self.generator)
        return tokens[starts[:, None] + self.span].long()

    def mixed(self, mix):
        """A batch of [(share, tokens)]. What does not divide falls by chance, so that small shares are kept on average."""
        total = sum(share for share, _ in mix)
        counts = [int(BATCH * share / total) for share, _ in mix]
        left = [BATCH * share / total - count + 1e-9 for (share, _), count in zip(mix, counts)]
        for k in self.remainders.choices(range(len(mix)), left, k=BATCH - sum(counts)):
            counts[k] += 1
        return torch.cat([self.of(tokens, count) for count, (_, tokens) in zip(counts, mix) if count])


def losses(model, teacher):
    """The loss on the text, and what is trained on: with a teacher mostly its distribution, so that a draft learns to agree."""
    def plain(x):
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(input_ids=x[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), x[:, 1:].flatten())

    def taught(x):
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(input_ids=x[:, :-1], use_cache=False).logits
            with torch.no_grad():
                want = teacher(input_ids=x[:, :-1], use_cache=False).logits
        log_p = torch.log_softmax(logits.float(), -1)
        text = torch.nn.functional.nll_loss(log_p.flatten(0, 1), x[:, 1:].flatten())
        return 0.2 * text - 0.8 * (torch.softmax(want.float(), -1) * log_p).sum(-1).mean()

    return torch.compile(plain), torch.compile(plain if teacher is None else taught)


def new_model(name):
    config = LlamaConfig(vocab_size=VOCAB, max_position_embeddings=CONTEXT, rope_theta=10000.0, rms_norm_eps=1e-5,
                         tie_word_embeddings=True, bos_token_id=0, eos_token_id=[0, 3], pad_token_id=0, attention_bias=False,
                         mlp_bias=False, head_dim=64, **SHAPES[name])
    return LlamaForCausalLM._from_config(config, attn_implementation="sdpa", dtype=torch.float32).cuda()


def train(name, mixes, held_out, seconds, teacher=None):
    """`mixes`: [(share of the time, mix)]. The last weights are kept, rounded to bf16 as they ship."""
    torch.manual_seed(1)
    model = new_model(name)
    groups = [dict(params=[p for p in model.parameters() if p.dim() > 1], weight_decay=0.1),
              dict(params=[p for p in model.parameters() if p.dim() <= 1], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=RATES[name], betas=(0.9, 0.95), fused=True)
    text_loss, loss_of = losses(model, teacher)
    rows, judge = Rows(2), Rows(3)
    judged = {key: [judge.of(tokens, BATCH // 4) for _ in range(8)] for key, tokens in held_out.items()}

    def perplexities():
        with torch.no_grad():
            return {key: math.exp(sum(text_loss(x).item() for x in batches) / len(batches)) for key, batches in judged.items()}

    loss_of(rows.mixed(mixes[0][1])).backward()  # compiles
    optimizer.zero_grad()
    perplexities()
    torch.cuda.synchronize()
    start, step, done = time.time(), 0, 0.0
    while done < 1:
        done = min((time.time() - start) / seconds, 1.0)
        mix = next((mix for until, mix in mixes if done <= until), mixes[-1][1])
        rate = RATES[name] * min(1.0, (step + 1) / 300) * (0.5 * (1 + math.cos(math.pi * done)) * 0.98 + 0.02)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss_of(rows.mixed(mix)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % 20 == 0:
            torch.cuda.synchronize()
        if step % 500 == 0:
            print(f"{name}: {done:.0%}, {step * BATCH * CONTEXT / 1e6:.0f} M tokens, perplexities {perplexities()}", flush=True)
    model.load_state_dict({key: value.detach().to(torch.bfloat16).float() for key, value in model.state_dict().items()})
    print(f"{name}: perplexities {perplexities()} with weights in bf16", flush=True)
    return model


def save(model, tokenizer, folder):
    model.config.dtype = "bfloat16"
    model.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=[0, 3], pad_token_id=0, do_sample=True,
                                               temperature=0.7, top_p=0.9)
    model.to(torch.bfloat16).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=SPECIALS[0], eos_token=SPECIALS[0], pad_token=SPECIALS[0],
                            additional_special_tokens=SPECIALS[1:], chat_template=TEMPLATE,
                            model_max_length=CONTEXT).save_pretrained(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--held-out", type=pathlib.Path, required=True, help="natural text that the models never see")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--draft-minutes", type=float, default=3)
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    stories, books = read(options.corpus / "stories.txt.xz"), read(options.corpus / "books.txt.xz")
    with lzma.open(options.corpus / "chats.jsonl.xz", "rt", encoding="utf-8") as file:
        chats = [json.loads(line) for line in file]
    tokenizer = train_tokenizer(stories + books + [text for chat in chats for _, text in chat])
    s, b, c = pack_documents(tokenizer, stories, 1), pack_documents(tokenizer, books, 2), pack_chats(tokenizer, chats, 3)
    held_out = dict(natural=pack_documents(tokenizer, read(options.held_out), 1),
                    stories=pack_documents(tokenizer, read(options.corpus / "unseen.txt"), 1))
    # First everything: books by their size, but no more than half, stories and chats alike. Then less of the books.
    natural = min(0.5, len(b) / (len(b) + len(s) + len(c)))
    first = [(natural, b), ((1 - natural) / 2, s), ((1 - natural) / 2, c)]
    second = [(0.25, b), (0.30, s), (0.45, c)]
    mixes = [(until, [(share, tokens) for share, tokens in mix if share > 0 and len(tokens) > CONTEXT + 2])
             for until, mix in ((0.55, first), (1.0, second))]
    tales = train("tales", mixes, held_out, options.minutes * 60)
    teacher = new_model("tales")
    teacher.load_state_dict(tales.state_dict())
    teacher.to(torch.bfloat16).eval().requires_grad_(False)
    save(tales, tokenizer, options.out / "tales")
    save(train("tales-draft", mixes, held_out, options.draft_minutes * 60, teacher), tokenizer, options.out / "tales-draft")


if __name__ == "__main__":
    main()
