"""A request's body, read within bounds and in memory: JSON, or a form with files."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Generic, TypeVar

from fastapi import Request
from pydantic import ValidationError
from pydantic_core import from_json
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from vitreous.data import Held
from vitreous.errors import InputError, first_line
from vitreous.serve.limits import Limits
from vitreous.serve.questions import Question
from vitreous.serve.refused import AGAIN, RefusedError

Json = TypeVar("Json", bound=Question)
Form = TypeVar("Form", bound=Question)
Asked = TypeVar("Asked", bound=Question)
KINDS = ("application/json", "multipart/form-data")
LARGE = 100_000
"""Bytes of JSON that are worth a thread."""
_SEVERAL = ("maps", "system")  # fields of which there may be more than one
_FIELDS = 32
_WORD = 4096  # bytes of a field that is no file
_PARSED = 20  # bytes that a byte of JSON may become
_LONGEST = 12  # letters of a suffix
_LINE = 80  # letters of a client's that a refusal may repeat


@dataclass
class Budget:
    """Bytes of all requests that are held at a time."""

    most: int
    held: int = 0


@dataclass
class Share:
    """What one request has of it, until it is answered."""

    budget: Budget
    held: int = 0

    def take(self, size: int) -> None:
        """Count more bytes, or refuse them."""
        if self.budget.held + size > self.budget.most:
            raise RefusedError(429, "too much is being sent at the moment", AGAIN)
        self.budget.held += size
        self.held += size

    def give_back(self) -> None:
        """The request is answered."""
        self.budget.held -= self.held
        self.held = 0


class _InMemory(MultiPartParser):
    """Files stay in memory, whatever their size, which is bounded before."""

    spool_max_size = 1 << 62

    def close(self) -> None:
        """Let go of what was read before a fault."""
        for file in self._files_to_close_on_error:
            file.close()


@dataclass(frozen=True)
class Sent(Generic[Json, Form]):
    """What is asked, the files that belong to it, and how many bytes it was."""

    asked: Json | Form
    files: list[Held]
    size: int


async def question(request: Request, json: type[Json], form: type[Form], limits: Limits) -> Sent[Json, Form]:
    """What is asked: numbers, or fields with files."""
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind.decode("latin-1") not in KINDS:
        raise RefusedError(415, f"content-type: expected {' or '.join(KINDS)}")
    if options.get(b"charset", b"utf-8").lower() != b"utf-8":  # others may take for ever, or mean anything
        raise RefusedError(415, "charset: expected utf-8")
    body = await _body(request, limits)
    if kind == b"application/json":
        if len(body) <= LARGE:
            return Sent(_validated(json, body), [], len(body))
        share: Share = request.scope["state"]["share"]
        share.take((_PARSED - 1) * len(body))
        return Sent(await asyncio.to_thread(_validated, json, body), [], len(body))
    fields, files = await _form(request, body, limits)
    return Sent(_checked(form, fields), files, len(body))


def _validated(json: type[Json], body: bytes) -> Json:
    try:
        found = from_json(body)
    except ValueError as fault:
        raise InputError(f"body: is no JSON ({first_line(fault)[:_LINE]})") from None
    if not isinstance(found, dict):
        raise InputError("body: expected an object with fields")
    return _checked(json, found, strict=True)


def _checked(kind: type[Asked], fields: dict[str, Any], strict: bool = False) -> Asked:
    """The question, or the first thing that is wrong with it, without the value, which may be large."""
    if len(fields) > _FIELDS:
        raise InputError(f"fields: found {len(fields)}, expected {_FIELDS} at most")
    try:
        return kind.model_validate(fields, strict=strict)
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:_LINE] for part in first["loc"][:3])
        raise InputError(f"{where or 'body'}: {first['msg'][0].lower()}{first['msg'][1:]}") from None


async def _body(request: Request, limits: Limits) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limits.body:
        raise _too_large(limits)
    share: Share = request.scope["state"]["share"]
    content = bytearray()
    async for chunk in request.stream():
        share.take(len(chunk))
        content += chunk
        if len(content) > limits.body:
            raise _too_large(limits)
    return bytes(content)


def _too_large(limits: Limits) -> RefusedError:
    return RefusedError(413, f"body: expected {limits.body} bytes at most")


async def _form(request: Request, body: bytes, limits: Limits) -> tuple[dict[str, Any], list[Held]]:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield body

    parser = _InMemory(
        request.headers, chunks(), max_files=limits.rows + 1, max_fields=_FIELDS, max_part_size=_WORD
    )  # fmt: skip
    try:
        form = await parser.parse()
    except (MultiPartException, ValueError, KeyError) as fault:
        parser.close()
        raise InputError(f"form: cannot be read ({first_line(fault)[:_LINE]})") from None
    try:
        return await _fields(form)
    finally:
        await form.close()


async def _fields(form: FormData) -> tuple[dict[str, Any], list[Held]]:
    """Fields, without those that are empty, and files."""
    fields, files = dict[str, Any](), list[Held]()
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            if name != "file":
                raise InputError("form: expected files under the name file alone")
            files.append(Held(f"file {len(files)}", _suffix(value.filename or ""), await value.read()))
        elif name == "file":
            raise InputError("file: found text, expected a file with a name")
        elif name in _SEVERAL:
            fields[name] = fields.get(name, []) + [word for word in value.split(",") if word]
        elif value:
            fields[name] = value
    return {name: value for name, value in fields.items() if value != []}, files


def _suffix(name: str) -> str:
    """All that is used of a client's name: what it says of the format."""
    suffix = PurePosixPath(name.replace("\\", "/").rpartition("/")[2]).suffix.lower()
    return suffix if len(suffix) <= _LONGEST and suffix[1:].isalnum() and suffix.isascii() else ""
