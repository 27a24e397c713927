"""Create the repositories, series and workspaces of the demo.

The commit ids are the same on every machine, because the authors, times and files of the commits are fixed.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pygit2

from patchstack.causes import AlreadyExists
from patchstack.demo.model import model_file
from patchstack.demo.story import COARSE_KEYS, FORK, MOVED_ON, SHORT_LOG, UPSTREAM_NEXT, Create, Replace
from patchstack.demo.story import Commit as Chapter
from patchstack.git.objects import Objects, Repository
from patchstack.series.files.names import number_of
from patchstack.series.files.order import patch_names
from patchstack.series.history import read_fork
from patchstack.series.mirror.export import ExportPolicy, carry_out, plan_export

_HERE = Path(__file__).parent
_PERSON = ("patchstack demo", "demo@patchstack.invalid")
_FIRST_SECOND = 1_780_000_000
_HOUR = 3600

_WORKSPACE = """\
# A patchstack workspace. `patchstack verify` here proves that pin + series = fork.
series:
  paged:
    patches: patches/paged        # the generated mirror of the fork: never edited by hand
    upstream: upstream
    pin: {pin}
    fork: fork
    fork_ref: paged
    variant: cpu                  # the variant that `patchstack build` builds

# How to build the series. These variants are added to the built-in variants for llama.cpp.
variants:
  minillm:
    abstract: true
    commit_variable: MINILLM_BUILD_COMMIT   # carries the build key into the binaries
    # links to minillm-llama in the same directory run it as llama-completion, llama-server and so on
    targets: [minillm-completion, minillm-bench, minillm-perplexity, minillm-make-model, minillm-llama,
              test-ops, test-model]
  cpu:
    extends: minillm
    targets: [minillm-llama, minillm-completion, minillm-bench]   # the suite needs only minillm-llama
    cmake:                        # these options reduce the build time to a quarter: the demo builds four times
      CMAKE_UNITY_BUILD: true
      CMAKE_CXX_FLAGS_RELEASE: -O1 -DNDEBUG
  cuda-sm121:
    extends: minillm
    recipe: cuda
    image: patchstack/cuda
    cmake: {{MINILLM_CUDA: true}}

models:
  tiny: {{path: models/seed-1.mllm, sha256: {model}, what: random weights}}

# The gates that a build must pass. `patchstack gate run` checks a build, `patchstack accept` checks a commit.
suites:
  quick:
    what: What every patch must leave as it is
    gates:
      - name: greedy              # the generated text must not change, with or without the paged cache
        kind: completion
        model: tiny
        prompt: The capital of France is
        context: 512
        states:
          plain: {{}}               # `patchstack gate record` records the expected text
          paged: {{env: {{MINILLM_KV_PAGED: 1}}, same_as: plain}}
        kl: {{text: text.txt, context: 128, batch: 128, chunks: 8}}   # measured if the text differs
      - name: trace               # the switch must have an effect: it prints trace lines
        kind: engaged
        model: tiny
        prompt: The capital of France is
        context: 512
        on: {{MINILLM_TRACE: 1}}
        mark: "^trace: step="
        at_least: 10
      - {{name: mul-mat, kind: backend-ops, backend: CPU, op: MUL_MAT, expect: 6}}
"""

_TEXT = "".join(f"The {number * 7 % 31} birds of {number * number % 17} trees sing. " for number in range(40))

_BROKEN_SERIES = """\
  {name}:  # {what}
    patches: {patches}
    upstream: ../upstream
    pin: {pin}
    fork: ../fork
    fork_ref: {ref}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A series that differs from its fork.

    `name` is the name of the series in the broken workspace. `what` describes the difference.
    """

    name: str
    what: str


EDITED = Broken(name="edited", what="a line of patch 0002 was edited by hand")
DROPPED = Broken(name="dropped", what="patch 0004 was deleted")
MOVED = Broken(name="moved-on", what="the fork has a commit that was never exported")

GOOD, CHANGED, LOST = "paged-next", "coarse-keys", "short-log"
"""The branches of the fork that have commits which are not in the series.

GOOD has one such commit, which does not change the model's output. CHANGED and LOST each add one more commit to GOOD.
The commit of CHANGED changes the model's output. The commit of LOST makes a program lose the end of its log.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The paths and the pin of a demo. `workspace` is the file of the valid workspace. `pin` is a commit id."""

    root: Path
    workspace: Path
    pin: str


def build_demo(root: Path) -> Demo:
    """Create the demo in a new or empty directory.

    Raises `UsageError` if `root` is a file, or a directory that is not empty.
    """
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise AlreadyExists(
            f"{root} already exists and is not an empty directory",
            hint="run 'patchstack demo DIR' with a different directory",
        )
    root.mkdir(parents=True, exist_ok=True)
    upstream = _Repository(root / "upstream", "master")
    upstream.write(_upstream_files())
    pin = upstream.commit("minillm: a tiny language model in plain C++", "A transformer small enough to read.")
    fork = _Repository(root / "fork", "paged", start=upstream)
    for chapter in FORK:
        fork.tell(chapter)
    for chapter in UPSTREAM_NEXT:
        upstream.tell(chapter)
    upstream.check_out()
    fork.check_out()
    _export(root, pin)
    fork.branch(GOOD)
    fork.tell(MOVED_ON)
    for name, chapter in ((CHANGED, COARSE_KEYS), (LOST, SHORT_LOG)):
        fork.aside(name, chapter)
    model = model_file(1)
    (root / "models").mkdir()
    (root / "models" / "seed-1.mllm").write_bytes(model)
    (root / "text.txt").write_text(_TEXT, encoding="utf-8")
    workspace = root / "patchstack.yaml"
    text = _WORKSPACE.format(pin=pin, model=hashlib.sha256(model).hexdigest())
    workspace.write_text(text, encoding="utf-8")
    _break(root, pin)
    return Demo(root=root, workspace=workspace, pin=pin)


def _break(root: Path, pin: str) -> None:
    """Create a second workspace with three broken series."""
    for broken in (EDITED, DROPPED):
        shutil.copytree(root / "patches" / "paged", root / "broken" / "patches" / broken.name)
    edited = _numbered(root / "broken" / "patches" / EDITED.name, 2)
    text = edited.read_bytes()
    assert text.count(b'+    std::fprintf(stderr, "trace: step=') == 1
    edited.write_bytes(
        text.replace(b'+    std::fprintf(stderr, "trace: step=', b'+    std::fprintf(stderr, "trace2: step=')
    )
    _numbered(root / "broken" / "patches" / DROPPED.name, 4).unlink()
    lines = ["# Three broken copies of the series in ../patchstack.yaml.\nseries:\n"]
    for broken, patches, ref in (
        (EDITED, f"patches/{EDITED.name}", "paged"),
        (DROPPED, f"patches/{DROPPED.name}", "paged"),
        (MOVED, "../patches/paged", GOOD),
    ):
        lines.append(_BROKEN_SERIES.format(name=broken.name, what=broken.what, patches=patches, pin=pin, ref=ref))
    (root / "broken" / "patchstack.yaml").write_text("".join(lines), encoding="utf-8")


def _numbered(directory: Path, number: int) -> Path:
    return directory / next(file for file in patch_names(directory) if number_of(file) == number)


def _upstream_files() -> Iterable[tuple[str, bytes, bool]]:
    source = _HERE / "upstream"
    for path in sorted(source.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(source).as_posix(), path.read_bytes(), False


class _Repository:
    """A repository that is being created.

    The files of the current branch are in memory. Consecutive commits are one hour apart.
    """

    def __init__(self, path: Path, branch: str, start: _Repository | None = None) -> None:
        self.path = path
        self._hours: int = start._hours if start else 0
        self.files: dict[str, tuple[bytes, bool]] = dict(start.files) if start else {}
        self._head: pygit2.Oid | None = start._head if start else None
        self._repository = (
            pygit2.clone_repository(str(start.path), str(path), bare=False)
            if start
            else pygit2.init_repository(str(path), initial_head=branch)
        )
        self._repository.config["core.autocrlf"] = False
        self.branch(branch)

    def branch(self, name: str) -> None:
        """Create a branch at the current commit. Later commits go to this branch."""
        self._ref = f"refs/heads/{name}"
        if self._head is not None:
            self._repository.references.create(self._ref, self._head, force=True)

    def aside(self, name: str, chapter: Chapter) -> None:
        """Commit a chapter of the story on a new branch, then return to the current branch."""
        ref, head, files = self._ref, self._head, dict(self.files)
        self.branch(name)
        self.tell(chapter)
        self._ref, self._head, self.files = ref, head, files

    def write(self, files: Iterable[tuple[str, bytes, bool]]) -> None:
        self.files.update({path: (content, executable) for path, content, executable in files})

    def tell(self, chapter: Chapter) -> None:
        """Apply the edits of a chapter of the story to the files, and commit the files."""
        for edit in chapter.edits:
            if isinstance(edit, Create):
                self.files[edit.path] = ((_HERE / "fork" / edit.source).read_bytes(), edit.executable)
            elif isinstance(edit, Replace):
                content, executable = self.files[edit.path]
                if content.count(edit.old.encode()) != 1:
                    raise ValueError(
                        f"{chapter.subject}: {edit.path} does not contain exactly one copy of the text to replace"
                    )
                self.files[edit.path] = (content.replace(edit.old.encode(), edit.new.encode()), executable)
        self.commit(chapter.subject, chapter.body)

    def commit(self, subject: str, body: str) -> str:
        index = pygit2.Index()
        for path, (content, executable) in self.files.items():
            mode = pygit2.enums.FileMode.BLOB_EXECUTABLE if executable else pygit2.enums.FileMode.BLOB
            index.add(pygit2.IndexEntry(path, self._repository.create_blob(content), mode))
        tree = index.write_tree(self._repository)
        person = pygit2.Signature(*_PERSON, time=_FIRST_SECOND + self._hours * _HOUR, offset=0)
        self._hours += 1
        parents = [self._head] if self._head else []
        self._head = self._repository.create_commit(self._ref, person, person, f"{subject}\n\n{body}\n", tree, parents)
        return str(self._head)

    def check_out(self) -> None:
        """Write the files of the current branch to the work tree."""
        self._repository.set_head(self._ref)
        self._repository.checkout(self._ref, strategy=pygit2.enums.CheckoutStrategy.FORCE)


def _export(root: Path, pin: str) -> None:
    """Write the patch files of the series from the fork, as `patchstack export` does."""
    objects = Objects()
    repository = Repository.open("fork", root / "fork")
    objects.add_directory(repository.object_directory, "fork")
    base = objects.commit(pin)
    fork = read_fork(repository, "paged", base, objects)
    carry_out(plan_export(objects, repository, "paged", root / "patches" / "paged", base, fork, ExportPolicy()))
