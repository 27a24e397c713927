"""Realistic file trees, edits of them, and patches between them, then damaged in the ways patches get damaged."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypothesis import strategies as st

Files = dict[str, tuple[int, bytes]]

# Few distinct lines, so that context repeats and hunks fit in more than one place.
LINES = [
    "int a;",
    "int b;",
    "",
    "}",
    "{",
    "    return x;",
    "a",
    "b",
    "\tx",
    "x ",
    "-",
    "+",
    "-- ",
    "@@ -1 +1 @@",
    "--- a",
    "é",
]
PATHS = ["src/a.cpp", "src/b.cpp", "ggml/src/x.cu", "CMakeLists.txt", "tools/run.sh", "with space.txt", "src/deep/c.h"]
EVIL_PATHS = [
    "../x",
    "/abs/x",
    ".git/config",
    ".GIT/hooks/x",
    "git~1/config",
    "a/../../b",
    "src/.git/x",
    ".git\u200c/x",
    "a\\.git\\x",
]
DIFF_OPTIONS = [
    (),
    ("-U0",),
    ("-U1",),
    ("-U5",),
    ("-M",),
    ("-M", "-C", "--find-copies-harder"),
    ("--full-index",),
    ("--binary",),
]
DIFF_OPTIONS += [("--no-prefix",), ("-D", "--full-index"), ("--src-prefix=x/y/",), ("--binary", "--no-renames", "-U2")]


@dataclass(frozen=True, slots=True)
class Edit:
    """One line-level edit of a file: at a position (modulo its length), remove some lines and add others."""

    at: int
    remove: int
    put: list[str]


line = st.sampled_from(LINES)
contents = st.builds(
    lambda lines, newline, crlf: (("\r\n" if crlf else "\n").join(lines) + ("\n" if newline else "")).encode(),
    st.lists(line, max_size=25),
    st.sampled_from([True, True, True, False]),
    st.sampled_from([False, False, False, False, True]),
)
modes = st.sampled_from([0o100644, 0o100644, 0o100644, 0o100755])
regular = st.tuples(modes, contents)
links = st.tuples(st.just(0o120000), st.sampled_from([b"src", b"../out", b"a.cpp"]))
binaries = st.tuples(st.just(0o100644), st.binary(min_size=1, max_size=40).map(lambda data: b"\0" + data))
entries = st.one_of(regular, regular, regular, regular, regular, links, binaries)
trees = st.dictionaries(st.sampled_from(PATHS), entries, min_size=1, max_size=5)
edits = st.builds(Edit, st.integers(0, 30), st.integers(0, 3), st.lists(line, max_size=3))


def edited(content: bytes, changes: list[Edit]) -> bytes:
    lines = content.split(b"\n")
    for change in changes:
        at = change.at % (len(lines) + 1)
        lines[at : at + change.remove] = [text.encode() for text in change.put]
    return b"\n".join(lines)


@st.composite
def changed_trees(draw: st.DrawFn, base: Files) -> Files:
    """Draw a tree made from `base` by edits, creations, deletions, renames, copies and mode or type changes."""
    after = dict(base)
    for path in sorted(base):
        kind = draw(st.sampled_from(["edit"] * 8 + ["keep", "delete", "rename", "copy", "mode", "replace"]))
        mode, content = base[path]
        if kind == "edit":
            after[path] = (mode, edited(content, draw(st.lists(edits, min_size=1, max_size=3))))
        elif kind == "delete":
            del after[path]
        elif kind in ("rename", "copy"):
            other = draw(st.sampled_from(PATHS))
            after[other] = (mode, edited(content, draw(st.lists(edits, max_size=1))))
            if kind == "rename" and other != path:
                after.pop(path, None)
        elif kind == "mode" and mode != 0o120000:
            after[path] = (mode ^ 0o111, content)
        elif kind == "replace":
            after[path] = draw(entries)
    if draw(st.booleans()):
        after[draw(st.sampled_from(["new.txt", "src/new.cpp", "src/a.cpp/x", "src", "newdir/y.h"]))] = draw(entries)
    return clear_of_conflicts(after)


def clear_of_conflicts(files: Files) -> Files:
    """Return the tree without files below a path that is a file."""
    return {path: entry for path, entry in files.items() if not any(path.startswith(f"{other}/") for other in files)}


def _shift_numbers(text: bytes, by: int, field: int) -> bytes:
    fields = iter(range(9))

    def shifted(match: re.Match[bytes]) -> bytes:
        return b"%d" % max(int(match.group()) + by, 0) if next(fields) == field else match.group()

    return re.sub(rb"\d+", shifted, text, count=4)


@st.composite
def damaged(draw: st.DrawFn, patch: bytes) -> bytes:
    """Draw a patch after up to three small accidents or attacks."""
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3]))):
        lines = patch.split(b"\n")
        at = draw(st.integers(0, max(len(lines) - 1, 0)))
        heads = [index for index, text in enumerate(lines) if text.startswith(b"@@ -")]
        kind = draw(
            st.sampled_from(
                [
                    "drop",
                    "twice",
                    "swap",
                    "numbers",
                    "numbers",
                    "sign",
                    "truncate",
                    "crlf",
                    "junk",
                    "evil",
                    "no-newline",
                    "empty-context",
                    "mode",
                    "swap-hunks",
                    "join",
                    "tail",
                    "index",
                    "header",
                ]
            )
        )
        if kind == "drop":
            del lines[at]
        elif kind == "twice":
            lines.insert(at, lines[at])
        elif kind == "swap" and at + 1 < len(lines):
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
        elif kind == "numbers" and heads:
            head = draw(st.sampled_from(heads))
            lines[head] = _shift_numbers(lines[head], draw(st.integers(-3, 4)), draw(st.integers(0, 3)))
        elif kind == "sign":
            lines[at] = draw(st.sampled_from([b" ", b"+", b"-", b"", b"\\ "])) + lines[at][1:]
        elif kind == "truncate":
            patch = patch[: draw(st.integers(0, len(patch)))]
            continue
        elif kind == "crlf":
            lines = [text + b"\r" for text in lines[:-1]] + lines[-1:]
        elif kind == "junk":
            junk = [
                b"--- ",
                b"+++ b/src/a.cpp",
                b"diff --git a/x b/x",
                b"@@ -1,2 +1,2 @@",
                b"index 1234567..89abcde",
                b"GIT binary patch",
            ]
            lines.insert(
                at,
                draw(
                    st.sampled_from(
                        [*junk, b"\0", b"rename from x", b"new file mode 120000", b"--- a/x\n+++ b/x\n@@ -1 +1 @@"]
                    )
                ),
            )
        elif kind == "evil":
            evil = draw(st.sampled_from(EVIL_PATHS)).encode()
            name = draw(st.sampled_from([path.encode() for path in PATHS]))
            patch = patch.replace(name, evil)
            continue
        elif kind == "no-newline":
            lines.insert(at, b"\\ No newline at end of file")
        elif kind == "empty-context":
            lines = [b"" if text == b" " else text for text in lines]
        elif kind == "mode":
            mode = draw(st.sampled_from([b"100755", b"120000", b"160000", b"100664", b"40000", b"0"]))
            patch = patch.replace(b"100644", mode)
            continue
        elif kind == "swap-hunks" and len(heads) > 1:
            first, second = heads[0], heads[1]
            lines[first], lines[second] = lines[second], lines[first]
        elif kind == "join":
            patch = patch + patch
            continue
        elif kind == "tail":
            patch = patch + draw(
                st.sampled_from([b"-- \n2.39.5\n\n", b"\\ No newline at end of file\n", b"@@ -1 +1 @@\n-a\n+b\n", b"x"])
            )
            continue
        elif kind == "index":
            lines = [text for text in lines if not text.startswith(b"index ")]
        elif kind == "header":
            lines = [
                text.replace(b"a/", b"old/").replace(b"b/", b"") if text[:4] in (b"diff", b"--- ") else text
                for text in lines
            ]
        patch = b"\n".join(lines)
    return patch
