#!/usr/bin/env python3
"""A small random GGUF file of every family, for kl.mjs: do we and llama.cpp compute the same from it?

    python3 bench/peers/families.py build/kvasir FOLDER [NAME…]
    PEERS=/tmp/peers node bench/peers/kl.mjs build/next_token_probs FOLDER/*.gguf

Those of encoders are named, and go to vectors.mjs in place of kl.mjs.

Each is written as a config.json, `kvasir synth`, the shipped model's tokenizer and `kvasir convert --weights f32`. Windows
are shorter than the text that kl.mjs reads, and layers enough for every pattern.
"""
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "models" / "tales"

SIZES = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 8, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 8192, "max_position_embeddings": 2048, "torch_dtype": "float32",
    "bos_token_id": 0, "eos_token_id": 0,
}
EXPERTS = {"num_experts_per_tok": 2, "num_hidden_layers": 4}
OWN_HEAD = {"tie_word_embeddings": False}
# Latents: sizes are of a head, of a query's that is not rotated, of what is rotated, of values.
LATENT = {**EXPERTS, "num_key_value_heads": 4, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 32,
          "v_head_dim": 64, "moe_intermediate_size": 128, "n_shared_experts": 1, "n_routed_experts": 8,
          "rms_norm_eps": 1e-6, "routed_scaling_factor": 1.5, **OWN_HEAD}
V3 = {**LATENT, "q_lora_rank": 96, "first_k_dense_replace": 1, "norm_topk_prob": True, "n_group": 1, "topk_group": 1}
GPT2 = {"n_layer": 4, "n_embd": 256, "n_head": 4, "n_inner": 512, "n_positions": 512}
GEMMA4 = {"head_dim": 32, "global_head_dim": 64, "sliding_window": 32, "final_logit_softcapping": 5.0, **OWN_HEAD,
          "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2
                         + ["sliding_attention", "full_attention"],
          "rope_parameters": {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                                                 "rope_theta": 1e6},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}
PHI3_FACTORS = {"long_factor": [1.5 + 0.1 * i for i in range(24)], "short_factor": [1 + 0.05 * i for i in range(24)]}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 128}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}

# Layers with states: sizes are of heads that llama.cpp has kernels for.
DELTA = {"head_dim": 64, "partial_rotary_factor": 0.25, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
         "linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4, "rms_norm_eps": 1e-6,
         "full_attention_interval": 4, **OWN_HEAD}
DELTA_EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128,
                 "shared_expert_intermediate_size": 192}
GRANITE4 = {"embedding_multiplier": 0.5, "attention_multiplier": 0.5, "residual_multiplier": 0.7,
            "logits_scaling": 0.5, "shared_intermediate_size": 384, "mamba_n_heads": 8, "mamba_n_groups": 1,
            "mamba_d_state": 64, "mamba_expand": 2, "mamba_d_conv": 4, "num_local_experts": 0,
            "layer_types": ["mamba", "mamba", "attention", "mamba"] * 2}
# Encoders: for vectors.mjs.
BERT = {"max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "num_hidden_layers": 4}

# By the file's name; model_type is the name's part before a dash.
FAMILIES = {
    "llama": {},
    "llama-llama3": {"rope_theta": 500000.0, "rope_scaling": LLAMA3},
    "llama-yarn": {"rope_scaling": YARN},
    "mistral": {"sliding_window": None},
    "mixtral": {**EXPERTS, "num_local_experts": 8},
    "qwen2": {"rope_theta": 1e6},
    "qwen3": {"head_dim": 64, "rope_theta": 1e6},
    "qwen3_moe": {**EXPERTS, "head_dim": 64, "num_experts": 8, "moe_intermediate_size": 128, "norm_topk_prob": True},
    "olmoe": {**EXPERTS, "num_experts": 8, "num_key_value_heads": 4},
    "gemma2": {"head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 32, "attn_logit_softcapping": 0.25,
               "final_logit_softcapping": 5.0},
    "gemma3_text": {"head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 32, "rope_local_base_freq": 1e4,
                    "rope_theta": 1e6, "rope_scaling": {"rope_type": "linear", "factor": 8.0},
                    "tie_word_embeddings": False},
    "gemma3_text-period": {"head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 32, "rope_theta": 1e6,
                           "sliding_window_pattern": 4, "rope_local_base_freq": 2e4, "tie_word_embeddings": False},
    "olmo2": {"tie_word_embeddings": False},
    "olmo3": {"tie_word_embeddings": False, "sliding_window": 32, "rope_scaling": YARN},
    "exaone4": {"head_dim": 64, "sliding_window": None},
    "exaone4-hybrid": {"head_dim": 64, "sliding_window": 32, "num_hidden_layers": 64, "hidden_size": 128,
                       "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 128},
    "granite": {"embedding_multiplier": 0.5, "attention_multiplier": 0.5, "residual_multiplier": 0.7,
                "logits_scaling": 0.5},
    "seed_oss": {"head_dim": 64},
    "smollm3": {"rope_theta": 2e6, "tie_word_embeddings": False},
    "cohere2": {"sliding_window": 32, "logit_scale": 0.25},
    "starcoder2": {"use_bias": True, "tie_word_embeddings": False},
    "gpt_oss": {**EXPERTS, "head_dim": 64, "num_local_experts": 8, "sliding_window": 32, **OWN_HEAD},
    "gpt_oss-yarn": {**EXPERTS, "head_dim": 64, "num_local_experts": 8, "sliding_window": 32, **OWN_HEAD,
                     "rope_theta": 172240.0,  # with which bounds lie near whole pairs, to which llama.cpp moves them
                     "rope_scaling": {**YARN, "truncate": False}},
    "gemma": {"head_dim": 64, "hidden_size": 64, "num_hidden_layers": 24, "intermediate_size": 2048},
    "phi3": {"tie_word_embeddings": False},
    "phi3-long": {"partial_rotary_factor": 0.75, "original_max_position_embeddings": 128,
                  "rope_scaling": {"type": "longrope", **PHI3_FACTORS}},
    "phi3-short": {"partial_rotary_factor": 0.75, "original_max_position_embeddings": 1024,
                   "rope_scaling": {"type": "longrope", **PHI3_FACTORS}},
    "qwen2_moe": {**EXPERTS, "num_experts": 8, "moe_intermediate_size": 128, "shared_expert_intermediate_size": 192,
                  **OWN_HEAD},
    "deepseek_v2": {**LATENT, "q_lora_rank": 96, "first_k_dense_replace": 1, "topk_method": "greedy"},
    "deepseek_v2-lite": {**LATENT, "q_lora_rank": None, "num_hidden_layers": 27, "hidden_size": 128,
                         "moe_intermediate_size": 32, "intermediate_size": 96, "n_shared_experts": 2,
                         "first_k_dense_replace": 1, "topk_method": "greedy",
                         "rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}},
    "deepseek_v2-groups": {**LATENT, "q_lora_rank": 96, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2,
                           "topk_method": "group_limited_greedy"},
    "deepseek_v3": {**V3, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3,
                    "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
    "deepseek_v3-half": {**V3, "rope_interleave": False, "first_k_dense_replace": 0},
    "kimi_k2": V3,
    "glm4_moe_lite": {**V3, "rope_theta": 1e6},
    "mistral4": {**V3, "first_k_dense_replace": 0,
                 "rope_parameters": {**YARN, "rope_theta": 1e4, "mscale": 1.0, "mscale_all_dim": 1.0,
                                     "llama_4_scaling_beta": 0.3}},
    "glm4": {"attention_bias": True, "head_dim": 64, **OWN_HEAD},
    "glm4_moe": {**EXPERTS, "head_dim": 64, "n_routed_experts": 8, "moe_intermediate_size": 128,
                 "n_shared_experts": 1, "first_k_dense_replace": 1, "attention_bias": True, "use_qk_norm": True,
                 "routed_scaling_factor": 1.5, "norm_topk_prob": True, **OWN_HEAD},
    "glm4_moe-plain": {**EXPERTS, "head_dim": 64, "n_routed_experts": 8, "moe_intermediate_size": 128,
                       "n_shared_experts": 2, "first_k_dense_replace": 0, "n_group": 4, "topk_group": 2,
                       "norm_topk_prob": False, **OWN_HEAD},
    "llama4_text": {**EXPERTS, "num_hidden_layers": 8, "head_dim": 64, "num_local_experts": 8,
                    "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "intermediate_size_mlp": 384, **OWN_HEAD},
    "llama4_text-llama3": {**EXPERTS, "num_hidden_layers": 8, "head_dim": 64, "num_local_experts": 8,
                           "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "intermediate_size_mlp": 384,
                           "rope_theta": 500000.0, "rope_scaling": LLAMA3, **OWN_HEAD},
    "ministral3": {"head_dim": 64,
                   "rope_parameters": {**YARN, "rope_theta": 1e6, "mscale": 1.0, "mscale_all_dim": 1.0,
                                       "llama_4_scaling_beta": 0.3}},
    "gpt2": GPT2,
    "gpt2-untied": {**GPT2, **OWN_HEAD},
    "gpt_bigcode": {**GPT2, **OWN_HEAD, "activation_function": "gelu_pytorch_tanh"},
    "gpt_bigcode-heads": {**GPT2, **OWN_HEAD, "activation_function": "gelu_pytorch_tanh", "multi_query": False},
    "gpt_neox": {"hidden_act": "gelu", **OWN_HEAD},
    "gpt_neox-serial": {"hidden_act": "gelu_fast", "use_parallel_residual": False, "rotary_pct": 1.0, **OWN_HEAD},
    "falcon": {**OWN_HEAD, "new_decoder_architecture": False, "multi_query": True},
    "falcon-groups": {"new_decoder_architecture": True, "num_kv_heads": 2, **OWN_HEAD},
    "falcon-one_norm": {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1,
                        **OWN_HEAD},
    "phi": {"hidden_act": "gelu_new", "num_key_value_heads": 4, **OWN_HEAD},
    "stablelm": {"use_qkv_bias": True, **OWN_HEAD},
    "stablelm-parallel": {"use_parallel_residual": True, "qk_layernorm": True, **OWN_HEAD},
    "cohere": {"logit_scale": 0.02},
    "cohere-norms": {"logit_scale": 0.25, "use_qk_norm": True, "num_hidden_layers": 64, "hidden_size": 128,
                     "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 128},
    "bloom": {"n_layer": 4, "n_head": 4, **OWN_HEAD},
    "bloom-heads": {"n_layer": 4, "n_head": 12, "hidden_size": 384, **OWN_HEAD},
    "olmo": {"clip_qkv": 0.5, **OWN_HEAD},
    "olmo-unclipped": OWN_HEAD,
    "granitemoe": {**EXPERTS, "num_local_experts": 8, "embedding_multiplier": 0.5, "attention_multiplier": 0.5,
                   "residual_multiplier": 0.7, "logits_scaling": 0.5},
    "hunyuan_v1_dense": {"head_dim": 64, "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}},
    "hunyuan_v1_moe": {**EXPERTS, "head_dim": 64, "num_experts": 8, "moe_topk": 2, "moe_intermediate_size": 192,
                       "num_shared_expert": 2, "attention_bias": False, **OWN_HEAD},
    "minimax_m2": {**EXPERTS, "head_dim": 64, "rotary_dim": 32, "num_local_experts": 8, **OWN_HEAD},
    "ernie4_5": {"head_dim": 64, "use_bias": False, **OWN_HEAD},
    "gemma4_text": {**GEMMA4, "hidden_size_per_layer_input": 64, "num_kv_shared_layers": 2,
                    "use_double_wide_mlp": True},
    "gemma4_text-keys": {**GEMMA4, "hidden_size_per_layer_input": 0, "attention_k_eq_v": True,
                         "num_global_key_value_heads": 1},
    "qwen3_next": {**DELTA, **DELTA_EXPERTS},
    "qwen3_5_text": DELTA,
    "qwen3_5_text-heads": {**DELTA, "linear_num_value_heads": 6},
    "qwen3_5_moe_text": {**DELTA, **DELTA_EXPERTS},
    "granitemoehybrid": GRANITE4,
    "granitemoehybrid-rope": {**GRANITE4, "position_embedding_type": "rope"},
    "granitemoehybrid-experts": {**GRANITE4, "num_local_experts": 8, "num_experts_per_tok": 2},
    "lfm2": {"conv_L_cache": 3, "conv_bias": False, "block_auto_adjust_ff_dim": False, "norm_eps": 1e-5,
             "layer_types": ["conv", "conv", "full_attention", "conv"] * 2},
    "gemma4_text-experts": {**GEMMA4, "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 8,
                            "top_k_experts": 2, "moe_intermediate_size": 128},
}

# What vectors are compared of.
ENCODERS = {
    "bert": BERT,
    "xlm-roberta": {**BERT, "model_type": "xlm-roberta", "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1},
    "modernbert": {"max_position_embeddings": 512, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0,
                   "global_attn_every_n_layers": 3, "local_attention": 32},
    "nomic_bert": {"n_embd": 256, "n_inner": 512, "n_layer": 4, "n_head": 4, "n_positions": 512,
                   "layer_norm_epsilon": 1e-12},
    "gemma3_text-embedding": {"head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 32, "rope_theta": 1e6,
                              "rope_local_base_freq": 1e4, "use_bidirectional_attention": True},
    "bert-reranker": {**BERT, "type_vocab_size": 1, "architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}},
    "xlm-roberta-reranker": {**BERT, "model_type": "xlm-roberta", "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1,
                             "architectures": ["XLMRobertaForSequenceClassification"], "id2label": {"0": "LABEL_0"}},
    "modernbert-reranker": {"max_position_embeddings": 512, "local_attention": 32, "classifier_pooling": "mean",
                            "architectures": ["ModernBertForSequenceClassification"], "id2label": {"0": "LABEL_0"}},
}


def word_pieces(size):
    """A WordPiece tokenizer of the words of the held-out text: what encoders have."""
    text = (ROOT / "models" / "held-out.txt").read_text().lower()
    letters = sorted(set(filter(str.isprintable, text)) - {" "})
    words = [word for word, _ in collections.Counter(re.findall(r"[a-z]+", text)).most_common(size)]
    tokens = list(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *("##" + one for one in letters), *words]))[:size]
    special = [dict(id=i, content=tokens[i], single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) for i in range(4)]
    return dict(version="1.0", truncation=None, padding=None, added_tokens=special,
                normalizer=dict(type="BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True),
                pre_tokenizer=dict(type="BertPreTokenizer"), post_processor=dict(type="BertProcessing", sep=["[SEP]", 3], cls=["[CLS]", 2]),
                decoder=dict(type="WordPiece", prefix="##", cleanup=True),
                model=dict(type="WordPiece", unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100,
                           vocab={token: i for i, token in enumerate(tokens)}))


def add_tokenizer(model, encoder):
    if encoder:
        (model / "tokenizer.json").write_text(json.dumps(word_pieces(SIZES["vocab_size"])))
        return
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / file, model)


def make(kvasir, folder, name, more):
    model = folder / "random"  # llama.cpp looks for tokens of Phi-3 where general.name has phi3 in it
    shutil.rmtree(model, ignore_errors=True)
    shape = folder / f"{name}.json"
    shape.write_text(json.dumps({**SIZES, "model_type": name.split("-")[0], **more}))
    subprocess.run([kvasir, "synth", "--config", shape, "--out", model], check=True, stdout=subprocess.DEVNULL)
    add_tokenizer(model, name in ENCODERS)
    out = folder / f"{name}.gguf"
    subprocess.run([kvasir, "convert", "-m", model, "-o", out, "--weights", "f32", "--force"], check=True)
    shutil.rmtree(model)


def main():
    kvasir, folder, names = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or FAMILIES:
        make(kvasir, folder, name, {**FAMILIES, **ENCODERS}[name])


if __name__ == "__main__":
    main()
