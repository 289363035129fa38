"""What a run was made from: recipe, data, targets, model and system, as fields of `experiment.json`.

The command line is stored beside them to be shown; it is never parsed, except for folders of earlier versions, which
hold nothing else (`add_provenance`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Provenance:
    """Where a run's data and settings come from. An empty field means that it does not apply or is unknown.

    Data, path or name, and targets, as they were named, are given for data of one's own.
    """

    recipe: str = ""
    data: str = ""
    targets: tuple[str, ...] = ()
    model: str = ""  # one of the recipe's
    system: str = ""  # one of the recipe's
    start: str = ""  # the run whose weights the training began with
    command: tuple[str, ...] = ()  # the words of the command line, to show

    @property
    def origin(self) -> str:
        """The recipe or the data."""
        return self.recipe or self.data

    def to_dict(self) -> dict[str, Any]:
        """Plain values, under the names that `experiment.json` has."""
        return {"from" if name == "start" else name: value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Provenance":
        """The inverse of `to_dict`; other keys are ignored."""
        texts = {name: str(values.get(name, "")) for name in ("recipe", "data", "model", "system")}
        targets, command = (tuple(values.get(name, ())) for name in ("targets", "command"))
        return cls(**texts, targets=targets, start=str(values.get("from", "")), command=command)


def add_provenance(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """`experiment.json` of an earlier version with the fields of `Provenance`, read from its command line.

    Earlier versions stored the words of `vitreous train`, and whether the first is a recipe or a path was not said: it
    is then the recipe and the data. For `vitreous prune RUN` the run is known, and its provenance applies.
    """
    if "recipe" in experiment or not isinstance(experiment.get("command"), list):
        return dict(experiment)
    words: Sequence[str] = experiment["command"]
    fields = dict[str, Any](recipe="", data="", targets=[], model="", system="")
    verb = words[1] if words[:1] == ["vitreous"] and len(words) > 2 else ""
    if verb == "train":
        options = _options(words[3:])
        fields |= {"recipe": words[2], "data": words[2], "targets": options.get("target", [])}
        fields |= {name: options[name][0] for name in ("model", "system") if options.get(name)}
    if verb == "prune":
        return {**fields, **experiment, "from": words[2]}
    return {**fields, **experiment}


def _options(words: Sequence[str]) -> dict[str, list[str]]:
    """The words that follow each flag."""
    options: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            options[word.removeprefix("--")] = []
        elif options:
            options[next(reversed(options))].append(word)
    return options


def command_words(verb: str, data: str, targets: Sequence[str], options: Mapping[str, Any]) -> tuple[str, ...]:
    """The command line that makes a run, to show in its report; options that are None are left out."""
    words = ["vitreous", verb, data, *(["--target", *targets] if targets else [])]
    for name, value in options.items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            words += [flag] if value is True else [flag, str(value)]
    return tuple(words)
