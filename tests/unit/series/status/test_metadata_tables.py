"""`patchstack docs` and `status --patches`: tables made from the trailers of the commits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchstack.errors import UsageError
from patchstack.evidence.ledger import Candidate, Decision, Ledger, Outcome
from patchstack.report.markdown import metadata_table, placed
from patchstack.series.files.directory import load_series
from patchstack.series.status.metadata import PatchMetadata, read_metadata
from tests.conftest import Patchstack, RunCli
from tests.support.builders import Fork, a_fork, snapshot

TABLE = """\
| patch | subject | group | switch | default | gates | upstream | replaces |
| --- | --- | --- | --- | --- | --- | --- | --- |
| [0001](../patches/0001-feat-paged-paged-KV-cache.patch) | feat(paged): paged KV cache | paged | `LLAMA_KV_PAGED` \
| `off` | `transcript, ops` | https://example.com/pull/1 |  |
| [0002](../patches/0002-fix-moe-a-b.patch) | fix(moe): a\\|b |  |  |  |  |  | 0009 |
| [0003](../patches/0003-Plain.patch) | Plain |  |  |  |  |  |  |"""


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    """Return a fork of three commits, two with trailers, and its series from real git."""
    fork = a_fork(tmp_path, 0)
    told = "Switch: LLAMA_KV_PAGED\nDefault: off\nGates: transcript, ops\nGroup: paged\n"
    fork.repo.commit(
        "feat(paged): paged KV cache",
        {"src/paged.h": "one\n"},
        body=f"A body.\n\n{told}Upstream: https://example.com/pull/1\nSigned-off-by: A <a@example.com>",
    )
    fork.repo.commit("fix(moe): a|b", {"src/moe.h": "two\n"}, body="Replaces: 0009")
    fork.repo.commit("Plain", {"src/plain.h": "three\n"}, body="Not a trailer: no\nreally")
    fork.export()
    workspace(fork)
    return fork


def workspace(fork: Fork, names: tuple[str, ...] = ("product",)) -> None:
    entry = f"    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n"
    forked = f"    fork: fork\n    fork_ref: {fork.ref}\n"
    text = "".join(f"  {name}:\n{entry}{forked}" for name in names)
    (fork.series.parent / "patchstack.yaml").write_text(f"series:\n{text}")


def document(fork: Fork, *names: str, newline: str = "\n") -> Path:
    """Return a document with a place for each series."""
    path = fork.series.parent / "docs" / "patches.md"
    path.parent.mkdir(exist_ok=True)
    places = "\n".join(f"<!-- patchstack: series {name} -->\n<!-- /patchstack -->\n" for name in names)
    path.write_bytes(f"# Ours\n\n{places}\nBelow.\n".replace("\n", newline).encode())
    return path


def test_the_table_is_made_from_the_trailers_of_the_commits(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("docs")
    assert ran.code == 0
    assert ran.stdout == TABLE.replace("../patches/", "patches/") + "\n"


def test_in_a_document_it_stands_in_its_place_and_nothing_else_changes(
    fork: Fork, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    path = document(fork, "product")
    path.chmod(0o640)
    assert patchstack("docs", "--output", path) == 0
    assert capsys.readouterr().out == f"{path}: written\n"
    begin, end = "<!-- patchstack: series product -->", "<!-- /patchstack -->"
    assert path.read_text() == f"# Ours\n\n{begin}\n\n{TABLE}\n\n{end}\n\nBelow.\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(path.parent) == [path.name]
    before = snapshot(path.parent)
    assert patchstack("docs", "-o", path) == 0
    assert capsys.readouterr().out == f"{path}: up to date\n"
    assert snapshot(path.parent) == before


def test_check_tells_a_document_that_is_not_up_to_date_and_writes_nothing(
    fork: Fork, patchstack: Patchstack, run_cli: RunCli
) -> None:
    path = document(fork, "product")
    ran = run_cli("docs", "-o", path, "--check")
    assert ran.code == 1
    assert ran.stdout == f"{path}: not up to date\n"
    assert f"next: patchstack docs -o {path}" in ran.stderr
    assert patchstack("docs", "-o", path) == 0
    assert run_cli("docs", "-o", path, "--check").code == 0
    fork.edit_patch(2, "Replaces: 0009", "Replaces: 0010")
    assert run_cli("docs", "-o", path, "--check").code == 1
    assert run_cli("docs", "--check").code == 2


def test_each_of_several_series_has_its_own_place(fork: Fork, patchstack: Patchstack, run_cli: RunCli) -> None:
    workspace(fork, ("one", "two"))
    printed = run_cli("docs").stdout
    assert printed.startswith("## one\n\n| patch |") and "\n\n## two\n\n| patch |" in printed
    path = document(fork, "two", "one")
    assert patchstack("docs", "two", "-o", path) == 0
    assert path.read_text().count("| [0001]") == 1
    assert patchstack("docs", "-o", path) == 0
    assert path.read_text().count("| [0001]") == 2


def test_lines_that_end_in_crlf_go_on_doing_so(fork: Fork, patchstack: Patchstack) -> None:
    path = document(fork, "product", newline="\r\n")
    assert patchstack("docs", "-o", path) == 0
    data = path.read_bytes()
    assert b"| [0001]" in data and data.count(b"\n") == data.count(b"\r\n")
    assert patchstack("docs", "-o", path, "--check") == 0


@pytest.mark.parametrize(
    ("text", "chosen", "complaint"),
    [
        ("nothing\n", False, "the table of s has no place"),
        ("<!-- patchstack: series t -->\n<!-- /patchstack -->\n", True, "the table of s has no place"),
        ("<!-- patchstack: series t -->\n<!-- /patchstack -->\n", False, "doc.md:1: series t does not exist"),
        ("x\n<!-- patchstack: series s -->\n", False, "the place of s is not closed"),
        ("<!-- /patchstack -->\n", False, "doc.md:1: <!-- /patchstack --> has no opening comment"),
        (
            "<!-- patchstack: series s -->\n<!-- patchstack: series s -->\n<!-- /patchstack -->\n",
            False,
            "doc.md:2: the place of s above is not closed",
        ),
    ],
)
def test_places_that_are_missing_or_not_closed_are_named(text: str, chosen: bool, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        placed(text, "doc.md", {"s": "table"}, chosen=chosen)
    assert any(complaint in problem for problem in caught.value.problems), caught.value.problems
    assert "<!-- /patchstack -->" in (caught.value.hint or "")


def test_a_document_that_is_not_there_is_not_made(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("docs", "-o", "nowhere.md")
    assert ran.code == 2
    assert "error: nowhere.md cannot be read: No such file or directory" in ran.stderr


@pytest.mark.parametrize(
    ("subject", "cell"),
    [
        ("a|b", r"a\|b"),
        ("<!-- /patchstack --> & <b>", "&lt;!-- /patchstack --> &amp; &lt;b>"),
        ("[click](http://x) *now*", r"\[click\](http://x) \*now\*"),
        ("use_mmap of _this_", r"use_mmap of \_this\_"),
        ("red \x1b[31m\nalert", r"red \\x1b\[31m alert"),
    ],
)
def test_what_others_wrote_says_in_markdown_just_that(subject: str, cell: str) -> None:
    patch = PatchMetadata(file="0001 x.patch", number=None, subject=subject, values={"switch": ("a|b `c`",)})
    row = metadata_table([patch], ".").split("\n")[-1]
    assert row.startswith(f"| [-](0001%20x.patch) | {cell} | ")
    assert r"a\|b `c`" in row


def test_status_shows_every_patch_with_its_metadata(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("status", "--patches")
    lines = ran.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("number"))
    assert lines[at].split() == [
        "number",
        "subject",
        "state",
        "group",
        "switch",
        "default",
        "gates",
        "upstream",
        "replaces",
    ]
    assert lines[at + 1].split("  ")[-1] == "-"
    assert "ok     paged  LLAMA_KV_PAGED  off      transcript, ops  https://example.com/pull/1" in lines[at + 1]
    assert lines[at + 3].split() == ["0003", "Plain", "ok", *"------"]
    document = run_cli("status", "--patches", "--json").document
    assert document["patches"][1] == {
        "file": "0002-fix-moe-a-b.patch",
        "number": 2,
        "subject": "fix(moe): a|b",
        "state": "ok",
        "metadata": {
            **{name: [] for name in ("group", "switch", "default", "gates", "new_gates", "upstream")},
            **{name: [] for name in ("scope", "reason", "drop_when", "drop_check")},
            "replaces": ["0009"],
        },
    }
    assert run_cli("status", "--json").document["patches"] is None


def test_after_an_export_the_tables_say_the_same(fork: Fork, patchstack: Patchstack) -> None:
    before = read_metadata(load_series(fork.series))
    assert patchstack("export") == 0
    assert read_metadata(load_series(fork.series)) == before


def test_a_patch_that_the_ledger_accepted_links_to_the_decision(
    fork: Fork, patchstack: Patchstack, run_cli: RunCli
) -> None:
    root = fork.series.parent
    for path in fork.series.glob("*.patch"):
        path.unlink()
    assert patchstack("export") == 0
    head = fork.repo.head()
    below = fork.repo.parent(head)
    taken = Candidate(commit=head, subject="Plain", patch_id="", tree="")
    turned = Candidate(commit=below, subject="fix(moe): a|b", patch_id="", tree="")
    ledger = Ledger(root / "ledger")
    made = "2026-11-21T00:00:00+00:00"
    yes = Decision(outcome=Outcome.ACCEPTED, candidates=(taken,), series="product", made=made, why="why")
    no = Decision(outcome=Outcome.REJECTED, candidates=(turned,), series="product", made=made, why="why")
    for decision in (yes, no):
        ledger.write(decision)
    rows = run_cli("docs").stdout.splitlines()
    assert rows[0].endswith("| accepted |")
    assert [row.rsplit(" | ", 1)[-1] for row in rows[2:]] == [" |", " |", f"[`{yes.id[:12]}`](ledger/{yes.id}.json) |"]
