"""Checkpoint layouts of timm, transformers and Google's `.npz`, converted to our names; timm also in reverse."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.nn import ViT, ViTConfig

State = dict[str, Tensor]
KERNEL = "tokenizer.project.weight"
POSITION = "position.table"


@dataclass
class Checkpoint:
    """Weights under our names, with the patch projection as a kernel `(D, channels, *patch)`."""

    state: State
    grid: tuple[int, ...] | None = None
    """Token grid of the positions; None if it must be inferred."""
    eps: float | None = None
    """Epsilon of the layer norms in training, if known."""
    notes: list[str] = field(default_factory=list)


# our name within a block: timm's
_TIMM_BLOCK = {
    "attention_norm": "norm1",
    "attention.qkv": "attn.qkv",
    "attention.project": "attn.proj",
    "attention.query_norm": "attn.q_norm",
    "attention.key_norm": "attn.k_norm",
    "attention_branch.scale": "ls1.gamma",
    "mlp_norm": "norm2",
    "mlp.layers.0": "mlp.fc1",
    "mlp.layers.1": "mlp.fc2",
    "mlp_branch.scale": "ls2.gamma",
}
_TIMM_MODEL = {
    "tokenizer.project": "patch_embed.proj",
    POSITION: "pos_embed",
    "norm": "norm",
    "head.layers.0": "head",
}


# settings that timm can express
_TIMM_SETTINGS = {
    *("out", "dim", "depth", "heads", "registers", "qk_norm", "layer_scale", "eps", "origin", "spacing"),
    *("dropout", "attention_dropout", "drop_path"),
}


def _from_timm(source: State) -> Checkpoint:
    prefix = [source.pop(name) for name in ("cls_token", "reg_token") if name in source]
    state = _rename(source, "blocks", _inverse(_TIMM_BLOCK), _inverse(_TIMM_MODEL))
    if prefix:
        state["prefix"] = torch.cat(prefix, dim=1)
    return Checkpoint(state)


def to_timm(model: ViT) -> State:
    """Weights under timm's names, for an image model that timm can express."""
    c = model.config
    if len(c.grid) != 2 or c.tokens != "patch":
        raise InputError(f"timm's layout is for images, not for {c.tokens} input {c.input}")
    plain = ViTConfig(input=c.input, patch=c.patch).to_dict()
    for name, value in c.to_dict().items():
        if value != plain[name] and name not in _TIMM_SETTINGS and not (name == "mlp" and len(value) == 1):
            raise InputError(f"timm's layout cannot express {name} = {value!r}")
    state = {name: value.detach() for name, value in model.state_dict().items()}
    prefix = state.pop("prefix")
    renamed = _rename(state, "blocks", _TIMM_BLOCK, _TIMM_MODEL)
    renamed["patch_embed.proj.weight"] = renamed["patch_embed.proj.weight"].unflatten(1, (c.input[0], *c.patch))
    renamed["cls_token"] = prefix[:, :1]
    if c.registers:
        renamed["reg_token"] = prefix[:, 1:]
    return {name: value.clone().contiguous() for name, value in renamed.items()}


# transformers' name within a layer: ours. Names of version 5 and of older versions.
_HF_BLOCK = {
    "layernorm_before": "attention_norm",
    "layernorm_after": "mlp_norm",
    "attention.q_proj": "attention.q",
    "attention.k_proj": "attention.k",
    "attention.v_proj": "attention.v",
    "attention.o_proj": "attention.project",
    "mlp.fc1": "mlp.layers.0",
    "mlp.fc2": "mlp.layers.1",
    "attention.attention.query": "attention.q",
    "attention.attention.key": "attention.k",
    "attention.attention.value": "attention.v",
    "attention.output.dense": "attention.project",
    "intermediate.dense": "mlp.layers.0",
    "output.dense": "mlp.layers.1",
}
_HF_MODEL = {
    "embeddings.cls_token": "prefix",
    "embeddings.position_embeddings": POSITION,
    "embeddings.patch_embeddings.projection": "tokenizer.project",
    "layernorm": "norm",
    "classifier": "head.layers.0",
}


def _from_transformers(source: State) -> Checkpoint:
    source = {re.sub(r"^encoder\.layer\.", "layers.", key.removeprefix("vit.")): v for key, v in source.items()}
    pooler = [source.pop(key) for key in list(source) if key.startswith("pooler.")]
    state = _join_qkv(_rename(source, "layers", _HF_BLOCK, _HF_MODEL))
    notes = ["pooler omitted: the model has none"] if pooler else []
    return Checkpoint(state, eps=1e-12, notes=notes)  # the default of transformers


# Google's name within an encoder block: ours
_GOOGLE_BLOCK = {
    "LayerNorm_0": "attention_norm",
    "LayerNorm_2": "mlp_norm",
    "MultiHeadDotProductAttention_1.query": "attention.q",
    "MultiHeadDotProductAttention_1.key": "attention.k",
    "MultiHeadDotProductAttention_1.value": "attention.v",
    "MultiHeadDotProductAttention_1.out": "attention.project",
    "MlpBlock_3.Dense_0": "mlp.layers.0",
    "MlpBlock_3.Dense_1": "mlp.layers.1",
}
_GOOGLE_MODEL = {
    "cls": "prefix",
    "posembed_input.pos_embedding": POSITION,
    "embedding": "tokenizer.project",
    "encoder_norm": "norm",
    "head": "head.layers.0",
}


def _from_google(source: State) -> Checkpoint:
    state: State = {}
    for key, value in source.items():
        name = re.sub(r"^(opt/target/|params/)", "", key).replace("/", ".").removeprefix("Transformer.")
        name = re.sub(r"^encoderblock_(\d+)\.", r"blocks.\1.", name)
        if name.endswith(".kernel"):
            value = _google_kernel(name, value)
        elif name.endswith(".bias"):
            value = value.flatten()  # (heads, d) -> (D,)
        state[re.sub(r"\.(kernel|scale)$", ".weight", name)] = value
    representation = [state.pop(key) for key in list(state) if key.startswith("pre_logits.")]
    state = _join_qkv(_rename(state, "blocks", _GOOGLE_BLOCK, _GOOGLE_MODEL))
    return Checkpoint(state, notes=["pre_logits omitted: the model has none"] if representation else [])


def _google_kernel(name: str, value: Tensor) -> Tensor:
    """Flax stores kernels input first: `(in, out)`, `(in, heads, d)`, `(heads, d, out)`, `(*patch, in, out)`."""
    if name == "embedding.kernel":
        return value.movedim((-1, -2), (0, 1))  # (*patch, C, D) -> (D, C, *patch)
    if name.endswith("out.kernel"):
        return value.flatten(0, 1).mT  # (heads, d, D) -> (D, D)
    return value.flatten(1).mT


_LAYOUTS: dict[str, tuple[str, Callable[[State], Checkpoint]]] = {  # layout: a key that identifies it, its reader
    "timm": ("patch_embed.proj.weight", _from_timm),
    "transformers": ("embeddings.patch_embeddings.projection.weight", _from_transformers),
    "google": ("embedding/kernel", _from_google),
}


def read_layout(source: Mapping[str, Tensor]) -> Checkpoint:
    """Recognise the layout of a checkpoint by its keys and convert it to our names."""
    state = {re.sub(r"^(module\.|_orig_mod\.)+", "", key): value for key, value in source.items()}
    for identifying_key, reader in _LAYOUTS.values():
        if any(key.endswith(identifying_key) for key in state):
            return reader(state)
    keys = ", ".join(list(state)[:3]) or "no weights"
    raise InputError(f"checkpoint: the layout is none of {', '.join(_LAYOUTS)} (found keys: {keys} …)")


def _rename(state: State, stack: str, block: Mapping[str, str], model: Mapping[str, str]) -> State:
    """Rename `<stack>.<i>.<part>…` by the table `block` and other names by `model`; unknown names stay."""
    pattern = re.compile(rf"^{stack}\.(\d+)\.(.+)$")
    renamed: State = {}
    for key, value in state.items():
        match = pattern.match(key)
        name = f"blocks.{match[1]}.{_replace(match[2], block)}" if match else _replace(key, model)
        renamed[name] = value
    return renamed


def _replace(name: str, table: Mapping[str, str]) -> str:
    """Replace the whole dotted name, or the part before its last word."""
    if name in table:
        return table[name]
    part, _, last = name.rpartition(".")
    return f"{table[part]}.{last}" if part in table else name


def _join_qkv(state: State) -> State:
    """Concatenate the projections of query, key and value into one."""
    joined = {key: value for key, value in state.items() if ".attention.q." not in key}
    for key, query in state.items():
        if ".attention.q." in key:
            rest = [joined.pop(key.replace(".attention.q.", f".attention.{part}."), None) for part in "kv"]
            if any(part is None for part in rest):
                raise InputError(f"checkpoint: {key} has no matching keys or values")
            joined[key.replace(".attention.q.", ".attention.qkv.")] = torch.cat([query, *rest])  # type: ignore[list-item]
    return joined


def _inverse(table: Mapping[str, str]) -> dict[str, str]:
    return {theirs: ours for ours, theirs in table.items()}
