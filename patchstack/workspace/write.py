"""Write into a workspace file. Its comments and order stay."""

from __future__ import annotations

import os
from pathlib import Path

from patchstack.errors import ConfigError, UsageError
from patchstack.workspace.mapping import read_yaml
from patchstack.workspace.model import SeriesConfig
from patchstack.workspace.places import is_url
from patchstack.workspace.read import read_workspace


def add_series(path: Path, config: SeriesConfig) -> None:
    """Write a series down, into a new workspace file or an existing one, whose comments and order stay.

    Raises `ConfigError` for a file that cannot be used, `UsageError` where it has a series of that name.
    """
    from io import StringIO

    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

    entry = CommentedMap(
        {"patches": _written(config.patches), "upstream": _written(config.upstream), "pin": config.pin}
    )
    if config.fork is not None:
        entry.update({"fork": _written(config.fork), "fork_ref": config.fork_ref})
    if path.exists():
        if any(series.name == config.name for series in read_workspace(path).series):
            raise UsageError(f"{path} has a series {config.name} already", hint="give another name with --name")
        document = read_yaml(path)
    else:
        document = CommentedMap({"series": CommentedMap()})
        document.yaml_set_start_comment("A patchstack workspace. `patchstack verify` proves that pin + series = fork.")
    document["series"][config.name] = entry
    out = StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.dump(document, out)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(out.getvalue(), encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {error}") from error


def _written(place: str | Path) -> str:
    """A path or URL as it is written into a workspace in the current directory: relative where that is short."""
    text = str(place)
    if is_url(text):
        return text
    relative = os.path.relpath(text)
    return relative if relative.count("..") <= 2 else str(Path(text).absolute())
