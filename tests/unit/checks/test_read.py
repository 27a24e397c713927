"""Reading checks from `patchstack.yaml`, and refused ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.checks.registry import KINDS, kind_of
from tests.support.checking import a_check, complaints

PRESENT = "- {name: hook, patch: 1, kind: present, pattern: x}\n"


def test_a_check_is_read_with_what_it_does_not_say() -> None:
    assert all(kind_of(name).name == name for name in KINDS)


def test_defaults(tmp_path: Path) -> None:
    check = a_check(tmp_path, PRESENT)
    assert (check.patch, check.files, check.at_patch, check.seconds, check.of) == (1, (), False, 10.0, "0001")
    assert (check.file, check.line) == (tmp_path / "patchstack.yaml", 7)


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    check = a_check(
        tmp_path,
        """
        - name: all
          what: Says it all.
          patch: 3
          at: patch
          kind: present
          pattern: x
          files: ["src/**"]
          time: 2s
        """,
    )
    assert (check.patch, check.files, check.at_patch, check.seconds) == (3, ("src/**",), True, 2.0)
    assert check.what == "Says it all."
    assert a_check(tmp_path, "- {name: a, patch: series, kind: present, pattern: x}").of == "series"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("kind: present, pattern: x, patch: 1", "name is missing"),
        ("name: a b, kind: present, pattern: x, patch: 1", "may only contain letters"),
        ("name: a, kind: presnt, pattern: x, patch: 1", "'presnt' is not one of present, absent, sites, command"),
        ("name: a, patch: 1, pattern: x", "kind is missing"),
        ("name: a, kind: present, pattern: x", "the number of a patch, or series"),
        ("name: a, kind: present, pattern: x, patch: 1.5", "the number of a patch, or series"),
        ("name: a, kind: present, pattern: x, patch: series, at: patch", "`at: patch` needs the number of a patch"),
        ("name: a, kind: present, pattern: x, patch: 1, at: pin", "'pin' is not one of patch, series, upstream"),
        ("name: a, kind: present, pattern: x, patch: 1, files: []", "must be a list of globs"),
        ("name: a, kind: present, pattern: x, patch: 1, time: soon", "'soon' is not a time"),
        ("name: a, kind: present, patch: 1", "pattern is missing"),
        ("name: a, kind: present, pattern: '(', patch: 1", "is not a regular expression"),
        ("name: a, kind: present, pattern: 'x*', patch: 1", "matches everywhere"),
        ("name: a, kind: present, pattern: '(a)(b)', patch: 1", "more than one group"),
        ("name: a, kind: present, pattern: x, patch: 1, at_least: 0", "is less than 1"),
        ("name: a, kind: present, pattern: x, patch: 1, pattren: y", "unknown key, perhaps you meant pattern"),
        ("name: a, kind: absent, pattern: x, patch: 1", "needs allow:"),
        ("name: a, kind: absent, pattern: x, patch: 1, allow: {}", "needs allow:"),
        ("name: a, kind: absent, pattern: x, patch: 1, example: y", "the pattern does not match the example"),
        ("name: a, kind: sites, pattern: x, patch: 1, sites: {}", "no sites are listed"),
        ("name: a, kind: sites, pattern: x, patch: 1, recorded: now, sites: {a.c: []}", "a.c has no sites"),
        ("name: a, kind: sites, pattern: x, patch: 1, sites: {a.c: [f]}", "needs recorded:"),
        ("name: a, kind: command, patch: 1", "run is missing"),
        ("name: a, kind: command, patch: 1, run: []", "run must be a list of words"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line(tmp_path: Path, entry: str, told: str) -> None:
    found = complaints(tmp_path, f"- {{{entry}}}\n")
    assert any(told in one for one in found), found


def test_two_checks_have_two_names(tmp_path: Path) -> None:
    assert any("two checks are named hook" in one for one in complaints(tmp_path, PRESENT + PRESENT))
