"""The command that installs a missing extra fits the way in which patchstack was installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchstack.installed import By, Installed, call_of, command_for, here, requirements_of, source_of
from tests.support.checkout import ROOT

WHEEL = "file:///dist/patchstack-0.1.0-py3-none-any.whl"
URL = "https://example.org/patchstack-0.1.0-py3-none-any.whl"
VCS = "git+https://example.org/patchstack.git@" + "5" * 40
PIP = Installed(
    by=By.PIP,
    source=WHEEL,
    pip_install="pip install",
    program=Path("/venv/bin/patchstack"),
    python=Path("/venv/bin/python"),
    requirements={"docker": ("docker>=7.1",), "build": ("in-toto-attestation>=0.9.3", "pyelftools>=0.32")},
    arguments=("demo", "my tour"),
)
UV_TOOL, UVX, PIPX, PIPX_RUN = (
    replace(PIP, by=by, extras=("docker",)) for by in (By.UV_TOOL, By.UVX, By.PIPX, By.PIPX_RUN)
)


@pytest.mark.parametrize(
    ("installed", "command"),
    [
        (PIP, f"pip install 'patchstack[build] @ {WHEEL}'"),
        (replace(PIP, source=URL), f"pip install 'patchstack[build] @ {URL}'"),
        (replace(PIP, source=VCS), f"pip install 'patchstack[build] @ {VCS}'"),
        (replace(PIP, source="/src/patch stack"), "pip install '/src/patch stack[build]'"),
        (replace(PIP, source="/src", editable=True), "pip install -e '/src[build]'"),
        (replace(PIP, source=None), "pip install 'in-toto-attestation>=0.9.3' 'pyelftools>=0.32'"),
        (replace(PIP, source=None, requirements={}), "pip install 'patchstack[build]'"),
        (UV_TOOL, f"uv tool install 'patchstack[build,docker] @ {WHEEL}'"),
        (replace(UV_TOOL, source="/src", editable=True), "uv tool install --editable '/src[build,docker]'"),
        (
            replace(UV_TOOL, source=None),
            "uv pip install --python /venv/bin/python 'in-toto-attestation>=0.9.3' 'pyelftools>=0.32'",
        ),
        (UVX, f"uvx --from 'patchstack[build,docker] @ {WHEEL}' patchstack demo 'my tour'"),
        (replace(UVX, source=None), "uvx --from 'patchstack[build,docker]' patchstack demo 'my tour'"),
        (
            replace(UVX, uvx="/opt/uv tool run"),
            f"/opt/uv tool run --from 'patchstack[build,docker] @ {WHEEL}' patchstack demo 'my tour'",
        ),
        (PIPX, f"pipx install --force 'patchstack[build,docker] @ {WHEEL}'"),
        (replace(PIPX, source="/src", editable=True), "pipx install --force --editable '/src[build,docker]'"),
        (replace(PIPX, source=None), "pipx inject patchstack 'in-toto-attestation>=0.9.3' 'pyelftools>=0.32'"),
        (PIPX_RUN, f"pipx run --spec 'patchstack[build,docker] @ {WHEEL}' patchstack demo 'my tour'"),
    ],
)
def test_an_extra_is_installed_as_patchstack_was(installed: Installed, command: str) -> None:
    assert command_for(installed, ["build"]) == command


def test_several_extras_are_one_command() -> None:
    assert command_for(PIP, ["docker", "build"]) == f"pip install 'patchstack[docker,build] @ {WHEEL}'"
    assert command_for(replace(PIP, source=None), ["docker", "build"]) == (
        "pip install 'docker>=7.1' 'in-toto-attestation>=0.9.3' 'pyelftools>=0.32'"
    )


def test_where_it_came_from_is_read_as_pep_610_writes_it(tmp_path: Path) -> None:
    checkout, wheel = tmp_path / "a checkout", tmp_path / "patchstack-0.1.0-py3-none-any.whl"
    checkout.mkdir()
    wheel.touch()

    def source(**document: Any) -> tuple[str | None, bool]:
        return source_of(json.dumps(document))

    assert source(url=checkout.as_uri(), dir_info={"editable": True}) == (str(checkout), True)
    assert source(url=checkout.as_uri(), dir_info={}) == (str(checkout), False)
    assert source(url=wheel.as_uri(), archive_info={"hashes": {"sha256": "0" * 64}}) == (wheel.as_uri(), False)
    assert source(url=URL, archive_info={}) == (URL, False)
    assert source(url=URL, archive_info={}, subdirectory="a") == (f"{URL}#subdirectory=a", False)
    vcs = {"vcs": "git", "requested_revision": "main", "commit_id": "5" * 40}
    assert source(url="https://example.org/patchstack.git", vcs_info=vcs) == (VCS, False)


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "{", "[]", "7", "null", '{"url": 1}', '{"dir_info": {}}', '{"url": "file:///is/gone.whl"}'),
        *('{"url": "file:///%00.whl", "archive_info": {}}', f'{{"url": "file:///{"x" * 300}"}}'),
        *('{"url": "https://[", "archive_info": {}}', '{"url": "git://x", "vcs_info": {}}'),
        *('{"url": "git://x", "vcs_info": 1}', '{"url": "file:///", "dir_info": 1}'),
    ],
)
def test_what_names_no_place_that_exists_is_no_source(text: str | None) -> None:
    found = source_of(text)
    assert found == ((None, False) if text != '{"url": 1}' else ("1", False))


def test_a_file_that_is_no_text_is_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "patchstack-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: patchstack\nVersion: 0.1.0\n")
    (about / "direct_url.json").write_bytes(b'{"url": "\xff"}')
    monkeypatch.syspath_prepend(str(tmp_path))
    found = here()
    assert (found.source, found.extras, found.requirements) == (None, (), {})
    assert command_for(found, ["build"]).endswith(" install 'patchstack[build]'")


def test_the_packages_of_an_extra_are_read_from_the_metadata() -> None:
    assert requirements_of(
        [
            "pygit2>=1.17",
            "docker>=7.1; extra == 'docker'",
            'nvidia-cuda-cuobjdump>=13.0; (sys_platform == "linux") and extra == "cuda"',
            "pytest>=8; extra == 'dev'",
            "",
        ]
    ) == {"docker": ("docker>=7.1",), "cuda": ("nvidia-cuda-cuobjdump>=13.0",)}


@pytest.mark.parametrize(
    ("prefix", "files", "by"),
    [
        ("venv", (), By.PIP),
        ("tools/patchstack", ("uv-receipt.toml",), By.UV_TOOL),
        ("uv/archive-v0/M9nzbhPgc8qAjP2-", ("CACHEDIR.TAG",), By.UVX),
        ("uv/environments-v2/7fe2c1040d4a8780", (), By.UVX),
        ("pipx/venvs/patchstack", ("pipx_metadata.json",), By.PIPX),
        ("cache/pipx/d788f23e6f9c787", ("pipx_metadata.json",), By.PIPX_RUN),
    ],
)
def test_what_made_the_environment_is_seen_by_its_files(
    prefix: str, files: tuple[str, ...], by: By, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / prefix).mkdir(parents=True)
    for name in files:
        (tmp_path / prefix / name).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / prefix))
    assert here().by is by


def test_pip_is_named_as_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "pip").write_text("#!/bin/sh\n")
    (folder / "pip").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setattr(sys, "prefix", str(folder.parent))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert here().pip_install == f"'{folder}/python' -m pip install"
    monkeypatch.setenv("PATH", str(folder))
    assert here().pip_install == "pip install"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert here().pip_install == f"uv pip install --python '{folder}/python'"


def test_this_environment_itself_is_read() -> None:
    found = here()
    assert (found.by, found.source, found.editable) == (By.PIP, str(ROOT), True)
    assert {"build", "docker"} <= set(found.extras)
    assert set(found.requirements) == {"build", "cuda", "docker", "plots"}
    assert command_for(found, ["build"]).endswith(f" install -e '{ROOT}[build]'")


@pytest.mark.parametrize(
    ("program", "on_path", "typed"),
    [
        ("bin/patchstack", True, "patchstack"),
        ("bin/patchstack", False, "{here}/bin/patchstack"),
        ("bin/__main__.py", False, "/venv/bin/python -m patchstack"),
    ],
)
def test_a_command_is_named_as_a_shell_finds_it(
    program: str, on_path: bool, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / program).write_text("#!/bin/sh\n")
    (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin") if on_path else str(tmp_path))
    for by in (By.PIP, By.PIPX, By.UV_TOOL):
        assert call_of(replace(PIP, by=by, program=tmp_path / program)) == typed.format(here=tmp_path)


def test_what_was_made_for_a_single_run_is_called_by_what_made_it() -> None:
    # uvx puts its environment on PATH only for the program, so the shell does not find it
    assert call_of(UVX) == f"uvx --from 'patchstack[docker] @ {WHEEL}' patchstack"
    assert call_of(PIPX_RUN) == f"pipx run --spec 'patchstack[docker] @ {WHEEL}' patchstack"


def test_a_checkout_that_is_not_installed_names_itself(tmp_path: Path) -> None:
    script = (
        "import importlib.metadata as m, sys\n"
        "def no(name): raise m.PackageNotFoundError(name)\n"
        "m.distribution = no\n"
        "from patchstack.installed import install_hint, typed_as\n"
        "print(install_hint('build')); print(typed_as())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert said[0].endswith(f" install '{ROOT}[build]'")
    assert said[1] == f"PYTHONPATH={ROOT} {sys.executable} -m patchstack"
