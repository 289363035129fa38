"""What kind of run a folder holds; asked before anything is loaded, so nothing here needs torch."""

import json
from pathlib import Path

TASK = "task.json"
TRANSLATION = "translation"


def translates(folder: Path) -> bool:
    """Whether a folder holds a run that translates texts."""
    try:
        found = json.loads((folder / TASK).read_text())
        return bool(found["task"]["kind"] == TRANSLATION)
    except (OSError, ValueError, KeyError, TypeError):
        return False
