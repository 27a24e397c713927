"""The first real error of a build's log, by table: wordings, places, and logs that no tool writes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.builds.errors.first_error import Failure, FailureKind, find_failure

COMMAND = "/usr/bin/c++ -DX='a b' -o CMakeFiles/p.dir/src/a.cpp.o -c /work/source/src/a.cpp"


def job(*lines: str, command: str = COMMAND) -> list[str]:
    """Return the log of a build in which one job fails and prints these lines."""
    return [
        "-- Configuring done",
        "[1/3] Building CXX object z.cpp.o",
        "/work/source/z.cpp:1:2: warning: no space left on device, says a warning [-Wx]",
        "[2/3] Building CXX object CMakeFiles/p.dir/src/a.cpp.o",
        "FAILED: CMakeFiles/p.dir/src/a.cpp.o ",
        command,
        *lines,
        "ninja: build stopped: subcommand failed.",
    ]


A = "/work/source/src/a.cpp"
OURS: tuple[str, int | None] = ("src/a.cpp", None)


@pytest.mark.parametrize(
    ("line", "kind", "place"),
    [
        ("c++: fatal error: Killed signal terminated program cc1plus", FailureKind.OUT_OF_MEMORY, OURS),
        ("g++-13: internal compiler error: Killed (program cc1plus)", FailureKind.OUT_OF_MEMORY, OURS),
        ("clang++: error: unable to execute command: Killed", FailureKind.OUT_OF_MEMORY, OURS),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", FailureKind.OUT_OF_MEMORY, OURS),
        ("collect2: fatal error: ld terminated with signal 9 [Killed]", FailureKind.OUT_OF_MEMORY, OURS),
        ("cc1plus: out of memory allocating 65536 bytes after a total of 9 bytes", FailureKind.OUT_OF_MEMORY, OURS),
        ("virtual memory exhausted: Cannot allocate memory", FailureKind.OUT_OF_MEMORY, OURS),
        ("Killed", FailureKind.OUT_OF_MEMORY, OURS),
        ("b.s: Fatal error: can't write 11 bytes to b.o: 'No space left on device'", FailureKind.NO_SPACE, OURS),
        (f"{A}:1:12: fatal error: error closing x.s: No space left on device", FailureKind.NO_SPACE, OURS),
        ("/usr/bin/ld: final link failed: No space left on device", FailureKind.NO_SPACE, OURS),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_121a'", FailureKind.TOOLKIT_TOO_OLD, OURS),
        ("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", FailureKind.TOOLKIT_TOO_OLD, OURS),
        (
            "/usr/include/crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc later than 14",
            FailureKind.TOOLKIT_TOO_OLD,
            OURS,
        ),
        ("fatal: unable to access 'https://x.com/y/': Could not resolve host: x.com", FailureKind.NETWORK, OURS),
        ("curl: (7) Failed to connect to x.com port 443: Couldn't connect to server", FailureKind.NETWORK, OURS),
        ("ccache: error: Failed to create directory /ccache/tmp: Permission denied", FailureKind.UNKNOWN, OURS),
        ("c++: fatal error: Terminated signal terminated program cc1plus", FailureKind.UNKNOWN, OURS),
        (f"{A}:7: Error: no such instruction: `bogus %eax'", FailureKind.COMPILE, ("src/a.cpp", 7)),
        ("./src/a.cpp:7:1: error: expected ';'", FailureKind.COMPILE, ("src/a.cpp", 7)),
        ("../source/inc/b.h:7:1: error: expected ';'", FailureKind.COMPILE, ("inc/b.h", 7)),
        ("/work/build/gen/b.h:7:1: error: expected ';'", FailureKind.COMPILE, OURS),
        ("/elsewhere/b.h:7:1: error: expected ';'", FailureKind.COMPILE, OURS),
        ("/work/source/a b/c.h:7:1: internal compiler error: Segmentation fault", FailureKind.COMPILE, ("a b/c.h", 7)),
        (
            f"{A}:9:1: error: static assertion failed due to requirement '1 == 0': KNOB is odd",
            FailureKind.REJECTED,
            ("src/a.cpp", 9),
        ),
        (f"{A}:9:1: error: static_assert failed due to requirement 'N > 4'", FailureKind.REJECTED, ("src/a.cpp", 9)),
        (f'{A}(9): error: #error directive: "no such arch"', FailureKind.REJECTED, ("src/a.cpp", 9)),
        (f'{A}(9): catastrophic error: cannot open source file "x"', FailureKind.COMPILE, ("src/a.cpp", 9)),
        (f'{A}(9): error #20-D: identifier "x" is undefined', FailureKind.COMPILE, ("src/a.cpp", 9)),
        ("At end of source: error: expected an expression", FailureKind.COMPILE, OURS),
        ("c++: error: unrecognized command-line option '-fx'", FailureKind.COMPILE, OURS),
        (f"{A}:3: error: undefined reference to 'nowhere(int)'", FailureKind.LINK, ("src/a.cpp", 3)),
        ("x.o:a.cpp:function main: error: undefined reference to 'nowhere(int)'", FailureKind.LINK, OURS),
        ("ld.lld: error: undefined symbol: nowhere(int)", FailureKind.LINK, OURS),
        ("b.cpp:(.text+0x0): multiple definition of `f()'; a.o:a.cpp:(.text+0x0): first", FailureKind.LINK, OURS),
        ("nvlink error   : Undefined reference to '_Z1fi' in 'k.o'", FailureKind.LINK, OURS),
        ("/bin/sh: 1: nvcc: not found", FailureKind.CONFIGURE, OURS),
        ("Traceback: something of a script of theirs", FailureKind.UNKNOWN, OURS),
    ],
)
def test_every_wording_has_its_kind(line: str, kind: FailureKind, place: tuple[str, int | None]) -> None:
    failure = find_failure(job(line), source="/work/source", build="/work/build")
    assert (failure.kind, failure.file, failure.line) == (kind, *place)
    assert line in failure.block
    assert failure.message.split()[-1] == line.split()[-1]
    assert failure.target == "CMakeFiles/p.dir/src/a.cpp.o"


def the_gist(failure: Failure) -> tuple[FailureKind, str | None, int | None]:
    return failure.kind, failure.file, failure.line


def test_clang_tells_an_error_directive_only_by_the_line_it_quotes() -> None:
    lines = ["/work/source/a.cpp:1:2: error: KNOB is odd", '    1 | #error "KNOB is odd"', "      |  ^"]
    assert find_failure(job(*lines), source="/work/source").kind is FailureKind.REJECTED
    assert find_failure(job(lines[0], "    1 | int error;"), source="/work/source").kind is FailureKind.COMPILE


def test_quoted_source_is_no_complaint() -> None:
    lines = [
        "/work/source/a.cpp:1:2: warning: odd",
        '    1 | throw "No space left on device";',
        "/work/source/a.cpp:2:2: error: worse",
    ]
    failure = find_failure(job(*lines), source="/work/source")
    assert (failure.kind, failure.line, failure.message) == (FailureKind.COMPILE, 2, "worse")


def test_colours_are_taken_off() -> None:
    failure = find_failure(
        job("\x1b[01m\x1b[K/work/source/a.cpp:1:2:\x1b[m \x1b[31merror: \x1b[mbad"), source="/work/source"
    )
    assert (failure.file, failure.line, failure.message) == ("a.cpp", 1, "bad")


def test_the_first_job_that_failed_counts_though_others_shout_louder() -> None:
    log = [*job("/work/source/a.cpp:1:2: error: first")[:-1], "[3/3] x", "FAILED: b.o", "c++ -c b", "Killed"]
    assert find_failure(log, source="/work/source").message == "first"


def test_newer_ninjas_tell_the_exit_code_too() -> None:
    log = ["[1/1] x", "FAILED: [code=1] src/a.o src/a.d", "c++ -c a.cpp", "a.cpp:1:2: error: bad"]
    assert find_failure(log).target == "src/a.o"


def test_a_job_that_failed_in_silence_is_unknown() -> None:
    failure = find_failure(job(), source="/work/source")
    assert the_gist(failure) == (FailureKind.UNKNOWN, "src/a.cpp", None)
    assert failure.message == "CMakeFiles/p.dir/src/a.cpp.o failed and printed nothing"
    assert failure.block == ()


@pytest.mark.parametrize("log", [[], [""], ["\n"], ["ninja: build stopped: subcommand failed."]])
def test_an_empty_log_is_unknown(log: list[str]) -> None:
    failure = find_failure(log)
    assert (failure.kind, failure.message) == (FailureKind.UNKNOWN, "the build failed and printed no error")


def test_a_download_that_did_not_stop_cmake_is_not_the_reason() -> None:
    log = [
        '-- status is 6;"Couldn\'t resolve host name"',
        "fatal: unable to access 'x': Could not resolve host: x",
        "CMake Error at CMakeLists.txt:7 (message):",
        "  No",
    ]
    assert the_gist(find_failure(log)) == (FailureKind.CONFIGURE, "CMakeLists.txt", 7)


def test_what_is_shown_is_bounded() -> None:
    lines = ["/work/source/a.cpp:1:2: error: bad", *(f"/work/source/a.cpp:{n}:1: note: x" for n in range(1000))]
    assert len(find_failure(job(*lines)).block) <= 41
    assert max(map(len, find_failure(job("a.cpp:1:1: error: " + "x" * 1_000_000)).block)) == 2000
    assert len(find_failure(job(*["y"] * 1000)).block) == 20


@given(st.lists(st.text(alphabet=st.sampled_from("ab/.:(1)[] -\t|'\"`errofilund*%,"), max_size=60), max_size=30))
def test_no_log_is_too_odd(lines: list[str]) -> None:
    failure = find_failure(lines, source="/a", build="/b")
    assert len(failure.block) <= 40


def test_long_hostile_lines_take_no_time() -> None:
    began = time.process_time()
    for piece in ("a:", "a(1", "a: ", "undefined reference to ", ": In ", "a/CMakeFiles/b.dir/", " at line 1"):
        find_failure(job(*[piece * 20_000] * 50), source="/a", build="/b")
    assert time.process_time() - began < 2
