"""OpenAPI description: request bodies and responses of each path."""

from typing import Any

from pydantic import BaseModel

from vitreous.serve.requests import RequestModel
from vitreous.serve.responses import ErrorResponse

TITLE = "Vitreous"
DESCRIPTION = "Predictions of trained models with units and intervals, attribution maps, and unit cells."

_ERRORS = {
    401: "the token is missing or wrong",
    403: "the request comes from another site, or names another host",
    404: "the model or path does not exist or is not served",
    413: "the body is too large",
    415: "the content type is neither JSON nor a form",
    422: "the content is invalid",
    429: "too many requests are waiting; try again",
    503: "no answer within the time limit",
}
_COMMON_ERRORS = (401, 403)


def describe_responses(answer: type[BaseModel], *errors: int) -> dict[int | str, dict[str, Any]]:
    """Describe the response of a path, and its errors."""
    success: dict[int | str, dict[str, Any]] = {200: {"model": answer, "description": "the answer"}}
    statuses = (*_COMMON_ERRORS, *errors)
    return success | {status: {"model": ErrorResponse, "description": _ERRORS[status]} for status in statuses}


def describe_body(json: type[RequestModel], form: type[RequestModel], several_files: bool) -> dict[str, Any]:
    """Describe the request body of a path: JSON, or a form with one or several files."""
    schema = form.model_json_schema()
    file: dict[str, Any] = {"type": "string", "format": "binary"}
    schema["properties"]["file"] = {"type": "array", "items": file, "minItems": 1} if several_files else file
    schema["required"] = [*schema.get("required", ()), "file"]
    content = {
        "application/json": {"schema": json.model_json_schema()},
        "multipart/form-data": {"schema": schema},
    }
    return {"requestBody": {"required": True, "content": content}}
