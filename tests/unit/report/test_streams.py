"""Colour and quiet: the option first, then the environment, then the terminal."""

from __future__ import annotations

import pytest

from patchstack.report.streams import When, choose, coloured, manners, paint, paint_words, quiet, terminal


class Stream:
    """A stream that is, or is not, a terminal."""

    def __init__(self, tty: bool) -> None:
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


@pytest.mark.parametrize(
    ("option", "environment", "tty", "wanted"),
    [
        (None, {}, True, True),
        (None, {}, False, False),
        (None, {"TERM": "dumb"}, True, False),
        (None, {"NO_COLOR": "1"}, True, False),
        (None, {"NO_COLOR": ""}, True, True),
        (None, {"FORCE_COLOR": "1"}, False, True),
        (None, {"FORCE_COLOR": "0"}, True, False),
        (None, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        (When.AUTO, {}, True, True),
        (When.ALWAYS, {"NO_COLOR": "1"}, False, True),
        (When.NEVER, {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour_is_decided_by_option_then_environment_then_terminal(
    option: When | None, environment: dict[str, str], tty: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with manners():
        choose(color=option, quiet=False)
        assert coloured(Stream(tty)) is wanted
        assert (paint("PASS", "green", Stream(tty)) == "\x1b[32mPASS\x1b[0m") is wanted


def test_a_choice_ends_with_its_command_and_holds_for_those_it_runs() -> None:
    with manners():
        choose(color=When.ALWAYS, quiet=True)
        with manners():
            choose(color=None, quiet=False)
            assert quiet()
            assert coloured(Stream(False))
    assert not quiet()
    assert not coloured(Stream(False))


def test_the_first_word_of_a_line_is_painted_and_nothing_else() -> None:
    with manners():
        choose(color=When.ALWAYS, quiet=False)
        told = paint_words("error: no PASS\n  - one\n\nhint: try\nINVALID  gate: x\nFAILED", Stream(False))
    assert told == (
        "\x1b[1;31merror:\x1b[0m no PASS\n  - one\n\n\x1b[36mhint:\x1b[0m try\n\x1b[33mINVALID\x1b[0m  gate: x\nFAILED"
    )


def test_a_dumb_terminal_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not terminal(Stream(True))
    monkeypatch.setenv("TERM", "xterm")
    assert terminal(Stream(True))
