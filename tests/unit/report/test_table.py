"""Tables on terminals of every width: important cells are never cut, and a pipe gets every cell in full."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from rich.console import Console

from patchstack.builds.record.record import BUILT, BuildDocument
from patchstack.cli import gate as gate_command
from patchstack.evidence.ledger import Candidate, Decision, Ledger, Outcome
from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import drift
from patchstack.machine.local.doctor import State as DoctorState
from patchstack.report import build, canary, doctor, export, gate, ledger, lint, machine, status, sync, table, verify
from patchstack.report.gate import print_judgement_table
from patchstack.report.table import Give, Table, middle_out, plain_lines, print_fitted, print_table
from patchstack.series.mirror.export import Change
from patchstack.series.verify.states import State as VerifyState
from patchstack.upstream.canary.result import State as CanaryState
from patchstack.verdict import Verdict
from tests.support.terminal import on_terminal, without_colour
from tests.unit.report.documents.test_read import BUILD, the_report

WIDTHS = (60, 80, 100, 140, 200)
PROSE = "server: return the blocks of a slot when it ends, and say so in a trace that others read (LLAMA_KV_PAGED)"
PATH = "ggml/src/ggml-cuda/template-instances/a/long/way/down/fattn-vec-instance-q8_0-q8_0.cu"
PATCH = "0017-kv-cache-return-blocks-on-every-removal-of-a-sequence-LLAMA_KV_PAGED.patch"
SHA = "0123456789abcdef" * 4


def some(**values: object) -> Any:
    """Return a stand-in with these attributes."""
    return SimpleNamespace(**values)


def word(text: str) -> Any:
    """Return a stand-in for a member of an enumeration."""
    return some(value=text)


def printed_by(function: Callable[..., None], *arguments: object, **options: object) -> list[Table]:
    """Return the tables that a function prints."""
    found: list[Table] = []
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        for module in (build, gate, ledger, table):
            context.setattr(module, "print_table", found.append)
        function(*arguments, **options)
    assert found
    return found


def of_verify() -> Table:
    states = tuple(VerifyState)
    rows = [
        some(number=n, file=PATCH, subject=PROSE, tree=SHA[:40], fork_commit=SHA[:40], state=state)
        for n, state in enumerate(states)
    ]
    return verify.verify_table(some(rows=rows))


def of_canary() -> Table:
    patches = [
        some(
            number=n,
            file=PATCH,
            subject=PROSE,
            strict="conflicts",
            threeway="conflicts",
            state=state,
            like=None,
            caused_by=None,
            first_broken=some(root=True, commit=some(label="#123456")),
            collides=(),
        )
        for n, state in enumerate(CanaryState)
    ]
    return canary.canary_table(some(patches=patches))


def of_sync() -> Table:
    items = [
        some(
            label=f"{n:04d}",
            subject=PROSE,
            result=SHA,
            commit="c",
            fate=word(fate),
            reason=PROSE,
            by_hand=False,
            stored="",
            remembered=(),
        )
        for n, fate in enumerate(("unchanged", "context only", "changed", "landed", "skipped", "dropped"))
    ]
    return sync.sync_table(some(report=None, items=items))


def of_export() -> Table:
    files = [some(change=change, file=PATCH, was=f"0016{PATCH[4:]}") for change in Change]
    return export.export_table(some(files=files))


def of_doctor() -> Table:
    checks = [
        some(group=group, name="space in the cache directory", state=state, found=f"{PATH} {PROSE}")
        for group, state in zip(("verify", "build", "build", "gate"), [*DoctorState] * 2, strict=False)
    ]
    return doctor.doctor_table(some(checks=checks))


def of_preflight() -> Table:
    checks = [
        some(name=name, verdict=verdict, allowed=True, words=PROSE)
        for name, verdict in zip(("persistence-mode", "other-users", "clocks"), Verdict, strict=True)
    ]
    return machine.preflight_table(some(checks=checks))


def of_lint() -> Table:
    findings = [some(number=17, file=PATCH, line=10_000, rule="comment-style", message=PROSE)]
    findings += [some(number=None, file=PATCH, line=1, rule="name-of-the-file", message=PROSE)]
    return lint.lint_table(some(findings=findings))


def of_rules() -> Table:
    return lint.rules_table([some(id="trailing-whitespace", reason=PROSE), some(id="x", reason="short")])


def of_status() -> Table:
    patches = [some(number=17, file=PATCH, subject=PROSE, told=lambda name: f"LLAMA_KV_PAGED_{name}, {PROSE[:30]}")]
    return status.patches_table(some(patches=patches, states={PATCH: "does not apply"}))


def of_surface() -> Table:
    labels = tuple(f"{n:04d}" for n in range(1, 60, 2))
    file = some(removed=False, path=PATH, binary=False, hunks=12, inserted=1234, changed=567, patches=labels)
    own = some(path=PATH, binary=False, lines=104_248, patches=labels)
    return status.surface_table(some(upstream=[file], own=[own]))


def of_ledger() -> Table:
    candidate = Candidate(commit=SHA[:40], subject=PROSE, patch_id="p", tree="t")
    decisions = [
        Decision(outcome=outcome, series="paged", made="2026-11-21T10:00:00Z", why=PROSE * 3, candidates=(candidate,))
        for outcome in Outcome
    ]
    return printed_by(ledger.print_decisions, decisions)[0]


def of_suite() -> Table:
    checks = [
        gate.Checked(
            phase="unchanged",
            check="greedy-qwen35moe-cuda-graphs",
            kind="backend-ops",
            judgement=Judgement(verdict=verdict, reason=PROSE, actual=PROSE[:44], expected=PROSE[:44], details={}),
        )
        for verdict in Verdict
    ]
    return printed_by(gate.print_checks, checks)[0]


def of_binaries(number: int = 0) -> Table:
    proofs = [{"id": "device-code", "verdict": str(verdict), "detail": PROSE} for verdict in Verdict]
    binaries = [{"name": "test-backend-ops", "size": 123_456_789, "sha256": SHA}]
    found = {**BUILD, "status": BUILT, "key": SHA, "variant": "cuda", "hit": True, "binaries": binaries}
    found |= {"source": {**BUILD["source"], "label": "paged"}, "proofs": proofs, "rejection": None, "out_dir": "/x"}
    return printed_by(build.print_build, the_report(found))[number]


def of_proofs() -> Table:
    return of_binaries(1)


def of_builds() -> Table:
    proofs = [{"id": "exists", "verdict": str(verdict), "detail": ""} for verdict in Verdict]
    source = {**BUILD["source"], "label": f"paged up to {PATCH}"}
    record = {**BUILD, "key": SHA, "source": source, "variant": "cuda-blackwell", "status": BUILT, "proofs": proofs}
    record |= {"finished": "2026-11-21T10:00:00Z", "rejection": None}
    document = msgspec.convert(record, BuildDocument)
    stored = some(document=lambda *, hit: document, bytes=123_456_789, directory=Path("/x"), key=SHA)
    return printed_by(build.print_builds, [stored], json=False)[0]


def of_drift() -> Table:
    found = {
        "mean": "0.00012345",
        "mean_error": "0.00000123",
        "percentiles": {"99.9%": "0.12345678"},
        "maximum": "12.345678",
        "same_top": "99.123",
        "same_top_error": "0.012",
    }
    contexts = [{"context": 4096, "verdict": str(one), "positions": 123_456, "statistics": found} for one in Verdict]
    return printed_by(print_judgement_table, drift.table_of(some(details={"contexts": contexts})))[0]


def of_suites() -> Table:
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        suite = some(name="unchanged", gates=[some(name="greedy-qwen35moe-cuda", kind="backend-ops", line=1234)])
        context.setattr(gate_command, "the_workspace", lambda _: some(path=Path("/home") / PATH / "patchstack.yaml"))
        context.setattr("patchstack.gates.suite.read_suites", lambda _: [suite])
        return printed_by(gate_command.list_command)[0]


TABLES: Sequence[Callable[[], Table]] = (
    *(of_verify, of_canary, of_sync, of_export, of_doctor, of_preflight, of_lint, of_rules, of_status, of_surface),
    *(of_ledger, of_suite, of_binaries, of_proofs, of_builds, of_drift, of_suites),
)


def on_screen(shown: Table, width: int) -> list[str]:
    """Return the lines on a terminal of this width, without colours."""
    console = Console(
        width=width, height=50, force_terminal=True, color_system=None, highlight=False, file=io.StringIO()
    )
    print_fitted(shown, console)
    return cast(io.StringIO, console.file).getvalue().splitlines()


def columns_of(lines: Sequence[str], titles: Sequence[str]) -> dict[str, str]:
    """Return the text below each title, with joined lines; for rows as blocks, all text of the title's lines."""
    starts = [(lines[0].find(title), title) for title in titles if lines and title in lines[0]]
    if len(starts) > 1 and lines[0].startswith(titles[0]) and lines[0].split()[-1] == starts[-1][1].split()[-1]:
        ends = [start for start, _ in starts[1:]] + [10_000]
        return {
            title: "".join(line[start:end].strip() for line in lines[1:])
            for (start, title), end in zip(starts, ends, strict=True)
        }
    indent = max(map(len, titles)) + 2
    found = dict.fromkeys(titles, "")
    title = ""
    for line in lines:
        title = line[:indent].strip() or title
        found[title] += line[indent:].strip()
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__.removeprefix("of_"))
def test_no_verdict_number_or_name_is_lost_on_a_terminal(make: Callable[[], Table], width: int) -> None:
    shown = make()
    lines = on_screen(shown, width)
    assert max(map(len, lines)) <= width
    below, text = columns_of(lines, shown.titles), "\n".join(lines)
    for column, title in enumerate(shown.titles):
        give = shown.gives.get(title)
        cells = [row[column] for row in shown.rows]
        if give in (None, Give.WORDS, Give.FOLD):
            assert "…" not in below[title]
            assert re.sub(r"\s", "", below[title]) == re.sub(r"\s", "", "".join(cells)), title
        if give is None:
            assert all(cell in text for cell in cells), title
        if give is Give.WORDS:
            assert all(one in text for cell in cells for one in cell.split())
        if give is Give.MIDDLE:
            assert all(re.sub(r"\s", "", below[title]).count(cell[-7:]) for cell in cells)


@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__.removeprefix("of_"))
def test_a_pipe_gets_every_cell_in_full(make: Callable[[], Table], capsys: pytest.CaptureFixture[str]) -> None:
    shown = make()
    capsys.readouterr()
    print_table(shown)
    lines = capsys.readouterr().out.splitlines()
    assert lines == plain_lines(shown)
    assert len(lines) == 1 + len(shown.rows)
    for line, row in zip(lines[1:], shown.rows, strict=True):
        assert all(cell in line for cell in row)


def test_a_reason_is_shown_only_if_there_is_room_for_it() -> None:
    assert "why" not in on_screen(of_ledger(), 80)[0].split()
    wide = on_screen(of_ledger(), 200)
    assert wide[0].split()[-1] == "why"
    assert len(wide) == 3
    assert wide[1].endswith("…")


def test_rows_become_blocks_if_the_terminal_is_too_narrow_for_columns() -> None:
    narrow = Table(
        titles=("id", "verdict", "why"),
        rows=[("a" * 30, "PASS", ""), ("b", "FAIL", "it broke")],
        styles={},
        gives={"why": Give.FOLD},
    )
    assert [line.rstrip() for line in on_screen(narrow, 38)] == [
        f"id       {'a' * 29}",
        "         a",
        "verdict  PASS",
        "",
        "id       b",
        "verdict  FAIL",
        "why      it broke",
    ]


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short.cpp", 9, "short.cpp"),
        ("src/models/llama.cpp:1234", 16, "src/m…a.cpp:1234"),
        ("目录/目录/文件.cpp", 12, "目…/文件.cpp"),
    ],
)
def test_a_path_loses_its_middle(text: str, width: int, shown: str) -> None:
    assert middle_out(text, width) == shown


@pytest.fixture
def decided(tmp_path: Path) -> Path:
    """Return a workspace with a decision of each kind."""
    (tmp_path / "patchstack.yaml").write_text(
        f"series:\n  paged:\n    upstream: ./upstream\n    patches: patches\n    pin: {'a' * 40}\n    expect: lock\n"
    )
    (tmp_path / "patches").mkdir()
    for number, outcome in enumerate(Outcome):
        candidate = Candidate(commit=SHA[:40], subject=PROSE, patch_id=str(number), tree="t")
        Ledger(tmp_path / "ledger").write(
            Decision(
                outcome=outcome, series="paged", made="2026-11-21T10:00:00Z", why=PROSE * 3, candidates=(candidate,)
            )
        )
    return tmp_path


@pytest.mark.parametrize("width", [80, 140])
def test_the_ledger_on_a_real_terminal_has_all_that_counts(decided: Path, width: int) -> None:
    told = on_terminal(["ledger"], decided, width)
    assert "\x1b[32maccepted" in told
    assert "\x1b[31mrejected" in told
    lines = without_colour(told).splitlines()
    assert lines[0].split()[:5] == ["id", "made", "decision", "series", "subject"]
    assert max(map(len, lines)) <= width
    for one in Ledger(decided / "ledger").read():
        assert any(line.startswith(f"{one.id[:12]}  2026-11-21  {one.outcome}") for line in lines)
    assert "(LLAMA_KV_PAGED)" in told


def test_no_color_is_kept_on_a_real_terminal(decided: Path) -> None:
    assert "\x1b" not in on_terminal(["ledger"], decided, 80, NO_COLOR="1")


@pytest.mark.parametrize(
    ("make", "last"),
    [
        (of_suite, "FAIL  unchanged: 3 gates: 1 PASS, 1 FAIL, 1 INVALID"),
        (of_proofs, "FAIL  paged for cuda: 3 proofs: 1 PASS, 1 FAIL, 1 INVALID"),
    ],
)
def test_what_judges_ends_in_one_verdict(
    make: Callable[[], Table], last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make()
    assert capsys.readouterr().out.splitlines()[-1] == last
