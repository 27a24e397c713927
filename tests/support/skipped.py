"""Summarize at the end of each run why tests were skipped, and how to provide what they need. A run can also record
which tests passed, so that a run on another machine skips those. CI uses this: most tests run on a bare machine, and
only the rest on one with an engine and other tools.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Something that tests need and a machine may lack. `told` is a pattern of skip reasons. `ci` is whether CI
    provides it, so that a skip there is a failure."""

    told: re.Pattern[str]
    what: str
    command: str
    ci: bool


def _lack(told: str, what: str, command: str, *, ci: bool) -> Lack:
    return Lack(told=re.compile(told), what=what, command=command, ci=ci)


# The first that matches counts.
LACKS = (
    _lack("buildx", "docker with buildx 0.13 or newer", "apt-get install docker-buildx", ci=False),
    _lack("(?:docker|gguf|pre-commit) package", "Python packages", "pip install -e '.[dev]'", ci=True),
    _lack("Docker engine", "a Docker engine and its test image", "sudo sh ci/docker-engine.sh", ci=True),
    _lack("podman makes no volume", "Docker rather than Podman", "sudo sh ci/docker-engine.sh", ci=True),
    _lack(
        "PATCHSTACK_LLAMA_BIN",
        "a build of patches/paged",
        "PATCHSTACK_LLAMA_BIN=DIR make test, DIR being the bin/ that `patchstack build paged` makes",
        ci=False,
    ),
    _lack("PATCHSTACK_VLLM_URL", "a vLLM that runs", "PATCHSTACK_VLLM_URL=URL make test", ci=False),
    _lack(
        "PATCHSTACK_LLAMA_REPO|another series",
        "a clone of llama.cpp, a series over it",
        "PATCHSTACK_LLAMA_REPO=DIR PATCHSTACK_LLAMA_SERIES=DIR make test",
        ci=False,
    ),
    _lack("nvcc", "nvcc of CUDA 12.9 or newer", "see https://developer.nvidia.com/cuda-downloads", ci=False),
    _lack("cuobjdump", "cuobjdump", "pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm", ci=True),
    _lack("^root may (?:list|read)", "an ordinary user", "make test, not as root", ci=False),
    _lack("root may", "root", "sudo make test", ci=False),
    _lack("reftable", "git 2.45 or newer", "apt-get install git (Debian 13 or newer)", ci=False),
    _lack("git daemon", "git daemon", "apt-get install git", ci=True),
    _lack("openssh|ssh-keygen", "an SSH server and client", "apt-get install openssh-server openssh-client", ci=True),
    _lack("^jq ", "jq", "apt-get install jq", ci=True),
    _lack("chromium", "Chromium", "apt-get install chromium", ci=False),
    _lack("quilt and patch", "quilt and patch", "apt-get install quilt patch", ci=True),
    _lack("dpkg-source and patch", "dpkg-source", "apt-get install dpkg-dev", ci=True),
    _lack("ccache", "ccache", "apt-get install ccache", ci=True),
    _lack(r"cmake|ninja|C\+\+|c\+\+|C compiler", "compilers", "apt-get install g++ cmake ninja-build", ci=True),
    _lack("no pip", "a Python with pip", "apt-get install python3-pip", ci=True),
    _lack(
        "no namespaces to its users",
        "namespaces for users",
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ci=False,
    ),
    _lack("unshare", "unshare", "apt-get install util-linux", ci=True),
    _lack("after the fuzz test", "the rest of the module", "make test", ci=True),
    _lack("linux/amd64 programs", "an x86-64 machine", "run it on one", ci=True),
)


def lack_of(reason: str) -> Lack | None:
    """Return what a test lacked, by the reason of its skip; None if the reason is unknown."""
    return next((lack for lack in LACKS if lack.told.search(reason)), None)


def summary(reasons: Iterable[str]) -> list[str]:
    """Return a line for each missing thing: how many tests it skipped, its name, and how to get it; most first."""
    counts = Counter(reasons)
    by_lack: Counter[tuple[str, str]] = Counter()
    for reason, count in counts.items():
        lack = lack_of(reason)
        by_lack[(lack.what, lack.command) if lack is not None else (reason, "")] += count
    width = max((len(what) for what, _ in by_lack), default=0)
    return [f"{count:>5}  {what:<{width}}  {command}".rstrip() for (what, command), count in by_lack.most_common()]


class Skips:
    """The plugin: an avoidable skip fails in CI, and the end of a run lists what was missing."""

    def __init__(self, *, in_ci: bool, save: Path | None) -> None:
        self._in_ci = in_ci
        self._save = save

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        if self._in_ci and report.skipped:
            lack = lack_of(reason_of(report))
            if lack is None or lack.ci:
                report.outcome = "failed"
                report.longrepr = f"CI provides all this needs, it must not skip: {report.longrepr}"
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        skipped = terminalreporter.stats.get("skipped", [])
        if skipped:
            terminalreporter.section(f"{len(skipped)} skipped, by what they need")
            for line in summary(map(reason_of, skipped)):
                terminalreporter.line(line)
        if self._save is not None:
            passed = sorted(report.nodeid for report in terminalreporter.stats.get("passed", []))
            self._save.write_text("".join(f"{name}\n" for name in passed), encoding="utf-8")


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the reason of a skip, in the words of the test."""
    said = report.longrepr
    text = str(said[2]) if isinstance(said, tuple) else str(said)
    return text.removeprefix("Skipped: ")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("patchstack")
    group.addoption("--save-passed", type=Path, metavar="FILE", help="Write the names of the tests that passed.")
    group.addoption("--leave-out", type=Path, metavar="FILE", help="Leave out the tests that such a file names.")


def pytest_configure(config: pytest.Config) -> None:
    # xdist's workers run the tests, and only the process that started them sees all reports.
    save = None if hasattr(config, "workerinput") else config.getoption("save_passed")
    config.pluginmanager.register(Skips(in_ci=bool(os.environ.get("PATCHSTACK_CI")), save=save), "skips")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = config.getoption("leave_out")
    if left_out is None:
        return
    passed = set(left_out.read_text(encoding="utf-8").splitlines())
    dropped = [item for item in items if item.nodeid in passed]
    items[:] = [item for item in items if item.nodeid not in passed]
    config.hook.pytest_deselected(items=dropped)
