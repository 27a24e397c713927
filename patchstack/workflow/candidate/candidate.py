"""Find the candidates: their fork commits, their changes, and the series with them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from patchstack.builds.inputs.source import AppliedPatch, Source, with_absent
from patchstack.causes import CloneNeeded, NoSuchBuild, NotDescended, NotInRange
from patchstack.evidence.ledger import Candidate
from patchstack.evidence.resemblance import symbols_of
from patchstack.git.format import formatting
from patchstack.git.objects import Commit, Objects, Repository
from patchstack.git.remote import Cache, shown_url
from patchstack.git.trees import compare_trees
from patchstack.series.files.directory import Series
from patchstack.series.history import ForkHistory
from patchstack.series.sources import Sources, open_sources
from patchstack.tasks import task
from patchstack.workspace import SeriesConfig, is_url

_DIFF = re.compile(r"^diff --git ", re.MULTILINE)
_LONGEST_DIFF = 512 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRange:
    """Candidates of a series.

    `fork` contains the fork's commits up to the last candidate. `new` are the candidates, which are the last of these
    commits. `before` is the parent commit of the first candidate. This parent is the end of the accepted prefix, or the
    pin if nothing is accepted yet.
    """

    config: SeriesConfig
    sources: Sources
    fork: ForkHistory
    repository: Repository
    before: Commit
    new: tuple[Commit, ...]

    @property
    def head(self) -> Commit:
        return self.new[-1]

    def source(self, commit: Commit) -> Source:
        """Return a commit of the fork as a source to build.

        The steps of the source are the fork's commits up to and including this commit.
        """
        steps = []
        for one in (*self.fork.commits,) if commit.oid != self.sources.base.oid else ():
            label = f"fork commit {one.oid[:12]} ({one.subject})"
            steps.append(
                AppliedPatch(file=label, number=None, subject=one.subject, sha256="", tree=one.tree, commit=one.oid)
            )
            if one.oid == commit.oid:
                break
        source = Source(
            label=f"{self.config.name}, fork commit {commit.oid[:12]}",
            tree=commit.tree,
            objects=self.sources.objects,
            base_commit=self.sources.base.oid,
            base_tree=self.sources.base.tree,
            upstream=shown_url(self.config.upstream),
            steps=tuple(steps),
            verdict="fork commits, not exported yet",
        )
        return with_absent(source)


@task("reading the candidate")
def open_candidates(config: SeriesConfig, cache: Cache, ref: str) -> CandidateRange:
    """Return the candidates that `ref` names: one commit, or a range `A..B` of the fork's branch.

    Raises `UsageError` if the series has no fork on this machine, and for a range that is empty or not on the branch.
    Raises `NotHeldError` if the fork contains merges.
    """
    if config.fork is None or is_url(config.fork):
        hint = "set fork: and fork_ref: in patchstack.yaml"
        raise CloneNeeded(f"{config.name} has no fork on this machine", hint=hint)
    first, _, last = ref.rpartition("..")
    empty = Series(name=config.name, directory=config.patches, patches=())
    sources = open_sources(
        cache,
        upstream=config.upstream,
        pin=config.pin,
        fork=config.fork,
        fork_ref=last,
        series=empty,
        recreate=config.name,
    )
    assert sources.fork is not None and sources.fork_repository is not None
    repository = sources.fork_repository
    commits = sources.fork.commits
    if not commits:
        raise NotInRange(f"{ref} is the pin itself: there is nothing to decide on")
    if sources.fork.merges:
        raise NotDescended(
            f"{ref} contains merges, which cannot become patches",
            problems=[f"{one.oid[:12]} {one.subject}" for one in sources.fork.merges],
            hint="rebase the fork onto the pin, without merges",
        )
    start = len(commits) - 1
    if first:
        below = repository.resolve_commit(first, "the start of the range", sources.objects)
        known = [sources.base.oid, *(one.oid for one in commits)]
        if below.oid not in known:
            raise NotInRange(f"{first} is not a commit of the fork between the pin and {last}")
        start = known.index(below.oid)
        if start == len(commits):
            raise NotInRange(f"the range {ref} is empty")
    return CandidateRange(
        config=config,
        sources=sources,
        fork=sources.fork,
        repository=repository,
        before=commits[start - 1] if start else sources.base,
        new=commits[start:],
    )


def described(way: CandidateRange) -> tuple[Candidate, ...]:
    """Return the new commits as the ledger stores them, with diff, files and symbols.

    The diffs have the format of the series. If the patches of the series contain no upstream text, the diffs in the
    ledger contain none either.
    """
    directories = way.sources.objects.directories
    anchored = way.config.anchored
    with formatting(
        way.repository, directories, way.before.oid, list(way.new), context=way.config.context, anchored=anchored
    ) as patches:
        formatted = tuple(patches.written())
    found = []
    below = way.before
    for one in formatted:
        text = one.data.decode("utf-8", "replace")
        at = _DIFF.search(text)
        diff = text[at.start() :] if at is not None else ""
        kept = diff if len(diff) <= _LONGEST_DIFF else diff[:_LONGEST_DIFF] + "\n(cut)\n"
        found.append(
            Candidate(
                commit=one.commit.oid,
                subject=one.commit.subject,
                patch_id=one.patch_id,
                tree=one.commit.tree,
                files=_changed_paths(way.sources.objects, below, one.commit),
                symbols=symbols_of(diff),
                diff=kept,
            )
        )
        below = one.commit
    return tuple(found)


def _changed_paths(objects: Objects, before: Commit, after: Commit) -> tuple[str, ...]:
    """Return the sorted paths that differ between two commits. For a rename, both paths are included."""
    # Compare the trees, not the patch. Names in a patch's text are ambiguous (` b/` in a name, quotes), and its message
    # may quote a diff.
    changes = compare_trees(objects, before.tree, after.tree)
    return tuple(sorted(change.path.decode("utf-8", "replace") for change in changes))


def ledger_directory(root: Path) -> Path:
    """Return the directory of a workspace's decisions. Raises `MissingError` if `root` is not a directory."""
    if not root.is_dir():
        raise NoSuchBuild(f"{root} is not a directory")
    return root / "ledger"
