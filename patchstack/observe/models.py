"""Read the models of a workspace, by the names that gates and workloads use."""

from __future__ import annotations

import re
from pathlib import Path

from patchstack.files.regular import same_content
from patchstack.observe.protocol import Model
from patchstack.workspace import Workspace
from patchstack.workspace.policy import leads_out

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def read_models(workspace: Workspace, problems: list[str]) -> dict[str, Model]:
    """Return the models of a workspace by name. Complaints are added to `problems`."""
    found = {}
    for name, one in workspace.models.complaining_to(problems).children() if workspace.models is not None else ():
        path, digest = one.text("path", required=True), one.text("sha256")
        if digest is not None and not _DIGEST.match(digest):
            one.complain("sha256", "must be 64 lower-case hexadecimal digits")
        root = workspace.root
        place = Path(path or ".").expanduser()  # if it is absolute, `root / place` is the same path
        if workspace.policy is not None and not place.is_absolute():
            root, problem = _trusted_root(workspace, place, digest)
            if problem:
                one.complain("path", problem)
        found[name] = Model(
            name=name,
            path=str((root / place).absolute()),
            sha256=digest,
            what=one.text("what") or "",
        )
        one.finish()
    return found


def _trusted_root(workspace: Workspace, place: Path, digest: str | None) -> tuple[Path, str]:
    """Return the directory to which a relative path in a policy refers, and the problem with the path.

    The problem is an empty string if the path can be used.

    A file that exists next to the policy is trusted. Any other file comes from the work tree, which the proposed
    change can modify, so its digest must be given.
    """
    own, here = workspace.words_file.parent, workspace.root
    if own.resolve() != here.resolve() and (own / place).is_file():
        return (here if same_content(own / place, here / place) else own), ""
    if digest is None:
        why = "the change could replace this model: give its sha256 or an absolute path, or commit it with the policy"
        return here, f"{place}: {why}"
    if leads_out(here / place, here):
        return here, f"{place} is outside the workspace: give an absolute path"
    return here, ""
