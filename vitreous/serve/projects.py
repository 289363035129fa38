"""Projects for refinement programs in the response of `/v1/index`: the files of each as one ZIP archive."""

import base64
import io
import zipfile
from collections.abc import Sequence
from typing import Any

from vitreous.powder.projects import PROJECTS, available_projects, project_contents
from vitreous.powder.solution import IndexResult

_NAME = "start"  # of all files of a project: nothing of a client's file name is used
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest of a ZIP archive: equal projects are equal bytes


def project_records(result: IndexResult, programs: Sequence[str]) -> list[dict[str, Any]]:
    """The projects for some programs, as `vitreous index --project` writes them; none without a refinement.

    Their size is bounded by the number of points of the pattern.
    """
    if result.best is None or result.fit is None:
        return []
    suffixes, records = available_projects(), list[dict[str, Any]]()
    for program in dict.fromkeys(programs):
        suffix = suffixes[program]
        contents = project_contents(result.best, _NAME + suffix, result.pattern, result.second)
        advice, phases = PROJECTS[suffix].advice.format(name=_NAME), min(PROJECTS[suffix].phases, len(result.phases))
        archive = base64.b64encode(_archive(contents)).decode()
        record = {"program": program, "phases": phases, "files": list(contents), "advice": advice, "archive": archive}
        records.append(record)
    return records


def _archive(contents: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.external_attr = 0o644 << 16  # permissions
            archive.writestr(info, content.encode(), zipfile.ZIP_DEFLATED)
    return stream.getvalue()
