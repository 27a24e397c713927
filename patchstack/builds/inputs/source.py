"""The source of a build: the tree of a series or of its first patches, or the files of a directory."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from patchstack.causes import BadPath, PatchDoesNotApply, SourceMissing
from patchstack.engine.archive import Entry
from patchstack.errors import PatchstackError
from patchstack.git import run as git
from patchstack.git.objects import EMPTY_TREE, Objects
from patchstack.git.overlay import DIRECTORY, EXECUTABLE, FILE, SUBMODULE, SYMLINK, TreeOverlay
from patchstack.git.remote import Cache, shown_url
from patchstack.series.verify.states import Verification
from patchstack.series.verify.verify import prove_and_keep
from patchstack.workspace import SeriesConfig

# Suffixes of files that a compiler or the build reads. A tree in which such a file is missing must not be built.
_CODE = frozenset(
    {".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl", ".cu", ".cuh", ".m", ".mm", ".metal", ".comp"}
    | {".glsl", ".cl", ".s", ".asm", ".py", ".sh", ".cmake", ".in", ".txt"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPatch:
    """An applied patch, or a fork commit that has no patch file.

    `sha256` is the digest of the file, and `tree` is the tree after the patch. For a fork commit, `commit` is its id,
    `file` is a description, and `sha256` is empty.
    """

    file: str
    number: int | None
    subject: str
    sha256: str
    tree: str
    commit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A tree to build.

    `label` describes the source in a few words. `base_commit` and `base_tree` are the commit and tree of the pin, or
    None for a directory. `upstream` is the repository of the pin. `steps` are the applied patches, in order. `verdict`
    is the result of verify in words. `absent` are the paths of files that are not available and that no compiler reads.
    The build omits these files, and the build key depends on the list.
    """

    label: str
    tree: str
    objects: Objects
    base_commit: str | None = None
    base_tree: str | None = None
    upstream: str | None = None
    steps: tuple[AppliedPatch, ...] = ()
    verdict: str = "not a series"
    absent: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def entries(self, suffixes: tuple[str, ...] = ("",)) -> Iterator[Entry]:
        """Yield the files to send, in tree order. With `suffixes`, yield only files with one of these suffixes."""
        missing = frozenset(self.absent)
        for path, mode, oid in _walk(self.objects, self.tree):
            if path in missing or not path.endswith(suffixes):
                continue
            if mode == SYMLINK:
                yield Entry(path=path, link=os.fsdecode(self.objects.blob(oid, path)))
            else:
                yield Entry(path=path, data=self.objects.blob(oid, path), executable=mode == EXECUTABLE)


def series_source(config: SeriesConfig, cache: Cache, *, at: int | str | None = None) -> Source:
    """Return the verified tree of a series, or of its patches up to `at`.

    `at` is a number or a name; 0 is the pin.

    Raises the errors of verify, `NotHeldError` if a patch does not apply, and `ConfigError` if no patch has that number
    or name.
    """
    proven = prove_and_keep(config, cache)
    verification = proven.verification
    series = proven.series.up_to(at) if at is not None else proven.series
    data = {patch.file: patch.data or b"" for patch in series.patches}
    steps = []
    for row in verification.rows:
        if row.file is None or row.file not in data:
            continue
        if row.tree is None:
            raise PatchDoesNotApply(
                f"{row.file} does not apply, so nothing was built: {row.detail}",
                hint=f"run 'patchstack verify {config.name}' to show all problems",
            )
        digest = hashlib.sha256(data[row.file]).hexdigest()
        steps.append(AppliedPatch(file=row.file, number=row.number, subject=row.subject, sha256=digest, tree=row.tree))
    source = Source(
        label=_label(config.name, at, len(steps)),
        tree=steps[-1].tree if steps else verification.base_tree,
        objects=proven.sources.objects,
        base_commit=verification.base_commit,
        base_tree=verification.base_tree,
        upstream=shown_url(config.upstream),
        steps=tuple(steps),
        verdict=_verdict(verification),
    )
    return with_absent(source)


def _label(name: str, at: int | str | None, count: int) -> str:
    if at is None:
        return f"{name}, {count} patch{'' if count == 1 else 'es'}"
    return f"{name} at {str(at).zfill(4)}" if count else f"{name} at the pin"


def _verdict(verification: Verification) -> str:
    if verification.holds is None:
        return "compared with nothing"
    against = verification.expected_from or "what was expected"
    return f"holds against {against}" if verification.holds else f"does not hold against {against}"


def directory_source(directory: Path) -> Source:
    """Return the files of a directory.

    In a git work tree, these are the tracked files and the untracked files that are not ignored. Elsewhere, these are
    all files except `.git`.

    Raises `UsageError` if the path is not a directory, or contains no files, or contains a file that cannot be read.
    """
    if not directory.is_dir():
        raise BadPath(f"{directory} is not a directory", hint="--source must be a directory of source files")
    objects = Objects()
    overlay = TreeOverlay(objects, EMPTY_TREE)
    count = 0
    for path in _files(directory):
        full = directory / path
        name = os.fsencode(path)
        try:
            if full.is_symlink():
                overlay.put(name, SYMLINK, objects.add("blob", os.fsencode(full.readlink())))
            elif full.is_file():
                mode = EXECUTABLE if os.access(full, os.X_OK) else FILE
                overlay.put(name, mode, objects.add("blob", full.read_bytes()))
            else:
                continue
        except OSError as error:
            raise BadPath(f"{full} cannot be read: {error.strerror}") from error
        count += 1
    if count == 0:
        raise BadPath(f"{directory} contains no files to build")
    return Source(label=f"directory {directory}", tree=overlay.write(), objects=objects)


def _files(directory: Path) -> Iterator[str]:
    asked = git.read(directory, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if asked.ok:
        yield from sorted(os.fsdecode(name) for name in set(asked.stdout.split(b"\0")) if name)
        return
    for folder, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if name != ".git")
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        for name in (*sorted(files), *links):
            yield os.path.relpath(os.path.join(folder, name), directory)


def _walk(objects: Objects, tree: str, prefix: str = "") -> Iterator[tuple[str, int, str]]:
    for mode, name, oid in objects.tree(tree):
        path = prefix + os.fsdecode(name)
        if mode == DIRECTORY:
            yield from _walk(objects, oid, path + "/")
        elif mode != SUBMODULE:
            yield path, mode, oid


def with_absent(source: Source) -> Source:
    """Find the files of the tree whose content is not available, and add them to `absent`.

    All contents are first requested in one batch. Raises `MissingError` if a compiler reads such a file.
    """
    files = list(_walk(source.objects, source.tree))
    with contextlib.suppress(PatchstackError):  # missing files are found and reported below
        source.objects.want(oid for _, _, oid in files)
    missing = frozenset(source.objects.missing(oid for _, _, oid in files))
    absent = [path for path, _, oid in files if oid in missing]
    code = [path for path in absent if PurePosixPath(path).suffix.lower() in _CODE]
    if code:
        raise SourceMissing(
            f"{len(code)} source files of the tree are not available", problems=code[:5], hint=source.objects.hint
        )
    if not absent:
        return source
    few = ", ".join(absent[:3]) + (", …" if len(absent) > 3 else "")
    return replace(
        source,
        absent=tuple(absent),
        notes=(f"omitted {len(absent)} files that are not available and that no compiler reads: {few}",),
    )
