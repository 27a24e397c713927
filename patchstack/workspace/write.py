"""Change a workspace file, and preserve its comments and order."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchstack.causes import AlreadyExists, WorkspaceNotChanged
from patchstack.files.atomic import replace_file
from patchstack.workspace.model import SeriesConfig, is_url
from patchstack.workspace.node import read_yaml
from patchstack.workspace.read import read_workspace

_INDENTED = re.compile(r"^( *)[A-Za-z_]+:[ ]*\n(?: *#[^\n]*\n)*\1 +- ", re.MULTILINE)
"""Matches a list that is indented below its key."""
_WORDS = ("true", "false", "yes", "no", "on", "off", "null")


def add_series(path: Path, config: SeriesConfig) -> None:
    """Add a series to a new or existing workspace file. Comments and order are preserved.

    Raises `ConfigError` if the file cannot be used, and `UsageError` if the file already has a series with this name.
    """
    from io import StringIO

    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

    entry = CommentedMap(
        {"patches": _written(config.patches), "upstream": _written(config.upstream), "pin": config.pin}
    )
    if config.fork is not None:
        entry.update({"fork": _written(config.fork), "fork_ref": config.fork_ref})
    if config.waive:
        entry["waive"] = [
            CommentedMap({"rule": one.rule, **({} if one.patch is None else {"patch": one.patch}), "why": one.why})
            for one in config.waive
        ]
    if path.exists():
        if any(series.name == config.name for series in read_workspace(path).series):
            raise AlreadyExists(
                f"{path} already has a series {config.name}", hint="choose a different name with --name"
            )
        document = read_yaml(path)
    else:
        document = CommentedMap({"series": CommentedMap()})
        document.yaml_set_start_comment("A patchstack workspace. `patchstack verify` proves that pin + series = fork.")
    document["series"][config.name] = entry
    out = StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.dump(document, out)
    _replace(path, out.getvalue())


def move_pin(path: Path, name: str, pin: str, fork_ref: str | None) -> None:
    """Change the pin of a series, and also its `fork_ref` if a new one is given.

    All other bytes of the file are preserved. Raises `ConfigError` if the file cannot be used, or if an old value is
    written in an unsupported form.
    """
    wanted = {"pin": pin} if fork_ref is None else {"pin": pin, "fork_ref": fork_ref}
    with path.open(encoding="utf-8", newline="") as file:
        text = file.read()
    lines = text.split("\n")
    node = read_yaml(path)["series"][name]
    # Edit from the end, so that the other positions stay valid.
    for key, value in sorted(wanted.items(), key=lambda item: node.lc.value(item[0]), reverse=True):
        old = str(node[key])
        if old == value:
            continue
        line, column = node.lc.value(key)
        rest = lines[line][column:] if line < len(lines) else ""
        quote = rest[:1] if rest[:1] in ("'", '"') else ""
        if not rest.startswith(f"{quote}{old}{quote}"):
            raise WorkspaceNotChanged(
                f"{path}:{line + 1}: {key} has an unsupported form and was not changed",
                hint=f"edit the file: set {key} of series {name} to {value}",
            )
        lines[line] = lines[line][:column] + _scalar(value, quote) + rest[len(old) + 2 * len(quote) :]
    changed = "\n".join(lines)
    if changed != text:
        _replace(path, changed)


def write_sites(path: Path, series: str, check: str, sites: Mapping[str, Sequence[str]], note: str) -> None:
    """Write the recorded sites of a check to a workspace file.

    `sites` maps each file to its sites (see `patchstack.checks.kinds.sites`). `note` states when and why the sites were
    recorded. All other settings are preserved. Raises `ConfigError` if the file cannot be used, or has no such check.
    """
    from io import StringIO

    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    document = read_yaml(path)
    try:
        entry = next(one for one in document["series"][series]["checks"] if one["name"] == check)
    except (KeyError, TypeError, StopIteration) as error:
        raise WorkspaceNotChanged(f"cannot write the sites: {path} has no check {check} in series {series}") from error
    entry.fa.set_block_style()
    entry["recorded"] = note
    written = CommentedMap()
    for file, names in sites.items():
        written[file] = CommentedSeq(names)
        written[file].fa.set_block_style()
    entry["sites"] = written
    entry.move_to_end("sites")
    out = StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.preserve_quotes = True
    if _INDENTED.search(path.read_text(encoding="utf-8")):
        yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(document, out)
    _replace(path, out.getvalue())


def _scalar(value: str, quote: str) -> str:
    """Return a string as a YAML scalar.

    `quote` is the quotation mark around the old value, or empty. If it is empty, the string is quoted only if YAML
    might read the plain string as a different value.
    """
    plain = re.fullmatch(r"[A-Za-z0-9_./-]+", value) and re.search(r"[a-zA-Z]", value)
    number = re.fullmatch(r"[-+.0-9eE_]+|0[xo].*", value) or value.lower() in _WORDS
    if quote or not plain or number or value.startswith("-"):
        quote = quote or '"'
    return f"{quote}{value}{quote}"


def _replace(path: Path, text: str) -> None:
    path = path.resolve()
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise WorkspaceNotChanged(f"{path} cannot be written: {error.strerror or error}") from error


def _written(place: str | Path) -> str:
    """Convert a path or URL to the text for a workspace file in the current directory.

    A path becomes relative if the relative path goes up at most two directories. Otherwise, it becomes absolute.
    """
    text = str(place)
    if is_url(text):
        return text
    relative = os.path.relpath(text)
    return relative if relative.count("..") <= 2 else str(Path(text).absolute())
