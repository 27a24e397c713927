"""The series that this project maintains: what can be checked without upstream."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchstack.evidence.ledger import Ledger, Outcome, counting
from patchstack.series.files.directory import load_series
from patchstack.series.lock import read_lock
from patchstack.series.status.metadata import read_metadata
from patchstack.workspace import read_workspace
from tests.conftest import Patchstack
from tests.support.checkout import ROOT

SERIES = ROOT / "patches" / "paged"
TRACES = ROOT / "docs" / "reference" / "traces.md"
PAGED = ROOT / "docs" / "reference" / "kv-paged.md"


def patches() -> list[Path]:
    found = sorted(SERIES.glob("*.anchored"))
    assert found
    return found


def files_of_ours() -> set[str]:
    """Return the files that the series adds. Lines that a later patch removes from them are our text."""
    found: set[str] = set()
    for patch in patches():
        text = patch.read_text(encoding="utf-8")
        found.update(re.findall(r"^diff --git a/(\S+) b/\1\nnew file mode ", text, re.MULTILINE))
    return found


@pytest.mark.parametrize("patch", patches(), ids=lambda path: path.name[:4])
def test_a_patch_holds_only_lines_that_it_adds(patch: Path) -> None:
    """A patch has no context, no function names, and removes lines only from our files: it has no text of upstream."""
    text = patch.read_text(encoding="utf-8")
    diff = text[text.index("\ndiff --git ") :].removesuffix("\n").splitlines()
    in_hunk, changed, ours, file = False, 0, files_of_ours(), ""
    for line in diff[1:]:
        if line.startswith("diff --git "):
            in_hunk, file = False, line.rpartition(" b/")[2]
        elif line.startswith("@@"):
            removes = r"\d+(,\d+)?" if file in ours else r"\d+,0"
            assert re.fullmatch(rf"@@ -{removes} \+\d+(,\d+)? @@", line), line
            in_hunk = True
        elif in_hunk:
            kept = line.startswith("+") or line == r"\ No newline at end of file"
            assert kept or (line.startswith("-") and file in ours), line
            changed += 1
        else:
            assert re.match(r"(index [0-9a-f]{40}\.\.[0-9a-f]{40}|new file mode 100644|--- |\+\+\+ )", line), line
    assert changed


def test_the_lock_knows_these_very_files() -> None:
    lock = read_lock(SERIES)
    assert lock is not None
    config = read_workspace(ROOT / "patchstack.yaml").select(["paged"])[0]
    assert lock.base_commit == config.pin
    assert {one.file: one.sha256 for one in lock.patches} == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in patches()
    }


def test_every_patch_was_accepted_and_nothing_else_was() -> None:
    lock = read_lock(SERIES)
    assert lock is not None
    accepted = [
        commit
        for commit, decision in counting(Ledger(ROOT / "ledger").read()).items()
        if decision.outcome is Outcome.ACCEPTED and decision.format == 2
    ]
    assert sorted(accepted) == sorted(one.commit for one in lock.patches)


def texts_of_others(diff: str) -> Iterator[str]:
    """Return the lines of context, and removed lines of files that the series does not add."""
    ours = files_of_ours()
    for part in re.split(r"^diff --git ", diff, flags=re.MULTILINE)[1:]:
        file = part.partition("\n")[0].rpartition(" b/")[2]
        hunks = part.partition("\n@@")[2].splitlines()[1:]
        yield from (line for line in hunks if line.startswith(" ") or (line.startswith("-") and file not in ours))


def test_no_decision_keeps_text_of_upstreams_or_places_of_a_machine() -> None:
    for path in (ROOT / "ledger").glob("*.json"):
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for candidate in document["candidates"]:
            assert not list(texts_of_others(candidate["diff"])), path
        assert not re.search(r"/(home|root|work)/", path.read_text(encoding="utf-8")), path


def test_the_page_of_the_series_is_up_to_date(
    patchstack: Patchstack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert patchstack("docs", "--check", "-o", "docs/series.md") == 0, capsys.readouterr()


def test_every_switch_is_off_by_default_and_documented() -> None:
    told = TRACES.read_text(encoding="utf-8") + PAGED.read_text(encoding="utf-8")
    for patch in read_metadata(load_series(SERIES, "paged")):
        assert patch.told("group") and patch.told("default") == "off", patch.file
        for switch in patch.values.get("switch", ()):
            assert f"`{switch}`" in told or f"## {switch}" in told, f"{patch.file}: {switch}"


def records() -> dict[str, list[dict[str, str]]]:
    """Return the examples of the page of traces, read by the parser on that page."""
    page = TRACES.read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert code is not None
    given: dict[str, Any] = {}
    exec(code[1], given)  # noqa: S102  (our own page)
    text = "\n".join(re.findall(r"```text\n(.*?)```", page, re.DOTALL))
    names = sorted(set(re.findall(r"\btrace_\w+", text)))
    return {name: given["records"](text, name) for name in names}


def test_the_examples_of_traces_are_read_by_the_parser_beside_them() -> None:
    found = records()
    assert len([name for name in found if name.endswith("_summary")]) >= 8
    for name, examples in found.items():
        assert examples, name
        assert all(len(example) >= 3 for example in examples), name


@pytest.mark.parametrize("name", [name for name in records() if not name.endswith("_summary")])
def test_every_key_of_a_record_is_explained(name: str) -> None:
    page = TRACES.read_text(encoding="utf-8")
    (section,) = [part for part in page.split("\n## ") if f"\n{name} " in part]
    explained = set(re.findall(r"`(\w+)`", section))
    keys = {key for example in records()[name] for key in example}
    if {"ne0", "ne3"} <= explained:
        explained |= {"ne1", "ne2"}
    assert keys <= explained, sorted(keys - explained)
