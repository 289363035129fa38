"""Optional packages, imported on first use."""

from importlib import import_module
from typing import Any

from vitreous.core.errors import InputError

# names on PyPI that differ from the name of the module
_PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn", "python_multipart": "python-multipart"}


def load_extra(module: str, extra: str = "files", instead: str = "") -> Any:
    """Import an optional module; if it is missing, raise `InputError` with the command that installs it.

    Args:
        extra: the extra of Vitreous that installs it.
        instead: an alternative for the user, added to the message.
    """
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        command = f"pip install 'vitreous[{extra}]'" + (f"; {instead}" if instead else "")
        raise InputError(f"this needs {_PACKAGES.get(name, name)}, which is not installed: {command}") from None
