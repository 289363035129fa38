"""What kind of run a folder holds; asked before anything is loaded, so nothing here needs torch."""

import json
from pathlib import Path

TASK = "task.json"
TRANSLATION = "translation"
PRETRAINING = "pretraining"


def kind_of(folder: Path) -> str:
    """The kind of a run's task; empty where the folder does not say."""
    try:
        found = json.loads((folder / TASK).read_text())
        return str(found["task"]["kind"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def translates(folder: Path) -> bool:
    """Whether a folder holds a run that translates texts."""
    return kind_of(folder) == TRANSLATION
