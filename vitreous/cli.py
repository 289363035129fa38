"""The commands. Each is a function; its signature and docstring are its flags and help."""

import contextlib
import functools
import io
import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import tyro
from tyro.conf import Positional, arg

from vitreous import __version__
from vitreous.errors import InputError


def models(pattern: Annotated[str, Positional, arg(metavar="[PATTERN]")] = "*", *, json: bool = False) -> None:
    """List the named models with their size and cost.

    Args:
        pattern: show only names like this, e.g. 'vit_base*'.
        json: print JSON instead of a table.
    """
    from vitreous.zoo.show import print_models

    print_models(pattern, as_json=json)


def summary(model: Annotated[str, Positional, arg(metavar="MODEL")]) -> None:
    """Show the parts of a model in the order the data passes them.

    Args:
        model: a name from 'vitreous models', or a folder with a config.json.
    """
    from vitreous.zoo.show import print_summary

    print_summary(model)


def demo() -> None:
    """Show the models, the parts of the spectrum model, and a forward on a spectrum and on an image."""
    from vitreous.demo import run

    run()


COMMANDS: dict[str, Callable[..., None]] = {"models": models, "summary": summary, "demo": demo}


def main(args: Sequence[str] | None = None) -> None:
    """Run one command; a user's mistake is one line and exit code 2."""
    args = list(sys.argv[1:] if args is None else args) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a table must not fail on a terminal that lacks its signs
            stream.reconfigure(errors="replace")
    if args == ["--version"]:
        print(f"vitreous {__version__}")
        return
    try:
        _parse(args)()
    except InputError as fault:
        _stop(str(fault))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output, such as `head`, has left
        sys.stderr.close()
        sys.exit(141)


def _parse(args: Sequence[str]) -> Callable[[], None]:
    """The command to run, its arguments bound."""
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            command: Callable[[], None] = tyro.extras.subcommand_cli_from_dict(
                {name: _deferred(function) for name, function in COMMANDS.items()},
                prog="vitreous",
                description=f"Vision Transformers for scientific data (version {__version__}).",
                args=args,
            )
            return command
    except SystemExit as end:
        if end.code:
            _stop(_one_line(told.getvalue()))
        raise


def _deferred(function: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """The same signature, but the call is only bound: parsing must end before the command's own output starts."""

    @functools.wraps(function)
    def bind(*args: Any, **kwargs: Any) -> Callable[[], None]:
        return functools.partial(function, *args, **kwargs)

    bind.__annotations__ = {**function.__annotations__, "return": Callable[[], None]}
    return bind


def _one_line(box: str) -> str:
    """tyro's message, drawn as a box of rules and bars, without its title and its pointer to --help."""
    _, *sections = [part for part in re.split(r"[╭╮╰╯─]+|-{5,}", box.replace("│", " ")) if part.strip()]
    told = [" ".join(part.split()).rstrip(".") for part in sections]
    told = [re.sub(r"^Perhaps you meant: (\S+?),? .*", r"did you mean \1?", part) for part in told]
    return "; ".join(part for part in told if not part.startswith("For full helptext"))


def _stop(message: str) -> NoReturn:
    print(f"vitreous: error: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
