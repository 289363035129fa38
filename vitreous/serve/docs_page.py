"""The page `/docs`: the OpenAPI description as plain HTML, without scripts or network access."""

import json
from collections.abc import Iterator
from typing import Any

from vitreous.insight.html_page import Section, Table, render_page

_HEADINGS = ("field", "type", "")


def docs_page(api: dict[str, Any]) -> str:
    """Return the HTML of the page.

    Args:
        api: the OpenAPI description.
    """
    schemas = api["components"]["schemas"]
    sections = [
        _endpoint_section(method, path, operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    tables = [_field_table(schema, name) for name, schema in schemas.items()]
    sections.append(Section("Response fields", tables=tables))
    sections.append(Section("Machine-readable description", "OpenAPI: `/openapi.json`."))
    info = api["info"]
    return render_page(info["title"], info["description"], [("version", info["version"])], sections)


def _endpoint_section(method: str, path: str, operation: dict[str, Any]) -> Section:
    bodies = operation.get("requestBody", {}).get("content", {})
    tables = [_field_table(content["schema"], media_type) for media_type, content in bodies.items()]
    rows = [
        [status, response["description"], ", ".join(map(_content_type, response.get("content", {}).values()))]
        for status, response in operation["responses"].items()
    ]
    tables.append(Table(("status", "when", "content"), rows, "Responses"))
    return Section(
        f"{method.upper()} {path}", operation.get("description", operation.get("summary", "")), tables=tables
    )


def _content_type(content: dict[str, Any]) -> str:
    return _type_text(content.get("schema", {}))


def _field_table(schema: dict[str, Any], caption: str) -> Table:
    required = schema.get("required", ())
    rows = [
        [name, _type_text(field), " ".join(_remarks(name in required, field))]
        for name, field in schema.get("properties", {}).items()
    ]
    return Table(_HEADINGS, rows, " — ".join(filter(None, (caption, schema.get("description", "")))))


def _remarks(required: bool, field: dict[str, Any]) -> Iterator[str]:
    if required:
        yield "required;"
    if "description" in field:
        yield field["description"]
    if field.get("default") is not None:
        yield f"(default: {json.dumps(field['default'])})"


def _type_text(field: dict[str, Any]) -> str:
    """Return a JSON schema's type as text."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(map(_type_text, field["anyOf"]))
    if field.get("type") == "array":
        return f"list of {_type_text(field.get('items', {})) or 'numbers or lists'}"
    if "enum" in field:
        return " | ".join(map(str, field["enum"]))
    return str(field.get("const", field.get("format", field.get("type", ""))))
