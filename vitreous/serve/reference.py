"""The page at `/docs`: the OpenAPI description as plain HTML, which needs no script and no network."""

import json
from collections.abc import Iterator
from typing import Any

from vitreous.page import Section, Table, page

_PARAMETERS = ("field", "type", "")


def reference_page(api: dict[str, Any]) -> str:
    """The whole page.

    Args:
        api: the OpenAPI description.
    """
    schemas = api["components"]["schemas"]
    sections = [
        _endpoint(method, path, told) for path, methods in api["paths"].items() for method, told in methods.items()
    ]
    sections.append(
        Section("Answers, field by field", tables=[_fields(schema, name) for name, schema in schemas.items()])
    )
    sections.append(Section("For machines", "The same as OpenAPI: `/openapi.json`."))
    return page(api["info"]["title"], api["info"]["description"], [("version", api["info"]["version"])], sections)


def _endpoint(method: str, path: str, told: dict[str, Any]) -> Section:
    tables = [
        _fields(content["schema"], kind) for kind, content in told.get("requestBody", {}).get("content", {}).items()
    ]
    answers = [
        [status, answer["description"], ", ".join(_schema(content) for content in answer.get("content", {}).values())]
        for status, answer in told["responses"].items()
    ]
    tables.append(Table(("status", "when", "content"), answers, "Answers"))
    return Section(f"{method.upper()} {path}", told.get("description", told.get("summary", "")), tables=tables)


def _schema(content: dict[str, Any]) -> str:
    return _kind(content.get("schema", {}))


def _fields(schema: dict[str, Any], caption: str) -> Table:
    needed = schema.get("required", ())
    rows = [
        [name, _kind(field), " ".join(_remarks(name in needed, field))]
        for name, field in schema.get("properties", {}).items()
    ]
    return Table(_PARAMETERS, rows, " — ".join(filter(None, (caption, schema.get("description", "")))))


def _remarks(needed: bool, field: dict[str, Any]) -> Iterator[str]:
    if needed:
        yield "needed;"
    if "description" in field:
        yield field["description"]
    if field.get("default") is not None:
        yield f"({json.dumps(field['default'])} if not given)"


def _kind(field: dict[str, Any]) -> str:
    """A type in words."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(_kind(each) for each in field["anyOf"])
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {})) or 'numbers or lists'}"
    if "enum" in field:
        return " | ".join(map(str, field["enum"]))
    return str(field.get("const", field.get("format", field.get("type", ""))))
