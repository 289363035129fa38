"""Weight files are adapted to the model (S1.6) or refused with one line, and errors change nothing."""

import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.zoo.layouts import to_timm

SMALL = {"dim": 24, "depth": 2, "heads": 2}


def image_model(**choices: object) -> vt.ViT:
    settings: dict[str, object] = {"input": (3, 32, 32), "patch": 8, "out": 10, **SMALL, **choices}
    return vt.ViT(vt.ViTConfig(**settings)).eval()  # type: ignore[arg-type]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "timm.safetensors"
    vt.save_weights(image_model(), path, layout="timm")
    return path


def test_adapted_parts_are_reported(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = image_model(input=(1, 48, 32), out=4)
    notes = vt.load_weights(model, checkpoint)
    assert notes == [
        "first layer: 3 channels -> 1",
        "positions: grid 4×4 -> 6×4",
        "head: 24 → 10 -> 24 → 4, newly initialised",
    ]
    assert capsys.readouterr().out.splitlines() == [f"{checkpoint}: {note}" for note in notes]
    assert model(torch.randn(2, 1, 48, 32)).shape == (2, 4)


def test_nothing_is_adapted_where_everything_fits(checkpoint: Path) -> None:
    assert vt.load_weights(image_model(), checkpoint, verbose=False) == []


def test_a_grey_image_is_the_same_in_one_channel(checkpoint: Path) -> None:
    colour, grey, twelve = image_model(), image_model(input=(1, 32, 32)), image_model(input=(12, 32, 32))
    for model in (colour, grey, twelve):
        vt.load_weights(model, checkpoint, verbose=False)
    x = torch.randn(2, 1, 32, 32)
    expected = colour(x.expand(-1, 3, -1, -1))
    torch.testing.assert_close(grey(x), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(twelve(x.expand(-1, 12, -1, -1)), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("rank", "patch", "new"), [(1, 10, 20), (2, 4, 8), (3, 2, 4)])
def test_a_larger_patch_answers_to_an_enlarged_input_alike(rank: int, patch: int, new: int, tmp_path: Path) -> None:
    scale = new // patch
    old = vt.ViT(vt.ViTConfig(input=(1, *[3 * patch] * rank), patch=(patch,), out=5, **SMALL)).eval()  # type: ignore[arg-type]
    vt.save_model(old, tmp_path)
    larger = vt.ViT(vt.ViTConfig(input=(1, *[3 * new] * rank), patch=(new,), out=5, **SMALL)).eval()  # type: ignore[arg-type]
    assert vt.load_weights(larger, tmp_path, verbose=False) == [
        f"first layer: patch {'×'.join([str(patch)] * rank)} -> {'×'.join([str(new)] * rank)}"
    ]
    flat = torch.randn(2, 1, *[3] * rank)  # each patch of one value, which every resizing keeps
    for axis in range(rank):
        flat = flat.repeat_interleave(patch, dim=axis + 2)
    big = flat
    for axis in range(rank):
        big = big.repeat_interleave(scale, dim=axis + 2)
    torch.testing.assert_close(larger(big), old(flat), atol=1e-4, rtol=1e-4)


def test_a_spectrum_model_moves_to_another_length(tmp_path: Path) -> None:
    vt.save_model(vt.create_model("vit_spectrum_4500"), tmp_path)
    model = vt.create_model("vit_spectrum_4500", input=(1, 6003))
    assert vt.load_weights(model, tmp_path, verbose=False) == ["positions: grid 450 -> 601"]
    assert model(torch.randn(1, 1, 6003)).shape == (1, 6)


def test_every_layout_we_write_reads_back_exactly(tmp_path: Path) -> None:
    for layout in ("vitreous", "timm"):
        source, loaded = image_model(input=(3, 32, 72)), image_model(input=(3, 32, 72))  # 4 × 9 tokens, a square number
        vt.save_weights(source, tmp_path / "model.safetensors", layout)
        assert vt.load_weights(loaded, tmp_path / "model.safetensors", verbose=False) == []
        assert vt.load_weights(loaded, tmp_path, verbose=False) == []
        assert all(torch.equal(a, b) for a, b in zip(source.parameters(), loaded.parameters(), strict=True))


def test_a_relative_bias_and_a_stem_are_adapted(tmp_path: Path) -> None:
    choices = {"bias": "relative", "stem": (4, 6), "patch": 8}
    vt.save_model(image_model(**choices), tmp_path)
    model = image_model(**choices, input=(1, 48, 32))
    assert vt.load_weights(model, tmp_path, verbose=False) == [
        "first layer: 3 channels -> 1",
        "positions: grid 4×4 -> 6×4",
        "relative bias: grid 4×4 -> 6×4",
    ]


def test_a_square_checkpoint_in_a_grid_of_as_many_tokens_is_resampled(tmp_path: Path) -> None:
    safetensors.torch.save_file(to_timm(image_model()), tmp_path / "square.safetensors")
    model = image_model(input=(3, 16, 64))
    notes = vt.load_weights(model, tmp_path / "square.safetensors", verbose=False)
    assert notes == ["positions: grid 4×4 -> 2×8"]


def test_an_mlp_head_replaces_a_linear_one(checkpoint: Path) -> None:
    notes = vt.load_weights(image_model(head=(16,)), checkpoint, verbose=False)
    assert notes == ["head: 24 → 10 -> 24 → 16 → 10, newly initialised"]
    assert vt.load_weights(image_model(out=0), checkpoint, verbose=False) == ["head: 24 → 10 -> none"]


def test_registers_and_their_positions_come_along(tmp_path: Path) -> None:
    source = image_model(registers=4)
    vt.save_weights(source, tmp_path / "reg.safetensors", layout="timm")
    loaded = image_model(registers=4)
    assert vt.load_weights(loaded, tmp_path / "reg.safetensors", verbose=False) == []
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(loaded(x), source(x))


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin"])
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model"])
def test_torch_files_load_without_running_code(suffix: str, wrapper: str | None, tmp_path: Path) -> None:
    source = image_model()
    state = {f"module.{name}": value for name, value in to_timm(source).items()}
    path = tmp_path / f"model{suffix}"
    torch.save({wrapper: state} if wrapper else state, path)
    loaded = image_model()
    vt.load_weights(loaded, path, verbose=False)
    assert torch.equal(loaded.head.layers[0].weight, source.head.layers[0].weight)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("boom",)


@pytest.mark.parametrize("name", ["evil.pt", "evil.npz", "evil.safetensors"])
def test_pickled_code_is_refused_and_never_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    if path.suffix == ".pt":
        torch.save({"patch_embed.proj.weight": Bomb()}, path)
    elif path.suffix == ".npz":
        np.savez(path, **{"embedding/kernel": np.array([Bomb()], dtype=object)})
    else:
        path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(InputError, match="damaged or not of the type of its suffix") as error:
        vt.load_weights(image_model(), path)
    assert "\n" not in str(error.value)
    assert not Path("boom").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.safetensors", None, "no such file, nor a folder with a model.safetensors"),
        ("empty.safetensors", b"", "damaged or not of the type of its suffix"),
        ("short.safetensors", b"\x10\x00\x00\x00\x00\x00\x00\x00{}", "damaged or not of the type of its suffix"),
        ("empty.npz", b"", "damaged or not of the type of its suffix"),
        ("zip.npz", b"PK\x03\x04nothing", "damaged or not of the type of its suffix"),
        ("empty.pth", b"", "damaged or not of the type of its suffix"),
        ("weights.h5", b"x", "file type: unknown choice '.h5'; expected one of: .safetensors, .npz, .pt, .pth, .bin"),
    ],
)
def test_a_bad_file_is_reported_in_one_line(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    model = image_model()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(InputError, match=message) as error:
        vt.load_weights(model, path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_a_truncated_checkpoint_is_reported_in_one_line(checkpoint: Path) -> None:
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(InputError, match="damaged"):
        vt.load_weights(image_model(), checkpoint)


def test_an_unknown_layout_names_its_keys(tmp_path: Path) -> None:
    safetensors.torch.save_file({"conv1.weight": torch.zeros(2)}, tmp_path / "resnet.safetensors")
    with pytest.raises(InputError, match=r"none of timm, transformers, google \(found keys: conv1.weight"):
        vt.load_weights(image_model(), tmp_path / "resnet.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("blocks.1.mlp.fc2.bias"), "missing blocks.1.mlp.layers.1.bias"),
        (lambda s: s.update(fc_norm=torch.zeros(2)), "unexpected fc_norm"),
        (lambda s: s.update({"norm.weight": torch.zeros(7)}), r"another shape norm.weight \(7,\) instead of \(24,\)"),
        (lambda s: s.update(pos_embed=torch.zeros(1, 12, 24)), "12 positions do not form a grid of 2 equal axes"),
    ],
)
def test_a_checkpoint_that_does_not_fit_names_its_keys(change: object, message: str, tmp_path: Path) -> None:
    state = to_timm(image_model())
    change(state)  # type: ignore[operator]
    safetensors.torch.save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=message) as error:
        vt.load_weights(image_model(), tmp_path / "model.safetensors")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", list(to_timm(image_model(depth=1))))
@pytest.mark.parametrize("shape", [(), (3,), (0, 0, 0, 0)])
def test_a_weight_of_an_impossible_shape_is_reported_in_one_line(
    key: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    state = to_timm(image_model(depth=1))
    state[key] = torch.zeros(shape)
    safetensors.torch.save_file(state, tmp_path / "model.safetensors")
    model = image_model(depth=1)
    if key.startswith("head.") and (shape or key == "head.bias"):  # a head of another shape is replaced
        (note,) = vt.load_weights(model, tmp_path / "model.safetensors", verbose=False)
        assert "newly initialised" in note
        return
    with pytest.raises(InputError) as error:
        vt.load_weights(model, tmp_path / "model.safetensors", verbose=False)
    assert "\n" not in str(error.value)


def test_a_checkpoint_of_another_width_names_a_few_keys_and_counts_the_rest(checkpoint: Path) -> None:
    with pytest.raises(InputError, match=r"of another shape .* and \d+ more"):
        vt.load_weights(image_model(dim=32), checkpoint)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"norm": "post"}, "cannot express norm = 'post'"),
        ({"head": (8,)}, "cannot express head"),
        ({"stride": 4}, "cannot express stride"),
        ({"pool": "mean"}, "cannot express pool"),
        ({"input": (1, 32)}, r"for images, not for patch input \(1, 32\)"),
    ],
)
def test_models_that_timm_cannot_express_are_not_written(
    choices: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        vt.save_weights(image_model(**choices), tmp_path / "x.safetensors", layout="timm")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not valid JSON"),
        ("[1]", "expected a JSON object"),
        ("{}", "expected the kind of model"),
        ('{"model": "rnn"}', "model: unknown choice 'rnn'; expected one of: vit, cnn"),
        ('{"model": "vit"}', "missing 1 required positional argument"),
        ('{"model": "vit", "inputs": [1, 8]}', "unknown choice 'inputs'"),
        ('{"model": "vit", "input": [1, 8], "patch": [2], "mlp": ["a"]}', "mlp: found 'a'"),
        ('{"model": "vit", "input": [1, 8], "patch": [2], "dim": "wide"}', "dim: found 'wide'"),
    ],
)
def test_a_damaged_config_is_reported_in_one_line(content: str, message: str, tmp_path: Path) -> None:
    vt.save_model(image_model(), tmp_path)
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError, match=message) as error:
        vt.load_model(tmp_path)
    assert "config.json" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_whose_config_and_weights_disagree_is_refused(tmp_path: Path) -> None:
    vt.save_model(image_model(), tmp_path)
    vt.save_weights(image_model(patch=4), tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"does not fit the model: of another shape tokenizer\.project\.weight"):
        vt.load_model(tmp_path)


def test_a_full_disk_leaves_the_previous_file(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = checkpoint.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot be written .*No space left"):
        vt.save_weights(image_model(), checkpoint)
    assert checkpoint.read_bytes() == before
    assert list(checkpoint.parent.iterdir()) == [checkpoint]


def test_a_place_that_cannot_be_written_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        vt.save_weights(image_model(), tmp_path / "nowhere" / "model.safetensors")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be created as a folder"):
        vt.save_model(image_model(), tmp_path / "file")


def test_others_may_read_what_is_saved(checkpoint: Path) -> None:
    other = checkpoint.with_name("plain")
    other.write_text("")
    assert checkpoint.stat().st_mode == other.stat().st_mode


def test_the_hub_is_asked_only_by_its_prefix(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, str | None]] = []

    def download(repo: str, file: str, revision: str | None = None) -> str:
        asked.append((repo, file, revision))
        return str(checkpoint)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    vt.load_weights(image_model(), checkpoint, verbose=False)
    assert asked == []
    vt.load_weights(image_model(), "hf-hub:timm/vit@v2", verbose=False)
    vt.load_weights(image_model(), "hf-hub:timm/vit", verbose=False)
    vt.load_weights(image_model(), "hf-hub:timm/vit/old/vit.npz@v1", verbose=False)
    assert asked == [
        ("timm/vit", "model.safetensors", "v2"),
        ("timm/vit", "model.safetensors", None),
        ("timm/vit", "old/vit.npz", "v1"),
    ]


def test_a_hub_id_without_owner_is_reported_in_one_line() -> None:
    with pytest.raises(InputError, match="expected hf-hub:owner/name"):
        vt.load_weights(image_model(), "hf-hub:vit")


def test_a_hub_out_of_reach_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="hf-hub:timm/nothing: cannot be downloaded from the hub") as error:
        vt.load_weights(image_model(), "hf-hub:timm/nothing")
    assert "\n" not in str(error.value)
