"""Find patches that git apply and GNU patch both accept, but apply at different places.

git looks for the context of a hunk near the line number in the hunk's header. GNU patch, which quilt uses, adds the
offset of the previous hunk to that number. If the context occurs more than once, the two tools may choose different
places, and neither reports this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from patchstack.git.objects import Objects
from patchstack.git.overlay import EXECUTABLE, FILE, TreeOverlay
from patchstack.git.patch.effort import MOST_HUNKS
from patchstack.git.patch.fuzz import Placed, place_with_fuzz
from patchstack.git.patch.text import PatchedFile, read_text
from patchstack.series.verify.prefix_trees import Link

_LARGEST = 16 * 1024 * 1024
_HUNKS = 2  # both tools put a single hunk at the same place


def disagreements(objects: Objects, links: Sequence[Link]) -> Iterator[str]:
    """Yield a sentence for each file for which GNU patch would produce different content than git.

    Also yield a sentence for each patch that has too many hunks to compare.
    """
    for link in links:
        if not link.applied or link.patch.anchored or link.patch.data is None:
            continue
        # Inside a hunk, no line begins with @@. The hunks can therefore be counted without parsing the patch.
        if all(part.count(b"\n@@ -") < _HUNKS for part in link.patch.data.split(b"\ndiff --git ")):
            continue
        if (hunks := link.patch.data.count(b"\n@@ -")) >= MOST_HUNKS:
            yield f"{link.patch.file}: {hunks:,} hunks are too many to compare their places with those of GNU patch"
            continue
        files = read_text(link.patch.data).files
        touched = Counter(file.path for file in files)
        looked_at = [file for file in files if touched[file.path] == 1 and len(file.hunks) >= _HUNKS]
        if not looked_at:
            continue
        before, after = TreeOverlay(objects, link.before), TreeOverlay(objects, link.after)
        for file in looked_at:
            if line := _first_difference(objects, before, after, file):
                path = file.path.decode("utf-8", "replace")
                apart = "git apply and GNU patch (quilt) put a hunk in different places, and the results differ"
                yield (
                    f"{link.patch.file}: {path}: {apart} from line {line} on; git's is used: give the hunk more context"
                )


def _first_difference(objects: Objects, before: TreeOverlay, after: TreeOverlay, file: PatchedFile) -> int | None:
    """Return the number of the first line in which the results of git and GNU patch differ. Line numbers start at 1.

    Return None if the results are equal, or if GNU patch would fail. Also return None if the patch creates or deletes
    the file, or if the file is too large or not regular.
    """
    if file.old is None or file.new is None:
        return None
    contents = [_content(objects, tree, path) for tree, path in ((before, file.old), (after, file.new))]
    if contents[0] is None or contents[1] is None:
        return None
    placed = place_with_fuzz(contents[0], file.hunks, most=0)
    if not isinstance(placed, Placed) or placed.content == contents[1]:
        return None
    lines = (text.split(b"\n") for text in (placed.content, contents[1]))
    return next((number for number, (one, other) in enumerate(zip(*lines, strict=False), 1) if one != other), 1)


def _content(objects: Objects, tree: TreeOverlay, path: bytes) -> bytes | None:
    entry = tree.entry(path) if tree.obstacle(path) is None else None
    if entry is None or entry[0] not in (FILE, EXECUTABLE):
        return None
    content = objects.blob(entry[1], path.decode("utf-8", "replace"))
    return content if len(content) <= _LARGEST else None
