"""OpenAPI description: request bodies and responses of each path, and `/docs`, the same as HTML without scripts."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from vitreous.core.version import __version__
from vitreous.insight.html_page import Section, Table, render_page
from vitreous.serve.requests import RequestModel
from vitreous.serve.responses import ErrorResponse

ABOUT: dict[str, Any] = {
    "title": "Vitreous",
    "version": __version__,
    "description": "Predictions of trained models with units and intervals, attribution maps, unit cells, and phases.",
}
_ERRORS = {
    401: "the token is missing or wrong",
    403: "the request comes from another site, or names another host",
    404: "the model or path does not exist or is not served",
    408: "the body arrives too slowly",
    413: "the body is too large",
    415: "the content type is neither JSON nor a form",
    422: "the content is invalid",
    429: "too many requests are waiting, or too many tokens were wrong; try again",
    503: "no answer within the time limit, or a worker process ended; try again",
}


def describe_responses(answer: type[BaseModel], *errors: int) -> dict[int | str, dict[str, Any]]:
    """Describe the response of a path, its own errors, and those that every path has."""
    success: dict[int | str, dict[str, Any]] = {200: {"model": answer, "description": "the answer"}}
    return success | {code: {"model": ErrorResponse, "description": _ERRORS[code]} for code in (401, 403, 429, *errors)}


def describe_body(json: type[RequestModel], form: type[RequestModel], several_files: bool) -> dict[str, Any]:
    """Describe the request body of a path: JSON, or a form with one or several files."""
    schema = form.model_json_schema()
    file: dict[str, Any] = {"type": "string", "format": "binary"}
    schema["properties"]["file"] = {"type": "array", "items": file, "minItems": 1} if several_files else file
    schema["required"] = [*schema.get("required", ()), "file"]
    schemas = {"application/json": json.model_json_schema(), "multipart/form-data": schema}
    content = {media_type: {"schema": schema} for media_type, schema in schemas.items()}
    return {"requestBody": {"required": True, "content": content}}


def docs_page(api: dict[str, Any]) -> str:
    """Return the HTML page of an OpenAPI description."""
    sections = [
        _endpoint_section(f"{method.upper()} {path}", operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    tables = [_field_table(schema, name) for name, schema in api["components"]["schemas"].items()]
    sections.append(Section("Response fields", tables=tables))
    sections.append(Section("Machine-readable description", "OpenAPI: `/openapi.json`."))
    info = api["info"]
    return render_page(info["title"], info["description"], [("version", info["version"])], sections)


def _endpoint_section(title: str, operation: dict[str, Any]) -> Section:
    bodies = operation.get("requestBody", {}).get("content", {})
    tables = [_field_table(content["schema"], media_type) for media_type, content in bodies.items()]
    rows = []
    for status, response in operation["responses"].items():
        types = [_type_text(content.get("schema", {})) for content in response.get("content", {}).values()]
        rows.append([status, response["description"], ", ".join(types)])
    tables.append(Table(("status", "when", "content"), rows, "Responses"))
    return Section(title, operation.get("description", operation.get("summary", "")), tables=tables)


def _field_table(schema: dict[str, Any], caption: str) -> Table:
    required = schema.get("required", ())
    rows = [
        [name, _type_text(field), " ".join(_remarks(name in required, field))]
        for name, field in schema.get("properties", {}).items()
    ]
    return Table(("field", "type", ""), rows, " — ".join(filter(None, (caption, schema.get("description", "")))))


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
