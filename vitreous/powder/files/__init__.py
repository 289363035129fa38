"""Files of powder patterns: read every usual format, write text."""

from vitreous.powder.files.read import FORMATS, read_pattern
from vitreous.powder.files.text import write_pattern

__all__ = ["FORMATS", "read_pattern", "write_pattern"]
