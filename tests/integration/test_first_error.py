"""The first real error of a build's log, with the output of real compilers, linkers and build tools."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from patchstack.builds.errors.first_error import Failure, FailureKind, find_failure

BOX = "template <typename T> struct box { T v; int get() { return v.missing(); } };\n"


def needs(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed here")


def ran(*command: str, temporary: Path) -> tuple[int, str]:
    """Return the exit code and output of a program, the same on every machine."""
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", "TMPDIR": str(temporary)}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env, timeout=120
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


class Built:
    """A source directory that was really configured and built, and the result."""

    def __init__(self, root: Path, files: Mapping[str, str], *options: str, generator: str = "Ninja") -> None:
        needs("cmake", "c++", "ninja" if generator == "Ninja" else "make")
        self.source, self.build = root / "the source", root / "build"
        for name, text in files.items():
            path = self.source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.log = ""
        ok = self._run("cmake", "-S", str(self.source), "-B", str(self.build), "-G", generator, *options)
        if ok:
            ok = self._run("cmake", "--build", str(self.build), "--", "-k", *["0"] * (generator == "Ninja"))
        assert not ok, self.log
        self.failure = find_failure(self.log.splitlines(True), source=str(self.source), build=str(self.build))

    def _run(self, *command: str) -> bool:
        env = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "HOME": "/nonexistent",
            "TMPDIR": str(self.build.parent),
        }
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env, timeout=120
        )
        self.log += done.stdout.decode("utf-8", "replace")
        return done.returncode == 0


def project(*sources: str, languages: str = "CXX", kind: str = "add_library(p STATIC", more: str = "") -> str:
    names = " ".join(sources)
    return f"cmake_minimum_required(VERSION 3.18)\nproject(p {languages})\n{more}{kind} {names})\n"


def the_gist(failure: Failure) -> tuple[FailureKind, str | None, int | None]:
    return failure.kind, failure.file, failure.line


def test_the_error_is_told_and_warnings_of_other_jobs_are_not(tmp_path: Path) -> None:
    files = {
        "CMakeLists.txt": project("a.cpp", "src/b.cpp", "c.cpp", more="add_compile_options(-Wall)\n"),
        "a.cpp": "int a() { int error; return 0; }\n",
        "src/b.cpp": "int warned() { int unused; return 0; }\n\nint b() { return nowhere; }\n",
        "c.cpp": "int c() { int unused; return 0; }\n",
    }
    built = Built(tmp_path, files)
    assert the_gist(built.failure) == (FailureKind.COMPILE, "src/b.cpp", 3)
    assert "nowhere" in built.failure.message
    assert built.failure.target == "CMakeFiles/p.dir/src/b.cpp.o"
    assert built.failure.sites == (("src/b.cpp", 3),)
    assert "unused" not in "\n".join(built.failure.block)
    assert "int b() { return nowhere; }" in built.failure.block[-2]


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_an_error_in_a_header_is_told_with_all_that_led_to_it(tmp_path: Path, generator: str) -> None:
    files = {
        "CMakeLists.txt": project("patch.cpp"),
        "include/box.h": BOX,
        "patch.cpp": '#include "include/box.h"\n\nint main() {\n    box<int> b{1};\n    return b.get();\n}\n',
    }
    built = Built(tmp_path, files, generator=generator)
    assert the_gist(built.failure) == (FailureKind.COMPILE, "include/box.h", 1)
    assert built.failure.sites == (("include/box.h", 1), ("patch.cpp", 5), ("patch.cpp", 1))
    assert built.failure.block[0].startswith("In file included from ")
    assert built.failure.target == "CMakeFiles/p.dir/patch.cpp.o"


def test_an_error_in_a_system_header_is_the_line_of_ours_that_led_there(tmp_path: Path) -> None:
    files = {
        "CMakeLists.txt": project("a.cpp"),
        "a.cpp": "#include <vector>\nstruct N { N(const N&) = delete; };\nvoid f(const N &n) {\n    std::vector<N> v;\n"
        "    v.push_back(n);\n}\n",
    }
    built = Built(tmp_path, files)
    assert the_gist(built.failure) == (FailureKind.COMPILE, "a.cpp", 5)
    assert built.failure.sites[0][0].startswith("/usr/")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('static_assert(KNOB % 2 == 0, "KNOB must be even");\n', 1, "static assertion failed: KNOB must be even"),
        ('#if KNOB > 2\n#error "KNOB is too large"\n#endif\n', 2, '#error "KNOB is too large"'),
    ],
)
def test_what_the_source_refuses_is_rejected(tmp_path: Path, text: str, line: int, said: str) -> None:
    files = {"CMakeLists.txt": project("knob.cpp", more="add_definitions(-DKNOB=3)\n"), "knob.cpp": text}
    built = Built(tmp_path, files)
    assert the_gist(built.failure) == (FailureKind.REJECTED, "knob.cpp", line)
    assert built.failure.message == said


def test_an_assertion_of_a_system_header_is_an_error_of_ours(tmp_path: Path) -> None:
    text = "#include <type_traits>\nstruct Unfinished;\nbool b = std::is_constructible<Unfinished>::value;\n"
    built = Built(tmp_path, {"CMakeLists.txt": project("a.cpp"), "a.cpp": text})
    assert "static assertion failed" in built.failure.message
    assert built.failure.kind is FailureKind.COMPILE


@pytest.mark.parametrize("debug", [False, True])
def test_an_undefined_symbol_names_the_file_that_wants_it(tmp_path: Path, debug: bool) -> None:
    files = {
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.18)\nproject(p CXX)\nadd_subdirectory(tools)\n",
        "tools/CMakeLists.txt": "add_executable(tool main.cpp)\n",
        "tools/main.cpp": "int nowhere(int);\n\nint main() { return nowhere(3); }\n",
    }
    built = Built(tmp_path, files, *["-DCMAKE_BUILD_TYPE=Debug"] * debug)
    assert the_gist(built.failure) == (FailureKind.LINK, "tools/main.cpp", 3 if debug else None)
    assert built.failure.message == "undefined reference to `nowhere(int)'"
    assert built.failure.target == "tools/tool"
    assert built.failure.block[-1].startswith("collect2: error: ld returned 1")


def test_a_library_that_is_not_there_is_the_linkers_failure(tmp_path: Path) -> None:
    files = {
        "CMakeLists.txt": project("main.cpp", kind="add_executable(m") + "target_link_libraries(m nowhere)\n",
        "main.cpp": "int main() {}\n",
    }
    built = Built(tmp_path, files)
    assert the_gist(built.failure) == (FailureKind.LINK, None, None)
    assert built.failure.message.startswith("cannot find -lnowhere")


def test_cmakes_own_error_is_told_with_its_callers(tmp_path: Path) -> None:
    files = {
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.18)\nproject(p CXX)\ninclude(cmake/knob.cmake)\n",
        "cmake/knob.cmake": 'message(WARNING "first")\n\nmessage(FATAL_ERROR "KNOB is one of 1, 2\nand not 3")\n',
    }
    built = Built(tmp_path, files)
    assert the_gist(built.failure) == (FailureKind.CONFIGURE, "cmake/knob.cmake", 3)
    assert built.failure.message == "KNOB is one of 1, 2 and not 3"
    assert built.failure.sites == (("cmake/knob.cmake", 3), ("CMakeLists.txt", 3))
    assert built.failure.block[-1] == "  CMakeLists.txt:3 (include)"


def test_a_target_that_does_not_exist_is_the_build_graphs_failure(tmp_path: Path) -> None:
    needs("ninja")
    (tmp_path / "build.ninja").write_text("build all: phony missing.cpp\n")
    done = subprocess.run(["ninja", "-C", str(tmp_path), "all"], capture_output=True, text=True)
    failure = find_failure((done.stdout + done.stderr).splitlines())
    assert the_gist(failure) == (FailureKind.CONFIGURE, None, None)
    assert failure.message == "'missing.cpp', needed by 'all', missing and no known rule to make it"


def test_a_fetch_names_the_line_that_wants_the_network(tmp_path: Path) -> None:
    needs("git")
    fetch = (
        "include(FetchContent)\n"
        "FetchContent_Declare(thing GIT_REPOSITORY https://nowhere.invalid/thing.git GIT_TAG v1)\n"
        "FetchContent_MakeAvailable(thing)\n"
    )
    files = {"CMakeLists.txt": project("a.cpp", more=fetch), "a.cpp": ""}
    built = Built(tmp_path, files)
    assert the_gist(built.failure) == (FailureKind.NETWORK, "CMakeLists.txt", 5), built.log
    assert "nowhere.invalid" in built.failure.message


def test_a_clone_that_failed_is_named_though_cmake_puts_it_on_a_line_of_its_own() -> None:
    told = """CMake Error at thing-populate-gitclone.cmake:55 (message):
  Failed to clone repository:

    'https://nowhere.invalid/thing.git'

"""
    failure = find_failure(told.splitlines())
    assert (failure.kind, failure.message) == (
        FailureKind.NETWORK,
        "Failed to clone repository: 'https://nowhere.invalid/thing.git'",
    )


SMALL = """template <int N> struct S {
    static_assert(N > 4, "N is too small");
    static const int v = N;
};
"""
CUDA = {
    "s.cuh": SMALL,
    "rejected.cu": """#include "s.cuh"
template <int N> __global__ void k(int *p) {
    *p = S<N>::v;
}

void go(int *p) { k<3><<<1, 1>>>(p); }
""",
    "unknown.cu": "__global__ void k(int *p) {\n    nowhere(p);\n}\n\nint late() { return nowhere; }\n",
    "ptx.cu": '__global__ void k() { asm volatile("bogus.u32 %0;" :: "r"(1)); }\n',
    "shared.cu": """__global__ void k(float *p) {
    __shared__ float s[100000]; s[threadIdx.x] = 1; __syncthreads(); *p = s[3];
}
""",
    "host.cu": '#ifndef __CUDA_ARCH__\n__attribute__((target("nosuchisa"))) int f() { return 1; }\n#endif\n',
    "include.cu": '#include "nowhere.cuh"\n',
    "device.cu": """extern __device__ int elsewhere(int);
__global__ void k(int *p) { *p = elsewhere(1); }
int main() {}
""",
}


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a configured directory with faulty sources for nvcc, each its own target."""
    needs("nvcc", "cmake", "ninja")
    root = tmp_path_factory.mktemp("cuda project")
    targets = "".join(
        f"add_executable(device {name})\nset_target_properties(device PROPERTIES CUDA_SEPARABLE_COMPILATION ON)\n"
        if name == "device.cu"
        else f"add_library({name.removesuffix('.cu')} STATIC {name})\n"
        for name in CUDA
        if name.endswith(".cu")
    )
    for name, text in {**CUDA, "CMakeLists.txt": project(languages="CXX CUDA", kind=f"{targets}#(")}.items():
        (root / name).write_text(text)
    options = ("-G", "Ninja", "-DCMAKE_CUDA_ARCHITECTURES=90-real")
    code, told = ran("cmake", "-S", str(root), "-B", str(root / "build"), *options, temporary=root)
    assert code == 0, told
    return root


@pytest.mark.parametrize(
    ("target", "kind", "sites", "said"),
    [
        (
            "rejected",
            FailureKind.REJECTED,
            (("s.cuh", 2), ("rejected.cu", 3), ("rejected.cu", 6)),
            'static assertion failed with "N is too small"',
        ),
        ("unknown", FailureKind.COMPILE, (("unknown.cu", 2),), 'identifier "nowhere" is undefined'),
        ("ptx", FailureKind.COMPILE, (), "ptxas: "),
        ("shared", FailureKind.COMPILE, (), "ptxas: Entry function '_Z1kPf' uses too much shared data"),
        ("host", FailureKind.COMPILE, (("host.cu", 2),), "attribute"),
        ("include", FailureKind.COMPILE, (("include.cu", 1),), "nowhere.cuh: No such file or directory"),
        ("device", FailureKind.LINK, (), "Undefined reference to '_Z9elsewherei'"),
    ],
)
def test_every_pass_of_nvcc_is_understood(
    cuda: Path, target: str, kind: FailureKind, sites: tuple[tuple[str, int], ...], said: str
) -> None:
    code, told = ran("cmake", "--build", str(cuda / "build"), "--target", target, temporary=cuda)
    assert code != 0
    failure = find_failure(told.splitlines(), source=str(cuda), build=str(cuda / "build"))
    assert failure.kind is kind, told
    assert failure.sites == sites
    assert failure.message.startswith(said)
    if kind is not FailureKind.LINK:
        assert (failure.file, failure.line) == (sites[0] if sites else (f"{target}.cu", None))
        assert failure.target == f"CMakeFiles/{target}.dir/{target}.cu.o"


def test_a_toolkit_that_does_not_know_the_architecture_is_too_old(tmp_path: Path) -> None:
    needs("nvcc")
    files = {"CMakeLists.txt": project("k.cu", languages="CXX CUDA"), "k.cu": ""}
    built = Built(tmp_path, files, "-DCMAKE_CUDA_ARCHITECTURES=199a-real")
    assert the_gist(built.failure) == (FailureKind.TOOLKIT_TOO_OLD, None, None)
    assert built.failure.message == "nvcc fatal   : Unsupported gpu architecture 'compute_199a'"
