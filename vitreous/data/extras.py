"""Packages that only some files need, imported when such a file is read."""

from importlib import import_module
from typing import Any

from vitreous.errors import InputError

_PACKAGES = {
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "python_multipart": "python-multipart",
}  # where the package is not called as its module


def load_extra(module: str, extra: str = "files", instead: str = "") -> Any:
    """The module, or one line that says how to install it, or what to do `instead`."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        package = _PACKAGES.get(name, name)
        other = f"; {instead}" if instead else ""
        raise InputError(
            f"this needs {package}, which is not installed: pip install 'vitreous[{extra}]'{other}"
        ) from None
