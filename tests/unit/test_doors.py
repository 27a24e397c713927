"""Some things are done in one module only. The source of every module is checked, and so are planted violations."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from tests.support.checkout import ROOT

PACKAGE = ROOT / "patchstack"
Finder = Callable[[ast.AST], Iterator[ast.AST]]


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a tree. Every door passes through all modules."""
    return tuple(ast.walk(tree))


def imports(*modules: str) -> Finder:
    """Find imports of modules, or of anything in them."""

    def find(tree: ast.AST) -> Iterator[ast.AST]:
        for node in nodes(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            if any(name == module or name.startswith(f"{module}.") for name in names for module in modules):
                yield node

    return find


def members(module: str, *names: str) -> Finder:
    """Find members of a module by their names, called or not, also those imported from it."""

    def find(tree: ast.AST) -> Iterator[ast.AST]:
        for node in nodes(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == module and name in names:
                    yield node
                case ast.ImportFrom(module=owner) if owner == module and {one.name for one in node.names} & {*names}:
                    yield node

    return find


def methods(*names: str) -> Finder:
    """Find attributes of these names, on any object."""

    def find(tree: ast.AST) -> Iterator[ast.AST]:
        for node in nodes(tree):
            if isinstance(node, ast.Attribute) and node.attr in names:
                yield node

    return find


def either(*finders: Finder) -> Finder:
    """Find what any of the finders finds."""

    def find(tree: ast.AST) -> Iterator[ast.AST]:
        for finder in finders:
            yield from finder(tree)

    return find


def path_replace(tree: ast.AST) -> Iterator[ast.AST]:
    """Find `path.replace(target)`. `replace` of a text takes two arguments, that of a dataclass or a time keywords."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
            keywords = [keyword.arg for keyword in node.keywords]
            if (len(node.args), keywords) in ((1, []), (0, ["target"])):
                yield node


def signal_zero(tree: ast.AST) -> Iterator[ast.AST]:
    """Find `os.kill(pid, 0)` and `os.killpg(group, 0)`, which only ask."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and called(node) in ("kill", "killpg") and len(node.args) == 2:
            signal = node.args[1]
            if isinstance(signal, ast.Constant) and signal.value == 0:
                yield node


def proc_paths(tree: ast.AST) -> Iterator[ast.AST]:
    """Find texts, and parts of f-strings, that are /proc or a path below it. Shell scripts have blanks or lines in
    them; a text that is a statement is documentation."""
    documentation = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr)}
    for node in nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in documentation:
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if (text == "/proc" or text.startswith("/proc/")) and not any(letter.isspace() for letter in text):
                yield node


def sorted_json(tree: ast.AST) -> Iterator[ast.AST]:
    """Find `dumps` and `dump` with `sort_keys`."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and called(node) in ("dumps", "dump", "JSONEncoder"):
            keywords = [keyword.arg for keyword in node.keywords]
            if "sort_keys" in keywords:
                yield node


def git_commands(tree: ast.AST) -> Iterator[ast.AST]:
    """Find lists that begin with the text `git`, and such tuples in calls. A stored tuple may be a list of tools."""
    given = set()
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            given |= {id(one.value if isinstance(one, ast.Starred) else one) for one in arguments}
    for node in nodes(tree):
        if isinstance(node, ast.List) or (isinstance(node, ast.Tuple) and id(node) in given):
            first = node.elts[0] if node.elts else None
            if isinstance(first, ast.Starred) and isinstance(first.value, ast.Tuple | ast.List):
                first = first.value.elts[0] if first.value.elts else None
            if isinstance(first, ast.Constant) and first.value == "git":
                yield node


def called(node: ast.Call) -> str:
    """Return the last name of the called object."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Something that only the modules `where` do. `find` must find it in each source of `breaches`, and in none of
    `innocent`, which look similar."""

    what: str
    find: Finder
    where: tuple[str, ...]
    breaches: tuple[str, ...]
    innocent: tuple[str, ...] = ("'x' + 'y'",)


DOORS = (
    Door(
        what="starts programs",
        find=either(
            imports("subprocess", "multiprocessing", "pty"),
            members(
                "os", "system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "execv", "execvp", "execve"
            ),
        ),
        where=("process.py",),
        breaches=(
            "import subprocess",
            "import os, subprocess as programs",
            "def late():\n    from subprocess import Popen",
            "os.system('true')",
            "from os import execvp",
        ),
        innocent=("from patchstack import process", "import subprocessing", "'import subprocess'", "os.getpid()"),
    ),
    Door(
        what="runs git",
        find=git_commands,
        where=("git/run.py",),
        breaches=(
            "run(['git', 'status'])",
            "run(('git', *args), env=env)",
            "run(args=['git'])",
            "run(*('git', 'status'))",
            "run([*('git', '-C', where), *args])",
            "command = ['git', '-C', where]",
        ),
        innocent=("TOOLS = ('git', 'cmake')", "run(['gitk'])", "run([program, 'git'])", "run([])", "x.split('git')"),
    ),
    Door(
        what="renames, over a file that may exist",
        find=either(
            members("os", "replace", "rename", "renames"), methods("rename"), path_replace, members("shutil", "move")
        ),
        where=("files/atomic.py",),
        breaches=(
            "os.replace(draft, path)",
            "os.rename(draft, path)",
            "from os import replace",
            "draft.replace(path)",
            "(stage / name).replace(target=path)",
            "draft.rename(path)",
            "each(draft.rename)",
            "shutil.move(draft, path)",
        ),
        innocent=(
            "text.replace('a', 'b')",
            "dataclasses.replace(value, name='x')",
            "replace(value)",
            "time.replace(tzinfo=UTC)",
            "put_in_place(draft, path)",
        ),
    ),
    Door(
        what="lets two directories change places",
        find=methods("renameat2", "renamex_np"),
        where=("files/journal.py",),  # the system calls that do it; no function of os does
        breaches=("libc.renameat2(-100, a, -100, b, 2)", "ctypes.CDLL(None).renamex_np(a, b, 2)"),
    ),
    Door(
        what="takes locks",
        find=either(imports("fcntl"), members("os", "lockf")),
        where=("files/lock.py",),
        breaches=("import fcntl", "from fcntl import flock", "os.lockf(descriptor, os.F_LOCK, 0)"),
        innocent=("from patchstack.files.lock import locked", "'flock -n 9'"),
    ),
    Door(
        what="asks whether a process is alive",
        find=signal_zero,
        where=("files/processes.py",),
        breaches=("os.kill(pid, 0)", "kill(pid, 0)", "os.killpg(group, 0)"),
        innocent=("os.kill(pid, signal.SIGKILL)", "os.kill(0, 9)", "child.kill()"),
    ),
    Door(
        what="reads /proc",
        find=proc_paths,
        where=(
            "files/processes.py",
            "engine/docker/sandbox.py",  # names the paths of a machine that no container may get; reads none of them
            "llama/client/watch.py",  # asks about itself; it runs without the rest of patchstack
        ),
        breaches=(
            "open('/proc/stat')",
            "Path(f'/proc/{pid}/stat')",
            "Path('/proc') / name",
            "os.open(b'/proc/1/cwd', 0)",
        ),
        innocent=(
            '"/proc/stat"',
            'def f():\n    "/proc/PID/stat, of which the third field counts"',
            "SCRIPT = '/proc/self/exe --version'",
            "SCRIPT = '\\ncat /proc/stat\\n'",
            "'/process'",
        ),
    ),
    Door(
        what="writes JSON with sorted keys",
        find=sorted_json,
        where=("canonical.py",),
        breaches=(
            "json.dumps(value, sort_keys=True)",
            "dumps(value, indent=2, sort_keys=order)",
            "json.dump(value, file, sort_keys=True)",
            "json.JSONEncoder(sort_keys=True)",
        ),
        innocent=("json.dumps(value)", "sorted(value)", "canonical(value)"),
    ),
)


@pytest.fixture(scope="module", autouse=True)
def forgotten_afterwards() -> Iterator[None]:
    """Forget the syntax trees of the package afterwards, which take hundreds of megabytes."""
    yield
    sources.cache_clear()
    nodes.cache_clear()


EVERY_DOOR = [pytest.param(door, id=door.what) for door in DOORS]


@cache
def sources() -> dict[str, ast.Module]:
    """Return every module of the package, by its path in it."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def found(door: Door, tree: ast.AST) -> list[int]:
    """Return the lines in which a module does what only a door may do."""
    return sorted({getattr(node, "lineno", 0) for node in door.find(tree)})


def test_every_module_is_read() -> None:
    assert {"process.py", "files/atomic.py", "cli/ci/action.py"} <= sources().keys()
    assert len(sources()) > 200


@pytest.mark.parametrize("door", EVERY_DOOR)
def test_what_has_a_door_is_done_there_only(door: Door) -> None:
    using = {name: found(door, tree) for name, tree in sources().items()}
    outside = [f"patchstack/{name}:{line}" for name, lines in using.items() if name not in door.where for line in lines]
    assert outside == [], f"only {' and '.join(door.where)} {door.what}"
    assert any(using.get(name) for name in door.where), f"nothing {door.what}: is the check blind?"


@pytest.mark.parametrize(
    ("door", "source"), [pytest.param(door, one, id=f"{door.what}: {one}") for door in DOORS for one in door.breaches]
)
def test_a_planted_breach_is_found_with_its_line(door: Door, source: str) -> None:
    above = '"""A module."""\n\nimport os\n'
    assert found(door, ast.parse(above)) == []
    last = above.count("\n") + source.count("\n") + 1
    assert found(door, ast.parse(above + source)) == [last]


@pytest.mark.parametrize(
    ("door", "source"), [pytest.param(door, one, id=f"{door.what}: {one}") for door in DOORS for one in door.innocent]
)
def test_what_only_looks_like_a_breach_is_not_found(door: Door, source: str) -> None:
    assert found(door, ast.parse(source)) == []
