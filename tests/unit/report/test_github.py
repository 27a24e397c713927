"""Output for a runner is exactly one command, whatever untrusted text it contains."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchstack.report.github import SHOWN, Annotation, Level, commands, stopped, write_values
from patchstack.report.text import printable
from tests.runner.commands import heard
from tests.runner.jobs import values_of

NASTY = st.lists(
    st.one_of(
        st.sampled_from(
            ["::", "##[", "]", "%0A", "%25", "\n", "\r", ",", ":", "=", "line=1", "add-mask", "error", "\x1b"]
        ),
        st.text(max_size=4),
    ),
    max_size=12,
).map("".join)

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@UNHURRIED
@given(level=st.sampled_from(Level), title=NASTY, message=NASTY, file=NASTY, line=st.integers(1, 9999))
def test_an_annotation_is_one_command_with_three_properties(
    level: Level, title: str, message: str, file: str, line: int
) -> None:
    told = Annotation(level=level, title=title, message=message, file=file, line=line).command
    assert "\n" not in told and "\r" not in told
    listener = heard(told)
    (command,) = listener.commands
    assert command.name == level.value
    assert command.data == printable(message)
    assert int(command.properties["line"]) == line
    assert set(command.properties) <= {"file", "line", "title"}
    for name, given_ in (("title", title), ("file", file)):
        said = printable(given_.replace("\r", "\\r").replace("\n", "\\n"))
        assert command.properties.get(name, "").strip() == said.strip(), name


@UNHURRIED
@given(lines=st.lists(NASTY, max_size=6))
def test_nothing_said_between_stop_and_token_is_a_command(lines: list[str]) -> None:
    said: list[str] = []
    with stopped(said.append):
        said.extend(lines)
    said.append("::notice title=x::behind")
    assert [command.data for command in heard("\n".join(said)).commands] == ["behind"]


def test_commands_are_heard_again_after_an_exception() -> None:
    said: list[str] = []
    with pytest.raises(RuntimeError), stopped(said.append):
        raise RuntimeError
    assert heard("\n".join([*said, "::error::x"])).commands != []


def test_tokens_and_delimiters_are_never_the_same_twice(tmp_path: Path) -> None:
    said: list[str] = []
    for _ in range(50):
        with stopped(said.append):
            pass
    assert len({line for line in said if line.startswith("::stop-commands")}) == 50


@UNHURRIED
@given(value=NASTY)
def test_a_value_cannot_end_itself_or_begin_another(value: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("outputs") / "output"
    value = value.replace("\r", "")
    write_values(path, {"subject": f"{value}\nevil=1\nevil<<X\nX", "holds": "false"})
    assert values_of(path.read_bytes().decode()) == {"subject": f"{value}\nevil=1\nevil<<X\nX", "holds": "false"}


def test_the_worst_come_first_and_the_rest_are_counted() -> None:
    many = [Annotation(level=Level.WARNING, title="t", message=f"w{n}") for n in range(SHOWN + 3)]
    one = Annotation(level=Level.ERROR, title="t", message="bad")
    told = list(commands([*many, one]))
    assert told[0] == "::error title=t::bad"
    assert told[-1] == "::notice title=patchstack::3 more annotations of level warning are omitted: see the summary"
    assert len(told) == SHOWN + 2


def test_an_annotation_on_no_file_names_none() -> None:
    assert Annotation(level=Level.NOTICE, title="a, b", message="c: d").command == "::notice title=a%2C b::c: d"
