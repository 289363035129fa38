"""`parse_json`: JSON from a file that may be damaged."""

import json
from typing import Any

from vitreous.core.errors import InputError


def parse_json(content: str | bytes) -> Any:
    """The values of a JSON text; the message of `InputError` begins with a verb, for a file's name to precede it."""
    try:
        return json.loads(content)
    except RecursionError:
        raise InputError("is damaged (not valid JSON: its values are nested too deeply)") from None
    except ValueError as fault:  # UnicodeDecodeError too
        raise InputError(f"is damaged (not valid JSON: {fault})") from None
