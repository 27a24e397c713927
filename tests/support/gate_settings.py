"""Settings of a gate, as its kind reads them from YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patchstack.observe.protocol import Model
from patchstack.workspace import read_yaml
from patchstack.workspace.node import Node


def read_settings(kind: Any, directory: Path, text: str) -> tuple[Any, list[str]]:
    """Return the settings that the kind reads from a workspace file, and its complaints. The directory has `t.txt`, and
    the workspace has the models `a` and `b`."""
    path = directory / "patchstack.yaml"
    path.write_text(text)
    (directory / "t.txt").write_text("words")
    problems: list[str] = []
    models = {name: Model(name=name, path=name) for name in ("a", "b")}
    return kind.KIND.read(Node(read_yaml(path), path, "", problems), models), problems
