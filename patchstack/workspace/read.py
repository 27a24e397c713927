"""Find, read and validate a workspace file."""

from __future__ import annotations

import re
from pathlib import Path

from patchstack.causes import WorkspaceUnusable
from patchstack.workspace.model import (
    FILE_NAME,
    FORMS,
    FULL_ID,
    PLAIN,
    LintPolicy,
    SeriesConfig,
    VariantConfig,
    Waiver,
    Workspace,
    located,
)
from patchstack.workspace.node import Node, read_yaml

PLATFORMS = ("linux/amd64", "linux/arm64")
_ARCH = re.compile(r"[0-9]{2,3}[af]?(-real|-virtual)?\Z")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(|[KMGT]i?B?)\Z", re.IGNORECASE)
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(s|m|min|h)\Z")
_TARGET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def find_workspace(start: Path) -> Path | None:
    """Return the nearest `patchstack.yaml` in a directory or its parents. Return None if none exists."""
    for directory in (start, *start.parents):
        if (directory / FILE_NAME).is_file():
            return directory / FILE_NAME
    return None


def read_workspace(path: Path, *, root: Path | None = None) -> Workspace:
    """Read and validate a workspace file.

    Paths of patches and repositories are relative to `root`, by default the directory of the file. Raises a
    `ConfigError` that lists every problem with its file and line.
    """
    from ruamel.yaml.comments import CommentedMap

    document = read_yaml(path)
    if not isinstance(document, CommentedMap):
        raise WorkspaceUnusable(
            f"{path}:1: the workspace is not a mapping", hint="a workspace file starts with `series:`"
        )
    problems: list[str] = []
    top = Node(document, path, "", problems)
    series = []
    for name, node in (top.mapping("series", required=True) or Node(CommentedMap(), path, "", [])).children():
        series.append(_read_series(name, node, root or path.parent))
    variants = read_variants(top)
    engine = top.text("engine")
    models, suites, workloads = top.mapping("models"), top.mapping("suites"), top.mapping("workloads")
    accept = top.mapping("accept")
    top.finish()
    if not series and not problems:
        problems.append(f"{path}:1: series is empty")
    if problems:
        raise WorkspaceUnusable(f"{path.name} cannot be used", problems=problems)
    return Workspace(
        path=path,
        series=tuple(series),
        variants=variants,
        engine=engine,
        models=models,
        suites=suites,
        workloads=workloads,
        accept=accept,
    )


def _read_series(name: str, node: Node, root: Path) -> SeriesConfig:
    if not _NAME.match(name):
        node.complain(None, "the name of a series may contain only letters, digits, dots, dashes and underscores")
    pin = node.text("pin", required=True)
    if pin and not FULL_ID.match(pin):
        node.complain("pin", "the pin must be a full commit id: 40 lower-case hexadecimal digits")
    fork, fork_ref = node.text("fork"), node.text("fork_ref")
    if (fork is None) != (fork_ref is None):
        node.complain("fork" if fork else "fork_ref", "set both fork and fork_ref, or neither")
    expect = node.text("expect") or ("fork" if fork else "lock")
    if expect not in ("fork", "lock"):
        node.complain("expect", f"{expect!r} is neither fork nor lock")
    elif expect == "fork" and not fork:
        node.complain("expect", "fork is not set")
    patches = node.text("patches", required=True)
    required, suite = _read_sync(node.mapping("sync"))
    config = SeriesConfig(
        name=name,
        patches=Path(located(patches or ".", root)),
        upstream=located(node.text("upstream", required=True) or ".", root),
        pin=pin or "",
        fork=located(fork, root) if fork else None,
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
        checks=tuple(node.items("checks")),
    )
    node.finish()
    return config


def _read_sync(node: Node | None) -> tuple[tuple[tuple[str, ...], ...], str | None]:
    """Return the commands and the suite of `sync:`."""
    if node is None:
        return (), None
    required, suite = node.commands("require"), node.text("suite")
    if suite == "":
        node.complain("suite", "suite is empty")
    node.finish()
    return required, suite


def _form(node: Node) -> str:
    form = node.text("form") or PLAIN
    if form not in FORMS:
        node.complain("form", f"{form!r} is neither plain nor anchored")
    return form


def _context(node: Node) -> int:
    context = node.integer("context", default=3)
    if not 1 <= context <= 25:
        node.complain(
            "context", f"must be between 1 and 25, not {context}: without context, git apply cannot locate a hunk"
        )
    return context


def _read_lint(node: Node | None) -> LintPolicy:
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


def _read_waiver(node: Node) -> Waiver:
    patch = node.integer("patch", default=-1)
    if patch < 0 and node.node.get("patch") is not None:
        node.complain("patch", "must be the number of a patch; a waiver without `patch` is for all patches")
    waiver = Waiver(
        rule=node.text("rule", required=True) or "",
        patch=None if patch < 0 else patch,
        why=node.text("why", required=True) or "",
        file=str(node.path),
        line=(node.node.lc.line or 0) + 1,
    )
    node.finish()
    return waiver


def read_variants_file(path: Path) -> tuple[VariantConfig, ...]:
    """Read the variants in a separate file. Raises a `ConfigError` that lists every problem."""
    from ruamel.yaml.comments import CommentedMap

    document = read_yaml(path)
    problems: list[str] = []
    if not isinstance(document, CommentedMap):
        raise WorkspaceUnusable(f"{path}:1: not a mapping", hint="a file of variants starts with `variants:`")
    top = Node(document, path, "", problems)
    variants = read_variants(top)
    top.finish()
    if problems:
        raise WorkspaceUnusable(f"{path.name} cannot be used", problems=problems)
    return variants


def read_variants(top: Node) -> tuple[VariantConfig, ...]:
    """Read the `variants:` of a document. Problems are added to the node."""
    node = top.mapping("variants")
    return tuple(_read_variant(name, one) for name, one in node.children()) if node is not None else ()


def parse_size(text: str) -> int | None:
    """Return a size in bytes, parsed from text such as `16GiB`, `16G`, `512M` or a plain number.

    Units are powers of 1024. Return None for any other text.
    """
    match = _SIZE.match(text.strip())
    if match is None:
        return None
    power = " KMGT".index(match.group(2)[:1].upper() or " ")
    return int(float(match.group(1)) * 1024**power)


def parse_time(text: str) -> float | None:
    """Return a time in seconds, parsed from text such as `90s`, `30m` or `4h`. Return None for any other text."""
    match = _TIME.match(text.strip())
    return None if match is None else float(match.group(1)) * {"s": 1, "m": 60, "min": 60, "h": 3600}[match.group(2)]


def _read_variant(name: str, node: Node) -> VariantConfig:
    platform, arch, toolkit = node.text("platform"), node.text("arch"), node.text("toolkit")
    if toolkit is not None and not toolkit.startswith("/"):
        node.complain("toolkit", f"{toolkit!r} is not an absolute path on the engine's machine")
    if platform is not None and platform not in PLATFORMS:
        node.complain("platform", f"{platform!r} is not one of {', '.join(PLATFORMS)}")
    if arch is not None and not _ARCH.match(arch):
        node.complain("arch", f"{arch!r} is not a CUDA architecture such as 121a-real; put a number in quotes")
    limits = node.mapping("limits")
    memory, seconds = (limits.text("memory"), limits.text("time")) if limits else (None, None)
    if limits is not None and memory is not None and parse_size(memory) is None:
        limits.complain("memory", f"{memory!r} is not a size such as 16GiB")
    if limits is not None and seconds is not None and parse_time(seconds) is None:
        limits.complain("time", f"{seconds!r} is not a time such as 90s, 30m or 4h")
    optional = node.texts("optional_targets")
    if wrong := [name for name in optional or () if not _TARGET.match(name)]:
        node.complain("optional_targets", f"{wrong[0]!r} is not the name of a CMake target")
    cpus = limits.integer("cpus", default=0) if limits else 0
    jobs = node.integer("jobs", default=0)
    config = VariantConfig(
        name=name,
        origin=f"{node.path.name}: {name}",
        extends=node.text("extends"),
        abstract=node.boolean("abstract"),
        arch=arch,
        platform=platform,
        image=node.text("image"),
        recipe=node.text("recipe"),
        toolkit=toolkit,
        cmake=node.settings("cmake"),
        compile=node.settings("compile"),
        targets=node.texts("targets"),
        optional_targets=optional,
        commit_variable=node.text("commit_variable"),
        memory=parse_size(memory) if memory else None,
        cpus=cpus or None,
        jobs=jobs or None,
        seconds=parse_time(seconds) if seconds else None,
    )
    for mapping in (limits, node):
        if mapping is not None:
            mapping.finish()
    return config
