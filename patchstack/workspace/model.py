"""The checked values of `patchstack.yaml`, with the repositories and paths that it names."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchstack.causes import UnknownName, WorkspaceUnusable
from patchstack.workspace.node import Node

FILE_NAME = "patchstack.yaml"
FULL_ID = re.compile(r"[0-9a-f]{40}\Z")
PLAIN, ANCHORED = FORMS = ("plain", "anchored")
"""The forms in which export writes the patches of a series."""

SCRATCH = (
    *("*.md", "*.log", "*.gguf", "*.safetensors", "*.nsys-rep", "*.ncu-rep", "*.qdrep", "*.patch", "*.orig", "*.rej"),
    *("*.o", "*.a", "*.so", "*.obj", "*.pyc", "*.swp", "*~", ".DS_Store", "CMakeCache.txt", "compile_commands.json"),
    *("__pycache__/", "CMakeFiles/", ".vscode/", ".idea/", "/build/", "/build-*/", "/cmake-build-*/"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintPolicy:
    """The settings of the lint rules. A series of any origin can satisfy the defaults. Paths are globs as in
    `.gitignore`: `allow` names the paths that patches may touch, `deny` those they must not touch; `scratch` names
    files they must not add (files of the pin are exempt). `additive` forbids to remove or change a line of the pin.
    `trailers` are the keys every message must end with. A patch may have `patch_kib` KiB, and add `file_lines` lines to
    a file.
    """

    allow: tuple[str, ...] = ("**",)
    deny: tuple[str, ...] = ()
    scratch: tuple[str, ...] = SCRATCH
    additive: bool = False
    trailers: tuple[str, ...] = ()
    patch_kib: int = 1024
    file_lines: int = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A waiver for findings of a rule, with the reason. `patch` is a number, None for every patch. `file` and `line`
    are the location of the waiver."""

    rule: str
    patch: int | None
    why: str
    file: str = "patchstack.yaml"
    line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantConfig:
    """One way to build, as written in the file; None and empty values are taken from the variant it `extends`. An
    `abstract` variant is only for extending. `arch` is a CUDA architecture as CMake writes it (`121a-real`); `platform`
    is `linux/amd64` or `linux/arm64`; `image` names a container image, `recipe` the directory from which it is built,
    `toolkit` a CUDA toolkit on the engine's machine. `cmake` and `compile` are definitions for CMake's cache and for
    the compilers; `commit_variable` is the CMake variable that carries the build key into the binaries.
    `optional_targets` are built if the source tree has them: programs that a patch of the series adds. `memory` is in
    bytes, `seconds` is wall time. `origin` is the location of the definition.
    """

    name: str
    origin: str
    extends: str | None = None
    abstract: bool = False
    arch: str | None = None
    platform: str | None = None
    image: str | None = None
    recipe: str | None = None
    toolkit: str | None = None
    cmake: tuple[tuple[str, str], ...] = ()
    compile: tuple[tuple[str, str], ...] = ()
    targets: tuple[str, ...] | None = None
    optional_targets: tuple[str, ...] | None = None
    commit_variable: str | None = None
    memory: int | None = None
    cpus: float | None = None
    jobs: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesConfig:
    """One series of the workspace. `upstream` and `fork` are a path or URL, with paths relative to the workspace;
    `expect` is what verify compares with: `fork` or `lock`. `context` is how many lines export writes around a change,
    `form` is `plain` or `anchored`; with `require_pushed` export and accept refuse a branch that its remote does not
    have; `variant` is the default variant of `build`; `sync_require` are commands, each a list of words, that must
    succeed before `sync` moves the pin; `sync_suite` is the suite whose gates must PASS then. `checks` are only parsed;
    their kinds check the settings when they are run. `listed` is false for a series given on the command line, which is
    in no workspace, so that commands cannot find it by name."""

    name: str
    patches: Path
    upstream: str
    pin: str
    fork: str | None
    fork_ref: str | None
    expect: str
    context: int = 3
    form: str = PLAIN
    require_pushed: bool = False
    lint: LintPolicy = LintPolicy()
    waive: tuple[Waiver, ...] = ()
    variant: str | None = None
    sync_require: tuple[tuple[str, ...], ...] = ()
    sync_suite: str | None = None
    checks: tuple[Node, ...] = field(default=(), repr=False, compare=False)
    listed: bool = True

    @property
    def anchored(self) -> bool:
        return self.form == ANCHORED


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A checked `patchstack.yaml`. `root` is its directory; `engine` is where builds and gates run. `models`, `suites`,
    `workloads` and `accept` (the requirements of a candidate) are only parsed; their kinds check them when they are
    run. `policy` is the source of the settings if it is not the file at `path`. The work tree is then not trusted:
    `words` is the file with the settings, and `not_used` are the settings in which the file at `path` differs."""

    path: Path
    series: tuple[SeriesConfig, ...]
    variants: tuple[VariantConfig, ...] = ()
    engine: str | None = None
    models: Node | None = field(default=None, repr=False, compare=False)
    suites: Node | None = field(default=None, repr=False, compare=False)
    workloads: Node | None = field(default=None, repr=False, compare=False)
    accept: Node | None = field(default=None, repr=False, compare=False)
    policy: str | None = None
    words: Path | None = None
    not_used: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        return self.path.parent

    @property
    def words_file(self) -> Path:
        """The file with the settings. Files named in the settings are next to it."""
        return self.words or self.path

    def select(self, names: Sequence[str]) -> tuple[SeriesConfig, ...]:
        """Return the series of those names, in that order; all if no name is given. Raises `UsageError` for an unknown
        name."""
        known = {series.name: series for series in self.series}
        unknown = [name for name in names if name not in known]
        if unknown:
            near = difflib.get_close_matches(unknown[0], known, 1)
            hint = f"perhaps you meant {near[0]}" if near else f"{self.path} has {', '.join(known)}"
            raise UnknownName(f"there is no series {', '.join(unknown)}", hint=hint)
        return tuple(known[name] for name in names) if names else self.series


def located(repository: str, root: Path) -> str:
    """Return a configured repository: a URL unchanged, a path resolved from the workspace's directory. A path below the
    current directory is relative to it (`./fork`), because it is shown to the user.
    """
    if is_url(repository):
        return repository
    try:
        path = os.path.normpath(root / Path(repository).expanduser())
    except RuntimeError as error:
        raise WorkspaceUnusable(f"{repository}: {error}") from error
    return path if os.sep in path else os.path.join(os.curdir, path)


def is_url(repository: str) -> bool:
    """Return whether it is a URL for git: `scheme://…` or `host:path`."""
    return "://" in repository or bool(re.match(r"[^/\\]{2,}:(?!\\)", repository))
