"""`patchstack.yaml`: the workspace, read and checked once. Every complaint names its line, and all come at once."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchstack.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from ruamel.yaml.comments import CommentedMap

FILE_NAME = "patchstack.yaml"
_FULL_ID = re.compile(r"[0-9a-f]{40}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


SCRATCH = (
    *("*.md", "*.log", "*.gguf", "*.safetensors", "*.nsys-rep", "*.ncu-rep", "*.qdrep", "*.patch", "*.orig", "*.rej"),
    *("*.o", "*.a", "*.so", "*.obj", "*.pyc", "*.swp", "*~", ".DS_Store", "CMakeCache.txt", "compile_commands.json"),
    *("__pycache__/", "CMakeFiles/", ".vscode/", ".idea/", "/build/", "/build-*/", "/cmake-build-*/"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintPolicy:
    """What the rules hold a series against. The defaults ask nothing that a series of any origin could not give.

    Paths are globs as in `.gitignore`: `allow` names all that a patch may touch, `deny` what none may; `scratch` names
    what none may add (files of the pin are free). `additive` forbids to remove or change a line of the pin. `trailers`
    are the keys every message must end with. A patch may have `patch_kib` KiB, and add `file_lines` lines to a file.
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
    """Findings of a rule that are let pass, and why. `patch` is a number; None stands for every patch. `file` and
    `line` are where the waiver is written."""

    rule: str
    patch: int | None
    why: str
    file: str = "patchstack.yaml"
    line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesConfig:
    """One series of the workspace. `upstream` and `fork` are a path or URL, relative paths taken from the workspace;
    `expect` is `fork` or `lock`: what verify compares with. `context` is how many lines export writes around a change,
    `form` is `plain` or `anchored`;
    `require_pushed` lets it refuse a branch that its remote does not have."""

    name: str
    patches: Path
    upstream: str
    pin: str
    fork: str | None
    fork_ref: str | None
    expect: str
    context: int = 3
    form: str = "plain"
    require_pushed: bool = False
    lint: LintPolicy = LintPolicy()
    waive: tuple[Waiver, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A checked `patchstack.yaml`. `root` is its directory."""

    path: Path
    series: tuple[SeriesConfig, ...]

    @property
    def root(self) -> Path:
        return self.path.parent

    def select(self, names: Sequence[str]) -> tuple[SeriesConfig, ...]:
        """The series of those names, in that order; all for none. Raises `UsageError` for a name that is not there."""
        known = {series.name: series for series in self.series}
        unknown = [name for name in names if name not in known]
        if unknown:
            near = difflib.get_close_matches(unknown[0], known, 1)
            hint = f"perhaps you meant {near[0]}" if near else f"{self.path} has {', '.join(known)}"
            raise UsageError(f"there is no series {', '.join(unknown)}", hint=hint)
        return tuple(known[name] for name in names) if names else self.series


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
    top = _Mapping(document, path, "", problems)
    series = []
    for name, node in (top.mapping("series", required=True) or _Mapping(CommentedMap(), path, "", [])).children():
        series.append(_read_series(name, node, path))
    top.finish()
    if not series and not problems:
        problems.append(f"{path}:1: series: there are none")
    if problems:
        raise ConfigError(f"{path.name} cannot be used", problems=problems)
    return Workspace(path=path, series=tuple(series))


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


def read_yaml(path: Path, *, comments: bool = True) -> Any:
    """A YAML document; with `comments` one that keeps them and its line numbers. Raises `ConfigError`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    try:
        return YAML(typ="rt" if comments else "safe").load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line = f":{mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path}{line}: not YAML: {error.problem or error.context}") from error
    except Exception as error:
        # Dates that are none, tags, numbers of thousands of digits, deep nesting: the parser fails in many ways.
        raise ConfigError(f"{path}: not YAML: {type(error).__name__}: {' '.join(str(error).split())[:200]}") from error


def _read_series(name: str, node: _Mapping, path: Path) -> SeriesConfig:
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
    )
    node.finish()
    return config


def _form(node: _Mapping) -> str:
    form = node.text("form") or "plain"
    if form not in ("plain", "anchored"):
        node.complain("form", f"{form!r} is neither plain nor anchored")
    return form


def _context(node: _Mapping) -> int:
    context = node.integer("context", default=3)
    if not 1 <= context <= 25:
        node.complain(
            "context", f"{context} is not from 1 to 25: without context, git apply cannot tell where a hunk goes"
        )
    return context


def _read_lint(node: _Mapping | None) -> LintPolicy:
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


def _read_waiver(node: _Mapping) -> Waiver:
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


def located(repository: str, root: Path) -> str:
    """A repository as configured: a URL as it is, a path taken from the workspace's directory.

    A path below the current directory is given as one writes it there (`./fork`), since it is shown to the user.
    """
    if is_url(repository):
        return repository
    try:
        path = os.path.normpath(root / Path(repository).expanduser())
    except RuntimeError as error:
        raise ConfigError(f"{repository}: {error}") from error
    return path if os.sep in path else os.path.join(os.curdir, path)


def _brief(value: object) -> str:
    """A value for a complaint. Not the whole of a list or mapping: aliases can make that as large as they like."""
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else repr(value)[:80]


def is_url(repository: str) -> bool:
    """Whether git would fetch from it: `scheme://…` or `host:path`."""
    return "://" in repository or bool(re.match(r"[^/\\]{2,}:(?!\\)", repository))


class _Mapping:
    """A YAML mapping being read: typed access, and complaints with the line they are about."""

    def __init__(self, node: CommentedMap, path: Path, where: str, problems: list[str]) -> None:
        self.node = node
        self.path = path
        self.where = where
        self.problems = problems
        self.used: list[str] = []

    def complain(self, key: str | None, text: str) -> None:
        what = f"{self.where}{key}" if key else self.where.rstrip(".")
        self._complain(key, what, text)

    def _complain(self, key: str | None, what: str, text: str) -> None:
        try:
            line = self.node.lc.key(key)[0] if key else self.node.lc.line
        except (AttributeError, KeyError, TypeError):
            line = self.node.lc.line or 0
        self.problems.append(f"{self.path}:{line + 1}: {f'{what}: ' if what else ''}{text}")

    def text(self, key: str, *, required: bool = False) -> str | None:
        value = self._get(key, required)
        if value is None or isinstance(value, str):
            return str(value) if value is not None else None
        scalar = not isinstance(value, dict | list)
        self.complain(key, f"{_brief(value)} is not text" + ("; put it in quotes" if scalar else ""))
        return None

    def integer(self, key: str, *, default: int) -> int:
        value = self._get(key, required=False)
        if value is None or type(value) is int:
            return default if value is None else value
        self.complain(key, f"{_brief(value)} is not a whole number")
        return default

    def boolean(self, key: str) -> bool:
        value = self._get(key, required=False)
        if value is None or type(value) is bool:
            return bool(value)
        self.complain(key, f"{_brief(value)} is neither true nor false")
        return False

    def mapping(self, key: str, *, required: bool = False) -> _Mapping | None:
        value = self._get(key, required)
        return self._as_mapping(key, value) if value is not None else None

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of texts; an empty one is one."""
        value = self._get(key, False)
        if value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            return None if value is None else tuple(map(str, value))
        self.complain(key, "not a list of texts")
        return None

    def items(self, key: str) -> list[_Mapping]:
        """The mappings of a list."""
        value = self._get(key, False)
        if not isinstance(value, list):
            if value is not None:
                self.complain(key, "not a list")
            return []
        found = [self._as_mapping(key, one) for one in value]
        return [one for one in found if one is not None]

    def children(self) -> list[tuple[str, _Mapping]]:
        """Every key with the mapping it holds."""
        found = []
        for key in self.node:
            child = self._as_mapping(key, self.node[key])
            if child is not None:
                found.append((str(key), child))
        return found

    def finish(self) -> None:
        """Complain about keys nobody asked for."""
        for key in self.node:
            if key not in self.used:
                near = difflib.get_close_matches(str(key), self.used, 1)
                hint = f", perhaps you meant {near[0]}" if near else f" (known: {', '.join(self.used)})"
                self._complain(key, f"{self.where}{key}", f"unknown key{hint}")

    def _get(self, key: str, required: bool) -> Any:
        self.used.append(key)
        value = self.node.get(key)
        if value is None and (required or key in self.node):
            self.complain(key if key in self.node else None, f"{key} is {'empty' if key in self.node else 'missing'}")
        return value

    def _as_mapping(self, key: str, value: object) -> _Mapping | None:
        from ruamel.yaml.comments import CommentedMap

        if isinstance(value, CommentedMap):
            return _Mapping(value, self.path, f"{self.where}{key}.", self.problems)
        self.complain(key, "not a mapping of keys to values")
        return None
