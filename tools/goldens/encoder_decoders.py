"""Fixtures of encoder-decoders: random weights, sources of several lengths, and the logits of an answer to each. See README.md beside this file."""
import json
from typing import NamedTuple

import safetensors.torch
import torch
import transformers

from write_model import fill_all

SOURCES = [41, 1, 16, 9]  # tokens of each; of the first, distances beyond the last bucket
TEXT = 11  # tokens of an answer
VOCAB = 37
T5 = dict(vocab_size=VOCAB, d_model=16, d_kv=5, d_ff=20, num_layers=2, num_heads=3, relative_attention_num_buckets=8,
          relative_attention_max_distance=20, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
BART = dict(vocab_size=VOCAB, d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=2,
            encoder_ffn_dim=20, decoder_ffn_dim=24, max_position_embeddings=48, pad_token_id=1, bos_token_id=0, eos_token_id=2,
            decoder_start_token_id=2, forced_bos_token_id=0)


class EncoderDecoder(NamedTuple):
    """A fixture: a config, whether its head is apart from the embedding, and what config.json says on hubs (None: taken away)."""
    config: str
    model: str
    settings: dict
    own_head: bool = False
    dtype: torch.dtype = torch.bfloat16
    published: dict = {}


ENCODER_DECODERS = {
    "t5": EncoderDecoder("T5Config", "T5ForConditionalGeneration", dict(T5), published=dict(n_positions=64, tie_word_embeddings=None)),
    "t5_gated": EncoderDecoder("T5Config", "T5ForConditionalGeneration", dict(
        T5, feed_forward_proj="gated-gelu", num_decoder_layers=1, tie_word_embeddings=False), own_head=True,
        published=dict(tie_word_embeddings=False)),
    "umt5": EncoderDecoder("UMT5Config", "UMT5ForConditionalGeneration", dict(T5, feed_forward_proj="gated-gelu", num_decoder_layers=2)),
    "bart": EncoderDecoder("BartConfig", "BartForConditionalGeneration", dict(BART, scale_embedding=True), published=dict(forced_bos_token_id=0)),
}


def answer(model, source, text):
    return model(input_ids=source[None], decoder_input_ids=text[None]).logits[0]


def write_encoder_decoder(name, out):
    fixture = ENCODER_DECODERS[name]
    torch.manual_seed(sum(name.encode()))
    model = getattr(transformers, fixture.model)(getattr(transformers, fixture.config)(**fixture.settings)).eval()
    if fixture.own_head:
        model.lm_head.weight = torch.nn.Parameter(torch.empty(VOCAB, fixture.settings["d_model"]))
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        fill_all(model, fixture.dtype)
        sources = [torch.randint(0, VOCAB, (length,)) for length in SOURCES]
        texts = [torch.randint(0, VOCAB, (TEXT,)) for _ in SOURCES]
        model.float().set_attn_implementation("eager")
        logits = [answer(model, source, text) for source, text in zip(sources, texts)]
        config = json.loads(model.config.to_json_string())
        tensors = {}
        for key, tensor in model.state_dict().items():
            tied = key.endswith("embed_tokens.weight") or (key == "lm_head.weight" and not fixture.own_head)
            if not tied:
                tensors[key] = tensor.to(fixture.dtype).contiguous()
    config.update(torch_dtype=str(fixture.dtype).removeprefix("torch."))
    config.update(fixture.published)
    forgotten = [key for key, value in fixture.published.items() if value is None] + ["dtype", "scale_decoder_outputs"]
    config = {key: value for key, value in config.items() if key not in forgotten}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    golden = {f"source{i}": source.to(torch.int32) for i, source in enumerate(sources)}
    golden |= {f"text{i}": text.to(torch.int32) for i, text in enumerate(texts)}
    golden |= {f"logits{i}": one.contiguous() for i, one in enumerate(logits)}
    safetensors.torch.save_file(golden, folder / "answers.safetensors")
