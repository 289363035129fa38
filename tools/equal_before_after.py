"""Compare two checkouts of the package: the same models, losses, unit cells and ONNX answers.

python tools/equal_before_after.py dump CHECKOUT OUT.json     # in each checkout; PYTHONPATH must name it
python tools/equal_before_after.py compare BEFORE.json AFTER.json
"""

import hashlib
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path


def digest(values):
    import numpy as np

    values = np.ascontiguousarray(np.asarray(values))
    return {"sha": hashlib.sha256(values.tobytes()).hexdigest()[:16], "sum": float(np.abs(values.astype("f8")).sum())}


def weights_of(path):
    import safetensors.numpy

    tensors = safetensors.numpy.load_file(path)
    return hashlib.sha256(b"".join(name.encode() + tensors[name].tobytes() for name in sorted(tensors))).hexdigest()[
        :16
    ]


def models():
    import torch

    import vitreous as vt
    from vitreous.zoo.variants import VARIANTS

    out = {}
    for name in VARIANTS:
        parameters = 0
        torch.manual_seed(0)
        model = vt.create_model(name).eval()
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():  # initial zeros hide parts of the model
            for p in model.parameters():
                p.copy_(torch.randn(p.shape, generator=generator) * 0.02)
                parameters += p.numel()
            x = torch.randn(2, *model.config.input, generator=generator)
            out[name] = digest(model(x).numpy()) | {"parameters": parameters}
    return out


def recipes(old, small):
    import pytest

    from tests.recipes import choices, narrow, two_steps

    if old:
        from vitreous.train import RECIPES, train
    else:
        from vitreous.recipes import RECIPES
        from vitreous.train import train
    out = {}
    for name in RECIPES:
        if name == "translate-en-de":
            continue
        for choice in choices(name):
            with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
                job = two_steps(name, choice, patch) if old else two_steps(name, choice)
                job = narrow(job) if small else job
                settings = {"steps": 20, "batch": 4, "evaluate_every": 10}
                if old:
                    job = replace(job, train=replace(job.train, **settings))
                    result = train(job, Path(folder) / "run", device="cpu", bar=False)
                else:
                    job = replace(job, settings=replace(job.settings, **settings))
                    result = train(job, Path(folder) / "run", device="cpu", bar=False)
                rows = [json.loads(line) for line in (Path(folder) / "run/metrics.jsonl").read_text().splitlines()]
                for row in rows:
                    for key in ("seconds", "samples_per_second", "time"):
                        row.pop(key, None)
                weights = weights_of(Path(folder) / "run/model.safetensors")
                scores = {part: result.get(part) for part in ("validation", "test")}
                out[f"{name} {choice}"] = {"metrics": rows, "weights": weights, "scores": scores}
                print(name, choice, rows[0], weights, flush=True)
    return out


def texts(old):
    """20 steps of each translator on a few hundred pairs of toy sentences."""
    out = {}
    sys.argv = ["x"]
    import vitreous.cli as cli

    with tempfile.TemporaryDirectory() as folder:
        try:
            cli.main(["train", "translate-en-de", "--steps", "20", "--batch", "256", "--out", f"{folder}/run"])
        except SystemExit as end:
            if end.code:
                raise
        rows = [json.loads(line) for line in Path(f"{folder}/run/metrics.jsonl").read_text().splitlines()]
        for row in rows:
            for key in [k for k in row if "second" in k or k == "time"]:
                row.pop(key)
        out["translate-en-de"] = {
            "metrics": rows,
            "weights": weights_of(Path(f"{folder}/run/model.safetensors")),
        }
    return out


def cells(old):
    import contextlib
    import io

    import vitreous.cli as cli

    data = Path(os.environ["VITREOUS_DATA"])
    out = {}
    import csv

    for row in csv.DictReader((data / "powder/cells.csv").open()):
        file = next(
            iter(sorted((data / "powder").glob(f"{row.get('file') or row.get('name') or next(iter(row.values()))}*")))
        )
        wave = next(v for k, v in row.items() if "wave" in k.lower())
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            try:
                cli.main(["index", str(file), "--wavelength", wave, "--json"])
            except SystemExit as end:
                if end.code:
                    raise
        out[file.name] = json.loads(text.getvalue())
        print(file.name, flush=True)
    return out


def onnx(old):
    import contextlib
    import io

    import numpy as np

    import vitreous.cli as cli

    out = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        x = rng.normal(size=(80, 120)).cumsum(1)
        y = x[:, 40] * 3 + 20
        lines = ["assay," + ",".join(f"{v:g}" for v in np.linspace(1000, 2500, 120))]
        lines += [f"{t:.6f}," + ",".join(f"{v:.6f}" for v in r) for t, r in zip(y, x, strict=True)]
        (folder / "s.csv").write_text("\n".join(lines))

        def call(*words):
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                try:
                    cli.main(list(words))
                except SystemExit as end:
                    if end.code:
                        raise
            return text.getvalue()

        call("train", str(folder / "s.csv"), "--target", "assay:mg", "--steps", "20", "--out", str(folder / "a"))
        call("train", "digits", "--steps", "5", "--out", str(folder / "d"))
        for run, data in (("a", str(folder / "s.csv")), ("d", "digits")):
            call("export", str(folder / run), "--out", str(folder / f"{run}.onnx"))
            call("export", str(folder / run), "--out", str(folder / f"{run}8.onnx"), "--int8")
            for model in (run, f"{run}.onnx", f"{run}8.onnx"):
                if data == "digits":
                    text = call("eval", str(folder / model), data) if model == run else ""
                else:
                    text = call("predict", str(folder / model), data)
                out[f"{model} answers"] = text.replace(name, "")
    return out


def compare(before, after, path=""):
    faults = []
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            if key not in before or key not in after:
                faults.append(f"{path}/{key}: only {'after' if key in after else 'before'}")
            else:
                faults += compare(before[key], after[key], f"{path}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            faults += compare(*pair, f"{path}/{number}")
    elif before != after:
        faults.append(f"{path}: {str(before)[:200]} != {str(after)[:200]}")
    return faults


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        before, after = (json.loads(Path(name).read_text()) for name in sys.argv[2:4])
        for part in before:
            faults = compare(before[part], after[part])
            print(f"{part}: {len(before[part])} compared, {len(faults)} differences")
            print("\n".join(faults[:40]))
        sys.exit(0)
    checkout, target, parts = sys.argv[2], Path(sys.argv[3]), sys.argv[4:]
    os.chdir(checkout)
    sys.path.insert(0, checkout)
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(False)
    import vitreous

    assert Path(vitreous.__file__).is_relative_to(checkout), vitreous.__file__
    old = not (Path(checkout) / "vitreous/core").is_dir()
    result = json.loads(target.read_text()) if target.is_file() else {}
    for part in parts or ("models", "cells", "onnx", "recipes", "texts"):
        print("==", part, flush=True)
        result[part] = {
            "models": models,
            "cells": lambda: cells(old),
            "onnx": lambda: onnx(old),
            "recipes": lambda: recipes(old, True),
            "texts": lambda: texts(old),
        }[part]()
        target.write_text(json.dumps(result, default=str))
