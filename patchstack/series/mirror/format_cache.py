"""Remember which patch git wrote for a commit, to avoid formatting the commit again.

The cache contains only digests. A patch file is reused if it still has the bytes that git wrote for that commit with
the same options. Files of the series, such as its lock, are not trusted for this.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.files.atomic import replace_file
from patchstack.files.places import CachePlaces
from patchstack.git.format import FormattedCommit, format_digest
from patchstack.git.objects import Commit, Repository
from patchstack.series.files.directory import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatMemory:
    """The digests for one fork and one set of format options, in the file `path`.

    If the file cannot be written, nothing is remembered.
    """

    path: Path

    @staticmethod
    def of(root: Callable[[], Path], repository: Repository, *, context: int, anchored: bool) -> FormatMemory:
        """Return the memory for a fork's repository, this git, and these options. `root` returns patchstack's cache
        directory."""
        key = f"{repository.git_dir}\n{format_digest(context=context, anchored=anchored)}"
        return FormatMemory(
            path=CachePlaces(root()).formatted / f"{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()}.json"
        )

    def recall(self, commits: Sequence[Commit], series: Series) -> dict[str, FormattedCommit]:
        """Return the known patches by commit id.

        A patch is known if a file of the series still has the bytes that git wrote for its commit.
        """
        kept = self._read()
        texts = {hashlib.sha256(patch.data).hexdigest(): patch.data for patch in series.patches if patch.data}
        found = {}
        for commit in commits:
            match kept.get(commit.oid):
                case [str(digest), str(slug), str(patch_id)] if digest in texts:
                    found[commit.oid] = FormattedCommit(commit=commit, slug=slug, data=texts[digest], patch_id=patch_id)
        return found

    def keep(self, formatted: Iterable[FormattedCommit]) -> None:
        """Remember these patches and forget all others."""
        fresh = {one.commit.oid: [hashlib.sha256(one.data).hexdigest(), one.slug, one.patch_id] for one in formatted}
        if fresh == self._read():
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(self.path, json.dumps(fresh).encode())

    def _read(self) -> dict[str, object]:
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}
