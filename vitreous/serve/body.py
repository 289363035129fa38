"""Reading request bodies within limits, in memory: JSON, or a form with files."""

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

from vitreous.core.errors import InputError, first_line
from vitreous.data import Upload
from vitreous.serve.clients import Claim
from vitreous.serve.errors import RequestError
from vitreous.serve.limits import Limits
from vitreous.serve.requests import RequestModel

Json = TypeVar("Json", bound=RequestModel)
Form = TypeVar("Form", bound=RequestModel)
MEDIA_TYPES = ("application/json", "multipart/form-data")
LARGE_BODY = 100_000
"""Bytes of JSON above which parsing runs in a thread."""
BODY_START = 5.0
"""Seconds after which a body must have arrived at the required rate."""
_LIST_FIELDS = (
    "maps", "system", "columns", "exclude", "volume", "range", "cell", "projects", "elements", "exclude_elements",
)  # fmt: skip
"""Form fields that may repeat or hold a comma-separated list."""
_MAX_FIELDS = 32
_MAX_FIELD_BYTES = 4096  # of a form field without a file
_PARSED_RATIO = 20  # bytes in memory per byte of JSON, at most
_MAX_SUFFIX = 12  # characters of a file suffix
_MAX_QUOTE = 80  # characters of a client's text in an error message


@dataclass(frozen=True)
class Body(Generic[Json, Form]):
    """A validated request with its uploaded files, its size in bytes, and the client who sent it."""

    request: Json | Form
    files: list[Upload]
    size: int
    client: str

    def one_file(self) -> Upload:
        """Return the file of a request that takes one; `InputError` if there is none, or several."""
        if len(self.files) != 1:
            raise InputError(f"file: found {len(self.files)}, expected one")
        return self.files[0]


async def read_body(request: Request, json: type[Json], form: type[Form], limits: Limits) -> Body[Json, Form]:
    """Read and validate the body of a request: JSON, or form fields with files."""
    media_type, options = parse_options_header(request.headers.get("content-type"))
    if media_type.decode("latin-1") not in MEDIA_TYPES:
        raise RequestError(415, f"content-type: expected {' or '.join(MEDIA_TYPES)}")
    if options.get(b"charset", b"utf-8").lower() != b"utf-8":  # some codecs are very slow
        raise RequestError(415, "charset: expected utf-8")
    memory: Claim = request.scope["state"]["memory"]
    try:
        content = await _read_bytes(request, limits, memory)
    except TimeoutError:
        raise RequestError(408, f"body: expected at least {limits.body_rate} bytes per second") from None
    if media_type != b"application/json":
        fields, files = await _parse_form(request, content, limits)
        return Body(_validate(form, fields), files, len(content), memory.client)
    if len(content) <= LARGE_BODY:
        return Body(_parse_json(json, content), [], len(content), memory.client)
    memory.add((_PARSED_RATIO - 1) * len(content))
    return Body(await asyncio.to_thread(_parse_json, json, content), [], len(content), memory.client)


async def _read_bytes(request: Request, limits: Limits, memory: Claim) -> bytes:
    """Read the whole body; `TimeoutError` if it arrives too slowly."""
    too_large = RequestError(413, f"body: expected at most {limits.body} bytes")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limits.body:
        raise too_large
    content = bytearray()
    started = asyncio.get_running_loop().time()
    async with asyncio.timeout(min(BODY_START, limits.seconds)) as deadline:
        async for chunk in request.stream():
            memory.add(len(chunk))
            content += chunk
            if len(content) > limits.body:
                raise too_large
            deadline.reschedule(started + min(BODY_START + len(content) / limits.body_rate, limits.seconds))
    return bytes(content)


def _parse_json(kind: type[Json], content: bytes) -> Json:
    try:
        fields = from_json(content)
    except ValueError as error:
        raise InputError(f"body: invalid JSON ({first_line(error)[:_MAX_QUOTE]})") from None
    if not isinstance(fields, dict):
        raise InputError("body: expected a JSON object")
    return _validate(kind, fields, strict=True)


def _validate(kind: type[Json], fields: dict[str, Any], strict: bool = False) -> Json:
    """Validate fields; the error message names the first problem without its value, which may be large."""
    if len(fields) > _MAX_FIELDS:
        raise InputError(f"fields: found {len(fields)}, expected at most {_MAX_FIELDS}")
    try:
        return kind.model_validate(fields, strict=strict)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        location = ".".join(str(part)[:_MAX_QUOTE] for part in first["loc"][:3])
        raise InputError(f"{location or 'body'}: {first['msg'][0].lower()}{first['msg'][1:]}") from None


class _InMemoryParser(MultiPartParser):
    """Keeps files in memory; their size is limited before."""

    spool_max_size = 1 << 62

    def close(self) -> None:
        """Close the files that were read before an error."""
        for file in self._files_to_close_on_error:
            file.close()


async def _parse_form(request: Request, content: bytes, limits: Limits) -> tuple[dict[str, Any], list[Upload]]:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield content

    bounds = {"max_files": limits.rows + 1, "max_fields": _MAX_FIELDS, "max_part_size": _MAX_FIELD_BYTES}
    parser = _InMemoryParser(request.headers, chunks(), **bounds)
    try:
        form = await parser.parse()
    except (MultiPartException, ValueError, KeyError) as error:
        parser.close()
        raise InputError(f"form: cannot be read ({first_line(error)[:_MAX_QUOTE]})") from None
    try:
        return await _read_form(form)
    finally:
        await form.close()


async def _read_form(form: FormData) -> tuple[dict[str, Any], list[Upload]]:
    """Return the non-empty fields, and the files."""
    fields, files = dict[str, Any](), list[Upload]()
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            if name != "file":
                raise InputError("form: expected files only in the field file")
            files.append(Upload(f"file {len(files)}", _file_suffix(value.filename or ""), await value.read()))
        elif name == "file":
            raise InputError("file: found text, expected a file with a name")
        elif name in _LIST_FIELDS:
            fields[name] = fields.get(name, []) + [word for word in value.split(",") if word]
        elif value:
            fields[name] = value
    return {name: value for name, value in fields.items() if value != []}, files


def _file_suffix(name: str) -> str:
    """Return the suffix of a client's file name, the only part of it that is used."""
    suffix = PurePosixPath(name.replace("\\", "/").rpartition("/")[2]).suffix.lower()
    return suffix if len(suffix) <= _MAX_SUFFIX and suffix[1:].isalnum() and suffix.isascii() else ""
