"""Cost documents as tables, JSON and pages."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from patchstack.cost.machine import find_machine
from patchstack.report.cost.answers import (
    compare_answer,
    decode_answer,
    memory_answer,
    prefill_answer,
    report_answer,
    weights_answer,
)
from patchstack.report.cost.plots import page_of
from patchstack.report.cost.tables import about_lines, sections_of
from patchstack.report.documents.cost import CostDocument
from patchstack.report.table import print_fitted
from patchstack.workflow.cost import Subject, open_subject
from tests.support.gguf_header import hybrid_35b, write_shape

GB10 = find_machine("gb10")


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    """Return a hybrid of experts with a server's command line."""
    keys, shapes = hybrid_35b(vocab=1000)
    path = write_shape(tmp_path / "model.gguf", keys | {"general.name": "<b>\x1b[31mevil</b>"}, shapes)
    return open_subject(path, ["llama-server", "-c", "32768", "-np", "4", "--odd", "1"])


def documents(subject: Subject) -> list[CostDocument]:
    return [
        weights_answer(subject, 8),
        decode_answer(subject, GB10, [1, 128], [0, 4096], "bandwidth=200..300"),
        prefill_answer(subject, find_machine("h200"), 1024, 0),
        memory_answer(subject, GB10),
        report_answer(subject, GB10, [1], [4096]),
        compare_answer(subject, GB10, [], ["experts=43.5ms@128", "head=3ms"])[0],
    ]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_names_numbers_and_verdicts_stay_whole_at_every_width(subject: Subject, width: int) -> None:
    for document in documents(subject):
        for section in sections_of(document):
            text = io.StringIO()
            print_fitted(section.table, Console(file=text, width=width, highlight=False))
            shown = text.getvalue()
            assert all(len(line) <= width for line in shown.splitlines())
            whole = [
                cell for row in section.table.rows for cell in row if re.fullmatch(r"[\d.,]+( \S+)?|INVALID|PASS", cell)
            ]
            assert whole or section.title == "elasticities"
            for cell in whole:
                assert cell in shown, (section.title, cell, shown)


def test_a_document_is_read_back_as_it_was(subject: Subject) -> None:
    for document in documents(subject):
        assert msgspec.json.decode(document.line, type=CostDocument) == document
        assert json.loads(document.line)["schema"] == "patchstack.cost/1"


def test_an_option_that_is_not_understood_is_named_in_every_form(subject: Subject) -> None:
    document = memory_answer(subject, GB10)
    assert document.options is not None
    assert document.options.unknown == ("--odd 1",)
    assert "unknown  --odd 1" in list(about_lines(document))
    assert "--odd 1" in page_of(document)


def test_a_page_has_no_script_and_nothing_that_a_model_says_is_markup(subject: Subject) -> None:
    for document in documents(subject):
        page = page_of(document)
        assert "<script" not in page.lower()
        assert "<b>" not in page
        assert "&lt;b&gt;" in page
        assert "\x1b" not in page
    drawn = page_of(report_answer(subject, GB10, [1], [4096]))
    assert drawn.count("<figure>") == drawn.count("<svg") == 2
    assert "273 GB/s" in drawn


def test_nothing_unknown_is_counted_as_0(subject: Subject) -> None:
    memory = memory_answer(subject, GB10).memory
    assert memory is not None
    assert [one.bytes for one in memory.allocations if one.kind == "compute"] == [None]
    prefill = prefill_answer(subject, GB10, 512, 0).prefill
    assert prefill is not None
    assert (prefill[0].milliseconds, prefill[0].compute_milliseconds) == (None, None)
    assert prefill[0].unknown_peaks == ("fp16", "fp32", "int8")
