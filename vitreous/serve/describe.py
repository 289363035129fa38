"""The service's OpenAPI description: what each path takes and answers."""

from typing import Any

from pydantic import BaseModel

from vitreous.serve import answers
from vitreous.serve.questions import Question

TITLE = "Vitreous"
ABOUT = "Predictions of trained models with their units and intervals, where the models looked, and unit cells."

_FAULTS = {
    401: "the token is missing or wrong",
    403: "the request comes from another site, or names another host",
    404: "no such model, or it is not served",
    413: "the body is too large",
    415: "the content type is neither JSON nor a form",
    422: "the content is wrong",
    429: "too much is waiting; try again",
    503: "no answer within the time limit",
}
_ALWAYS = (401, 403)


def responses(answer: type[BaseModel], *faults: int) -> dict[int | str, dict[str, Any]]:
    """What a path answers, faults and all."""
    told: dict[int | str, dict[str, Any]] = {200: {"model": answer, "description": "the answer"}}
    return told | {status: {"model": answers.Fault, "description": _FAULTS[status]} for status in (*_ALWAYS, *faults)}


def asks(json: type[Question], form: type[Question], several: bool = False) -> dict[str, Any]:
    """The body that a path takes: JSON, or a form with a file, or several."""
    fields = form.model_json_schema()
    file: dict[str, Any] = {"type": "string", "format": "binary"}
    fields["properties"]["file"] = {"type": "array", "items": file, "minItems": 1} if several else file
    fields["required"] = [*fields.get("required", ()), "file"]
    content = {
        "application/json": {"schema": json.model_json_schema()},
        "multipart/form-data": {"schema": fields},
    }
    return {"requestBody": {"required": True, "content": content}}
