"""Machine files and figures given on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.cost.machine import Origin, find_machine, mixed_origins, parse_figure, read_machine, shipped_machines
from patchstack.errors import ConfigError, MissingError, UsageError

GOOD = """\
name: mine
bandwidth: {value: 273, unit: GB/s, kind: measured, source: a probe, date: 2026-01-02}
peaks:
  int8: {value: 1.5, unit: POP/s, kind: specified, source: a sheet, date: 2026-01-01}
"""


def test_a_machine_file_has_figures_with_unit_source_and_date(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    machine = find_machine(str(path))
    assert machine.bandwidth is not None
    assert (machine.bandwidth.value, machine.bandwidth.words) == (273e9, "273 GB/s")
    assert machine.bandwidth.origin is Origin.MEASURED
    assert machine.bandwidth.origin_words == "measured: a probe, 2026-01-02"
    assert machine.peak_values == {"int8": 1.5e15}
    assert machine.memory is None
    assert mixed_origins(machine.figures) == (
        "figures of different origins: bandwidth is measured, peak int8 is specified"
    )


@pytest.mark.parametrize("name", shipped_machines())
def test_every_shipped_machine_is_whole(name: str) -> None:
    machine = find_machine(name)
    assert machine.need_bandwidth() > 1e11
    assert all(
        figure.source and figure.date and figure.origin is Origin.SPECIFIED for figure in machine.figures.values()
    )


def test_all_that_is_wrong_with_a_machine_file_is_said_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "name: bad\n"
        "bandwidth: {value: 273, kind: guessed, source: x, date: 2026-01-01}\n"
        "memory: {value: -1, unit: GB, kind: specified, source: x}\n"
        "peaks: {int9: 3}\n"
        "colour: red\n"
    )
    with pytest.raises(ConfigError) as told:
        read_machine(path)
    problems = "\n".join(told.value.problems)
    for said in (
        "bad.yaml:2: bandwidth.: unit is missing",
        "'guessed' is neither specified nor measured",
        "value is not a number above 0",
        "date is not a day (YYYY-MM-DD)",
        "peaks.int9: unknown key",
        "bad.yaml:5: colour: unknown key",
    ):
        assert said.replace("bandwidth.: ", "") in problems.replace("bandwidth: ", ""), (said, problems)


@pytest.mark.parametrize("text", ["", "- 1\n", "name: [\n", "name: 3\n"])
def test_a_file_that_is_no_machine_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        read_machine(path)


def test_a_machine_that_nobody_knows_is_told_with_those_known() -> None:
    with pytest.raises(MissingError, match="no machine is named 'gb99'") as told:
        find_machine("gb99")
    assert "gb10" in str(told.value.hint)


@pytest.mark.parametrize(
    ("text", "what", "value"),
    [
        ("273 GB/s", "bandwidth", 273e9),
        ("4.8TB/s", "bandwidth", 4.8e12),
        ("96 GiB", "memory", 96 * 2**30),
        ("1e3 TOP/s", "peak", 1e15),
    ],
)
def test_a_figure_has_a_unit(text: str, what: str, value: float) -> None:
    assert parse_figure(text, what).value == pytest.approx(value)


@pytest.mark.parametrize("text", ["273", "GB/s", "273 GB", "0 GB/s", "-3 GB/s", "1e999 GB/s", "nan GB/s"])
def test_a_figure_without_one_or_without_a_number_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a bandwidth"):
        parse_figure(text, "bandwidth")
