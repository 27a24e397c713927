"""The set of operator cases that a backend must run: a count and a digest, and the names where a file has them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import ConfigError, MissingError

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseList:
    """The cases of a reference. `names` are sorted, and may repeat; None where only count and digest are known."""

    count: int
    sha256: str
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How the cases that were run differ from a reference. `lost` and `new` name them. `unknown`: the sets differ, and
    the reference has no names to say how; `fewer` is then how many cases are missing at least."""

    lost: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    unknown: bool = False
    fewer: int = 0


def digest_of(names: Iterable[str]) -> str:
    """SHA-256, in hex, of the sorted names, each with a newline."""
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(names)).encode()).hexdigest()


def case_list(names: Iterable[str]) -> CaseList:
    """A list with its names."""
    ordered = tuple(sorted(names))
    return CaseList(count=len(ordered), sha256=digest_of(ordered), names=ordered)


def compared(names: Sequence[str], reference: CaseList) -> Coverage:
    """What was run against what must be."""
    if reference.names is None:
        if digest_of(names) == reference.sha256:
            return Coverage()
        return Coverage(unknown=True, fewer=max(0, reference.count - len(names)))
    ran, must = Counter(names), Counter(reference.names)
    return Coverage(lost=tuple(sorted((must - ran).elements())), new=tuple(sorted((ran - must).elements())))


def read_case_list(path: Path) -> CaseList:
    """A file with a full name a line; blank lines and lines that start with `#` are left out.

    Raises `MissingError` where it cannot be read, `ConfigError` for one that has no cases.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise MissingError(f"the list of cases {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the list of cases {path} is not text: {error}") from error
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not names:
        raise ConfigError(f"the list of cases {path} has none", hint="a reference that asks for nothing would pass")
    if odd := next((name for name in names if not re.fullmatch(r"[^\s(]+\(.*\)", name)), None):
        raise ConfigError(
            f"{path}: {odd[:80]!r} is no case", hint="a case is OP(parameters), as test-backend-ops has it"
        )
    return case_list(names)


def is_digest(text: str) -> bool:
    """Whether a text can be the digest of a list."""
    return _DIGEST.match(text) is not None
