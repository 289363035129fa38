"""Optional packages, imported on first use."""

from importlib import import_module
from typing import Any

from vitreous.core.errors import InputError

_PACKAGES = {  # names on PyPI that differ from the name of the module
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "python_multipart": "python-multipart",
}


def load_extra(module: str, extra: str = "files", instead: str = "") -> Any:
    """Import an optional module; if it is missing, raise `InputError` with the command that installs it.

    Args:
        module: name of the module.
        extra: the extra of Vitreous that installs it.
        instead: an alternative for the user, added to the message.
    """
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        package = _PACKAGES.get(name, name)
        alternative = f"; {instead}" if instead else ""
        raise InputError(
            f"this needs {package}, which is not installed: pip install 'vitreous[{extra}]'{alternative}"
        ) from None
