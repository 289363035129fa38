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


_FLAX = "MultiHeadDotProductAttention_1"
# Our name: that of timm, transformers (version 5, and older ones) and Google; empty where a layout has none.
_BLOCK = {
    "attention_norm": ("norm1", "layernorm_before", "", "LayerNorm_0"),
    "attention.qkv": ("attn.qkv", "", "", ""),
    "attention.q": ("", "attention.q_proj", "attention.attention.query", f"{_FLAX}.query"),
    "attention.k": ("", "attention.k_proj", "attention.attention.key", f"{_FLAX}.key"),
    "attention.v": ("", "attention.v_proj", "attention.attention.value", f"{_FLAX}.value"),
    "attention.project": ("attn.proj", "attention.o_proj", "attention.output.dense", f"{_FLAX}.out"),
    "attention.query_norm": ("attn.q_norm", "", "", ""),
    "attention.key_norm": ("attn.k_norm", "", "", ""),
    "attention_branch.scale": ("ls1.gamma", "", "", ""),
    "mlp_norm": ("norm2", "layernorm_after", "", "LayerNorm_2"),
    "mlp.layers.0": ("mlp.fc1", "mlp.fc1", "intermediate.dense", "MlpBlock_3.Dense_0"),
    "mlp.layers.1": ("mlp.fc2", "mlp.fc2", "output.dense", "MlpBlock_3.Dense_1"),
    "mlp_branch.scale": ("ls2.gamma", "", "", ""),
}
_MODEL = {
    "prefix": ("", "embeddings.cls_token", "", "cls"),
    "tokenizer.project": ("patch_embed.proj", "embeddings.patch_embeddings.projection", "", "embedding"),
    POSITION: ("pos_embed", "embeddings.position_embeddings", "", "posembed_input.pos_embedding"),
    "norm": ("norm", "layernorm", "", "encoder_norm"),
    "head.layers.0": ("head", "classifier", "", "head"),
}
_TIMM, _HF, _GOOGLE = slice(0, 1), slice(1, 3), slice(3, 4)  # columns of the tables
_TIMM_SETTINGS = {  # that timm can express
    *("out", "dim", "depth", "heads", "registers", "qk_norm", "layer_scale", "eps", "origin", "spacing"),
    *("dropout", "attention_dropout", "drop_path"),
}


def _from_timm(source: State) -> Checkpoint:
    prefix = [source.pop(name) for name in ("cls_token", "reg_token") if name in source]
    state = _rename(source, "blocks", _TIMM)
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
    renamed = _rename(state, "blocks", _TIMM, to_ours=False)
    renamed["patch_embed.proj.weight"] = renamed["patch_embed.proj.weight"].unflatten(1, (c.input[0], *c.patch))
    renamed["cls_token"] = prefix[:, :1]
    if c.registers:
        renamed["reg_token"] = prefix[:, 1:]
    return {name: value.clone().contiguous() for name, value in renamed.items()}


def _from_transformers(source: State) -> Checkpoint:
    source = {re.sub(r"^encoder\.layer\.", "layers.", key.removeprefix("vit.")): v for key, v in source.items()}
    pooler = [source.pop(key) for key in list(source) if key.startswith("pooler.")]
    state = _join_qkv(_rename(source, "layers", _HF))
    notes = ["pooler omitted: the model has none"] if pooler else []
    return Checkpoint(state, eps=1e-12, notes=notes)  # the default of transformers


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
    state = _join_qkv(_rename(state, "blocks", _GOOGLE))
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


def _rename(state: State, stack: str, layout: slice, to_ours: bool = True) -> State:
    """Rename `<stack>.<i>.<part>…` by the table of blocks and other names by that of the model; unknown names stay."""
    pairs = [[(ours, n) for ours, theirs in t.items() for n in theirs[layout] if n] for t in (_BLOCK, _MODEL)]
    block, model = ({theirs: ours for ours, theirs in t} if to_ours else dict(t) for t in pairs)
    renamed: State = {}
    for key, value in state.items():
        match = re.match(rf"^{stack}\.(\d+)\.(.+)$", key)
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
