"""The ledger: one file a decision, named by its content, found by words and by similarity."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from patchstack.errors import ConfigError, MissingError, UsageError
from patchstack.evidence.ledger import Candidate, Decision, Ledger, Outcome, counting, time_of_decision
from patchstack.evidence.resemblance import resembling, symbols_of

DIFF = """\
diff --git a/ggml/src/ggml-cuda/mmq.cu b/ggml/src/ggml-cuda/mmq.cu
--- a/ggml/src/ggml-cuda/mmq.cu
+++ b/ggml/src/ggml-cuda/mmq.cu
@@ -1,2 +1,4 @@ static void launch(int n) {
+#define GGML_CUDA_SMALL_M_TILE 8
+static int get_mmq_x_small_m(int m) { return m < 8 ? 8 : 16; }
-    mul_mat_q_case<type>(ctx, args, stream);
+    if (getenv("GGML_SMALL_M")) mul_mat_q_small_m<type>(ctx, args, stream);
"""


def a_candidate(**changes: object) -> Candidate:
    whole = Candidate(
        commit="c" * 40,
        subject="cuda: a small-M tile for MMQ",
        patch_id="1" * 40,
        tree="e" * 40,
        files=("ggml/src/ggml-cuda/mmq.cu",),
        symbols=symbols_of(DIFF),
        diff=DIFF,
    )
    return dataclasses.replace(whole, **changes)  # type: ignore[arg-type]


def a_decision(**changes: object) -> Decision:
    whole = Decision(
        outcome=Outcome.REJECTED,
        series="paged",
        made="2026-07-01T10:00:00+00:00",
        why="Decode at n128 fell by 2.2 %.",
        candidates=(a_candidate(),),
        tags=("tile", "phase-24"),
        evidence={"gates": [{"name": "moe", "verdict": "PASS"}]},
    )
    return dataclasses.replace(whole, **changes)  # type: ignore[arg-type]


def test_what_is_written_is_read_again_and_named_by_its_content(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.read() == ()
    decision = a_decision()
    path = ledger.write(decision)
    assert path.name == f"{decision.id}.json"
    (found,) = ledger.read()
    assert found.id == decision.id
    assert found.candidates == decision.candidates
    assert ledger.write(found) == path, "the same decision is one file"
    assert ledger.named(decision.id[:8]) == found


def test_decisions_of_one_second_keep_their_order(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    given = [a_decision(why=f"Number {n}.", made=time_of_decision()) for n in range(20)]
    assert len({one.made[:19] for one in given}) <= 2
    for one in given:
        ledger.write(one)
    assert ledger.read() == tuple(reversed(given))
    assert counting(given)["c" * 40] == given[-1], "the newest counts"


def test_a_time_without_a_fraction_is_older_than_one_with_it_in_the_same_second() -> None:
    older, newer = a_decision(made="2026-07-01T10:00:00+00:00"), a_decision(made="2026-07-01T10:00:00.000001+00:00")
    assert counting([newer, older])["c" * 40] == newer


def test_every_field_changes_the_name() -> None:
    names = {
        a_decision(**{field: value}).id
        for field, value in {
            "outcome": Outcome.ACCEPTED,
            "series": "other",
            "made": "2026-07-02T10:00:00+00:00",
            "why": "other",
            "candidates": (a_candidate(tree="f" * 40),),
            "tags": (),
            "evidence": {},
        }.items()
    }
    assert len(names | {a_decision().id}) == 8


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema": "other/1"}'])
def test_a_damaged_file_is_named_and_nothing_is_guessed(tmp_path: Path, damage: str) -> None:
    ledger = Ledger(tmp_path)
    path = ledger.write(a_decision())
    path.write_text(damage)
    with pytest.raises(ConfigError, match="the ledger has files that cannot be trusted") as error:
        ledger.read()
    assert str(path) in error.value.problems[0]


def test_a_file_that_was_edited_is_not_what_its_name_says(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    path = ledger.write(a_decision())
    document = json.loads(path.read_text())
    document["why"] = "It was fine."
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError) as error:
        ledger.read()
    assert error.value.problems == (f"{path}: its content does not match its name",)


def test_an_id_that_names_none_or_several_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with pytest.raises(MissingError, match="the ledger has no decision abc"):
        ledger.named("abc")
    ledger.write(a_decision())
    ledger.write(a_decision(why="Another."))
    with pytest.raises(UsageError, match="is ambiguous: 2 ids start with it"):
        ledger.named("")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["small-M", "tile"], True),
        (["SMALL-m"], True),
        (["n128"], True),
        (["phase-24"], True),
        (["mmq.cu"], True),
        (["GGML_SMALL_M"], True),
        (["get_mmq_x_small_m"], True),
        (["rejected"], True),
        (["tile", "warp"], False),
    ],
)
def test_has_a_small_m_tile_been_tried(words: list[str], found: bool) -> None:
    assert a_decision().says(words) is found


def test_symbols_are_what_the_changed_lines_are_about() -> None:
    assert symbols_of(DIFF) == (
        "GGML_CUDA_SMALL_M_TILE",
        "GGML_SMALL_M",
        "get_mmq_x_small_m",
        "mul_mat_q_case",
        "mul_mat_q_small_m",
    )
    assert symbols_of("--- a/x\n+++ b/get_me(\n context(\n") == ()


def test_the_same_change_is_alike_to_itself_and_another_is_not() -> None:
    (same,) = resembling(a_candidate(subject="another name", symbols=(), files=()), [a_decision()])
    assert same.share == 1.0
    assert same.why == "the same change"
    rewritten = a_candidate(patch_id="2" * 40, subject="cuda: small tiles again")
    (like,) = resembling(rewritten, [a_decision()])
    assert 0.3 <= like.share < 1.0
    assert "both are about" in like.why
    other = Candidate(
        commit="d" * 40,
        subject="server: print the build number",
        patch_id="3" * 40,
        tree="a" * 40,
        files=("tools/server/server.cpp",),
        symbols=("print_build",),
    )
    assert resembling(other, [a_decision()]) == ()
