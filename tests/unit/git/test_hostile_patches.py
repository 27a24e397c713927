"""Patches, locks and workspaces are untrusted: none of their bytes may crash patchstack or reach a terminal
unescaped."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from patchstack.errors import ConfigError
from patchstack.git.patch.diff import named_paths
from patchstack.series.lock import read_lock
from patchstack.workspace import read_workspace
from tests.conftest import RunCli
from tests.support.builders import Fork, a_fork, edited, mail, new_file, write_series

# Pieces for broken and unusual YAML.
PIECES = [
    *(
        "series",
        "paged",
        "patches",
        "upstream",
        "pin",
        "fork",
        "fork_ref",
        "schema",
        "base",
        "commit",
        "tree",
        "expect",
    ),
    *(
        ": ",
        ":\n",
        "\n",
        "\n  ",
        "\n    ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "'",
        '"',
        "&a ",
        "*a",
        "<<: *a",
        "? ",
        "!!set ",
        "!x ",
    ),
    *(
        "null",
        "true",
        "1",
        "1e400",
        "0x1f",
        "2026-01-01",
        "|\n",
        "#",
        "%",
        "@",
        "\t",
        "é",
        "\x85",
        "---\n",
        "0" * 40,
        "~",
    ),
]
yamls = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
quick = settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return a_fork(tmp_path, 2)


@quick
@given(text=yamls)
@example(text="!!set ")
@example(text="series:\n  a: #\x85|\n\n    ")
def test_no_workspace_whatever_gives_more_than_a_complaint(tmp_path: Path, text: str) -> None:
    path = tmp_path / "patchstack.yaml"
    path.write_text(text)
    with contextlib.suppress(ConfigError):
        read_workspace(path)


@quick
@given(text=st.one_of(yamls, yamls.map(lambda text: f"schema: patchstack.lock/1\nbase: {text}\n")))
def test_no_lock_whatever_gives_more_than_a_complaint(tmp_path: Path, text: str) -> None:
    (tmp_path / "series.lock").write_text(text)
    with contextlib.suppress(ConfigError):
        read_lock(tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        *("2026-99-99", "2026-02-30T00:00:00Z", "!!int x", "!!float x", "!!bool x", "!!set x", "!!omap x"),
        *("!!timestamp x", '!!binary "%"', "!!python/object:os.system x", '"\\ud800"', "{? [a]: b}", "&a [*a]"),
        pytest.param("1" * 5000, id="long"),
        pytest.param("[" * 1200, id="nested"),
    ],
)
@pytest.mark.parametrize("file", ["patchstack.yaml", "patches/series.lock"])
def test_an_odd_value_is_a_complaint_about_the_file_and_no_bug(
    fork: Fork, run_cli: RunCli, file: str, value: str
) -> None:
    (fork.series.parent / file).write_text(f"series:\n  a:\n    pin: {value}\n")
    ran = run_cli("verify", *(() if file == "patchstack.yaml" else fork.sources))
    assert (ran.code, ran.stdout) == (2, "")
    assert Path(file).name in ran.stderr


@pytest.mark.parametrize(
    "name", ['"\\', '"\\N{', '"\\x"', '"\\8"', '"\\777"', '"\\ud800"', '"\\"', '""', '"\\303\\274"']
)
def test_a_badly_quoted_name_is_no_reason_to_fail(name: str) -> None:
    named_paths(f"--- {name}\n".encode())


def test_a_badly_quoted_name_does_not_hide_what_is_missing(fork: Fork, run_cli: RunCli) -> None:
    """The first missing content makes patchstack read the paths of all patches."""
    write_series(fork.series, {"0003-evil.patch": b'--- "\\N{\n+++ b/x\n'})
    fork.upstream.loose(fork.upstream.blob(fork.pin, "src/kernel.cu")).unlink()
    ran = run_cli("verify", *fork.sources, "--apply-only")
    assert ran.code == 3
    assert f"error: {fork.patch(1).name}: blob of src/kernel.cu" in ran.stderr


def test_a_name_quoted_as_git_quotes_it_is_read() -> None:
    assert "über".encode() in named_paths(b'+++ "b/\\303\\274ber"\n')


@pytest.mark.parametrize("offending", ["\x1b[2Jgone", "\x07", "\x1b]0;title\x07", "a\rb", "\x9b31m", "\u202e"])
def test_control_characters_of_a_subject_do_not_reach_the_terminal(fork: Fork, run_cli: RunCli, offending: str) -> None:
    write_series(fork.series, {"0003-evil.patch": mail(f"Harmless {offending}", new_file("evil"))})
    ran = run_cli("verify", *fork.options)
    assert ran.code == 1
    assert "Harmless" in ran.told
    assert all(character.isprintable() for character in ran.told.replace("\n", ""))
    # The document is for programs: there the subject is whole, as JSON escapes it.
    assert all(character.isprintable() for character in run_cli("verify", *fork.options, "--json").stdout.rstrip("\n"))


def test_control_characters_of_a_difference_do_not_reach_the_terminal(fork: Fork, run_cli: RunCli) -> None:
    fork.edit_patch(2, "+changed by commit 2", "+changed \x1b[2J by hand")
    ran = run_cli("verify", *fork.options)
    assert ran.code == 1
    assert "by hand" in ran.told
    assert "\x1b" not in ran.told


def test_control_characters_of_a_file_name_do_not_reach_the_terminal(fork: Fork, run_cli: RunCli) -> None:
    write_series(fork.series, {"0003-\x1b[2J.patch": b"nothing"})
    ran = run_cli("verify", *fork.options)
    assert ran.code == 1
    assert "\x1b" not in ran.told


def test_control_characters_of_a_path_in_a_patch_do_not_reach_the_terminal(fork: Fork, run_cli: RunCli) -> None:
    write_series(fork.series, {"0003-x.patch": edited("x\x1b[2Jy", "@@ -1 +1 @@\n-a\n+b\n")})
    ran = run_cli("verify", *fork.options)
    assert ran.code == 1
    assert "\x1b" not in ran.told


@pytest.mark.parametrize("option", ["--upstream", "--fork"])
@pytest.mark.parametrize(
    "url", ["ext::sh -c touch% owned", "--upload-pack=touch owned:x", "ssh://-oProxyCommand=touch owned/x"]
)
def test_no_url_runs_a_program(fork: Fork, run_cli: RunCli, tmp_path: Path, option: str, url: str) -> None:
    options = fork.options
    options[options.index(option) + 1] = url
    ran = run_cli("verify", *options)
    assert ran.code in (2, 3)
    assert ran.stderr.startswith("error: ")
    assert not list(tmp_path.rglob("owned"))
