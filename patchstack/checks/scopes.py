"""Find the function that contains a line of source text, as git does for its hunk headers.

The module uses the indentation of the lines. It does not parse the text, so unbalanced braces in `#if` branches do no
harm. The module collects the lines that enclose the given line, from bottom to top. Each of them is indented less than
the line that was collected before it. The outermost line that opens a function gives the name. The names of the classes
and namespaces around the function come first.

Limits: the text must be indented in the usual way. A function body in the first column is not assigned to its function.
Macros that expand to the head of a function are not recognized.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from patchstack.checks.model import NO_FUNCTION

_WORD = r"~?[A-Za-z_$][\w$]*"
_NAME = rf"(?:{_WORD}(?:<[^<>()]*>)?\s*::\s*)*(?:{_WORD}|operator\s*[^\s\w(]+|operator\s*\(\s*\))"
_CALLABLE = re.compile(rf"({_NAME})\s*(?:<[^<>()]*>)?\s*\(")
_OPENS = re.compile(
    r"(?:template\s*<.*>\s*)?(?:typedef\s+|export\s+|static\s+|inline\s+)*"
    r"(?P<word>struct|class|enum|union|namespace|def|function|fn|impl|trait|extern)\b"
    r"(?:\s+(?:class|struct))?(?:\s+(?:alignas\s*\([^)]*\)|__\w+__(?:\(\([^)]*\)\))?|[A-Z][A-Z0-9_]+(?=\s+[A-Za-z_])))*"
    r"\s*(?P<name>[A-Za-z_$][\w$]*(?:::[A-Za-z_$][\w$]*)*)?"
)
_TABLE = re.compile(r"([A-Za-z_$][\w$:]*)\s*(?:\[[^\]]*\]\s*)*=\s*(?!.*;\s*$)")
_LABEL = re.compile(r"\s*(?:[A-Za-z_]\w*|case\b.*|default)\s*:(?!:)\s*(?://.*)?$")
_CONTINUES = (")", "{", ":", ",", "&&", "||", "?", "<<", ">")
_ASIDE = ("#", "//", "/*", "*", "@")
_NOT_NAMES = frozenset(
    [
        *("if", "for", "while", "switch", "catch", "return", "sizeof", "defined", "do", "else", "new", "delete"),
        *("throw", "decltype", "noexcept", "alignof", "alignas", "requires", "static_assert", "__launch_bounds__"),
        *("__attribute__", "__declspec", "__align__", "co_await", "co_return", "co_yield", "and", "or", "not"),
        *("assert", "constexpr", "explicit", "template", "using", "typedef", "case"),
    ]
)
_CLASSES = frozenset({"struct", "class", "enum", "union", "namespace", "impl", "trait", "extern"})
_TAB = 4


def scope_at(lines: Sequence[str], line: int) -> str:
    """Return the name of the function, class or table that contains a line.

    Examples are `cache::clear` and `cache`. The name is `(file)` for a line outside all of them. `line` starts at 0. A
    line that opens a function is part of that function.
    """
    names: list[str] = []
    for at in reversed(_around(lines, line)):
        opened = _opened(lines, at)
        if opened is None:
            continue
        name, goes_on = opened
        if name:
            names.append(name)
        if not goes_on:
            break
    return "::".join(names) or NO_FUNCTION


def _around(lines: Sequence[str], line: int) -> list[int]:
    """Return the index of a line and the indices of the lines that enclose it, innermost first.

    Each next line is above the previous line and indented less.
    """
    found = [line]
    text = lines[line]
    limit = _indent(text) + (1 if _continues(text) else 0)
    at = line - 1
    while limit > 0 and at >= 0:
        text = lines[at]
        stripped = text.lstrip()
        if stripped and not stripped.startswith(_ASIDE):
            indent = _indent(text)
            if indent < limit and not _LABEL.match(text):
                if stripped[0] == "}" and indent == 0 and not stripped.startswith("} else"):
                    break
                if _continues(stripped):
                    limit = indent + 1
                elif stripped[0] != "}":
                    found.append(at)
                    limit = indent
        at -= 1
    return found


def _opened(lines: Sequence[str], at: int) -> tuple[str, bool] | None:
    """Return the name of the function, class or table that a line opens, and whether it can contain functions.

    Return None if the line opens nothing.
    """
    text = lines[at].strip()
    # The head may continue on the next lines. A line that ends with `;` is a declaration, not a definition.
    if not text or text.startswith(_ASIDE) or text.startswith("}") or _continues(text) or text.endswith(";"):
        return None
    kind = _OPENS.match(text)
    if kind is not None and kind["word"] in _CLASSES and not _is_function(text, kind):
        return kind["name"] or "", True
    if kind is not None and kind["word"] not in _CLASSES and kind["name"]:
        return kind["name"], False
    if "= [" not in text and "=[" not in text:
        for match in _CALLABLE.finditer(text):
            before = text[: match.start()]
            if match[1] not in _NOT_NAMES and "=" not in before.replace("operator", ""):
                return re.sub(r"\s+", "", match[1]) if "operator" not in match[1] else match[1], False
            if match[1] in ("if", "for", "while", "switch", "return", "do", "else", "catch"):
                return None
    table = _TABLE.search(text)
    if table is not None and "(" not in text[: table.start()]:
        return table[1], False
    return None


def _is_function(text: str, kind: re.Match[str]) -> bool:
    """Return whether a line that begins with `struct NAME` is the head of a function that returns this struct."""
    rest = text[kind.end() :]
    bare = re.sub(r"<[^<>]*>", "", rest.partition("{")[0])
    return kind["word"] in ("struct", "class", "enum", "union") and "(" in bare and not bare.lstrip().startswith(":")


def _continues(text: str) -> bool:
    """Return whether a line continues the previous line."""
    stripped = text.lstrip()
    return stripped.startswith(_CONTINUES) and not stripped.startswith("::")


def _indent(text: str) -> int:
    width = 0
    for character in text:
        if character == " ":
            width += 1
        elif character == "\t":
            width += _TAB
        else:
            break
    return width
