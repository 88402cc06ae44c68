"""Makes one model's fixture: random weights, what transformers computes with them, and the folder as a hub has it."""
import copy
import json
from typing import NamedTuple

import safetensors.torch
import torch
import transformers

from fixtures import FAMILIES, GOLDENS
from transformers.models.deepseek_v2 import modeling_deepseek_v2
from transformers.models.deepseek_v3.modeling_deepseek_v3 import yarn_get_mscale
from transformers.models.mistral4.modeling_mistral4 import Mistral4ForCausalLM


class Attentions(NamedTuple):
    """Which of transformers' attentions computes the logits, and which checks them."""
    compute: str
    check: str


DEFAULT_ATTENTIONS = Attentions("sdpa", "eager")
# Some have one alone: soft-caps and sinks are in one of them, and Falcon's other one adds ALiBi's biases twice.
ATTENTIONS = {"falcon": Attentions("sdpa", "sdpa"), **dict.fromkeys(("gemma2", "gpt_oss", "gptj", "bloom"), Attentions("eager", "eager"))}
# Hubs have this in float32, whatever the rest is in.
FLOAT32 = "e_score_correction_bias"


# transformers 5.12.1 has this class and does not list it.
transformers.AutoModelForCausalLM.register(transformers.Mistral4Config, Mistral4ForCausalLM)


def mend_deepseek_v2(model):
    """What transformers 5.12.1 lost of DeepSeek's own code: yarn's share of the scale of scores, and a number that routing by groups reads."""
    said = model.config.rope_parameters
    for module in model.modules():
        if isinstance(module, modeling_deepseek_v2.DeepseekV2Attention) and said.get("mscale_all_dim"):
            module.scaling *= yarn_get_mscale(said["factor"], said["mscale_all_dim"]) ** 2
        if isinstance(module, modeling_deepseek_v2.DeepseekV2Moe):
            module.num_experts = model.config.n_routed_experts
    return model


def mend_nemotron_h(model):
    """Without kernels transformers 5.12.1 holds steps to time_step_min, which only initial weights are made of; kernels hold them to time_step_limit.
    It also loses states between chunks, so a prompt is no longer than one."""
    for module in model.modules():
        if hasattr(module, "time_step_min"):
            module.time_step_min = model.config.time_step_limit[0]
    return model


def mend_bamba(model):
    """transformers 5.12.1 turns whole heads, where Bamba's own code and later versions turn half of each."""
    for module in model.modules():
        if hasattr(module, "inv_freq"):
            rotated = model.config.hidden_size // model.config.num_attention_heads // 2
            module.inv_freq = model.config.rope_parameters["rope_theta"] ** (-torch.arange(0, rotated, 2).float() / rotated)
    return model


# family -> what makes transformers' class compute what the family's own code does
MENDS = {"bamba": mend_bamba, "deepseek_v2": mend_deepseek_v2, "nemotron_h": mend_nemotron_h}


def mend(family, model):
    return MENDS.get(family, lambda same: same)(model)


def fill(tensor, key):
    """Random numbers for every tensor: initial norms of 1 and biases of 0 would hide one that is never read."""
    if key.endswith(FLOAT32):
        return 0.3 * torch.randn_like(tensor)  # as large as the scores differ: it changes who is chosen
    if key.endswith("experts.gate_up_proj_bias"):
        return 4.0 * torch.randn_like(tensor)  # some gates reach their clamp of 7
    if key.endswith("A_log"):
        return torch.randn_like(tensor) - 2.0  # some heads remember all of the prompt, and some a few tokens
    if key.endswith("bias"):
        return 0.1 * torch.randn_like(tensor)
    if key.endswith(("layer_scalar", "per_expert_scale", "router.scale")):
        return 1.0 + 0.3 * torch.randn_like(tensor)
    if key.endswith(("sinks", "router.proj.weight")):
        return torch.randn_like(tensor)
    if "norm" in key or ".ln_" in key:
        return 1.0 + 0.1 * torch.randn_like(tensor)
    return torch.randn_like(tensor) * (0.7 if "embed" in key or ".wte" in key or ".wpe" in key else tensor.shape[-1] ** -0.5)


def fill_all(model, dtype):
    """Every parameter, and every buffer that files have. What is stored is what is computed with."""
    parameters = list(model.named_parameters())
    buffers = [(key, buffer) for key, buffer in model.named_buffers() if key in model.state_dict()]
    for key, tensor in parameters + buffers:
        tensor.copy_(fill(tensor, key).to(dtype).float())


def store(model, dtype, folder):
    model.to(dtype)
    for module in model.modules():
        if isinstance(getattr(module, FLOAT32, None), torch.Tensor):
            setattr(module, FLOAT32, getattr(module, FLOAT32).float())
    model.save_pretrained(folder)
    for extra in folder.glob("generation_config.json"):
        extra.unlink()


def publish_config(path, drop=(), put=None, rope=None, wrap=None, **keys):
    """Writes config.json as files of a hub have it: rope_theta and torch_dtype at the top, and what transformers fills in left out.

    `rope` replaces what the scaling says by the words of published files. `theta` and `rotary` are the keys of the rope's
    base and of the part of a head that is rotated, where a family's files have others. `wrap` is what is around the config
    in a model that also sees or hears, whose text_config it is then. Files that were published with transformers 5
    (`modern`) say what it says."""
    config = json.loads(path.read_text())
    for key in drop:
        del config[key]
    if not keys.get("modern"):
        config["torch_dtype"] = config.pop("dtype")
        if "rope_theta" in config.get("rope_parameters", {}):
            scaling = config.pop("rope_parameters")
            config[keys.get("theta", "rope_theta")] = scaling.pop("rope_theta")
            if "partial_rotary_factor" in scaling:
                config[keys.get("rotary", "partial_rotary_factor")] = scaling.pop("partial_rotary_factor")
            config["rope_scaling"] = None if scaling["rope_type"] == "default" else scaling
    if rope is not None:
        config["rope_scaling"] = rope
    config.update(put or {})
    if wrap is not None:
        del config["architectures"]
        config = dict(wrap, text_config=config)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def publish_names(path, names, extra=None):
    """Gives the tensors the names of published files, and adds those of them that nobody reads, full of what would do harm."""
    tensors = {names(key): value for key, value in safetensors.torch.load_file(path).items()}
    for key, (shape, dtype) in (extra or {}).items():
        tensors[key] = torch.full(shape, 3).to(dtype)
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


def text_model(folder, names):
    """The decoder of a model that also sees: transformers' class for it alone, with the weights that carry its names."""
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(folder).get_text_config(), dtype=torch.float32)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    missing = model.load_state_dict({key: tensors[names(key)] for key in model.state_dict() if names(key) in tensors}, strict=False).missing_keys
    assert set(missing) <= set(model.all_tied_weights_keys), f"{folder}: {missing}"
    return model


def folder_model(folder):
    model, report = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not report["missing_keys"], f"{folder}: {report['missing_keys']}"
    return model


def check_folder(folder, golden, tokens, logits):
    """The folder alone, read back by transformers and run with its other attention, gives the same logits."""
    wrapped = golden.published is not None and "wrap" in golden.published
    model = text_model(folder, golden.names) if wrapped else folder_model(folder)
    mend(golden.family, model).set_attn_implementation(ATTENTIONS.get(golden.family, DEFAULT_ATTENTIONS).check)
    with torch.no_grad():
        again = model.eval()(tokens[None]).logits[0]
    torch.testing.assert_close(again, logits, rtol=0, atol=1e-5 * float(logits.abs().max()), msg=lambda why: f"{folder}: {why}")


def write_model(name, out):
    golden = GOLDENS[name]
    config_class, settings = FAMILIES[golden.family]
    # A config may write into what it is given, and families share some of it.
    config = getattr(transformers, config_class)(**copy.deepcopy(dict(settings, **golden.overrides)))
    torch.manual_seed(sum(name.encode()))
    attention = ATTENTIONS.get(golden.family, DEFAULT_ATTENTIONS).compute
    model = mend(golden.family, transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval())
    with torch.no_grad():
        fill_all(model, golden.dtype)
        tokens = torch.randint(0, config.vocab_size, (golden.tokens,))
        logits = model.float()(tokens[None]).logits[0]
    folder = out / name
    store(model, golden.dtype, folder)
    if golden.names is not None:
        publish_names(folder / "model.safetensors", golden.names, golden.extra)
    if golden.published is not None:
        publish_config(folder / "config.json", **golden.published)
    check_folder(folder, golden, tokens, logits)
    if golden.unread is not None:
        config = dict(json.loads((folder / "config.json").read_text()), **golden.unread)
        config = {key: value for key, value in config.items() if value is not None or key not in golden.unread}
        (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    safetensors.torch.save_file({"tokens": tokens.to(torch.int32), "logits": logits.contiguous()}, folder / "golden.safetensors")
