"""A family of hostile patches: each is easy to write and expensive for a careless reader. Seeded; standard library
only. Every case has the files of the pin and the bytes of each patch. Some patches apply with git, others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """One case: the pin's files by path, and the patches in order."""

    files: dict[str, bytes]
    patches: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """The bytes of all patches."""
        return sum(map(len, self.patches))


def _diff(path: str, *hunks: bytes) -> bytes:
    name = path.encode()
    return b"diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n" % (name, name, name, name) + b"".join(hunks)


def _hunk(old: int, new: int, lines: Sequence[bytes]) -> bytes:
    before = sum(line[:1] != b"+" for line in lines)
    after = sum(line[:1] != b"-" for line in lines)
    return b"@@ -%d,%d +%d,%d @@\n" % (old, before, new, after) + b"".join(line + b"\n" for line in lines)


def _numbered(count: int, start: int = 1) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(start, start + count))


def _equal(count: int) -> bytes:
    return b"x\n" * count


def hunks_at_one_place(count: int) -> Hostile:
    """Hunks that all name the same line among equal lines: each must skip the earlier ones."""
    hunk = _hunk(10, 10, [b" x", b" x", b" x", b"-x", b"+y", b" x", b" x", b" x"])
    return Hostile(files={"a": _equal(count * 20)}, patches=(_diff("a", *[hunk] * count),))


def many_hunks(count: int) -> Hostile:
    """Ordinary hunks, many of them."""
    hunks = []
    for number in range(count):
        at = number * 10 + 4
        around = [b" line %d" % (at + way) for way in (-3, -2, -1, 1, 2, 3)]
        hunks.append(_hunk(at - 3, at - 3, [*around[:3], b"-line %d" % at, b"+edited %d" % at, *around[3:]]))
    return Hostile(files={"a": _numbered(count * 10 + 20)}, patches=(_diff("a", *hunks),))


def hunks_backwards(count: int) -> Hostile:
    """Ordinary hunks in the wrong order."""
    made = many_hunks(count)
    head, *hunks = made.patches[0].split(b"@@ -")
    return Hostile(files=made.files, patches=(head + b"".join(b"@@ -" + hunk for hunk in reversed(hunks)),))


def hunks_far_away(count: int) -> Hostile:
    """Hunks that name the first lines and belong to the last ones of a long file of equal lines."""
    files = {"a": _equal(300_000) + _numbered(count * 10 + 20)}
    hunks = []
    for number in range(count):
        at = number * 10 + 4
        around = [b" line %d" % (at + way) for way in (-3, -2, -1, 1, 2, 3)]
        hunks.append(_hunk(20, 20, [*around[:3], b"-line %d" % at, b"+edited %d" % at, *around[3:]]))
    return Hostile(files=files, patches=(_diff("a", *hunks),))


def growing_hunks(count: int) -> Hostile:
    """Hunks that each insert lines: everything after them moves."""
    hunks = [
        _hunk(number * 4 + 2, number * 4 + 2, [b" line %d" % (number * 4 + 2), b"+in", b" line %d" % (number * 4 + 3)])
        for number in range(count)
    ]
    return Hostile(files={"a": _numbered(count * 4 + 10)}, patches=(_diff("a", *hunks),))


def near_match(lines: int, length: int) -> Hostile:
    """Return a long hunk that fits nowhere in equal lines, by its last line."""
    body = [b" x"] * length + [b"-z", b"+y", b" x"]
    return Hostile(files={"a": _equal(lines)}, patches=(_diff("a", _hunk(1000, 1000, body)),))


def near_matches(lines: int, length: int, count: int) -> Hostile:
    """Hunks that nearly fit everywhere in equal lines and do fit at the end."""
    content = _equal(lines) + b"".join(b"z%d\n" % number + _equal(length) for number in range(count))
    hunks = [_hunk(500, 500, [*[b" x"] * length, b"-z%d" % number, b"+y", *[b" x"] * 3]) for number in range(1, count)]
    return Hostile(files={"a": content}, patches=(_diff("a", *hunks),))


def header_lines(size: int) -> Hostile:
    """Header lines of a diff without any hunk."""
    line = b"index 1111111..2222222 100644\n"
    return Hostile(files={"a": b"x\n"}, patches=(b"diff --git a/a b/a\n" + line * (size // len(line)),))


def diff_lines(size: int) -> Hostile:
    """First lines of diffs, one after the other, each with many words that could be names."""
    line = b"diff --git a/" + b"w " * 400 + b" b/x\n"
    return Hostile(files={"a": b"x\n"}, patches=(line * (size // len(line)),))


def quoted_names(size: int) -> Hostile:
    """Names with an opening quote and no closing one."""
    line = b'diff --git "a/' + b"\\303\\274" * 200 + b"\n"
    return Hostile(files={"a": b"x\n"}, patches=(line * (size // len(line)),))


def message_lines(size: int) -> Hostile:
    """Return a long message with separators before an ordinary diff."""
    head = b"From " + b"1" * 40 + b" Mon Sep 17 00:00:00 2001\nFrom: A <a@example.com>\nSubject: [PATCH] long\n\n"
    text = b"--- \n a | 2 +-\n\n---\n" * (size // 20)
    return Hostile(files={"a": _numbered(20)}, patches=(head + text + b"\n" + many_hunks(1).patches[0],))


def mailbox(count: int) -> Hostile:
    """Return one file that holds many mails, each with an ordinary diff."""
    mails = []
    for number in range(count):
        head = b"From %040d Mon Sep 17 00:00:00 2001\nFrom: A <a@example.com>\nSubject: [PATCH] n\n\n---\n" % (
            number + 1
        )
        old = b"line 4" if number == 0 else b"n %d" % (number - 1)
        hunk = _hunk(3, 3, [b" line 3", b"-" + old, b"+n %d" % number, b" line 5"])
        mails.append(head + _diff("a", hunk) + b"-- \n2.40.0\n\n")
    return Hostile(files={"a": _numbered(20)}, patches=(b"".join(mails),))


def many_files(count: int) -> Hostile:
    """Many small diffs."""
    files = {f"d{number % 97}/f{number}": b"one\ntwo\nthree\n" for number in range(count)}
    hunk = _hunk(1, 1, [b" one", b"-two", b"+TWO", b" three"])
    return Hostile(files=files, patches=(b"".join(_diff(path, hunk) for path in files),))


def new_files(count: int) -> Hostile:
    """Many small files that the patch makes."""
    made = [
        b"diff --git a/n%d b/n%d\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n+++ b/n%d\n"
        b"@@ -0,0 +1 @@\n+x\n" % (number, number, number)
        for number in range(count)
    ]
    return Hostile(files={"a": b"x\n"}, patches=(b"".join(made),))


def deep_path(depth: int, count: int) -> Hostile:
    """New files, each below many directories."""
    made = []
    for number in range(count):
        path = b"/".join(b"d%d" % (number % 7) for _ in range(depth)) + b"/f%d" % number
        head = b"diff --git a/%s b/%s\nnew file mode 100644\nindex 0000000..1111111\n" % (path, path)
        made.append(head + b"--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n" % path)
    return Hostile(files={"a": b"x\n"}, patches=(b"".join(made),))


def new_large_file(lines: int) -> Hostile:
    """Return one large file that the patch makes."""
    head = b"diff --git a/n b/n\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n+++ b/n\n"
    body = b"@@ -0,0 +1,%d @@\n" % lines + b"".join(b"+line %d\n" % number for number in range(lines))
    return Hostile(files={"a": b"x\n"}, patches=(head + body,))


def deleted_large_file(lines: int) -> Hostile:
    """Return one large file that the patch deletes."""
    head = b"diff --git a/a b/a\ndeleted file mode 100644\nindex 1111111..0000000\n--- a/a\n+++ /dev/null\n"
    body = b"@@ -1,%d +0,0 @@\n" % lines + b"".join(b"-line %d\n" % number for number in range(1, lines + 1))
    return Hostile(files={"a": _numbered(lines), "b": b"x\n"}, patches=(head + body,))


def long_line(size: int) -> Hostile:
    """Return a line of many megabytes."""
    text = b"y" * size
    hunk = _hunk(3, 3, [b" line 3", b"-line 4", b"+" + text, b" line 5"])
    return Hostile(files={"a": _numbered(20)}, patches=(_diff("a", hunk),))


def empty_lines(size: int) -> Hostile:
    """Only line ends."""
    return Hostile(files={"a": b"x\n"}, patches=(b"\n" * size,))


def binary(size: int) -> Hostile:
    """Return a binary diff that is cut short."""
    line = b"z" + b"0" * 65 + b"\n"
    head = (
        b"diff --git a/a b/a\nindex " + b"1" * 40 + b".." + b"2" * 40 + b" 100644\nGIT binary patch\nliteral 5000000\n"
    )
    return Hostile(files={"a": b"x\n"}, patches=(head + line * (size // len(line)),))


def renames(count: int) -> Hostile:
    """Renames alone."""
    files = {f"o{number}": b"%d\n" % number for number in range(count)}
    made = [
        b"diff --git a/o%d b/m%d\nsimilarity index 100%%\nrename from o%d\nrename to m%d\n" % ((number,) * 4)
        for number in range(count)
    ]
    return Hostile(files=files, patches=(b"".join(made),))


def one_path_twice(count: int) -> Hostile:
    """Return two diffs of every path, which only git can judge."""
    made = many_files(count)
    hunk = _hunk(1, 1, [b" one", b"-TWO", b"+2", b" three"])
    return Hostile(files=made.files, patches=(made.patches[0] + b"".join(_diff(path, hunk) for path in made.files),))


def many_patches(count: int) -> Hostile:
    """Return a long series of which each patch is left to git, on a tree of many files."""
    files = {f"d{number % 97}/f{number}": b"one\n" for number in range(5000)}
    made = tuple(
        b"diff --git a/l%d b/l%d\nnew file mode 120000\nindex 0000000..1111111\n--- /dev/null\n+++ b/l%d\n"
        b"@@ -0,0 +1 @@\n+to\n\\ No newline at end of file\n" % (number, number, number)
        for number in range(count)
    )
    return Hostile(files=files, patches=made)


def costly_patches(count: int) -> Hostile:
    """Return a series in which each patch is just below the limit."""
    one = hunks_at_one_place(60)
    return Hostile(files=one.files, patches=one.patches * count)


CASES: dict[str, Callable[[], Hostile]] = {
    "500 hunks at one place": lambda: hunks_at_one_place(500),
    "5,000 hunks at one place": lambda: hunks_at_one_place(5000),
    "20,000 hunks": lambda: many_hunks(20_000),
    "20,000 hunks backwards": lambda: hunks_backwards(20_000),
    "300 hunks far from their lines": lambda: hunks_far_away(300),
    "20,000 hunks that insert": lambda: growing_hunks(20_000),
    "a long near match in 1,000,000 equal lines": lambda: near_match(1_000_000, 300),
    "40 near matches in 100,000 equal lines": lambda: near_matches(100_000, 60, 40),
    "102 MB of header lines": lambda: header_lines(102_000_000),
    "20 MB of diff lines": lambda: diff_lines(20_000_000),
    "20 MB of names in quotes": lambda: quoted_names(20_000_000),
    "20 MB of message": lambda: message_lines(20_000_000),
    "a mailbox of 300 mails": lambda: mailbox(300),
    "5,000 files": lambda: many_files(5000),
    "20,000 new files": lambda: new_files(20_000),
    "300 new files 100 directories deep": lambda: deep_path(100, 300),
    "a new file of 1,000,000 lines": lambda: new_large_file(1_000_000),
    "a deleted file of 1,000,000 lines": lambda: deleted_large_file(1_000_000),
    "a line of 50 MB": lambda: long_line(50_000_000),
    "50 MB of empty lines": lambda: empty_lines(50_000_000),
    "50 MB of binary diff": lambda: binary(50_000_000),
    "5,000 renames": lambda: renames(5000),
    "5,000 paths twice": lambda: one_path_twice(5000),
    "150 patches left to git": lambda: many_patches(150),
    "60 patches just below too much": lambda: costly_patches(60),
}
"""The family, by the name in tables."""
