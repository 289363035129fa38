"""The commands by name, and how one is run. Each is a function; its signature and docstring are its flags and help."""

import atexit
import contextlib
import functools
import gc
import io
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn, Union

import tyro
from tyro.conf import arg, subcommand

from vitreous.cli.powder import database, example, plot, simulate
from vitreous.core.errors import InputError
from vitreous.core.version import __version__

Command = Callable[..., None]
_MODULES = (  # each has a function of its own name
    "train", "pretrain", "prune", "evaluate", "predict", "explain", "compare", "report", "export", "serve", "sweep",
    "gallery", "models", "summary", "bench", "index", "identify", "powder", "demo",
)  # fmt: skip
COMMANDS: dict[str, Command] = {
    "eval" if name == "evaluate" else name: getattr(import_module(f"vitreous.cli.{name}"), name) for name in _MODULES
}
GROUPS: dict[str, dict[str, Command]] = {
    "powder": {"simulate": simulate, "plot": plot, "example": example, "database": database}
}


def main(args: Sequence[str] | None = None) -> None:
    """Run one command; a user's mistake is one line and exit code 2."""
    alone = args is None
    args = list(sys.argv[1:] if args is None else args) or ["--help"]
    if alone:  # a process of its own, where searches for cycles in the objects of torch take a tenth of a second
        gc.set_threshold(400_000, 50, 100)
        if args[0] in ("index", "identify"):
            atexit.register(_skip_last_collection)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a table must not fail on a terminal that lacks its signs
            stream.reconfigure(errors="replace")
    if len(args) == 1 and args[0] in GROUPS:
        args.append("--help")
    if args == ["--version"]:
        print(f"vitreous {__version__}")
        return
    try:
        _parse(args)()
    except InputError as error:
        _stop(str(error))
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        _stop("this needs torch, which is not installed; vitreous predict MODEL.onnx does without it")
    except KeyboardInterrupt as interrupt:
        if str(interrupt):
            print(f"vitreous: {interrupt}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output, such as `head`, has left
        sys.stderr.close()
        sys.exit(141)


def _skip_last_collection() -> None:
    """End without a last search for cycles, unless gemmi is loaded: it prints which of its objects are left."""
    if "gemmi" not in sys.modules:
        gc.freeze()


def _parse(args: Sequence[str], every: dict[str, Command] = COMMANDS, prog: str = "vitreous") -> Callable[[], None]:
    """The command to run, its arguments bound.

    The parser of a command that is named has no options of other commands, so that it does not suggest them.
    """
    name, *rest = args
    if every is COMMANDS and name in GROUPS and rest and rest[0] in GROUPS[name]:
        return functools.partial(COMMANDS[name], _parse(rest, GROUPS[name], f"{prog} {name}"))
    chosen = [name] if name in every else every
    commands = {key: _group(key) if key in GROUPS else _deferred(every[key]) for key in chosen}
    description = f"Vision Transformers for scientific data (version {__version__})."
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):
            command: Callable[[], None] = tyro.extras.subcommand_cli_from_dict(
                commands, prog=prog, description=description, args=args
            )
            return command
    except SystemExit as stop:
        if stop.code:
            _stop(_one_line(messages.getvalue(), f"{prog} {name}" if name in every else prog))
        raise


def _deferred(function: Command) -> Callable[..., Callable[[], None]]:
    """The same signature, but the call is only bound: parsing must end before the command's own output starts."""

    @functools.wraps(function)
    def bind(*args: Any, **kwargs: Any) -> Callable[[], None]:
        return functools.partial(function, *args, **kwargs)

    bind.__annotations__ = {**function.__annotations__, "return": Callable[[], None]}
    return bind


def _group(name: str) -> Callable[..., Callable[[], None]]:
    """The same for a command whose only argument is one of the commands of its group."""

    def bind(command: Callable[[], None]) -> Callable[[], None]:
        return functools.partial(COMMANDS[name], command)

    kinds = [Annotated[Any, subcommand(key, constructor=_deferred(each))] for key, each in GROUPS[name].items()]
    bind.__annotations__["command"] = Annotated[Union[tuple(kinds)], arg(name="")]  # noqa: UP007
    bind.__doc__ = COMMANDS[name].__doc__
    return bind


def _one_line(box: str, command: str) -> str:
    """tyro's message, drawn as a box of rules and bars, without its title and its pointer to --help."""
    _, *sections = [part for part in re.split(r"[╭╮╰╯─]+|-{5,}", box.replace("│", " ")) if part.strip()]
    lines = [" ".join(part.split()).rstrip(".") for part in sections]
    similar = r"^(?:Perhaps you meant|Arguments similar to \S+): (\S+?),? .*"
    lines = [re.sub(similar, r"did you mean \1?", line) for line in lines]
    lines = [line for line in lines if not line.startswith("For full helptext")]
    if len(lines) == 1 and lines[0].startswith("Unrecognized"):  # no option has a similar name
        lines.append(f"see {command} --help")
    return "; ".join(lines)


def _stop(message: str) -> NoReturn:
    print(f"vitreous: error: {message}", file=sys.stderr)
    sys.exit(2)
