"""Install the wheel of dist/ in each way that README names, in empty directories, and use it as a new user would.

`make package && python ci/wheel.py` needs the network for the packages that patchstack, uv and pipx need. For pip, uvx,
uv tool, pipx and pipx run it checks that

- patchstack runs, and makes and verifies the demo without the checkout;
- the commands of the demo's last lines work when they are pasted into a shell;
- the hint for a missing extra, pasted into a shell, installs that extra and keeps those that are here.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
EXTRAS = ("build", "docker")


@dataclass(frozen=True, slots=True)
class Form:
    """A way to install: its name, its commands, and how patchstack is called afterwards. `once` is whether the
    environment is for a single run; `before` are commands that the user ran first in the shell."""

    name: str
    install: tuple[str, ...]
    call: str
    once: bool = False
    before: str = ""


def forms(wheel: Path) -> tuple[Form, ...]:
    """Return the ways of README, without extras."""
    spec = shlex.quote(str(wheel))
    return (
        Form("pip", ("python3 -m venv venv", f"venv/bin/pip install --quiet {spec}"), "venv/bin/patchstack"),
        Form(
            "pip in an active venv",
            ("python3 -m venv venv", f"pip install --quiet {spec}"),
            "patchstack",
            before="[ ! -d venv ] || . venv/bin/activate; ",
        ),
        Form("uvx", (), f"uvx --quiet --from {spec} patchstack", once=True),
        Form("uv tool", (f"uv tool install --quiet {spec}",), "patchstack"),
        Form("pipx", (f"pipx install {spec}",), "patchstack"),
        Form("pipx run", (), f"pipx run --spec {spec} patchstack", once=True),
    )


class Wrong(Exception):
    """A form that does not work."""


_SETTINGS = {
    "index-url": ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
    "extra-index-url": ("PIP_EXTRA_INDEX_URL",),
    "find-links": ("PIP_FIND_LINKS",),
    "cert": ("PIP_CERT", "SSL_CERT_FILE"),
}


def index_settings() -> dict[str, str]:
    """Return this machine's pip index settings, for a home without pip's configuration, and for uv, which does not read
    it."""
    found = {}
    for name, variables in _SETTINGS.items():
        asked = [sys.executable, "-m", "pip", "config", "get", f"global.{name}"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip():
            found |= dict.fromkeys(variables, done.stdout.strip())
    return found


class Newcomer:
    """A new home with an empty directory, and a shell in it."""

    def __init__(self, directory: Path, tools: Path) -> None:
        self.home, self.here = directory / "home", directory / "empty"
        self.start = ""
        self.home.mkdir(parents=True)
        self.here.mkdir()
        kept = ("LANG", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "https_proxy", "http_proxy", "no_proxy")
        passed = {name: value for name, value in os.environ.items() if name in kept or name.startswith(("PIP_", "UV_"))}
        path = [str(self.home / ".local/bin"), str(tools), "/usr/local/bin", "/usr/bin", "/bin"]
        self.environment = {**index_settings(), **passed, "HOME": str(self.home), "PATH": os.pathsep.join(path)}

    def shell(self, command: str, codes: tuple[int, ...] = (0,)) -> str:
        """Run a line as if it were pasted, and return its standard output."""
        done = subprocess.run(
            ["bash", "-c", self.start + command],
            cwd=self.here,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in codes:
            raise Wrong(f"$ {command}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


def packages(document: str) -> dict[str, dict[str, Any]]:
    """Return the extras by name, from what `doctor --json` prints."""
    checks = json.loads(document)["checks"]
    return {one["name"].split("[")[1][:-1]: one for one in checks if one["group"] == "packages"}


def with_extras(wheel: Path) -> tuple[tuple[str, str], ...]:
    """Return the ways of README that also install extras: the command, and how patchstack is called afterwards."""
    file, url = shlex.quote(f"{wheel}[docker,build]"), shlex.quote(f"patchstack[docker,build] @ {wheel.as_uri()}")
    return tuple(
        pair
        for spec in (file, url)
        for pair in (
            (f"python3 -m venv venv; venv/bin/pip install --quiet {spec}", "venv/bin/patchstack"),
            ("", f"uvx --quiet --from {spec} patchstack"),
            (f"uv tool install --quiet {spec}", "patchstack"),
            (f"pipx install {spec}", "patchstack"),
            ("", f"pipx run --spec {spec} patchstack"),
        )
    )


def use(form: Form, newcomer: Newcomer) -> None:
    """Raise `Wrong` if anything that a form promises does not hold."""
    newcomer.start = form.before
    for command in form.install:
        newcomer.shell(command)
    told = newcomer.shell(f"{form.call} demo --no-build tour").rstrip().splitlines()[-1]
    if not told.startswith("Look around: "):
        raise Wrong(f"the demo ends with: {told}")
    verified = newcomer.shell(told.removeprefix("Look around: "))
    if '"patchstack.verify/1"' not in verified:
        raise Wrong(f"$ {told}\n{verified}")
    doctor = f"{form.call} doctor --json"
    found = packages(newcomer.shell(doctor, codes=(0, 3)))
    for extra in EXTRAS:
        if found[extra]["state"] == "ok":
            raise Wrong(f"{extra} is here before it was installed")
    for at, extra in enumerate(EXTRAS):
        hint = found[extra]["get"]
        print(f"    $ {hint}", flush=True)
        said = newcomer.shell(hint, codes=(0, 3) if form.once else (0,))
        found = packages(said if form.once else newcomer.shell(doctor, codes=(0, 3)))
        wanted = EXTRAS[at : at + 1] if form.once else EXTRAS[: at + 1]
        if lacking := [one for one in wanted if found[one]["state"] != "ok"]:
            raise Wrong(f"$ {hint}\n{', '.join(lacking)}: not installed")


def main() -> int:
    """Exit status: 0 every form works, 1 some do not, 3 there is no wheel."""
    wheels = sorted((ROOT / "dist").glob("patchstack-*.whl"))
    if not wheels:
        print("error: dist/ has no wheel\n\nhint: make package", file=sys.stderr)
        return 3
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        wheel = Path(shutil.copy(wheels[-1], scratch))
        tools = Path(scratch) / "tools"
        subprocess.run([sys.executable, "-m", "venv", tools / "venv"], check=True)
        subprocess.run([tools / "venv/bin/pip", "install", "--quiet", "uv", "pipx"], check=True)
        for name in ("uv", "uvx", "pipx"):
            (tools / name).symlink_to(tools / "venv/bin" / name)
        for number, form in enumerate(forms(wheel)):
            print(form.name, flush=True)
            try:
                use(form, Newcomer(Path(scratch) / str(number), tools))
            except Wrong as error:
                failed.append(form.name)
                print(f"error: {form.name}: {error}", file=sys.stderr, flush=True)
        for number, (install, call) in enumerate(with_extras(wheel)):
            print(f"    $ {install or call}", flush=True)
            try:
                newcomer = Newcomer(Path(scratch) / f"extras {number}", tools)
                newcomer.shell(install)
                found = packages(newcomer.shell(f"{call} doctor --json", codes=(0, 3)))
                if lacking := [extra for extra in EXTRAS if found[extra]["state"] != "ok"]:
                    raise Wrong(f"$ {install or call}\n{', '.join(lacking)}: not installed")
            except Wrong as error:
                failed.append(install or call)
                print(f"error: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
