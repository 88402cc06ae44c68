"""Fixtures of rerankers: random weights, pairs of texts, and their scores. See README.md beside this file."""
import json
from typing import NamedTuple

import safetensors.torch
import torch
import transformers

from encoders import write_json
from write_model import fill_all

LENGTHS = [(3, 1), (5, 14), (2, 30), (9, 4)]  # of queries and documents
BERT = dict(vocab_size=67, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=48,
            pad_token_id=0)
MODERN = dict(vocab_size=67, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=64,
              local_attention=8, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
QWEN3 = dict(vocab_size=67, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
             max_position_embeddings=128, pad_token_id=0)
SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"


class Reranker(NamedTuple):
    """A fixture: a config, whether tokens have types, and what its folder says of scores."""
    config: str
    settings: dict
    typed: bool = False
    activation: str | None = None  # in config.json; None: it does not say, and one label means a sigmoid
    tokens: tuple = ()  # that mean yes and no: the score of a decoder without a classifier


RERANKERS = {
    "bert_reranker": Reranker("BertConfig", dict(BERT), typed=True, activation=IDENTITY),
    "xlm_roberta_reranker": Reranker("XLMRobertaConfig", dict(BERT, pad_token_id=1, type_vocab_size=1)),
    "modern_bert_reranker": Reranker("ModernBertConfig", dict(MODERN, classifier_pooling="mean"), activation=SIGMOID),
    "qwen3_classifier": Reranker("Qwen3Config", dict(QWEN3, tie_word_embeddings=False)),
    "qwen3_reranker": Reranker("Qwen3Config", dict(QWEN3, tie_word_embeddings=True), tokens=(11, 40)),
}


def score_of(model, reranker, tokens, types):
    typed = dict(token_type_ids=types[None]) if reranker.typed else {}
    logits = model(input_ids=tokens[None], **typed).logits[0]
    if reranker.tokens:
        return torch.softmax(logits[-1][list(reranker.tokens)], 0)[0]
    return logits[0] if reranker.activation == IDENTITY else torch.sigmoid(logits[0])


def write_reranker(name, out):
    reranker = RERANKERS[name]
    folder = out / name
    labels = {} if reranker.tokens else dict(num_labels=1)
    config = getattr(transformers, reranker.config)(**reranker.settings, **labels)
    kind = transformers.AutoModelForCausalLM if reranker.tokens else transformers.AutoModelForSequenceClassification
    torch.manual_seed(sum(name.encode()))
    model = kind.from_config(config, attn_implementation="eager").eval()
    pairs, kinds = [], []
    with torch.no_grad():
        fill_all(model, torch.bfloat16)
        for query, document in LENGTHS:
            tokens = torch.randint(0, config.vocab_size, (query + document,))
            pairs.append(torch.where(tokens == config.pad_token_id, 5, tokens))  # which positions and poolings skip
            kinds.append(torch.tensor([0] * query + [1] * document) * int(reranker.typed))
        scores = torch.stack([score_of(model, reranker, *pair) for pair in zip(pairs, kinds)])
    model.to(torch.bfloat16).save_pretrained(folder)
    for extra in folder.glob("generation_config.json"):
        extra.unlink()
    config = json.loads((folder / "config.json").read_text())
    if reranker.activation:
        config["sentence_transformers"] = dict(activation_fn=reranker.activation, version="4.1.0")
    if reranker.tokens:
        write_json(folder / "modules.json", [
            dict(idx=0, name="0", path="", type="sentence_transformers.base.modules.transformer.Transformer"),
            dict(idx=1, name="1", path="1_LogitScore", type="sentence_transformers.cross_encoder.modules.logit_score.LogitScore")])
        yes, no = reranker.tokens
        write_json(folder / "1_LogitScore" / "config.json", dict(true_token_id=yes, false_token_id=no))
    write_json(folder / "config.json", config)
    lengths = torch.tensor([len(pair) for pair in pairs], dtype=torch.int32)
    safetensors.torch.save_file(dict(tokens=torch.cat(pairs).to(torch.int32), types=torch.cat(kinds).to(torch.int32), lengths=lengths,
                                     scores=scores.float().contiguous()), folder / "scores.safetensors")
