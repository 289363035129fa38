"""`Shard`: the part of many patterns that one job of an array indexes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from vitreous.core.errors import InputError

Item = TypeVar("Item")


@dataclass(frozen=True)
class Shard:
    """Part `number`, from 1, of `count` parts."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """A shard from `i/n`."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise InputError(f"shard: found {text!r}, expected i/n with i from 1 to n, e.g. 3/8")
        return cls(int(match[1]), int(match[2]))

    def select(self, items: Sequence[Item]) -> Sequence[Item]:
        """Every n-th item."""
        return items[self.number - 1 :: self.count]

    @property
    def folder(self) -> str:
        """The name of the folder of its results."""
        return f"{self.number}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


WHOLE = Shard(1, 1)
