"""Programs and libraries made by this machine's compiler, for tests of build outputs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from patchstack.builds.proofs.prove import BIN, Claim
from tests.support.checkout import ROOT

KEY = "0123456789abcdef" * 4
OTHER_KEY = "fedcba9876543210" * 4
PLATFORM = "linux/amd64"
_MACHINE_OFFSET = 18
AARCH64, X86_64 = 183, 62
DEVICE_CODE = '__attribute__((section(".nv_fatbin"), used)) int code[9] = {1};'
"""C source with a section of GPU code, as from a CUDA compiler."""


def claim(**changes: object) -> Claim:
    """Return the claim of a good build of `tool`. The build machine's paths are those of this checkout."""
    fields: dict[str, object] = {"key": KEY, "platform": PLATFORM, "targets": ("tool",), "machine_paths": (str(ROOT),)}
    return Claim(**{**fields, **changes})  # type: ignore[arg-type]


def program(text: str = f'puts("version: 1 ({KEY})");', *, result: int = 0) -> str:
    """Return the C source of a program with `text` as the body of main."""
    return f"#include <stdio.h>\n#include <stdlib.h>\nint main(void) {{ {text} return {result}; }}\n"


def compile_c(source: str, out: Path, *flags: str) -> Path:
    """Compile and link C source with the machine's compiler; skips the test if there is none."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-x", "c", "-", "-x", "none", "-o", str(out), *flags]
    done = subprocess.run(command, input=source.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return out


def library(out: Path, *flags: str, source: str = "int answer(void) { return 42; }") -> Path:
    """Compile a shared library."""
    return compile_c(source, out, "-shared", "-fPIC", f"-Wl,-soname,{out.name}", *flags)


def good_build(directory: Path) -> Path:
    """Make the directory of a build with one program, which prints the key."""
    compile_c(program(), directory / BIN / "tool")
    return directory


def for_machine(path: Path, machine: int) -> Path:
    """Change an ELF file's header to a different machine."""
    content = bytearray(path.read_bytes())
    content[_MACHINE_OFFSET : _MACHINE_OFFSET + 2] = machine.to_bytes(2, "little")
    path.write_bytes(content)
    return path
