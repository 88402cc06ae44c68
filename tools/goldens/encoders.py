"""Fixtures of encoders, and of decoders that embed: random weights, texts of several lengths, and their vectors. See README.md beside this file."""
import json
from typing import NamedTuple

import safetensors.torch
import torch
import transformers

from write_model import fill_all

LENGTHS = [1, 19, 7, 33]
MEAN, CLS, LAST = "mean", "cls", "lasttoken"
BERT = dict(vocab_size=67, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=48,
            pad_token_id=0)


# config.json of Nomic's own code, whose words are GPT-2's. (save_pretrained gives tensors that code's names.)
NOMIC = dict(
    n_embd=24, n_inner=28, n_layer=2, n_head=3, n_positions=64, layer_norm_epsilon=1e-12, activation_function="swiglu", rotary_emb_base=1000,
    rotary_emb_fraction=1.0, qkv_proj_bias=False, mlp_fc1_bias=False, mlp_fc2_bias=False, prenorm=False, use_rms_norm=False, causal=False,
    **dict.fromkeys(("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings", "layer_norm_eps",
                     "hidden_act", "rope_parameters", "head_dim")))


class Encoder(NamedTuple):
    """A fixture: a config, how its rows become a vector, and what its folder is like."""
    config: str
    settings: dict
    pooling: str | None  # None: the folder does not say
    normalized: bool = True
    prefix: str = ""  # of the names of tensors in the file
    dense: tuple = ()  # (outputs, whether it has a bias, activation) of each layer behind the pooling
    dtype: torch.dtype = torch.bfloat16
    published: dict | None = None  # what config.json says on hubs (None: taken away), beyond what save_pretrained writes


ENCODERS = {
    "bert_mean": Encoder("BertConfig", dict(BERT), MEAN),
    "bert_cls": Encoder("BertConfig", dict(BERT, hidden_act="gelu_new", type_vocab_size=1, layer_norm_eps=1e-3), CLS, normalized=False, prefix="bert."),
    "xlm_roberta": Encoder("XLMRobertaConfig", dict(BERT, pad_token_id=1, type_vocab_size=1), None, prefix="roberta.", dtype=torch.float32),
    "bert_dense": Encoder("BertConfig", dict(BERT, num_hidden_layers=1), MEAN, dense=((20, True, "Tanh"), (12, False, "Identity"))),
    "modern_bert": Encoder("ModernBertConfig", dict(
        vocab_size=67, hidden_size=24, intermediate_size=28, num_hidden_layers=4, num_attention_heads=3, max_position_embeddings=64,
        local_attention=8, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2), CLS, published=dict(
            global_rope_theta=160000.0, local_rope_theta=10000.0, global_attn_every_n_layers=3, local_attention=8, rope_parameters=None,
            layer_types=None, sliding_window=None), prefix="model."),
    "nomic_bert": Encoder("NomicBertConfig", dict(
        vocab_size=67, hidden_size=24, intermediate_size=28, num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=64, pad_token_id=0),
        MEAN, published=NOMIC),
    "embedding_gemma": Encoder("Gemma3TextConfig", dict(
        vocab_size=67, hidden_size=24, intermediate_size=28, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1, head_dim=12,
        query_pre_attn_scalar=24, max_position_embeddings=64, sliding_window=8, use_bidirectional_attention=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], pad_token_id=0), MEAN,
        dense=((30, False, "Identity"), (24, False, "Identity")), published=dict(sliding_window=8)),
    "qwen3_embedding": Encoder("Qwen3Config", dict(
        vocab_size=67, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
        max_position_embeddings=128, tie_word_embeddings=True), LAST),
}


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_dense(folder, inputs, encoder):
    """The dense layers' folders, and the layers."""
    layers = []
    for i, (outputs, bias, activation) in enumerate(encoder.dense):
        layer = torch.nn.Linear(inputs, outputs, bias=bias)
        write_json(folder / f"{i + 2}_Dense" / "config.json", dict(
            in_features=inputs, out_features=outputs, bias=bias,
            activation_function=f"torch.nn.modules.{'linear' if activation == 'Identity' else 'activation'}.{activation}"))
        tensors = {f"linear.{key}": value.detach().contiguous() for key, value in layer.state_dict().items()}
        safetensors.torch.save_file(tensors, folder / f"{i + 2}_Dense" / "model.safetensors", metadata={"format": "pt"})
        layers.append((layer, getattr(torch.nn, activation)()))
        inputs = outputs
    return layers


def write_modules(folder, encoder):
    if encoder.pooling is None:
        return
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")] + [(f"{i + 2}_Dense", "Dense") for i in range(len(encoder.dense))]
    if encoder.normalized:
        kinds.append((f"{len(kinds)}_Normalize", "Normalize"))
    write_json(folder / "modules.json", [
        dict(idx=i, name=str(i), path=path, type=f"sentence_transformers.models.{kind}") for i, (path, kind) in enumerate(kinds)])
    write_json(folder / "1_Pooling" / "config.json", dict(
        word_embedding_dimension=encoder.settings["hidden_size"], pooling_mode_cls_token=encoder.pooling == CLS,
        pooling_mode_mean_tokens=encoder.pooling == MEAN, pooling_mode_max_tokens=False, pooling_mode_lasttoken=encoder.pooling == LAST))


def vector_of(rows, encoder, layers):
    vector = dict(mean=rows.mean(0), cls=rows[0], lasttoken=rows[-1])[encoder.pooling or MEAN]
    for layer, activation in layers:
        vector = activation(layer(vector))
    return torch.nn.functional.normalize(vector, dim=0) if encoder.normalized else vector


def write_encoder(name, out):
    encoder = ENCODERS[name]
    folder = out / name
    config = getattr(transformers, encoder.config)(**encoder.settings)
    torch.manual_seed(sum(name.encode()))
    pools = encoder.config in ("BertConfig", "XLMRobertaConfig", "NomicBertConfig")
    extra = dict(add_pooling_layer=False) if pools else {}
    model = transformers.AutoModel.from_config(config, attn_implementation="eager", **extra).eval()
    with torch.no_grad():
        fill_all(model, encoder.dtype)
        layers = write_dense(folder, config.hidden_size, encoder)
        texts = [torch.randint(0, config.vocab_size, (length,)) for length in LENGTHS]
        if config.pad_token_id is not None:  # which XLM-R's positions skip
            texts = [torch.where(text == config.pad_token_id, 5, text) for text in texts]
        vectors = torch.stack([vector_of(model(text[None]).last_hidden_state[0], encoder, layers) for text in texts])
    model.to(encoder.dtype).save_pretrained(folder)  # last: it rounds the rope's frequencies, too
    path = folder / "model.safetensors"
    tensors = {encoder.prefix + key: value for key, value in safetensors.torch.load_file(path).items()}
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    if encoder.published is not None:
        config = dict(json.loads((folder / "config.json").read_text()), **encoder.published)
        write_json(folder / "config.json", {key: value for key, value in config.items() if value is not None or key not in encoder.published})
    write_modules(folder, encoder)
    safetensors.torch.save_file(dict(tokens=torch.cat(texts).to(torch.int32), lengths=torch.tensor(LENGTHS, dtype=torch.int32),
                                     vectors=vectors.contiguous()), folder / "vectors.safetensors")
