"""Check that every error that a user can see has a code and an entry, and list its messages there; or --check the list.

An error is any call of a class of the family of `PatchstackError`, found in the syntax trees of the package. Its class
must have a `code`, codes must differ, and docs/troubleshooting.md must have an entry for each, with cause and cure.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from document import kept

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "troubleshooting.md"
FAMILY = "patchstack.errors.PatchstackError"
UNCODED = 0
"""The number of places that may raise an error without a code. It may only decrease."""
ENTRY = re.compile(
    r"### (?P<code>PS\d{4}): [^\n]+\n\n\*\*Cause\.\*\* [^\n]+\n\n\*\*Cure\.\*\* [^\n]+\n\n"
    r"<!-- messages -->\n(?P<messages>(?:\n- [^\n]*|\n)*)"
)


@dataclass(slots=True)
class Module:
    """A module: its tree, and the full names of its imports and definitions."""

    name: str
    path: Path
    tree: ast.Module
    names: dict[str, str] = field(default_factory=dict)

    def meaning(self, node: ast.expr) -> str:
        """Return the full name of the object that an expression names; empty if unknown."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, "")
        if isinstance(node, ast.Attribute):
            before = self.meaning(node.value)
            return f"{before}.{node.attr}" if before else ""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place that makes an error: its location, its class, and its message with `…` for variable parts."""

    place: str
    kind: str
    message: str


def modules(package: Path) -> list[Module]:
    """Return every module of a package, with the meaning of the names that it imports or defines."""
    found = []
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        module = Module(name, path, ast.parse(path.read_text("utf-8")))
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                module.names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            elif isinstance(node, ast.Import):
                module.names |= {one.asname: one.name for one in node.names if one.asname}
            elif isinstance(node, ast.ClassDef):
                module.names[node.name] = f"{name}.{node.name}"
        found.append(module)
    return found


def codes_of(found: list[Module]) -> dict[str, str]:
    """Return the code of every class of the family; empty for one without."""
    classes = {
        f"{module.name}.{node.name}": (module, node)
        for module in found
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }
    codes = {FAMILY: ""}
    before = 0
    while before != len(codes):
        before = len(codes)
        for name, (module, node) in classes.items():
            above = next((one for base in node.bases if (one := module.meaning(base)) in codes), None)
            if above is not None and name not in codes:
                codes[name] = own_code(node)
    return codes


def own_code(node: ast.ClassDef) -> str:
    """Return the value of the class attribute `code`. It is not inherited: each class is a cause of its own."""
    for line in node.body:
        if isinstance(line, ast.Assign) and [ast.unparse(one) for one in line.targets] == ["code"]:
            return str(ast.literal_eval(line.value))
    return ""


def sites(found: list[Module], codes: dict[str, str]) -> Iterator[Site]:
    """Yield every place that makes an error."""
    for module in found:
        for node in ast.walk(module.tree):
            made, message = (node.func, node.args[:1]) if isinstance(node, ast.Call) else (None, [])
            if isinstance(node, ast.Raise) and node.exc is not None and module.meaning(node.exc) in codes:
                made = node.exc
            if made is not None and (kind := module.meaning(made)) in codes:
                place = f"{module.path.relative_to(ROOT) if module.path.is_relative_to(ROOT) else module.path}"
                yield Site(place=f"{place}:{node.lineno}", kind=kind, message=shown(message[0]) if message else "")


def shown(node: ast.expr) -> str:
    """Return the text of a message, with `…` for parts that are only known at run time."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [shown(part) if isinstance(part, ast.Constant) else "…" for part in node.values]
        return re.sub(r"…+", "…", "".join(parts))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return shown(node.left) + shown(node.right)
    return "…"


def listed(messages: set[str]) -> str:
    """Return the messages of an entry as a list, sorted. Messages without any known part are omitted."""
    told = sorted(one for one in messages if re.search(r"\w", one))
    return "".join(f"\n- {quoted(one)}" for one in told) + "\n" if told else ""


def quoted(text: str) -> str:
    """Return a text as code in Markdown."""
    text = " ".join(text.split())
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def problems(codes: dict[str, str], made: list[Site], page: str) -> list[str]:
    """Return the problems: errors without code, codes of two classes, entries without code, and codes without entry."""
    uncoded = [
        f"{one.place}: {one.kind.rpartition('.')[2]} has no code: use a class of patchstack.causes" for one in made
    ]
    uncoded = [line for line, one in zip(uncoded, made, strict=True) if not codes[one.kind]]
    wrong = [*uncoded, f"{len(uncoded)} errors without a code, {UNCODED} allowed"] if len(uncoded) != UNCODED else []
    by_code = defaultdict(list)
    for name, code in codes.items():
        if code:
            by_code[code].append(name)
            if not re.fullmatch(r"PS\d{4}", code):
                wrong.append(f"{name}: {code!r} is not of the form PS0000")
    wrong += [f"{code} is the code of {' and '.join(names)}" for code, names in by_code.items() if len(names) > 1]
    entries = [match["code"] for match in ENTRY.finditer(page)]
    heads = re.findall(r"(?m)^### (PS\d{4})", page)
    wrong += [
        f"{code} has no entry with cause and cure in {PAGE.name}" for code in sorted(by_code) if code not in entries
    ]
    wrong += [f"{PAGE.name}: no class has the code {code}" for code in heads if code not in by_code]
    wrong += [f"{PAGE.name}: {code} has two entries" for code in sorted(set(heads)) if heads.count(code) > 1]
    used = {one.kind for one in made}
    return wrong + [f"{name} ({code}) is raised nowhere" for name, code in codes.items() if code and name not in used]


def main() -> int:
    """Exit status: 0 no problems, 1 something is missing or out of date."""
    found = modules(ROOT / "patchstack")
    codes = codes_of(found)
    made = list(sites(found, codes))
    page = PAGE.read_text("utf-8")
    wrong = problems(codes, made, page)
    for line in wrong:
        print(line, file=sys.stderr)
    messages: dict[str, set[str]] = defaultdict(set)
    for one in made:
        messages[codes[one.kind]].add(one.message)

    def entry(match: re.Match[str]) -> str:
        before = match.group(0)[: match.start("messages") - match.start()]
        return f"{before}{listed(messages[match['code']])}\n"

    stale = kept(PAGE, ENTRY.sub(entry, page).rstrip("\n") + "\n")
    print(f"{len(made)} places make errors, {len(messages)} codes")
    return 1 if wrong else stale


if __name__ == "__main__":
    sys.exit(main())
