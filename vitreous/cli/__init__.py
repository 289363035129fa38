"""The commands by name, and how one is run. Each is a function; its signature and docstring are its flags and help."""

import contextlib
import functools
import io
import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn, Union

import tyro
from tyro.conf import arg, subcommand

from vitreous.cli.bench import bench
from vitreous.cli.compare import compare
from vitreous.cli.demo import demo
from vitreous.cli.evaluate import evaluate
from vitreous.cli.explain import explain
from vitreous.cli.export import export
from vitreous.cli.gallery import gallery
from vitreous.cli.index import index
from vitreous.cli.models import models
from vitreous.cli.powder import powder
from vitreous.cli.powder_example import example
from vitreous.cli.powder_plot import plot
from vitreous.cli.powder_simulate import simulate
from vitreous.cli.predict import predict
from vitreous.cli.pretrain import pretrain
from vitreous.cli.prune import prune
from vitreous.cli.report import report
from vitreous.cli.serve import serve
from vitreous.cli.summary import summary
from vitreous.cli.sweep import sweep
from vitreous.cli.train import train
from vitreous.core.errors import InputError
from vitreous.core.version import __version__

COMMANDS: dict[str, Callable[..., None]] = {
    "train": train,
    "pretrain": pretrain,
    "prune": prune,
    "eval": evaluate,
    "predict": predict,
    "explain": explain,
    "compare": compare,
    "report": report,
    "export": export,
    "serve": serve,
    "sweep": sweep,
    "gallery": gallery,
    "models": models,
    "summary": summary,
    "bench": bench,
    "index": index,
    "powder": powder,
    "demo": demo,
}
GROUPS: dict[str, dict[str, Callable[..., None]]] = {
    "powder": {"simulate": simulate, "plot": plot, "example": example},
}


def main(args: Sequence[str] | None = None) -> None:
    """Run one command; a user's mistake is one line and exit code 2."""
    args = list(sys.argv[1:] if args is None else args) or ["--help"]
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
    except InputError as fault:
        _stop(str(fault))
    except ModuleNotFoundError as fault:
        if fault.name != "torch":
            raise
        _stop("this needs torch, which is not installed; vitreous predict MODEL.onnx does without it")
    except KeyboardInterrupt as stop:
        if str(stop):
            print(f"vitreous: {stop}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output, such as `head`, has left
        sys.stderr.close()
        sys.exit(141)


def _parse(args: Sequence[str]) -> Callable[[], None]:
    """The command to run, its arguments bound."""
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):
            command: Callable[[], None] = tyro.extras.subcommand_cli_from_dict(
                {
                    name: _grouped(function, GROUPS[name]) if name in GROUPS else _deferred(function)
                    for name, function in COMMANDS.items()
                },
                prog="vitreous",
                description=f"Vision Transformers for scientific data (version {__version__}).",
                args=args,
            )
            return command
    except SystemExit as end:
        if end.code:
            _stop(_one_line(messages.getvalue()))
        raise


def _deferred(function: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """The same signature, but the call is only bound: parsing must end before the command's own output starts."""

    @functools.wraps(function)
    def bind(*args: Any, **kwargs: Any) -> Callable[[], None]:
        return functools.partial(function, *args, **kwargs)

    bind.__annotations__ = {**function.__annotations__, "return": Callable[[], None]}
    return bind


def _grouped(function: Callable[..., None], below: dict[str, Callable[..., None]]) -> Callable[..., Callable[[], None]]:
    """The same for a function whose only argument is one of the commands `below` it."""

    def bind(command: Callable[[], None]) -> Callable[[], None]:
        return functools.partial(function, command)

    kinds = [Annotated[Any, subcommand(name, constructor=_deferred(each))] for name, each in below.items()]
    bind.__annotations__["command"] = Annotated[Union[tuple(kinds)], arg(name="")]  # noqa: UP007
    bind.__doc__ = function.__doc__
    return bind


def _one_line(box: str) -> str:
    """tyro's message, drawn as a box of rules and bars, without its title and its pointer to --help."""
    _, *sections = [part for part in re.split(r"[╭╮╰╯─]+|-{5,}", box.replace("│", " ")) if part.strip()]
    lines = [" ".join(part.split()).rstrip(".") for part in sections]
    lines = [re.sub(r"^Perhaps you meant: (\S+?),? .*", r"did you mean \1?", line) for line in lines]
    return "; ".join(line for line in lines if not line.startswith("For full helptext"))


def _stop(message: str) -> NoReturn:
    print(f"vitreous: error: {message}", file=sys.stderr)
    sys.exit(2)
