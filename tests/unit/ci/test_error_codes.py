"""The check that every error has a code and an entry: on this package, and on small ones that break a rule each."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

ERRORS = """class PatchstackError(Exception):
    code = ""


class UsageError(PatchstackError):
    pass
"""
CAUSES = """from patchstack.errors import UsageError


class BadValue(UsageError):
    code = "PS0102"
"""
ENTRY = "## Words\n\n### PS0102: a value\n\n**Cause.** Wrong.\n\n**Cure.** Other.\n\n<!-- messages -->\n"
RAISES = "from patchstack.causes import BadValue\n\n\ndef f(x):\n    raise BadValue(f'no {x} ' + 'here')\n"


def checked(root: Path, raises: str = RAISES, page: str = ENTRY, causes: str = CAUSES) -> tuple[int, str, str]:
    """Return the exit status, the complaints, and the written page."""
    for name in ("error_codes.py", "document.py"):
        (root / "ci").mkdir(exist_ok=True)
        shutil.copy(ROOT / "ci" / name, root / "ci" / name)
    (root / "patchstack").mkdir()
    (root / "docs").mkdir()
    (root / "patchstack" / "errors.py").write_text(ERRORS)
    (root / "patchstack" / "causes.py").write_text(causes)
    (root / "patchstack" / "raises.py").write_text(raises)
    (root / "docs" / "troubleshooting.md").write_text(page)
    command = [sys.executable, str(root / "ci" / "error_codes.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, (root / "docs" / "troubleshooting.md").read_text()


def test_messages_are_listed_in_their_entry(tmp_path: Path) -> None:
    code, complaints, page = checked(tmp_path)
    assert (code, complaints) == (0, "")
    assert page == ENTRY + "\n- `no … here`\n"
    command = [sys.executable, str(tmp_path / "ci" / "error_codes.py"), "--check"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    (tmp_path / "patchstack" / "raises.py").write_text(RAISES.replace("here", "there"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "out of date" in done.stderr


@pytest.mark.parametrize(
    ("raises", "place"),
    [
        ("from patchstack.errors import UsageError\n\nraise UsageError('x')\n", "patchstack/raises.py:3: UsageError"),
        ("from patchstack.errors import UsageError as E\nx = E('x')\n", "patchstack/raises.py:2: UsageError"),
        ("from patchstack import errors\nraise errors.UsageError\n", "patchstack/raises.py:2: UsageError"),
        ("def f():\n from patchstack.errors import UsageError as E\n raise E\n", "patchstack/raises.py:3: UsageError"),
        ("from patchstack.causes import BadValue\nclass A(BadValue): pass\nraise A\n", "patchstack/raises.py:3: A"),
    ],
)  # fmt: skip
def test_an_error_without_a_code_is_named_with_its_place(tmp_path: Path, raises: str, place: str) -> None:
    code, complaints, _ = checked(tmp_path, raises)
    assert code == 1
    assert f"{place} has no code: use a class of patchstack.causes\n" in complaints


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("# Nothing\n", "PS0102 has no entry with cause and cure"),
        (ENTRY.replace("**Cure.** Other.\n\n", ""), "PS0102 has no entry with cause and cure"),
        (ENTRY + ENTRY, "PS0102 has two entries"),
        (ENTRY + ENTRY.replace("0102", "0103"), "no class has the code PS0103"),
    ],
)
def test_an_entry_that_is_missing_or_too_many_is_named(tmp_path: Path, page: str, complaint: str) -> None:
    code, complaints, _ = checked(tmp_path, page=page)
    assert code == 1 and complaint in complaints


@pytest.mark.parametrize(
    ("causes", "complaint"),
    [
        (CAUSES + "\n\nclass Other(UsageError):\n    code = 'PS0102'\n", "PS0102 is the code of"),
        (CAUSES + "\n\nclass Other(UsageError):\n    code = 'PS0103'\n", "Other (PS0103) is raised nowhere"),
        (CAUSES.replace("PS0102", "PS12"), "is not of the form PS0000"),
    ],
)
def test_codes_are_unique_and_used(tmp_path: Path, causes: str, complaint: str) -> None:
    code, complaints, _ = checked(tmp_path, causes=causes)
    assert code == 1 and complaint in complaints
