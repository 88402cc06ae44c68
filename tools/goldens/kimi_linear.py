"""Kimi-Linear, which transformers does not have: a slow float32 model of its formulas, and its fixtures.

Each token goes through each layer by itself, in the order of the text, with nothing but the definitions:

    KDA     S = exp(g) S (row by row);  S += k (beta (v - S' k))';  o = S' q;  out = W (rms(o) sigmoid(gate))
            g = -exp(A_log) softplus(F2 F1 x + dt_bias), beta = sigmoid(B x), gate = G2 G1 x
            q, k, v = silu(convolution over time of W x), q and k of length 1, q over sqrt(its size)
    MLA     keys are [U latent | shared part], nothing is turned by positions
    MoE     sigmoids (plus a bias) choose, groups by their two best; weights without the bias, their sum 1, scaled
"""
import json

import safetensors.torch
import torch
from torch.nn.functional import silu, softplus

KIMI = dict(architectures=["KimiLinearForCausalLM"], model_type="kimi_linear", dtype="bfloat16", hidden_act="silu", vocab_size=19, hidden_size=8,
            intermediate_size=10, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=4, model_max_length=128,
            rms_norm_eps=1e-4, bos_token_id=1, eos_token_id=2, kv_lora_rank=6, q_lora_rank=None, qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=5,
            mla_use_nope=True, rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=False, first_k_dense_replace=1, moe_layer_freq=1,
            moe_intermediate_size=5, moe_renormalize=True, moe_router_activation_func="sigmoid", num_experts=3, num_experts_per_token=2,
            num_expert_group=1, topk_group=1, use_grouped_topk=True, num_shared_experts=1, routed_scaling_factor=2.446, num_nextn_predict_layers=0,
            linear_attn_config=dict(kda_layers=[1], full_attn_layers=[2], head_dim=4, num_heads=3, short_conv_kernel_size=4))
# fixture -> what it changes
KIMI_GOLDENS = {
    "kimi_linear": dict(),
    "kimi_linear_grouped": dict(
        first_k_dense_replace=0, num_experts=4, num_expert_group=2, num_shared_experts=2, moe_renormalize=False,
        tie_word_embeddings=True, linear_attn_config=dict(kda_layers=[2], full_attn_layers=[1], head_dim=6, num_heads=2, short_conv_kernel_size=3)),
}
TOKENS = 24
LATENT_EPS = 1e-6  # whatever the layers' norms have


def shapes(config):
    """Every tensor by its published name."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    linear = config["linear_attn_config"]
    size, width, kernel = linear["head_dim"], linear["head_dim"] * linear["num_heads"], linear["short_conv_kernel_size"]
    out = {"model.embed_tokens": (config["vocab_size"], hidden), "model.norm": (hidden,)}
    if not config["tie_word_embeddings"]:
        out["lm_head"] = (config["vocab_size"], hidden)
    for i in range(config["num_hidden_layers"]):
        attention = {"kv_a_proj_with_mqa": (config["kv_lora_rank"] + config["qk_rope_head_dim"], hidden), "kv_a_layernorm": (config["kv_lora_rank"],),
                     "q_proj": (heads * (config["qk_nope_head_dim"] + config["qk_rope_head_dim"]), hidden),
                     "kv_b_proj": (heads * (config["qk_nope_head_dim"] + config["v_head_dim"]), config["kv_lora_rank"]),
                     "o_proj": (hidden, heads * config["v_head_dim"])}
        if i + 1 in linear["kda_layers"]:
            attention = {**{f"{name}_proj": (width, hidden) for name in "qkv"}, **{f"{name}_conv1d": (width, 1, kernel) for name in "qkv"},
                         "A_log": (1, 1, linear["num_heads"], 1), "dt_bias": (width,), "b_proj": (linear["num_heads"], hidden), "f_a_proj": (size, hidden),
                         "f_b_proj": (width, size), "g_a_proj": (size, hidden), "g_b_proj": (width, size), "o_norm": (size,), "o_proj": (hidden, width)}
        out |= {f"model.layers.{i}.self_attn.{name}": shape for name, shape in attention.items()}
        out |= {f"model.layers.{i}.{name}": (hidden,) for name in ("input_layernorm", "post_attention_layernorm")}
        out |= {f"model.layers.{i}.{name}": shape for name, shape in mlp_shapes(config, dense=i < config["first_k_dense_replace"]).items()}
    return {name if name.endswith(("A_log", "dt_bias", "correction_bias")) else name + ".weight": shape for name, shape in out.items()}


def mlp_shapes(config, dense):
    hidden = config["hidden_size"]

    def gated(prefix, width, names):
        return {prefix + name: (hidden, width) if down else (width, hidden) for name, down in zip(names, (False, False, True))}

    if dense:
        return gated("mlp.", config["intermediate_size"], ("gate_proj", "up_proj", "down_proj"))
    moe, width = "block_sparse_moe.", config["moe_intermediate_size"]
    out = {moe + "gate": (config["num_experts"], hidden), moe + "gate.e_score_correction_bias": (config["num_experts"],)}
    for expert in range(config["num_experts"]):
        out |= gated(f"{moe}experts.{expert}.", width, ("w1", "w3", "w2"))
    return out | gated(moe + "shared_experts.", width * config["num_shared_experts"], ("gate_proj", "up_proj", "down_proj"))


def rms(x, weight, eps):
    return weight * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)


def unit(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


class Layer:
    """One layer's tensors by the names that follow the layer's."""

    def __init__(self, tensors, index, config):
        prefix = f"model.layers.{index}."
        self.of = {name.removeprefix(prefix).removesuffix(".weight"): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        self.config, self.index = config, index

    def kda(self, x):
        linear = self.config["linear_attn_config"]
        heads, size = linear["num_heads"], linear["head_dim"]
        w = {name.removeprefix("self_attn."): tensor for name, tensor in self.of.items() if name.startswith("self_attn.")}

        def convolved(name):
            taps, inputs = w[f"{name}_conv1d"][:, 0], x @ w[f"{name}_proj"].T
            padded = torch.cat([torch.zeros(taps.shape[1] - 1, inputs.shape[1]), inputs])
            return silu(torch.stack([(padded[t : t + taps.shape[1]] * taps.T).sum(0) for t in range(len(inputs))])).view(-1, heads, size)

        q, k, v = unit(convolved("q")) * size**-0.5, unit(convolved("k")), convolved("v")
        decay = torch.exp(-torch.exp(w["A_log"].view(heads, 1)) * softplus((x @ w["f_a_proj"].T @ w["f_b_proj"].T + w["dt_bias"]).view(-1, heads, size)))
        beta = torch.sigmoid(x @ w["b_proj"].T)
        state, rows = torch.zeros(heads, size, size), []
        for t in range(len(x)):
            state = decay[t][:, :, None] * state
            written = beta[t][:, None] * (v[t] - torch.einsum("hkv,hk->hv", state, k[t]))
            state = state + torch.einsum("hk,hv->hkv", k[t], written)
            rows.append(torch.einsum("hkv,hk->hv", state, q[t]))
        gate = torch.sigmoid(x @ w["g_a_proj"].T @ w["g_b_proj"].T).view(-1, heads, size)
        out = rms(torch.stack(rows), w["o_norm"], self.config["rms_norm_eps"]) * gate
        return out.reshape(len(x), -1) @ w["o_proj"].T

    def mla(self, x):
        c, w = self.config, {name.removeprefix("self_attn."): tensor for name, tensor in self.of.items() if name.startswith("self_attn.")}
        heads, nope, shared = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
        q = (x @ w["q_proj"].T).view(-1, heads, nope + shared)
        latent, all_heads = (x @ w["kv_a_proj_with_mqa"].T).split([c["kv_lora_rank"], shared], -1)
        kv = (rms(latent, w["kv_a_layernorm"], LATENT_EPS) @ w["kv_b_proj"].T).view(-1, heads, nope + c["v_head_dim"])
        k = torch.cat([kv[..., :nope], all_heads[:, None].expand(-1, heads, -1)], -1)
        scores = torch.einsum("thd,shd->hts", q, k) * (nope + shared) ** -0.5
        weights = scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -torch.inf).softmax(-1)
        return torch.einsum("hts,shv->thv", weights, kv[..., nope:]).reshape(len(x), -1) @ w["o_proj"].T

    def gated(self, x, prefix, gate="gate_proj", up="up_proj", down="down_proj"):
        return (silu(x @ self.of[prefix + gate].T) * (x @ self.of[prefix + up].T)) @ self.of[prefix + down].T

    def moe(self, x):
        c, prefix = self.config, "block_sparse_moe."
        scores = torch.sigmoid(x @ self.of[prefix + "gate"].T)
        choice = scores + self.of[prefix + "gate.e_score_correction_bias"]
        grouped = choice.view(len(x), c["num_expert_group"], -1)
        best = grouped.topk(2, -1).values.sum(-1).topk(c["topk_group"], -1).indices
        allowed = torch.zeros(grouped.shape[:2]).scatter(1, best, 1.0)[..., None].expand_as(grouped).reshape(choice.shape)
        chosen = choice.masked_fill(allowed == 0, -torch.inf).topk(c["num_experts_per_token"], -1).indices
        weights = scores.gather(1, chosen)
        if c["moe_renormalize"]:
            weights = weights / weights.sum(-1, keepdim=True)
        weights = weights * c["routed_scaling_factor"]
        rows = [sum(weights[t, j] * self.gated(x[t], f"{prefix}experts.{int(expert)}.", "w1", "w3", "w2") for j, expert in enumerate(chosen[t]))
                for t in range(len(x))]
        return torch.stack(rows) + self.gated(x, prefix + "shared_experts.")

    def run(self, x):
        eps = self.config["rms_norm_eps"]
        is_kda = self.index + 1 in self.config["linear_attn_config"]["kda_layers"]
        x = x + (self.kda if is_kda else self.mla)(rms(x, self.of["input_layernorm"], eps))
        normed = rms(x, self.of["post_attention_layernorm"], eps)
        return x + (self.gated(normed, "mlp.") if self.index < self.config["first_k_dense_replace"] else self.moe(normed))


def logits_of(config, tensors, tokens):
    x = tensors["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        x = Layer(tensors, i, config).run(x)
    head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return rms(x, tensors["model.norm.weight"], config["rms_norm_eps"]) @ tensors[head].T


def write_kimi_linear(out, fill):
    """`fill` makes the random numbers of a tensor of a name: the other families' own."""
    for name, changes in KIMI_GOLDENS.items():
        config = dict(KIMI, **changes)
        torch.manual_seed(sum(name.encode()))
        floats = ("e_score_correction_bias", "A_log", "dt_bias")  # in float32 on hubs
        stored = {key: fill(torch.zeros(shape), key).to(torch.float32 if key.endswith(floats) else torch.bfloat16)
                  for key, shape in shapes(config).items()}
        tokens = torch.randint(0, config["vocab_size"], (TOKENS,))
        logits = logits_of(config, {key: tensor.float() for key, tensor in stored.items()}, tokens)
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        safetensors.torch.save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        safetensors.torch.save_file({"tokens": tokens.to(torch.int32), "logits": logits.contiguous()}, folder / "golden.safetensors")
