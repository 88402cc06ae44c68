#!/usr/bin/env python3
"""A small random GGUF file of every family, for kl.mjs: do we and llama.cpp compute the same from it?

    python3 bench/peers/families.py build/kvasir FOLDER [NAME…]
    PEERS=/tmp/peers node bench/peers/kl.mjs build/next_token_probs FOLDER/*.gguf

Each is written as a config.json, `kvasir synth`, the shipped model's tokenizer and `kvasir convert --weights f32`. Windows
are shorter than the text that kl.mjs reads, and layers enough for every pattern.
"""
import json
import pathlib
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
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 128}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}

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
}


def make(kvasir, folder, name, more):
    model = folder / name
    shutil.rmtree(model, ignore_errors=True)
    shape = folder / f"{name}.json"
    shape.write_text(json.dumps({**SIZES, "model_type": name.split("-")[0], **more}))
    subprocess.run([kvasir, "synth", "--config", shape, "--out", model], check=True, stdout=subprocess.DEVNULL)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / file, model)
    out = folder / f"{name}.gguf"
    subprocess.run([kvasir, "convert", "-m", model, "-o", out, "--weights", "f32", "--force"], check=True)
    shutil.rmtree(model)


def main():
    kvasir, folder, names = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or FAMILIES:
        make(kvasir, folder, name, FAMILIES[name])


if __name__ == "__main__":
    main()
