"""Our apply against git's, over mutated realistic patches: the same verdict and the same tree, never a traceback."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pygit2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchstack.git.apply import Applier
from patchstack.git.objects import Objects
from tests.fuzz.strategies import DIFF_OPTIONS, Files, changed_trees, clear_of_conflicts, damaged, trees
from tests.support.oracle import Oracle

settings.register_profile("fuzz", deadline=None, suppress_health_check=list(HealthCheck))


class Bench:
    """A repository for trees, git as its oracle, and counts of the patches that each judged."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="patchstack-fuzz-"))
        self.repo = pygit2.init_repository(str(self.directory / "repo"), bare=True)
        self.store = self.directory / "repo" / "objects"
        self.oracle = Oracle(self.directory, self.store)
        self.counts: Counter[str] = Counter()

    def tree(self, files: Files) -> str:
        index = pygit2.Index()
        for path, (mode, content) in clear_of_conflicts(files).items():
            index.add(pygit2.IndexEntry(path, self.repo.create_blob(content), pygit2.enums.FileMode(mode)))
        return str(index.write_tree(self.repo))

    def diff(self, old: str, new: str, options: tuple[str, ...]) -> bytes:
        return self.oracle.git("diff-tree", "-p", "-r", *options, old, new).stdout

    def check(self, tree: str, patch: bytes) -> None:
        """Apply twice in a row, as in a series: the second time to the result of the first."""
        objects = Objects()
        objects.add_directory(self.store, "fuzz")
        with Applier(objects, tree) as applier:
            for _ in range(2):
                ours = applier.apply(patch)
                expected = self.oracle.apply(tree, patch)
                assert ours.tree == expected, (ours, expected, patch)
                assert (ours.tree is None) == bool(ours.problems)
                judge = "git" if ours.left_to_git else "here"
                self.counts[f"{judge} {'applied' if expected else 'refused'}"] += 1
                if expected is None:
                    break
                # Objects that git wrote for the oracle may be absent from our store: our apply must continue from
                # memory.
                tree = expected


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    shutil.rmtree(bench.directory)


@settings(parent=settings.get_profile("fuzz"), max_examples=int(os.environ.get("PATCHSTACK_FUZZ_EXAMPLES", "400")))
@given(data=st.data())
def test_applies_exactly_when_git_does_and_gives_the_same_tree(bench: Bench, data: st.DataObject) -> None:
    base = clear_of_conflicts(data.draw(trees))
    target = data.draw(changed_trees(base))
    patch = bench.diff(bench.tree(base), bench.tree(target), data.draw(st.sampled_from(DIFF_OPTIONS)))
    patch = data.draw(damaged(b"Subject: [PATCH] x\n\nbody\n---\n" + patch))
    # Apply the patch to the tree it was made for, or to a later one.
    ground = base if data.draw(st.booleans()) else data.draw(changed_trees(base))
    bench.check(bench.tree(ground), patch)


def test_the_fuzz_exercises_both_judges_and_both_verdicts(bench: Bench) -> None:
    if not bench.counts:
        pytest.skip("runs after the fuzz test of this module")
    assert min(bench.counts[key] for key in ("here applied", "here refused", "git applied", "git refused")) >= 5, (
        bench.counts
    )
    print(bench.counts)
