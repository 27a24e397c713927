"""Count German patterns in the texts of this project, file by file. The counts in words.allowed may only decrease. Each
pattern names the rule of plain English that it breaks. Texts are everything that a person reads: documentation, and
comments, docstrings and messages in code. With --write, lower counts are recorded; a higher count is still an error.
Usage: words.py [--write] [--show FILE ...]
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
ALLOWED = ROOT / "ci" / "words.allowed"
SUFFIXES = {".md", ".py", ".sh", ".toml", ".yml", ".yaml", ".html", ".txt", ".cff", ""}
# Not counted: what is not ours to word, what programs printed, what is written from something counted, the text that
# gates read (its bytes are evidence), and this list of bad examples.
LEFT_OUT = re.compile(
    r"ci/words\.(py|allowed)|tests/unit/ci/test_words\.py|LICENSE|ci/(constraints|requirements)\b.*|(evidence|ledger|patches)/.*"
    r"|docs/reference/(cli|gate-kinds|schemas/.*)(\.md)?|tests/data/.*|docs/troubleshooting\.md"
    r"|docs/concepts\.md|docs/recorded/.*"
)
_BLANK = r"(?:\s|\n *#)+"

PATTERNS: dict[str, str] = {
    "use is or says, stand is for people": (
        r"\b(?:stands?|stood) (?:in|on|at|under|beside|between|before|behind|there|above|below|with|still)\b"
        r"|\bwhat stands\b|\bas (?:it|they) stands?\b|\bwhere (?:\w+ ){1,4}stands?\b"
    ),
    "use after; behind is for a branch": r"\bbehind\b(?! (?:ssh|a proxy|the fork|upstream)\b)",
    "use if for a condition": (
        r"\bwhere (?:there (?:is|are|was|were)|none|nothing|(?:it|that|this) (?:has|does|can|cannot|holds|lacks|wants)"
        r"|they (?:have|do|can|cannot))\b|\b[Ee]xits? with \d+ where\b|\bRaises `\w+` where\b"
    ),
    "use different, or changes": r"\banother one\b|\bbecomes? another\b|\bmakes? another of\b",
    "use compare with, or check": r"\b(?:holds?|held|holding) (?:[\w`'/-]+ ){0,6}against\b",
    "use exists, is missing, no longer": (
        r"\b(?:is|are|was|were) (?:not )?there(?: (?:already|yet|too))?(?=[.,;:)`]| and | or |$)"
        r"|\bthat (?:is|are) there\b"
        r"|\bha(?:s|ve) no more\b|\bnowhere to be had\b|\bnot to be had\b|\bto be had\b"
    ),
    "use is not a": (
        r"(?<!here\s)\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|such\b|need\b|doubt\b|different\b)(?=[a-z`])"
    ),
    "use again, or new": r"\banew\b",
    "use the common word": (
        r"\bhabits? of the house\b|\bbesides(?=[.,;:])|\bunawares\b|\bwhence\b|\bthereof\b|\bherein\b|\bthereby\b"
        r"|\bmany a\b|\bwhosoever\b|\bof its own accord\b|\b(?:whether|if) (?:it|that) is so\b|\bhence\b"
    ),
}
EVERY = {rule: re.compile(one.replace(" ", _BLANK), re.MULTILINE) for rule, one in PATTERNS.items()}


def files() -> list[str]:
    """Return the files that are tracked or new, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = sorted(set(filter(None, listed.stdout.split("\0"))))
    return [
        name
        for name in names
        if Path(name).suffix in SUFFIXES and not LEFT_OUT.fullmatch(name) and (ROOT / name).is_file()
    ]


def prose(name: str, text: str) -> str:
    """Return the text without parts that are not prose: in Markdown the screens, which programs print."""
    if name.endswith(".md"):
        return re.sub(r"(?ms)^ *```\w* *$.*?^ *```$", lambda block: "\n" * block[0].count("\n"), text)
    return text


def hits(name: str) -> list[tuple[int, str, str]]:
    """Return every hit in a file: line, words, rule."""
    text = prose(name, (ROOT / name).read_text("utf-8", errors="replace"))
    found = [
        (text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), rule)
        for rule, pattern in EVERY.items()
        for match in pattern.finditer(text)
    ]
    return sorted(found)


def allowed() -> dict[str, int]:
    """Return how many hits each file may have."""
    lines = ALLOWED.read_text("utf-8").splitlines() if ALLOWED.is_file() else []
    return {name: int(count) for count, name in (line.split(" ", 1) for line in lines)}


def main() -> int:
    """Exit status: 0 no count changed or lower counts were recorded, 1 a count rose, or fell and was not recorded."""
    if "--show" in sys.argv:
        for name in sys.argv[sys.argv.index("--show") + 1 :]:
            print(*(f"{name}:{line}: {words!r}: {rule}" for line, words, rule in hits(name)), sep="\n")
        return 0
    limits, found = allowed(), {name: hits(name) for name in files()}
    counts = {name: len(here) for name, here in found.items() if here}
    higher = [name for name, count in counts.items() if count > limits.get(name, 0)]
    lower = [name for name, limit in limits.items() if counts.get(name, 0) < limit]
    for name in higher:
        print(*(f"{name}:{line}: {words!r}: {rule}" for line, words, rule in found[name]), sep="\n", file=sys.stderr)
        print(f"{name}: {counts[name]}, allowed {limits.get(name, 0)}", file=sys.stderr)
    if "--write" in sys.argv:
        kept = {name: min(count, limits.get(name, 0)) for name, count in counts.items()} if limits else counts
        ALLOWED.write_text("".join(f"{count} {name}\n" for name, count in sorted(kept.items()) if count), "utf-8")
    elif lower:
        print(f"fewer than allowed in {len(lower)} files, write that down: ci/words.py --write", file=sys.stderr)
    print(f"{sum(counts.values())} German patterns in {len(counts)} files, allowed {sum(limits.values())}")
    return 1 if higher or (lower and "--write" not in sys.argv) else 0


if __name__ == "__main__":
    sys.exit(main())
