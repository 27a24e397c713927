"""The models of a workspace, by the names that gates and workloads use."""

from __future__ import annotations

import re
from pathlib import Path

from patchstack.observe.protocol import Model
from patchstack.workspace import Workspace

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def read_models(workspace: Workspace, problems: list[str]) -> dict[str, Model]:
    """Return the models of a workspace by their names. Complaints are added to `problems`."""
    found = {}
    for name, one in workspace.models.complaining_to(problems).children() if workspace.models is not None else ():
        path, digest = one.text("path", required=True), one.text("sha256")
        if digest is not None and not _DIGEST.match(digest):
            one.complain("sha256", "not 64 lower-case hexadecimal digits")
        place = Path(path or ".").expanduser()
        found[name] = Model(
            name=name,
            path=str((workspace.root / place).absolute()),  # an absolute path is not changed
            sha256=digest,
            what=one.text("what") or "",
        )
        one.finish()
    return found
