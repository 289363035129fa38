"""A config is checked when it is made, and says in one line what is wrong."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.nn import ATTENTIONS, TOKENIZERS, LshAttention, PatchTokens, SetTokens, WindowAttention

LINE = {"input": (1, 100), "patch": (10,)}
SET = {"input": (3, 20), "tokens": "set", "axes": 2}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**LINE, "norm": "middle"}, "norm: unknown choice 'middle'; expected one of: pre, post, branch"),
        ({**LINE, "score": "euclid"}, "score: .* scaled_dot, dot, cosine, general, additive, location"),
        ({**LINE, "position": "rope"}, "position: .* learned, sinusoidal, none"),
        ({**LINE, "bias": "alibi"}, "bias: .* none, relative"),
        ({**LINE, "pool": "max"}, "pool: .* cls, mean, attention, flatten"),
        ({**LINE, "tokens": "word"}, "tokens: .* patch, set"),
        ({**LINE, "dim": 64, "heads": 5}, "5 heads do not divide the width dim = 64"),
        ({"input": (1, 8), "patch": (10,)}, r"patch: \(10,\) is larger than the grid \(8,\)"),
        ({"input": (3, 32, 8), "patch": 16}, r"patch: \(16, 16\) is larger than the grid \(32, 8\)"),
        ({"input": (3, 32, 32), "patch": (4, 4, 4)}, r"patch: found \(4, 4, 4\), expected one number for each axis"),
        ({"input": (1, 100)}, r"patch: found \(\), expected one number for each axis"),
        ({"input": (1,), "patch": 1}, r"input: found \(1,\), expected channels and then samples"),
        ({"input": (1, 4, 4, 4, 4), "patch": 2}, "found 4 axes after the channels"),
        ({"input": (1, 0), "patch": 1}, "input: found 0, expected at least 1"),
        ({"input": None, "patch": 1}, "input: found None, expected a whole number"),
        ({**LINE, "mlp": (-1,)}, "mlp: found .* at least one unit"),
        ({**LINE, "mlp": ("a",)}, "mlp: found 'a', expected a number"),
        ({**LINE, "spacing": float("nan")}, "spacing: found nan, expected a number"),
        ({**LINE, "dropout": "x"}, "dropout: found 'x', expected a number"),
        ({**LINE, "cls": "no"}, "cls: found 'no', expected True or False"),
        ({**LINE, "eps": -1.0}, "eps: found -1.0, expected at least 0"),
        ({**LINE, "norm": 3}, "norm: found 3, expected a word"),
        ({"input": (1, 4, 4, 4), "patch": 2, "dim": 4, "heads": 1, "position": "sinusoidal"}, "too narrow"),
        ({**LINE, "depth": 0}, "depth: found 0"),
        ({**LINE, "depth": 2.5}, "depth: found 2.5"),
        ({**LINE, "stride": 20}, "would skip samples"),
        ({**LINE, "stem": (8, 8)}, "stem: 2 halvings need patch .* to be multiples of 4"),
        ({**LINE, "dropout": 1.0}, "dropout: found 1.0, expected a probability"),
        ({**LINE, "cls": False}, "pool: 'cls' needs the class token"),
        ({**LINE, "axes": 2}, "axes: found 2, but tokens = 'patch' does not have this setting"),
        ({**LINE, "spacing": 0.0}, "spacing: found .* expected steps other than 0"),
        ({**LINE, "origin": (0.0, 1.0)}, "origin: found .* expected one number for each axis"),
        ({**SET, "patch": 2}, "patch: found 2, but tokens = 'set' does not have this setting"),
        ({**SET, "axes": 0}, "axes: position 'learned' needs the number of coordinates"),
        ({**SET, "bias": "relative"}, "pass the biases of a set to forward as pairwise="),
        ({**SET, "pool": "flatten"}, "fixed order"),
        ({**SET, "score": "location"}, "fixed order"),
        ({**SET, "input": (3, 20, 20)}, "a set expects"),
    ],
)
def test_a_mistake_is_told_in_one_line(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        vt.ViTConfig(**given)  # type: ignore[arg-type]
    assert "\n" not in str(fault.value)


def test_one_number_serves_every_axis() -> None:
    assert vt.ViTConfig(input=(3, 32, 32), patch=4).patch == (4, 4)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    given = {"input": np.array([1, 100]), "patch": np.int64(10), "dim": np.int32(6), "heads": 2}
    assert vt.ViTConfig(**given).patch == (10,)


def test_a_config_survives_json() -> None:
    config = vt.ViTConfig(input=(2, 30, 20), patch=(5, 4), stride=(5, 2), mlp=(2.0, 3.0), origin=(1.0,), pool="mean")
    assert vt.ViTConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(InputError, match="unknown choice 'width'; expected one of: input, patch"):
        vt.ViTConfig.from_dict({"width": 3})


PARTS = [
    ({"tokens": "patch", **LINE}, {"input": (1, 100), "tokenizer": PatchTokens(patch=10)}),
    (SET, {"input": (3, 20), "tokenizer": SetTokens(axes=2)}),
    (
        {**LINE, "attention": "window", "window": 3},
        {"input": (1, 100), "tokenizer": PatchTokens(patch=10), "mixer": WindowAttention(window=3)},
    ),
    ({**LINE, "attention": "lsh", "hashes": 2}, {**LINE, "mixer": LshAttention(hashes=2)}),
]


@pytest.mark.parametrize(("flat", "nested"), PARTS)
def test_the_flat_form_equals_the_parts(flat: dict[str, object], nested: dict[str, object]) -> None:
    assert vt.ViTConfig(**flat) == vt.ViTConfig(**nested)  # type: ignore[arg-type]


def test_replace_takes_settings_of_a_part() -> None:
    config = vt.ViTConfig(input=(1, 100), patch=(10,), attention="window", window=3)
    changed = replace(config, patch=(5,), stride=(), window=(2,))  # type: ignore[call-arg]
    assert changed == vt.ViTConfig(input=(1, 100), patch=(5,), attention="window", window=2)
    assert config.replace(patch=(5,), stride=(), window=(2,)) == changed


def test_a_part_serves_inputs_of_different_rank() -> None:
    tokenizer = PatchTokens(patch=4)
    assert [vt.ViTConfig(input=shape, tokenizer=tokenizer).patch for shape in ((1, 8), (1, 8, 8))] == [(4,), (4, 4)]
    assert tokenizer.patch == (4,)


@pytest.mark.parametrize("part", [*TOKENIZERS.values(), *ATTENTIONS.values()])
def test_every_setting_of_a_part_has_a_flat_name(part: type) -> None:
    assert {field.name for field in fields(part)} <= set(vt.ViTConfig(**LINE).to_dict())
