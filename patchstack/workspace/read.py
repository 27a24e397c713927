"""Find, read and check a workspace file."""

from __future__ import annotations

import re
from pathlib import Path

from patchstack.errors import ConfigError
from patchstack.workspace.mapping import Mapping, read_yaml
from patchstack.workspace.model import FILE_NAME, FORMS, PLAIN, LintPolicy, SeriesConfig, Waiver, Workspace, located
from patchstack.workspace.variants import read_variants

_FULL_ID = re.compile(r"[0-9a-f]{40}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def find_workspace(start: Path) -> Path | None:
    """The nearest `patchstack.yaml`, in a directory or above it."""
    for directory in (start, *start.parents):
        if (directory / FILE_NAME).is_file():
            return directory / FILE_NAME
    return None


def read_workspace(path: Path) -> Workspace:
    """Read and check a workspace file. Raises `ConfigError` with every complaint, each with file and line."""
    from ruamel.yaml.comments import CommentedMap

    document = read_yaml(path)
    if not isinstance(document, CommentedMap):
        raise ConfigError(f"{path}:1: the workspace is not a mapping", hint="it starts with `series:`")
    problems: list[str] = []
    top = Mapping(document, path, "", problems)
    series = []
    for name, node in (top.mapping("series", required=True) or Mapping(CommentedMap(), path, "", [])).children():
        series.append(_read_series(name, node, path))
    variants = read_variants(top)
    engine = top.text("engine")
    for theirs in ("models", "suites"):  # read where gates are run: what a gate may say is its kind's affair
        top.mapping(theirs)
    top.finish()
    if not series and not problems:
        problems.append(f"{path}:1: series: there are none")
    if problems:
        raise ConfigError(f"{path.name} cannot be used", problems=problems)
    return Workspace(path=path, series=tuple(series), variants=variants, engine=engine)


def _read_series(name: str, node: Mapping, path: Path) -> SeriesConfig:
    if not _NAME.match(name):
        node.complain(None, "a series is named with letters, digits, dots, dashes and underscores")
    pin = node.text("pin", required=True)
    if pin and not _FULL_ID.match(pin):
        node.complain("pin", "the pin is written as a full commit id of 40 lower-case hexadecimal digits")
    fork, fork_ref = node.text("fork"), node.text("fork_ref")
    if (fork is None) != (fork_ref is None):
        node.complain("fork" if fork else "fork_ref", "fork and fork_ref go together")
    expect = node.text("expect") or ("fork" if fork else "lock")
    if expect not in ("fork", "lock"):
        node.complain("expect", f"{expect!r} is neither fork nor lock")
    elif expect == "fork" and not fork:
        node.complain("expect", "there is no fork to expect")
    patches = node.text("patches", required=True)
    required, suite = _read_sync(node.mapping("sync"))
    config = SeriesConfig(
        name=name,
        patches=Path(located(patches or ".", path.parent)),
        upstream=located(node.text("upstream", required=True) or ".", path.parent),
        pin=pin or "",
        fork=located(fork, path.parent) if fork else None,
        fork_ref=fork_ref,
        expect=expect,
        context=_context(node),
        form=_form(node),
        require_pushed=node.boolean("require_pushed"),
        lint=_read_lint(node.mapping("lint")),
        waive=tuple(_read_waiver(one) for one in node.items("waive")),
        variant=node.text("variant"),
        sync_require=required,
        sync_suite=suite,
    )
    node.finish()
    return config


def _read_sync(node: Mapping | None) -> tuple[tuple[tuple[str, ...], ...], str | None]:
    """The commands and the suite."""
    if node is None:
        return (), None
    required, suite = node.commands("require"), node.text("suite")
    if suite == "":
        node.complain("suite", "suite is empty")
    node.finish()
    return required, suite


def _form(node: Mapping) -> str:
    form = node.text("form") or PLAIN
    if form not in FORMS:
        node.complain("form", f"{form!r} is neither plain nor anchored")
    return form


def _context(node: Mapping) -> int:
    context = node.integer("context", default=3)
    if not 1 <= context <= 25:
        node.complain(
            "context", f"{context} is not from 1 to 25: without context, git apply cannot tell where a hunk goes"
        )
    return context


def _read_lint(node: Mapping | None) -> LintPolicy:
    default = LintPolicy()
    if node is None:
        return default
    paths, size = node.mapping("paths"), node.mapping("size")
    policy = LintPolicy(
        allow=(paths.texts("allow") if paths else None) or default.allow,
        deny=(paths.texts("deny") if paths else None) or (),
        scratch=default.scratch if paths is None or (given := paths.texts("scratch")) is None else given,
        additive=node.boolean("additive"),
        trailers=node.texts("trailers") or (),
        patch_kib=size.integer("patch_kib", default=default.patch_kib) if size else default.patch_kib,
        file_lines=size.integer("file_lines", default=default.file_lines) if size else default.file_lines,
    )
    for mapping in (paths, size, node):
        if mapping is not None:
            mapping.finish()
    return policy


def _read_waiver(node: Mapping) -> Waiver:
    patch = node.integer("patch", default=-1)
    if patch < 0 and node.node.get("patch") is not None:
        node.complain("patch", "the number of a patch, or nothing for all of them")
    waiver = Waiver(
        rule=node.text("rule", required=True) or "",
        patch=None if patch < 0 else patch,
        why=node.text("why", required=True) or "",
        file=str(node.path),
        line=(node.node.lc.line or 0) + 1,
    )
    node.finish()
    return waiver
