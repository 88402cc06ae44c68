"""Which fixtures there are: the configs of each family, and what each fixture changes of them. See README.md beside this file."""
from collections.abc import Callable
from typing import NamedTuple

import torch

VOCAB = 101  # not a multiple of any vector width


class Golden(NamedTuple):
    """A fixture: what its config says beyond its family's settings, how it is stored, and how long its prompt is."""
    family: str
    overrides: dict
    dtype: torch.dtype = torch.float32
    tokens: int = 40
    published: dict | None = None  # config.json as hubs have it, not as save_pretrained writes it: see publish_config()
    unread: dict | None = None  # put there last (None: taken away): words of hubs that transformers 5 fails to read
    names: Callable[[str], str] | None = None  # of a tensor on hubs, for what save_pretrained calls it
    extra: dict | None = None  # tensors that hubs have and nobody reads: name -> (shape, dtype)


def rope(theta, **scaling):
    return dict(rope_parameters=dict(dict(rope_type="default", rope_theta=theta), **scaling))


COMPUTED = ["head_dim", "qk_head_dim", "rope_interleave"]  # of DeepSeek-V3: what transformers writes, and published files do not
LATENT_YARN = dict(factor=40.0, original_max_position_embeddings=32, beta_fast=4.0, beta_slow=0.5)


def latent_yarn(mscale, mscale_all_dim):
    """Ramps between the first and the last of the few pairs that are rotated."""
    return rope(100.0, rope_type="yarn", mscale=mscale, mscale_all_dim=mscale_all_dim, **LATENT_YARN)


def factors(rotated):
    pairs = int(16 * rotated) // 2
    return dict(short_factor=[1.0 + 0.05 * i for i in range(pairs)], long_factor=[1.5 + 0.75 * i for i in range(pairs)])


def longrope(rotated=1.0):
    return rope(10000.0, rope_type="longrope", partial_rotary_factor=rotated, **factors(rotated))


def longrope_published(kind, rotated=1.0):
    return dict(type=kind, **factors(rotated))


LLAMA = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=112, num_hidden_layers=2, max_position_embeddings=512,
             rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, **rope(10000.0))
SMALL = dict(LLAMA, hidden_size=40, intermediate_size=56, num_attention_heads=4, num_key_value_heads=2)
SMALL_HEADS = dict(hidden_size=40, intermediate_size=56, num_attention_heads=4, num_key_value_heads=2, head_dim=16)
QWEN = dict(SMALL, rms_norm_eps=1e-6, use_sliding_window=False, **rope(1000000.0))
FULL, SLIDING = "full_attention", "sliding_attention"
ALPHA = rope(10000.0, rope_type="dynamic", alpha=1000.0, factor=1.0)

# Fixtures of families that came later are smaller: bf16, fewer tokens in the vocabulary, and a hidden size of 32 or 48.
SLIM_VOCAB = 67
TINY = dict(LLAMA, vocab_size=SLIM_VOCAB, hidden_size=32, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, pad_token_id=0)
LEARNED = dict(vocab_size=SLIM_VOCAB, n_positions=48, n_embd=24, n_layer=2, n_head=3, bos_token_id=1, eos_token_id=2)
# Of families whose cache is a latent row: what a head compares is 8 numbers by content and 4 by position.
LATENT = dict({k: v for k, v in TINY.items() if k != "num_key_value_heads"}, hidden_size=24, intermediate_size=28, kv_lora_rank=16, qk_nope_head_dim=8,
              qk_rope_head_dim=4, v_head_dim=10, moe_intermediate_size=12, n_routed_experts=6, num_experts_per_tok=2)
# Of families with recurrent layers, smaller still: heads of 4 by 3, two for each key head.
HYBRID = dict({k: v for k, v in TINY.items() if k != "rope_parameters"}, vocab_size=19, hidden_size=8, intermediate_size=10, head_dim=4, num_attention_heads=2,
              num_key_value_heads=1, num_hidden_layers=2, rms_norm_eps=1e-6, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=4,
              linear_value_head_dim=3)
HYBRID_EXPERTS = dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=4, shared_expert_intermediate_size=5)
FULL_EVERY_SECOND = dict(layer_types=["linear_attention", "full_attention"])
MAMBA = dict({k: v for k, v in TINY.items() if k != "rope_parameters"}, vocab_size=19, hidden_size=8, intermediate_size=10, num_attention_heads=2,
             num_key_value_heads=1, num_hidden_layers=2, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=5, mamba_chunk_size=8)
# Of families with layer norms, and with as many KV heads as heads.
NORMED = {k: v for k, v in TINY.items() if k not in ("rms_norm_eps", "num_key_value_heads")}

def nemotron_names(key):
    """The plural, which transformers 5.12.1 loses as it saves."""
    return key.replace("backbone.embedding.", "backbone.embeddings.")


# Fixtures beside the first of their family are smaller still: it is one switch that they show.
LITTLE = dict(vocab_size=37, hidden_size=24, intermediate_size=28)
LITTLE_HEADS = dict(SMALL_HEADS, **LITTLE)

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
    "gpt2": ("GPT2Config", LEARNED),
    "gpt_bigcode": ("GPTBigCodeConfig", LEARNED),
    "gpt_neox": ("GPTNeoXConfig", dict(NORMED, num_attention_heads=2, layer_norm_eps=1e-5,
                                       **rope(10000.0, partial_rotary_factor=0.25))),
    "opt": ("OPTConfig", dict(vocab_size=SLIM_VOCAB, hidden_size=32, word_embed_proj_dim=32, ffn_dim=56, num_hidden_layers=2, num_attention_heads=4,
                              max_position_embeddings=48)),
    "falcon": ("FalconConfig", dict({k: v for k, v in NORMED.items() if k != "intermediate_size"}, ffn_hidden_size=56, tie_word_embeddings=True)),
    "phi3": ("Phi3Config", dict(TINY, num_attention_heads=2, num_key_value_heads=1, original_max_position_embeddings=128)),
    "gpt_oss": ("GptOssConfig", dict(TINY, head_dim=12, intermediate_size=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=8)),
    "glm4_moe": ("Glm4MoeConfig", dict(TINY, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=12, attention_bias=True,
                                       partial_rotary_factor=0.5)),
    "minimax_m2": ("MiniMaxM2Config", dict(TINY, head_dim=12, intermediate_size=12, num_local_experts=5, num_experts_per_tok=2,
                                           **rope(5000000.0, partial_rotary_factor=0.5))),
    "llama4_text": ("Llama4TextConfig", dict(TINY, hidden_size=24, head_dim=8, intermediate_size=12, intermediate_size_mlp=20, num_hidden_layers=4,
                                             num_local_experts=3, attention_chunk_size=8, floor_scale=4, attn_scale=0.4)),
    "gemma4_text": ("Gemma4TextConfig", dict(
        {k: v for k, v in TINY.items() if k != "rope_parameters"}, hidden_size=24, intermediate_size=28, head_dim=8, global_head_dim=16,
        num_hidden_layers=4, sliding_window=8, layer_types=[SLIDING, FULL] * 2, hidden_size_per_layer_input=0, vocab_size_per_layer_input=SLIM_VOCAB, tie_word_embeddings=True)),
    "hunyuan_v1_dense": ("HunYuanDenseV1Config", dict(TINY, head_dim=12, **ALPHA)),
    "hunyuan_v1_moe": ("HunYuanMoEV1Config", dict(TINY, head_dim=12, intermediate_size=12, num_experts=4, moe_topk=2, **ALPHA)),
    "ministral3": ("Ministral3Config", dict(TINY, head_dim=12, **rope(
        1000000.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
        mscale_all_dim=1.0, llama_4_scaling_beta=0.3))),
    "glm4": ("Glm4Config", dict(TINY, head_dim=12, partial_rotary_factor=0.5, attention_bias=True)),
    "gemma": ("GemmaConfig", dict(TINY, head_dim=12, num_key_value_heads=1, tie_word_embeddings=True)),
    "cohere": ("CohereConfig", dict(NORMED, num_key_value_heads=2, layer_norm_eps=1e-5, logit_scale=0.25, tie_word_embeddings=True)),
    "ernie4_5": ("Ernie4_5Config", dict(TINY, head_dim=12, use_bias=False)),
    "olmo": ("OlmoConfig", dict(NORMED, num_key_value_heads=2)),
    "stablelm": ("StableLmConfig", dict(NORMED, num_attention_heads=2, num_key_value_heads=1, layer_norm_eps=1e-5,
                                        **rope(10000.0, partial_rotary_factor=0.25))),
    "phi": ("PhiConfig", dict(NORMED, num_attention_heads=2, layer_norm_eps=1e-5, **rope(10000.0, partial_rotary_factor=0.5))),
    "gptj": ("GPTJConfig", dict(LEARNED, n_head=2, rotary_dim=8, n_inner=60, tie_word_embeddings=False)),
    "qwen3_next": ("Qwen3NextConfig", dict(HYBRID, **HYBRID_EXPERTS, **rope(10000.0, partial_rotary_factor=0.5))),
    "qwen3_5_text": ("Qwen3_5TextConfig", dict(HYBRID, **rope(10000.0, partial_rotary_factor=0.5))),
    "qwen3_5_moe_text": ("Qwen3_5MoeTextConfig", dict({k: v for k, v in HYBRID.items() if k != "intermediate_size"}, **HYBRID_EXPERTS,
                                                      **rope(10000.0, partial_rotary_factor=0.5))),
    "lfm2": ("Lfm2Config", dict(vocab_size=19, hidden_size=8, intermediate_size=10, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, norm_eps=1e-5,
                                max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0, block_multiple_of=4, layer_types=["conv", FULL],
                                **rope(10000.0))),
    "granitemoehybrid": ("GraniteMoeHybridConfig", dict(
        {k: v for k, v in TINY.items() if k != "rope_parameters"}, vocab_size=19, hidden_size=8, intermediate_size=4, num_attention_heads=2, num_key_value_heads=1,
        num_hidden_layers=2, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=5, mamba_d_head=4, mamba_expand=2, shared_intermediate_size=6, num_local_experts=3,
        num_experts_per_tok=2, layer_types=["mamba", "attention"], position_embedding_type="nope", attention_multiplier=0.3, residual_multiplier=0.6,
        embedding_multiplier=1.5, logits_scaling=2.0)),
    "bamba": ("BambaConfig", dict(MAMBA, mamba_expand=2, attn_layer_indices=[1], **rope(10000.0))),
    "falcon_h1": ("FalconH1Config", dict(
        MAMBA, head_dim=6, mamba_d_ssm=12, mamba_expand=None, mamba_d_head=3, embedding_multiplier=1.5, lm_head_multiplier=0.4, key_multiplier=0.7,
        attention_in_multiplier=1.3, attention_out_multiplier=0.6, ssm_in_multiplier=1.2, ssm_out_multiplier=0.8, mlp_multipliers=[1.4, 0.5],
        ssm_multipliers=[0.8, 1.3, 0.9, 1.2, 0.7], **rope(10000.0))),
    "nemotron_h": ("NemotronHConfig", dict(
        vocab_size=19, hidden_size=8, intermediate_size=10, head_dim=4, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=128,
        bos_token_id=1, eos_token_id=2, ssm_state_size=5, mamba_num_heads=4, mamba_head_dim=3, n_groups=2, n_routed_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=4, moe_shared_expert_intermediate_size=6, layer_norm_epsilon=1e-4, routed_scaling_factor=2.5,
        layers_block_type=["mamba", "moe", "attention", "mlp"])),
    "lfm2_moe": ("Lfm2MoeConfig", dict(vocab_size=19, hidden_size=8, intermediate_size=10, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                                       norm_eps=1e-5, max_position_embeddings=128, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=4,
                                       num_dense_layers=1, layer_types=["conv", FULL], **rope(10000.0))),
    "qwen2_moe": ("Qwen2MoeConfig", dict(TINY, hidden_size=24, intermediate_size=28, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=12,
                                         shared_expert_intermediate_size=20)),
    "deepseek_v2": ("DeepseekV2Config", dict(LATENT, q_lora_rank=None, first_k_dense_replace=1, n_shared_experts=2)),
    "deepseek_v3": ("DeepseekV3Config", dict(LATENT, q_lora_rank=12, first_k_dense_replace=1, num_key_value_heads=4)),
    "glm4_moe_lite": ("Glm4MoeLiteConfig", dict(LATENT, q_lora_rank=12, num_key_value_heads=4, routed_scaling_factor=1.8, **rope(1000000.0))),
    "mistral4": ("Mistral4Config", dict(LATENT, q_lora_rank=12, qk_rope_head_dim=8, num_key_value_heads=4, **rope(
        10000.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
        mscale_all_dim=1.0, llama_4_scaling_beta=0.3))),
    "bloom": ("BloomConfig", dict(vocab_size=SLIM_VOCAB, hidden_size=24, n_layer=2, n_head=3)),
    "granitemoe": ("GraniteMoeConfig", dict(TINY, intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=6.0,
                                            attention_multiplier=0.3, residual_multiplier=0.4, logits_scaling=3.0, tie_word_embeddings=True)),
}

GOLDENS = {
    "mha": Golden("llama", dict(SMALL_HEADS, num_key_value_heads=4), torch.bfloat16),
    # Laws and benchmarks run these two as well.
    "gqa": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16)),
    "odd_head_dim": Golden("llama", dict(hidden_size=42, num_attention_heads=3, num_key_value_heads=1, head_dim=20)),
    "mqa_tied": Golden("llama", dict(SMALL_HEADS, num_key_value_heads=1, tie_word_embeddings=True), torch.bfloat16),
    "narrow_head": Golden("llama", dict(hidden_size=36, intermediate_size=50, num_attention_heads=6, num_key_value_heads=3,
                                        head_dim=6)),
    "biases": Golden("llama", dict(SMALL_HEADS, attention_bias=True, mlp_bias=True), torch.bfloat16),
    "rope_llama3": Golden("llama", dict(LITTLE_HEADS, **rope(
        500000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32)), tokens=120),
    "rope_linear": Golden("llama", dict(LITTLE_HEADS, **rope(10000.0, rope_type="linear", factor=4.0)), torch.bfloat16, tokens=80),
    # In transformers theta grows with a text that is longer than max_position_embeddings.
    "rope_dynamic_grown": Golden("llama", dict(TINY, head_dim=12, max_position_embeddings=32, **rope(10000.0, rope_type="dynamic", factor=4.0)),
                                 torch.bfloat16, tokens=60, published=dict()),
    "rope_yarn": Golden("llama", dict(LITTLE_HEADS, **rope(
        10000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=32)), torch.bfloat16, tokens=80),
    "rope_yarn_tuned": Golden("llama", dict(LITTLE_HEADS, **rope(
        500000.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16, beta_fast=16.0, beta_slow=2.0,
        attention_factor=1.3, truncate=False)), torch.bfloat16, tokens=80),
    "rope_yarn_mscale": Golden("llama", dict(LITTLE_HEADS, **rope(
        10000.0, rope_type="yarn", factor=16.0, original_max_position_embeddings=32, mscale=0.7, mscale_all_dim=1.0)), torch.bfloat16, tokens=80),
    "bf16": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16), torch.bfloat16),
    "f16_tied": Golden("llama", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True),
                       torch.float16),
    # Prompts are several windows long.
    "mistral_full": Golden("mistral", dict(head_dim=16)),
    "mistral_window": Golden("mistral", dict(sliding_window=7), torch.bfloat16, tokens=64,
                             published=dict(drop=["head_dim"])),
    "mistral_window_tied": Golden("mistral", dict(LITTLE, sliding_window=16, head_dim=16, tie_word_embeddings=True, **rope(1000000.0)),
                                  torch.bfloat16, tokens=100),
    # Published files name a window which use_sliding_window turns off.
    "qwen2": Golden("qwen2", dict(), published=dict(drop=["layer_types"], put=dict(sliding_window=6, max_window_layers=1))),
    "qwen2_window": Golden("qwen2", dict(LITTLE, num_hidden_layers=3, use_sliding_window=True, sliding_window=6, max_window_layers=1),
                           torch.bfloat16, tokens=50, published=dict(drop=["layer_types"])),
    "qwen2_layer_types": Golden("qwen2", dict(LITTLE, num_hidden_layers=3, use_sliding_window=True, sliding_window=9,
                                              max_window_layers=0, layer_types=[SLIDING, FULL, SLIDING]), torch.bfloat16, tokens=50),
    "qwen3": Golden("qwen3", dict()),
    "qwen3_bias": Golden("qwen3", dict(LITTLE, attention_bias=True), torch.bfloat16, published=dict(
        drop=["layer_types"], put=dict(sliding_window=6, max_window_layers=1))),
    "qwen3_tied": Golden("qwen3", dict(LITTLE, hidden_size=64, tie_word_embeddings=True), torch.bfloat16),
    "qwen3_default_head_dim": Golden("qwen3", dict(LITTLE, num_attention_heads=2, num_key_value_heads=1, head_dim=128),
                                     torch.bfloat16, published=dict(drop=["head_dim", "layer_types"])),
    "qwen3_window": Golden("qwen3", dict(LITTLE, num_hidden_layers=3, use_sliding_window=True, sliding_window=6, max_window_layers=2),
                           torch.bfloat16, tokens=50, published=dict(drop=["layer_types"])),
    "qwen3_moe": Golden("qwen3_moe", dict(), torch.bfloat16),
    "qwen3_moe_dense_layers": Golden("qwen3_moe", dict(LITTLE, num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[3],
                                                       norm_topk_prob=False, attention_bias=True, tie_word_embeddings=True), torch.bfloat16),
    "qwen3_moe_window": Golden("qwen3_moe", dict(LITTLE, use_sliding_window=True, sliding_window=6, num_experts_per_tok=1),
                               torch.bfloat16, tokens=50),
    "mixtral": Golden("mixtral", dict(), torch.bfloat16),
    "mixtral_window": Golden("mixtral", dict(LITTLE, sliding_window=7, num_experts_per_tok=1, tie_word_embeddings=True), torch.bfloat16, tokens=64),
    "olmoe": Golden("olmoe", dict(), torch.bfloat16),
    "gemma2": Golden("gemma2", dict(), torch.bfloat16, tokens=60),
    "gemma2_uncapped": Golden("gemma2", dict(LITTLE, attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True),
                              torch.bfloat16, tokens=60),
    "gemma3": Golden("gemma3_text", dict(), torch.bfloat16, tokens=60),
    "gemma3_softcap": Golden("gemma3_text", dict(LITTLE, final_logit_softcapping=2.0, attention_bias=True, tie_word_embeddings=False,
                                                 hidden_activation="gelu"), torch.bfloat16, tokens=60),
    "olmo2": Golden("olmo2", dict(), torch.bfloat16),
    "olmo2_bias": Golden("olmo2", dict(LITTLE, attention_bias=True, num_key_value_heads=4, tie_word_embeddings=True), torch.bfloat16),
    "olmo3": Golden("olmo3", dict(), torch.bfloat16, tokens=60),
    "exaone4": Golden("exaone4", dict(), torch.bfloat16),
    "exaone4_hybrid": Golden("exaone4", dict(LITTLE, num_hidden_layers=4, sliding_window=8, sliding_window_pattern=4,
                                             layer_types=["sliding_attention"] * 3 + ["full_attention"]), torch.bfloat16, tokens=60),
    "granite": Golden("granite", dict(), torch.bfloat16),
    "granite_bias": Golden("granite", dict(LITTLE, attention_bias=True, mlp_bias=True, tie_word_embeddings=True), torch.bfloat16),
    "seed_oss": Golden("seed_oss", dict(), torch.bfloat16),
    "seed_oss_out_bias": Golden("seed_oss", dict(LITTLE, attention_bias=False, attention_out_bias=True, mlp_bias=True), torch.bfloat16),
    "smollm3": Golden("smollm3", dict(), torch.bfloat16),
    "smollm3_listed": Golden("smollm3", dict(LITTLE, no_rope_layers=[0, 1, 1, 0], attention_bias=True, tie_word_embeddings=True), torch.bfloat16),
    "cohere2": Golden("cohere2", dict(), torch.bfloat16, tokens=60),
    "cohere2_bias": Golden("cohere2", dict(LITTLE, attention_bias=True, layer_types=["full_attention", "sliding_attention"] * 2),
                           torch.bfloat16, tokens=60),
    "starcoder2": Golden("starcoder2", dict(), torch.bfloat16),
    "starcoder2_window": Golden("starcoder2", dict(LITTLE, sliding_window=9, use_bias=False, tie_word_embeddings=False), torch.bfloat16, tokens=60),
    "olmoe_normalized": Golden("olmoe", dict(LITTLE, norm_topk_prob=True, attention_bias=True, num_key_value_heads=4), torch.bfloat16),
    # As OpenAI's file has it: without the prefix, and with the mask that the first PyTorch class kept among its weights.
    "gpt2": Golden("gpt2", dict(), torch.bfloat16, tokens=48, names=lambda key: key.removeprefix("transformer."),
                   extra={f"h.{i}.attn.bias": ((1, 1, 48, 48), torch.bfloat16) for i in range(2)}, published=dict()),
    "gpt2_untied": Golden("gpt2", dict(n_inner=60, scale_attn_by_inverse_layer_idx=True, activation_function="relu", tie_word_embeddings=False),
                          torch.bfloat16),
    "gpt_bigcode": Golden("gpt_bigcode", dict(multi_query=True), torch.bfloat16),
    "gpt_bigcode_all_heads": Golden("gpt_bigcode", dict(multi_query=False, n_inner=60, activation_function="gelu"), torch.bfloat16),
    # As Pythia's files have it, with buffers that are no weights.
    "gpt_neox": Golden("gpt_neox", dict(use_parallel_residual=True), torch.bfloat16, names=str,
                       extra={"gpt_neox.layers.0.attention.masked_bias": ((), torch.bfloat16),
                              "gpt_neox.layers.0.attention.rotary_emb.inv_freq": ((2,), torch.bfloat16)},
                       published=dict(drop=["tie_word_embeddings"], rotary="rotary_pct", theta="rotary_emb_base")),
    "gpt_neox_serial": Golden("gpt_neox", dict(use_parallel_residual=False, attention_bias=False, hidden_act="gelu_new", tie_word_embeddings=True,
                                               **rope(25000.0, partial_rotary_factor=1.0)), torch.bfloat16),
    "opt": Golden("opt", dict(), torch.bfloat16, tokens=48),
    "opt_350m": Golden("opt", dict(do_layer_norm_before=False, word_embed_proj_dim=24), torch.bfloat16),
    "opt_galactica": Golden("opt", dict(enable_bias=False, layer_norm_elementwise_affine=False, activation_function="gelu"), torch.bfloat16),
    "falcon_7b": Golden("falcon", dict(multi_query=True), torch.bfloat16, published=dict()),
    "falcon_40b": Golden("falcon", dict(new_decoder_architecture=True, num_kv_heads=2), torch.bfloat16),
    "falcon_11b": Golden("falcon", dict(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1, ffn_hidden_size=72,
                                        tie_word_embeddings=False, **rope(500042.0)), torch.bfloat16),
    "falcon_rw": Golden("falcon", dict(alibi=True, multi_query=False, parallel_attn=False, bias=True, ffn_hidden_size=128), torch.bfloat16,
                        published=dict(drop=["ffn_hidden_size"])),
    # transformers takes the short or the long factors by a prompt's length: each prompt is on one side of the original context from beginning to end.
    "phi3": Golden("phi3", dict(sliding_window=8), torch.bfloat16, published=dict()),
    "phi3_long": Golden("phi3", dict(num_key_value_heads=2, original_max_position_embeddings=16, **longrope()), torch.bfloat16, tokens=48,
                        published=dict(rope=longrope_published("longrope")), unread=dict(rope_scaling=longrope_published("su"))),
    "phi3_short": Golden("phi3", dict(original_max_position_embeddings=64, tie_word_embeddings=True, **longrope(0.75)), torch.bfloat16, tokens=48,
                         published=dict(rope=longrope_published("longrope", 0.75))),
    "gpt_oss": Golden("gpt_oss", dict(**rope(150000.0, rope_type="yarn", factor=8.0, beta_fast=8.0, beta_slow=1.0, truncate=False,
                                             original_max_position_embeddings=16)), torch.bfloat16, tokens=48,
                      published=dict(put=dict(experts_per_token=2, initial_context_length=16, swiglu_limit=7.0))),
    "gpt_oss_full": Golden("gpt_oss", dict(attention_bias=False, layer_types=[FULL] * 2, num_experts_per_tok=3, tie_word_embeddings=True),
                           torch.bfloat16),
    # The layer past the last predicts further tokens, for those who draft with it.
    "glm4_moe": Golden("glm4_moe", dict(routed_scaling_factor=1.5), torch.bfloat16, names=str,
                       extra={f"model.layers.2.{name}.weight": ((32,), torch.bfloat16)
                              for name in ("enorm", "hnorm", "input_layernorm", "shared_head.norm")},
                       published=dict(put=dict(num_nextn_predict_layers=1))),
    "glm4_moe_grouped": Golden("glm4_moe", dict(attention_bias=False, use_qk_norm=True, head_dim=12, first_k_dense_replace=0, n_routed_experts=8,
                                                num_experts_per_tok=3, n_group=4, topk_group=2, n_shared_experts=2, norm_topk_prob=False,
                                                routed_scaling_factor=2.5, moe_intermediate_size=8), torch.bfloat16),
    # Published files say rotary_dim, which transformers 5 does not read.
    "minimax_m2": Golden("minimax_m2", dict(), torch.bfloat16, unread=dict(rotary_dim=6, partial_rotary_factor=None), published=dict(
        put=dict(use_qk_norm=True, qk_norm_type="per_layer", scoring_func="sigmoid", use_routing_bias=True))),
    # Published inside a model that sees.
    "llama4": Golden("llama4_text", dict(), torch.bfloat16, names=lambda key: "language_model." + key,
                     extra={"vision_model.class_embedding": ((16,), torch.bfloat16)}, published=dict(
                         drop=["moe_layers", "layer_types"], put=dict(no_rope_layers=[], for_llm_compressor=False), wrap=dict(
                             architectures=["Llama4ForConditionalGeneration"], model_type="llama4", torch_dtype="bfloat16", tie_word_embeddings=False,
                             vision_config=dict(model_type="llama4_vision_model", hidden_size=16)))),
    "llama4_interleaved": Golden("llama4_text", dict(num_hidden_layers=3, no_rope_layers=[1, 0, 1], interleave_moe_layer_step=2, use_qk_norm=False,
                                                     attn_temperature_tuning=False, attention_bias=True, num_experts_per_tok=2,
                                                     tie_word_embeddings=True), torch.bfloat16),
    "gemma4_dense_keqv": Golden("gemma4_text", dict(attention_k_eq_v=True, num_global_key_value_heads=1, final_logit_softcapping=8.0), torch.bfloat16),
    # The last layers of each kind before the shared ones are the third and the second.
    "gemma4_ple_shared": Golden("gemma4_text", dict(
        num_hidden_layers=5, layer_types=[SLIDING, FULL, SLIDING, SLIDING, FULL], num_kv_shared_layers=2, use_double_wide_mlp=True,
        hidden_size_per_layer_input=6, num_key_value_heads=1), torch.bfloat16,
        names=lambda key: key.replace("model.", "model.language_model.", 1),
        extra={"model.vision_tower.std_bias": ((16,), torch.bfloat16),
               "model.language_model.layers.3.self_attn.k_norm.weight": ((8,), torch.bfloat16)},
        published=dict(modern=True, wrap=dict(architectures=["Gemma4ForConditionalGeneration"], model_type="gemma4", dtype="bfloat16", tie_word_embeddings=True,
                                 vision_config=dict(model_type="gemma4_vision", hidden_size=16)))),
    "gemma4_moe": Golden("gemma4_text", dict(
        num_hidden_layers=3, layer_types=[SLIDING, SLIDING, FULL], attention_k_eq_v=True, num_global_key_value_heads=2, enable_moe_block=True,
        num_experts=4, top_k_experts=2, moe_intermediate_size=12, attention_bias=True, hidden_activation="gelu"), torch.bfloat16),
    "hunyuan_dense": Golden("hunyuan_v1_dense", dict(tie_word_embeddings=True), torch.bfloat16, published=dict(
        rope=dict(alpha=1000.0, beta_fast=32, beta_slow=1, factor=1.0, mscale=1.0, mscale_all_dim=0.0, type="dynamic"),
        put=dict(use_qk_norm=True, use_cla=False))),
    "hunyuan_dense_bias": Golden("hunyuan_v1_dense", dict(attention_bias=True, **rope(50000.0)), torch.bfloat16),
    "hunyuan_moe": Golden("hunyuan_v1_moe", dict(), torch.bfloat16, published=dict(
        rope=dict(alpha=1000.0, factor=1.0, type="dynamic"), put=dict(
            moe_topk=[2, 2], num_shared_expert=[1, 1], moe_intermediate_size=[12, 12], use_qk_norm=True, use_mixed_mlp_moe=True, use_cla=False))),
    "ministral3": Golden("ministral3", dict(), torch.bfloat16, tokens=60, names=lambda key: "language_model." + key,
                         extra={"vision_tower.ln_pre.weight": ((16,), torch.bfloat16)}, published=dict(modern=True, wrap=dict(
                             architectures=["Mistral3ForConditionalGeneration"], model_type="mistral3", dtype="bfloat16", tie_word_embeddings=False,
                             vision_config=dict(model_type="pixtral", hidden_size=16)))),
    "ministral3_window": Golden("ministral3", dict(sliding_window=8, tie_word_embeddings=True), torch.bfloat16, tokens=60),
    "glm4": Golden("glm4", dict(), torch.bfloat16, published=dict()),
    "glm4_plain": Golden("glm4", dict(attention_bias=False, num_key_value_heads=4, partial_rotary_factor=1.0, tie_word_embeddings=True), torch.bfloat16),
    "gemma": Golden("gemma", dict(), torch.bfloat16, published=dict()),
    "cohere": Golden("cohere", dict(), torch.bfloat16, published=dict()),
    "cohere_qk_norm": Golden("cohere", dict(use_qk_norm=True, attention_bias=True, num_key_value_heads=1), torch.bfloat16),
    "ernie4_5": Golden("ernie4_5", dict(tie_word_embeddings=True), torch.bfloat16, published=dict()),
    "ernie4_5_bias": Golden("ernie4_5", dict(use_bias=True), torch.bfloat16),
    "olmo": Golden("olmo", dict(clip_qkv=1.0), torch.bfloat16, published=dict()),
    "olmo_unclipped": Golden("olmo", dict(attention_bias=True, tie_word_embeddings=True, num_key_value_heads=4), torch.bfloat16),
    "stablelm": Golden("stablelm", dict(use_qkv_bias=True), torch.bfloat16, published=dict()),
    "stablelm_parallel": Golden("stablelm", dict(use_parallel_residual=True, qk_layernorm=True, num_key_value_heads=2, tie_word_embeddings=True),
                                torch.bfloat16),
    "phi2": Golden("phi", dict(), torch.bfloat16, published=dict()),
    "phi2_qk_norm": Golden("phi", dict(qk_layernorm=True, num_key_value_heads=1, hidden_act="gelu"), torch.bfloat16),
    "gptj": Golden("gptj", dict(), torch.bfloat16),
    "bloom": Golden("bloom", dict(), torch.bfloat16, names=lambda key: key.removeprefix("transformer."), published=dict(put=dict(seq_length=64))),
    "granitemoe": Golden("granitemoe", dict(), torch.bfloat16, published=dict()),
    "qwen3_next": Golden("qwen3_next", dict(FULL_EVERY_SECOND, mlp_only_layers=[1]), torch.bfloat16, tokens=24,
                         published=dict(drop=["layer_types"], put=dict(full_attention_interval=2))),
    "qwen3_5": Golden("qwen3_5_text", FULL_EVERY_SECOND, torch.bfloat16, tokens=24),
    "qwen3_5_moe": Golden("qwen3_5_moe_text", dict(layer_types=[FULL, "linear_attention"], linear_num_key_heads=1, linear_num_value_heads=3, linear_conv_kernel_dim=3,
                                                   tie_word_embeddings=True), torch.bfloat16, tokens=24),
    "lfm2": Golden("lfm2", dict(), torch.bfloat16, tokens=24),
    "granitemoehybrid": Golden("granitemoehybrid", dict(), torch.bfloat16, tokens=24),
    "bamba": Golden("bamba", dict(attention_bias=True, mlp_bias=True, mamba_d_conv=3, tie_word_embeddings=True, time_step_limit=(0.5, 0.9)),
                    torch.bfloat16, tokens=24, published=dict(put=dict(attn_rotary_emb=2))),
    "falcon_h1": Golden("falcon_h1", dict(), torch.bfloat16, tokens=24, published=dict(put=dict(mamba_use_mlp=True, attn_layer_indices=None))),
    "falcon_h1_norm": Golden("falcon_h1", dict(num_hidden_layers=1, mamba_rms_norm=True, mamba_norm_before_gate=False, tie_word_embeddings=True, time_step_limit=(0.5, 0.9)),
                             torch.bfloat16, tokens=24),
    "falcon_h1_norm_first": Golden("falcon_h1", dict(num_hidden_layers=1, mamba_rms_norm=True, mamba_norm_before_gate=True, mamba_conv_bias=False, mlp_bias=True,
                                                     **rope(1e11)), torch.bfloat16, tokens=24),
    "nemotron_h": Golden("nemotron_h", dict(), torch.bfloat16, tokens=24, names=nemotron_names, published=dict(
        drop=["layers_block_type"], put=dict(hybrid_override_pattern="ME*-", num_hidden_layers=4, time_step_limit=[0.0, float("inf")]))),
    "nemotron_h_latent": Golden("nemotron_h", dict(
        layers_block_type=["mlp", "moe", "mamba", "attention"], moe_latent_size=4, n_group=2,
        norm_topk_prob=False, use_conv_bias=False, conv_kernel=3, n_groups=1, time_step_limit=(0.5, float("inf"))),
        torch.bfloat16, tokens=24),
    "lfm2_moe": Golden("lfm2_moe", dict(), torch.bfloat16, tokens=24),
    "lfm2_moe_plain": Golden("lfm2_moe", dict(use_expert_bias=False, norm_topk_prob=False, routed_scaling_factor=1.7, num_dense_layers=0, conv_L_cache=4,
                                              tie_word_embeddings=False), torch.bfloat16, tokens=24),
    "qwen2_moe": Golden("qwen2_moe", dict(), torch.bfloat16, published=dict(drop=["layer_types", "qkv_bias"], put=dict(sliding_window=32))),
    "qwen2_moe_dense_layers": Golden("qwen2_moe", dict(num_hidden_layers=3, mlp_only_layers=[0], norm_topk_prob=True, qkv_bias=False,
                                                       tie_word_embeddings=True), torch.bfloat16),
    "deepseek_v2_lite": Golden("deepseek_v2", dict(topk_method="greedy", n_group=1, topk_group=1, **latent_yarn(0.707, 0.707)),
                               torch.bfloat16, tokens=48, published=dict(
                                   drop=["head_dim"], rope=dict(LATENT_YARN, type="yarn", mscale=0.707, mscale_all_dim=0.707), put=dict(
                                       scoring_func="softmax", moe_layer_freq=1, ep_size=1, seq_aux=True, aux_loss_alpha=0.001))),
    "deepseek_v2": Golden("deepseek_v2", dict(
        q_lora_rank=12, topk_method="group_limited_greedy", n_group=3, topk_group=2, num_experts_per_tok=3, routed_scaling_factor=4.0, qk_rope_head_dim=8,
        **latent_yarn(1.0, 0.5)), torch.bfloat16, tokens=48, published=dict(
            drop=["head_dim"], put=dict(scoring_func="softmax", moe_layer_freq=1))),
    # The layer past the last predicts further tokens.
    "deepseek_v3": Golden("deepseek_v3", dict(n_group=3, topk_group=2, num_experts_per_tok=3, **latent_yarn(1.0, 1.0)),
                          torch.bfloat16, tokens=48, names=str,
                          extra={f"model.layers.2.{name}.weight": ((24,), torch.bfloat16)
                                 for name in ("enorm", "hnorm", "input_layernorm", "shared_head.norm")},
                          published=dict(drop=COMPUTED, rope=dict(LATENT_YARN, type="yarn", mscale=1.0, mscale_all_dim=1.0), put=dict(
                              num_nextn_predict_layers=1, topk_method="noaux_tc", scoring_func="sigmoid", moe_layer_freq=1, ep_size=1))),
    "deepseek_v3_half": Golden("deepseek_v3", dict(
        q_lora_rank=None, rope_interleave=False, attention_bias=True, n_group=2, topk_group=1, norm_topk_prob=False, first_k_dense_replace=0,
        n_shared_experts=2, qk_rope_head_dim=8, tie_word_embeddings=True), torch.bfloat16),
    # The latent's norms keep their 1e-6, whatever the layers' have.
    "kimi_k2": Golden("deepseek_v3", dict(n_group=1, topk_group=1, routed_scaling_factor=2.8, rms_norm_eps=1e-2, **latent_yarn(1.0, 0.4)),
                      torch.bfloat16, tokens=48, published=dict(drop=COMPUTED), unread=dict(
                          model_type="kimi_k2", architectures=["DeepseekV3ForCausalLM"], topk_method="noaux_tc", scoring_func="sigmoid")),
    "glm4_moe_lite": Golden("glm4_moe_lite", dict(), torch.bfloat16, names=str,
                            extra={f"model.layers.2.{name}.weight": ((24,), torch.bfloat16) for name in ("enorm", "hnorm", "shared_head.norm")},
                            published=dict(modern=True, drop=["mlp_layer_types"], put=dict(first_k_dense_replace=1, num_nextn_predict_layers=1, topk_method="noaux_tc"))),
    "glm4_moe_lite_listed": Golden("glm4_moe_lite", dict(
        num_hidden_layers=3, mlp_layer_types=["sparse", "dense", "sparse"], q_lora_rank=None, n_group=2, topk_group=1,
        rope_interleave=False, norm_topk_prob=False, **latent_yarn(1.0, 1.0)), torch.bfloat16, tokens=48),
    "mistral4": Golden("mistral4", dict(), torch.bfloat16, tokens=60, names=lambda key: "language_model." + key,
                       extra={"vision_tower.ln_pre.weight": ((16,), torch.bfloat16)}, published=dict(modern=True, wrap=dict(
                           architectures=["Mistral3ForConditionalGeneration"], model_type="mistral3", dtype="bfloat16", tie_word_embeddings=False,
                           vision_config=dict(model_type="pixtral", hidden_size=16)))),
    "mistral4_grouped": Golden("mistral4", dict(n_group=3, topk_group=2, num_experts_per_tok=3, norm_topk_prob=False, first_k_dense_replace=1, routed_scaling_factor=1.7,
                                                rope_interleave=False, tie_word_embeddings=True), torch.bfloat16, tokens=60),
}
