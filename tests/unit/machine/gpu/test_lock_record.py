"""The owner of a GPU's lock, from the text of its file: alive, gone, or unknown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from patchstack.errors import MissingError
from patchstack.machine.ask import Place, here
from patchstack.machine.gpu.lock import Standing, gpu_lock, look
from patchstack.machine.gpu.lock_record import (
    File,
    Now,
    Owner,
    Sign,
    holder_of,
    read_owner,
    record_line,
    taken_line,
    this_process,
)

ME = this_process("0123456789abcdef", "gate")
OWNER = replace(ME, boot="boot-of-a-laptop", host="laptop", since=1000.0)
NOW = Now(boot="boot-of-the-spark", namespace="pid:[1]", uptime=500.0, epoch=1500.0)


def a_file(owner: Owner, sign: Sign, process: str | None = None) -> File:
    uptime = "-" if sign.uptime is None else f"{sign.uptime:.2f}"
    text = f"{taken_line(owner)} 1500\n{record_line(owner)}\nbeat {sign.boot or '-'} {uptime} {sign.epoch:.0f}\n"
    return File(place=Place(path="/l"), text=text, digest="1 2", modified=1500.0, process=process)


def at(uptime: float | None = 490.0, epoch: float = 1490.0, boot: str = NOW.boot) -> Sign:
    return Sign(boot=boot, uptime=uptime, epoch=epoch)


THERE = replace(OWNER, boot=NOW.boot, namespace=NOW.namespace, pid=42, start="777")
STAT = "42 (llama) bench) S " + " ".join(str(n) for n in range(4, 22)) + " 777 0 0"


@pytest.mark.parametrize(
    ("file", "now", "unchanged", "standing", "words"),
    [
        (a_file(OWNER, at()), NOW, 0.0, Standing.LIVE, "laptop pid"),
        (a_file(OWNER, at()), NOW, 0.0, Standing.LIVE, "(gate) has the GPU for 8 min"),
        (a_file(OWNER, at(370.0)), NOW, 0.0, Standing.DEAD, "no heartbeat for 130 s"),
        (a_file(OWNER, at()), NOW, 200.0, Standing.DEAD, "no heartbeat for 200 s"),
        # The clock jumped by a day, but the uptime did not.
        (a_file(OWNER, at(490.0, 1490.0)), replace(NOW, epoch=90000.0), 0.0, Standing.LIVE, "has the GPU"),
        (a_file(OWNER, at(370.0, 90000.0)), NOW, 0.0, Standing.DEAD, "no heartbeat for 130 s"),
        # A machine without uptime has only its clock; a heartbeat from the future is observed for some time.
        (a_file(OWNER, at(None, 1490.0)), replace(NOW, uptime=None), 0.0, Standing.LIVE, "has the GPU"),
        (a_file(OWNER, at(None, 1300.0)), replace(NOW, uptime=None), 0.0, Standing.DEAD, "for 200 s"),
        (a_file(OWNER, at(None, 9000.0)), replace(NOW, uptime=None), 0.0, Standing.LIVE, "has the GPU"),
        (
            a_file(OWNER, at(None, 9000.0)),
            replace(NOW, uptime=None),
            130.0,
            Standing.DEAD,
            "saw no heartbeat for 130 s",
        ),
        (a_file(OWNER, at(900.0)), NOW, 0.0, Standing.LIVE, "has the GPU"),
        (a_file(OWNER, at(900.0)), NOW, 130.0, Standing.DEAD, "this process saw no heartbeat"),
        (a_file(OWNER, at(boot="before")), NOW, 0.0, Standing.DEAD, "the machine was restarted since then"),
        # The owner's process is on the machine itself, and can be inspected.
        (a_file(THERE, at(), STAT), NOW, 0.0, Standing.LIVE, "has the GPU"),
        (a_file(THERE, at(10.0), STAT), NOW, 0.0, Standing.LIVE, "no heartbeat for 490 s, but its process exists"),
        (a_file(THERE, at(), ""), NOW, 0.0, Standing.DEAD, "its process 42 is gone"),
        (a_file(THERE, at(), STAT.replace("777", "778")), NOW, 0.0, Standing.DEAD, "its process 42 is gone"),
        (a_file(THERE, at(), STAT.replace(" S ", " Z ")), NOW, 0.0, Standing.DEAD, "its process 42 is gone"),
        (a_file(THERE, at(), None), NOW, 0.0, Standing.LIVE, "has the GPU"),
        # In another namespace a number means a different process.
        (a_file(replace(THERE, namespace="pid:[2]"), at(), ""), NOW, 0.0, Standing.LIVE, "has the GPU"),
        # One of our own machine, wherever the GPU is.
        (a_file(ME, at()), NOW, 0.0, Standing.LIVE, "has the GPU"),
        (a_file(replace(ME, start="1"), at()), NOW, 0.0, Standing.DEAD, "is gone"),
    ],
)
def test_an_owner_is_alive_or_gone(file: File, now: Now, unchanged: float, standing: Standing, words: str) -> None:
    holder = holder_of(file, now, tokens=(), stale=120.0, unchanged=unchanged)
    assert holder.standing is standing, holder
    assert words in holder.words


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "patchstack.gpu-lock/2"},
        {"pid": "1"},
        {"token": ""},
        {"since": None},
        {"extra": 1},
        {"host": 7},
    ],
)
def test_a_record_of_another_form_is_not_read(change: dict[str, object]) -> None:
    lines = (a_file(OWNER, at()).text or "").splitlines()
    assert read_owner("\n".join(lines)) is not None
    lines[1] = json.dumps({**json.loads(lines[1]), **change})
    assert read_owner("\n".join(lines)) is None


@pytest.mark.parametrize("last", ["", "beat", "beat - x 1", "rest - - 1", "beat - - -", "beat - - 1 1"])
def test_a_record_without_a_sign_of_life_is_not_read(last: str) -> None:
    lines = (a_file(OWNER, at()).text or "").splitlines()
    assert read_owner("\n".join([*lines[:2], last])) is None
    assert read_owner("\n".join([lines[0], "[]", lines[2]])) is None


def test_no_place_at_all_is_an_error() -> None:
    with pytest.raises(MissingError, match="no directory is given"), gpu_lock(here(), "me", places=()):
        pass


def test_a_machine_that_answers_oddly_is_an_error() -> None:
    real = here()

    def odd(argv: Sequence[str]) -> tuple[int, str]:
        return real([*argv[:2], argv[2].replace("date +%s", "echo noon"), *argv[3:]])

    with pytest.raises(MissingError, match="the machine's time cannot be read"):
        look(odd)
