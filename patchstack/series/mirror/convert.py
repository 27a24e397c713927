"""Copy a series in its other form.

A copy of an anchored series has context, for readers and for `git am`. A copy of a plain series is anchored. As for a
checkout, the copy is made only from the pin, the series and the lock. The mirror is not changed.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import PatchesNotConverted
from patchstack.files.atomic import put_in_place, refuse_occupied
from patchstack.git.apply import Applier
from patchstack.git.format import formatting
from patchstack.git.objects import Commit, Objects, Repository
from patchstack.series.files.directory import Series, load_series
from patchstack.series.files.names import in_form
from patchstack.series.history import read_fork
from patchstack.series.lock import Lock
from patchstack.series.mirror.checkout import check_out
from patchstack.series.verify.prefix_trees import apply_series


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A copy that was written.

    `files` contains the file names in the order of the series. `tree` is the tree that the files produce, which equals
    the tree of the series.
    """

    directory: Path
    files: tuple[str, ...]
    tree: str


def copy_series(
    objects: Objects,
    series: Series,
    lock: Lock | None,
    base: Commit,
    directory: Path,
    *,
    upstream: str,
    anchored: bool,
    context: int = 3,
) -> Copied:
    """Write the series' patches to a new directory, with unchanged numbers.

    The patches of the copy are anchored, or have `context` lines of context. The copy is published only if it produces
    the trees of the series. Raises `UsageError` for a directory that is not empty. Also raises the errors of
    `check_out` if series and lock do not produce the recorded commits.
    """
    refuse_occupied(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as temporary:
        made = check_out(
            objects, series, lock, base, Path(temporary, "fork"), upstream=upstream, branch="copy", files=False
        )
        drafted = Path(temporary, "patches")
        drafted.mkdir()
        fork = Repository.open(str(made.directory), made.directory)
        objects.add_directory(fork.object_directory, "the copy")
        commits = read_fork(fork, made.head, base, objects).commits
        with formatting(fork, objects.directories, base.oid, commits, context=context, anchored=anchored) as patches:
            for patch, written in zip(series.patches, patches.written(), strict=True):
                (drafted / in_form(patch.file, anchored=anchored)).write_bytes(written.data)
        copied = load_series(drafted, series.name)
        with Applier(objects, base.tree) as applier:
            given = [link.after for link in apply_series(applier, copied)]
        if given != [commit.tree for commit in commits]:  # proven equal to the trees of the series by check_out
            raise PatchesNotConverted("the copy would produce a different tree than the series; nothing was written")
        put_in_place(drafted, directory)
    return Copied(directory=directory, files=tuple(patch.file for patch in copied.patches), tree=given[-1])
