"""Define the validated contents of `patchstack.yaml`, and resolve its repositories and paths."""

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
"""The patch formats that export can write."""

SCRATCH = (
    *("*.md", "*.log", "*.gguf", "*.safetensors", "*.nsys-rep", "*.ncu-rep", "*.qdrep", "*.patch", "*.orig", "*.rej"),
    *("*.o", "*.a", "*.so", "*.obj", "*.pyc", "*.swp", "*~", ".DS_Store", "CMakeCache.txt", "compile_commands.json"),
    *("__pycache__/", "CMakeFiles/", ".vscode/", ".idea/", "/build/", "/build-*/", "/cmake-build-*/"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintPolicy:
    """The settings of the lint rules. The defaults suit any series.

    Paths are globs as in `.gitignore`. `allow` lists the paths that patches may touch. `deny` lists the paths that
    patches must not touch. `scratch` lists the files that patches must not add. Files of the pin are exempt from
    `scratch`. With `additive`, patches must not remove or change a line of the pin. `trailers` lists the keys of the
    trailers that every message must have. `patch_kib` is the maximum size of a patch, in KiB. `file_lines` is the
    maximum number of lines that a patch may add to a file.
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
    """A waiver of findings.

    `rule` is the rule whose findings are accepted, and `why` is the reason. `patch` is the number of the patch; None
    means every patch. `file` and `line` are the location of the waiver.
    """

    rule: str
    patch: int | None
    why: str
    file: str = "patchstack.yaml"
    line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantConfig:
    """A build variant, as written in the file.

    If a value is None, the variant inherits it from the variant in `extends`. The definitions in `cmake` and `compile`
    are added to the inherited ones.

    - `abstract`: the variant exists only to be extended.
    - `arch`: a CUDA architecture in CMake's notation (`121a-real`).
    - `platform`: `linux/amd64` or `linux/arm64`.
    - `image`: a container image; `recipe`: the directory from which it is built.
    - `toolkit`: the path of a CUDA toolkit on the engine's machine.
    - `cmake`: definitions for CMake's cache; `compile`: definitions for the compilers.
    - `optional_targets`: targets that are built only if the source tree has them, for programs that a patch adds.
    - `commit_variable`: the CMake variable that puts the build key into the binaries.
    - `memory`: the memory limit in bytes; `seconds`: the limit for the wall time.
    - `origin`: the file and name of the variant.
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
    """A series of the workspace.

    - `upstream` and `fork`: a path or a URL. Paths are relative to the workspace.
    - `expect`: `fork` or `lock`. Verify compares the series with this source.
    - `context`: the number of context lines in exported patches.
    - `form`: `plain` or `anchored`.
    - `require_pushed`: export and accept refuse a branch whose commits are not on its remote.
    - `variant`: the default variant for `build`.
    - `sync_require`: commands that must succeed before `sync` moves the pin. Each command is a list of words.
    - `sync_suite`: the suite whose gates must return PASS before `sync` moves the pin.
    - `checks`: the entries of the checks. Their settings are validated when the checks run.
    - `listed`: false for a series that is given on the command line. Such a series is in no workspace.
    """

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
    """A validated `patchstack.yaml`. `root` is its directory. `engine` is the engine for builds and gates.

    `models`, `suites`, `workloads` and `accept` are validated later, by the code that uses them. `policy` describes the
    trusted source of the settings; it is None if the settings come from `path`. With a policy, `words` is the trusted
    file that was read, and `not_used` lists the settings in which `path` differs from the trusted file.
    """

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
        """The file from which the settings were read.

        The paths of other files in the settings are relative to the directory of this file.
        """
        return self.words or self.path

    def select(self, names: Sequence[str]) -> tuple[SeriesConfig, ...]:
        """Return the series with these names, in the given order. Return all series if no name is given.

        Raises `UsageError` for an unknown name.
        """
        known = {series.name: series for series in self.series}
        unknown = [name for name in names if name not in known]
        if unknown:
            near = difflib.get_close_matches(unknown[0], known, 1)
            hint = f"perhaps you meant {near[0]}" if near else f"series in {self.path}: {', '.join(known)}"
            raise UnknownName(f"there is no series {', '.join(unknown)}", hint=hint)
        return tuple(known[name] for name in names) if names else self.series


def located(repository: str, root: Path) -> str:
    """Return a repository as a URL or path that git can use.

    A URL is returned unchanged. A relative path starts at `root`. A result without a slash gets the prefix `./`, so
    that git reads it as a path. Raises `ConfigError` if the home directory for `~` is unknown.
    """
    if is_url(repository):
        return repository
    try:
        path = os.path.normpath(root / Path(repository).expanduser())
    except RuntimeError as error:
        raise WorkspaceUnusable(f"cannot expand the path {repository}: {error}") from error
    return path if os.sep in path else os.path.join(os.curdir, path)


def is_url(repository: str) -> bool:
    """Return whether git reads the string as a URL: `scheme://…` or `host:path`."""
    return "://" in repository or bool(re.match(r"[^/\\]{2,}:(?!\\)", repository))
