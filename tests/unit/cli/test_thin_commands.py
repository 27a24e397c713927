"""A command parses, calls one function, renders: its body is short, and nothing else imports the command line."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.checkout import ROOT

PACKAGE = ROOT / "patchstack"
LIMIT = 25


def commands(source: str) -> Iterator[tuple[str, int]]:
    """Return the functions of a module that Typer makes commands of, with the lines of their bodies without
    docstrings."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef):
            continue
        decorators = [ast.unparse(one) for one in node.decorator_list]
        if node.name.endswith("_command") or any(".command" in one or ".callback" in one for one in decorators):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield node.name, (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


FOUND = [
    pytest.param(name, lines, id=f"{path.relative_to(PACKAGE)}:{name}")
    for path in sorted((PACKAGE / "cli").rglob("*.py"))
    for name, lines in commands(path.read_text())
]


@pytest.mark.parametrize(("name", "lines"), FOUND)
def test_no_command_has_a_long_body(name: str, lines: int) -> None:
    assert lines <= LIMIT, f"{name} has {lines} lines: put what it composes into workflow/"


def test_commands_are_found_and_their_lines_counted() -> None:
    assert len(FOUND) > 40
    first = '@app.command("x")\ndef x() -> None:\n    """Do."""\n    one()\n\n    two()\n'
    source = f'{first}\n\ndef y_command():\n    """Do."""\n'
    assert dict(commands(source)) == {"x": 3, "y_command": 0}


def test_nothing_imports_the_command_line_but_itself() -> None:
    importing = []
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        if inside.parts[0] == "cli" or inside.name == "__main__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            importing += [f"{inside}: {name}" for name in names if name.startswith("patchstack.cli")]
    assert importing == []
