"""Find the files and documents that the texts of a package name, and those that do not exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_FILE = re.compile(
    r"(?<![\w./{}-])(?:"
    r"(?:docs|ci|\.ci|\.github|builders|benchmarks|examples|tests|patchstack)/[\w./-]*\w"
    r"|[\w-]+\.(?:md|rst|sh)\b"
    r"|README|CONTRIBUTING|CHANGELOG|Makefile|(?<![\w-])make (?:demo|test|docs|check|package|models)\b"
    r")"
)
_WRITTEN = {
    "body.md": "patchstack ci writes it",
    "gates.md": "gate run --report writes it",
    "patchstack/client": "an image",
    "patchstack/cpu": "an image",
    "patchstack/cuda": "an image",
    "make test": "an example of a command of the user's own: bisect --run",
}
"""Names that look like a file of the package but are not."""
_STORIES = ("demo/story/",)
"""Texts about another tree: the demo's upstream."""


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that a user may see: all but docstrings, and the docstrings of commands, with
    lines."""
    tree = ast.parse(source)
    hidden = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            hidden.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_command"):
            yield node.lineno, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            yield node.lineno, node.value


def named_files(package: Path) -> list[tuple[str, str]]:
    """Return each file that a text of the package names: `module:line`, and the name."""
    found = []
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).as_posix()
        if not module.startswith(_STORIES):
            for line, text in texts(path.read_text(encoding="utf-8")):
                found += [(f"{module}:{line}", match[0]) for match in _FILE.finditer(text)]
    return found


def missing_files(package: Path) -> list[str]:
    """`module:line: name` of each named file that is neither in the package nor written by it."""
    return [
        f"{where}: {name}"
        for where, name in named_files(package)
        if name not in _WRITTEN and not (package / name.removeprefix("patchstack/")).exists()
    ]
