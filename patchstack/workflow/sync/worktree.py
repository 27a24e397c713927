"""Create and use the repository of a sync, which has a work tree.

It borrows the objects of upstream and fork. A user's configuration, attributes and hooks have no effect here. So the
same commits and the same resolutions produce the same branch, with the same ids, on every machine.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from patchstack.causes import GitStillAtWork, SyncNotReady, SyncRepositoryGone
from patchstack.files.processes import environments
from patchstack.git import run as git
from patchstack.git.objects import Repository, object_id
from patchstack.git.remote import shown_url
from patchstack.git.scratch import borrow_objects, write_object
from patchstack.process import Finished
from patchstack.series.mirror.checkout import leave_out

MARK = "patchstack-sync"
KEPT = "refs/patchstack/kept/"
_PATIENCE, _PAUSE = 60.0, 0.1  # seconds
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = false
\tlogAllRefUpdates = false
\thooksPath = /dev/null
\tautocrlf = false
\tattributesFile = /dev/null
[merge]
\tconflictStyle = diff3
\trenames = true
\trenameLimit = 7000
\tdirectoryRenames = conflict
[diff]
\talgorithm = myers
\trenames = true
[rerere]
\tenabled = true
\tautoUpdate = true
[gc]
\tauto = 0
\trerereResolved = never
\trerereUnresolved = never
[commit]
\tgpgSign = false
"""
# Keep contents byte for byte and merge them as text, even if .gitattributes in the tree says otherwise.
_ATTRIBUTES = "* -text -ident -filter !eol !working-tree-encoding !merge !conflict-marker-size\n"
_IDENTITY = {f"GIT_{role}_{key}": "patchstack" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
_MARKER = re.compile(rb"(<{7}|\|{7}|>{7})( |\r?$)")
_LOCATION = re.compile(
    r"^CONFLICT \(file location\): (.*) added in .* inside a directory that was renamed in .*, "
    r"suggesting it should perhaps be moved to (.*)\.$",
    re.MULTILINE,
)
_WRONG_USAGE = 129  # git's exit status for an unknown option
_CLEAN = re.compile(rb"1\0([0-9a-f]{40})\0\0")  # a merge without conflict in the output of git merge-tree --stdin
_REMEMBERED = re.compile(r"^(?:Resolved|Staged) '(.*)' using previous resolution\.$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The result of merging a patch's change onto the branch.

    `remembered` are the files that a remembered resolution settled.
    """

    tree: str
    remembered: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmerged:
    """Files in conflict.

    `paths` contains every path with its stages in git (1 base, 2 upstream's side, 3 the patch's side). `moved` contains
    the files that git moved because upstream renamed their directory. It maps the new name to the name in the patch.
    """

    paths: tuple[tuple[str, frozenset[int]], ...]
    remembered: tuple[str, ...]
    moved: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A person's resolution of a conflict, or a person's edit of a commit.

    `message` is the message of the person's own commit. It is None if the person made no commit.
    """

    tree: str
    message: bytes | None


class SyncTree:
    """The repository of a sync, in a directory.

    Its methods raise `MissingError` if git fails.
    """

    def __init__(self, directory: Path, branch: str) -> None:
        self.directory = directory
        self.branch = branch
        self.git_dir = directory / ".git"

    @property
    def is_ours(self) -> bool:
        return (self.git_dir / MARK).is_file()

    def make(
        self,
        start: str,
        *,
        borrow: Sequence[Path],
        shallow: Sequence[Repository],
        remotes: Sequence[tuple[str, str]],
        absent: Sequence[bytes],
    ) -> None:
        """Create the repository and check out `start`.

        `absent` are files whose contents are not available. The work tree is sparse and does not contain them. Files
        left by an interrupted run are replaced.

        Raises `UsageError` for a directory that patchstack did not create.
        """
        self.remove()
        for name in ("objects/info", "objects/pack", "refs/heads", "info"):
            (self.git_dir / name).mkdir(parents=True)
        (self.git_dir / MARK).write_text("made by patchstack sync\n")
        (self.git_dir / "HEAD").write_text(f"ref: refs/heads/{self.branch}\n")
        (self.git_dir / "config").write_text(_CONFIG + "".join(_remote(*remote) for remote in remotes))
        (self.git_dir / "info" / "attributes").write_text(_ATTRIBUTES)
        borrow_objects(self.git_dir / "objects", borrow)
        ends = {line for one in shallow for line in _lines(one.git_dir / "shallow")}
        if ends:
            (self.git_dir / "shallow").write_text("".join(f"{line}\n" for line in sorted(ends)))
        self._git("update-ref", f"refs/heads/{self.branch}", start)
        if absent:
            leave_out(self.directory, absent)
        self._git("reset", "--quiet", "--hard", start)

    def merge(self, commit: str) -> Merged | Unmerged:
        """Merge a commit's own change three-way onto the checked-out commit. Index and work tree must be clean."""
        done = self._run("cherry-pick", "--no-commit", commit)
        told = done.complaint + "\n" + done.stdout.decode("utf-8", "replace")
        remembered = tuple(dict.fromkeys(_REMEMBERED.findall(told)))
        if not done.ok:
            if "could not apply" not in done.complaint:
                raise git.GitFailed(f"git cherry-pick {commit[:12]} in {self.directory} failed", done)
            paths = self.unmerged()
            if paths:
                moved = {new: old for old, new in _LOCATION.findall(told)}
                return Unmerged(paths=paths, remembered=remembered, moved=moved)
        return Merged(tree=self._git("write-tree", "--missing-ok").decode().strip(), remembered=remembered)

    def merge_all(self, steps: Sequence[tuple[bytes, str]]) -> list[str] | None:
        """Merge the changes of commits in the same way as `merge`, each onto a tree.

        One process does all merges, without index and work tree. Each step is a pair: a commit object that represents
        the branch, and the id of the commit to merge. Both commits have the same parent. The change is merged onto the
        tree of the commit object. This tree may be the result of an earlier step.

        Return the trees, up to the first conflict. Return None if this git version is too old (before 2.39).
        """
        lines = []
        for stand_in, commit in steps:
            oid = object_id("commit", stand_in)
            write_object(self.git_dir / "objects", oid, "commit", stand_in)
            lines.append(f"{oid} {commit}\n")
        done = self._run("merge-tree", "--write-tree", "--stdin", "--no-messages", stdin="".join(lines).encode())
        if done.code == _WRONG_USAGE:
            return None
        trees = []
        at = 0
        while (found := _CLEAN.match(done.stdout, at)) is not None:
            trees.append(found[1].decode("ascii"))
            at = found.end()
        return trees

    def write_commits(self, commits: Sequence[bytes], head: str) -> None:
        """Write commit objects, and move the branch to the last one, whose id is `head`."""
        for raw in commits:
            write_object(self.git_dir / "objects", object_id("commit", raw), "commit", raw)
        self._git("update-ref", f"refs/heads/{self.branch}", head)

    def reset(self, head: str, made: Sequence[bytes]) -> None:
        """Reset branch, index and work tree to a commit.

        Untracked files remain, except at the paths in `made`, which an interrupted run may have left.
        """
        self.break_locks()
        self._run("rerere", "clear")
        self._git("symbolic-ref", "HEAD", f"refs/heads/{self.branch}")
        self._git("reset", "--quiet", "--hard", head)
        if made:
            names = [path.decode("utf-8", "surrogateescape") for path in made]
            self._git("--literal-pathspecs", "clean", "--quiet", "-dffx", "--", *names)

    def break_locks(self) -> None:
        """Remove the locks that an interrupted run left.

        If a git process of that run is still running, wait for it. Raises `MissingError` if it does not end within one
        minute.
        """
        locks = [self.git_dir / name for name in ("index.lock", "HEAD.lock", f"refs/heads/{self.branch}.lock")]
        until = monotonic() + _PATIENCE
        while any(lock.exists() for lock in locks) and self._at_work():
            if monotonic() > until:
                raise GitStillAtWork(
                    f"a git process of an earlier run is still running in {self.directory}",
                    hint="wait until it has ended, then run 'patchstack sync --continue'",
                )
            sleep(_PAUSE)
        for lock in locks:
            lock.unlink(missing_ok=True)

    def _at_work(self) -> bool:
        """Return whether a git process of an interrupted run is still running here."""
        ours = f"GIT_WORK_TREE={self.directory}".encode()
        return any(ours in environment for _, environment in environments())

    def commit(self, raw: bytes, tree: str, parent: str, message: bytes | None = None) -> str:
        """Commit a tree, move the branch to the new commit, and return its id.

        Author, committer, dates and encoding are copied from the commit `raw`. If `message` is None, the message is
        copied too.
        """
        made = rewritten(raw, tree, parent, message)
        oid = self._git("hash-object", "-t", "commit", "-w", "--stdin", stdin=made).decode().strip()
        self._git("update-ref", f"refs/heads/{self.branch}", oid)
        return oid

    def unmerged(self) -> tuple[tuple[str, frozenset[int]], ...]:
        """Return the paths in conflict, with their stages."""
        found: dict[str, set[int]] = {}
        for entry in self._git("ls-files", "--unmerged", "-z").split(b"\0"):
            if entry:
                head, _, path = entry.partition(b"\t")
                found.setdefault(path.decode("utf-8", "surrogateescape"), set()).add(int(head.split()[2]))
        return tuple((path, frozenset(stages)) for path, stages in found.items())

    def resolution(self, head: str, paths: Sequence[str]) -> Resolved | list[str]:
        """Return a person's resolution of a conflict on `head`, or complaints.

        `paths` are the paths that were in conflict. A complaint names a file that is not added or still contains
        markers, or reports that HEAD is not the expected commit.
        """
        unmerged = [path for path, _ in self.unmerged()]
        if unmerged:
            return [f"{path} is still in conflict" for path in unmerged]
        unstaged = self._git("diff", "--name-only", "-z").decode("utf-8", "surrogateescape").split("\0")
        if named := [path for path in unstaged if path]:
            return [f"{path} was changed but not added" for path in named]
        tree = self._git("write-tree", "--missing-ok").decode().strip()
        marked = [f"{path}:{line} is a conflict marker" for path in paths for line in self._markers(path)]
        if marked:
            return marked
        now = self.head()
        if now == head:
            return Resolved(tree=tree, message=None)
        above = self._git("rev-list", "--parents", "-n", "1", now).decode().split()[1:]
        if above != [head]:
            return [f"HEAD {now[:12]} is not a single commit on top of {head[:12]}"]
        if tree != self._git("rev-parse", f"{now}^{{tree}}").decode().strip():
            return ["something was added after the commit"]
        body = self._git("cat-file", "commit", now).partition(b"\n\n")[2]
        return Resolved(tree=tree, message=body)

    def edited(self, head: str, parent: str) -> Resolved | list[str]:
        """Return a person's edit of the newest commit, or complaints.

        The newest commit is `head`, and its parent is `parent`. A complaint names a file that is not added, or reports
        that HEAD is not the expected commit.
        """
        unmerged = [f"{path} is in conflict" for path, _ in self.unmerged()]
        unstaged = self._git("diff", "--name-only", "-z").decode("utf-8", "surrogateescape").split("\0")
        if complaints := unmerged or [f"{path} was changed but not added" for path in unstaged if path]:
            return complaints
        tree = self._git("write-tree", "--missing-ok").decode().strip()
        now = self.head()
        if now == head:
            return Resolved(tree=tree, message=None)
        above = self._git("rev-list", "--parents", "-n", "1", now).decode().split()[1:]
        if above != [parent]:
            return [f"HEAD {now[:12]} is neither {head[:12]} nor an amended form of it"]
        return Resolved(tree=tree, message=self._git("cat-file", "commit", now).partition(b"\n\n")[2])

    def hand_made(self, head: str) -> bool:
        """Return whether a person made commits after the given commit.

        Uncommitted changes to tracked files count too, if no conflict remains.
        """
        if self.head() != head:
            return True
        return not self.unmerged() and not self._run("diff-index", "--quiet", "HEAD").ok

    def keep(self, label: str) -> str:
        """Save the checked-out commit under a ref, and return the name of the ref.

        If nothing is in conflict, uncommitted changes to tracked files are saved too.
        """
        kept = b"" if self.unmerged() else self._git("stash", "create", "kept by patchstack sync")
        commit = kept.decode().strip() or self.head()
        name = f"{KEPT}{label}-{commit[:12]}"
        self._git("update-ref", name, commit)
        return name

    def kept(self) -> list[str]:
        """Return the refs that `keep` created."""
        return self._git("for-each-ref", "--format=%(refname)", KEPT).decode().split()

    def staged(self, stage: int, path: str) -> bytes:
        """Return one side of a file in conflict."""
        return self._git("cat-file", "blob", f":{stage}:{path}")

    def as_patch(self, commit: str) -> bytes:
        """Return a commit as a patch file."""
        return self._git("format-patch", "--stdout", "--full-index", "--binary", "-1", commit)

    def remember(self) -> None:
        """Let git record the resolution of the current conflict."""
        self._run("rerere")

    def head(self) -> str:
        """Return the checked-out commit."""
        return self._git("rev-parse", "--verify", "HEAD").decode().strip()

    def head_or_none(self) -> str | None:
        """Return the checked-out commit. Return None if the repository no longer exists."""
        return self.head() if self.git_dir.is_dir() else None

    def tree_of(self, commit: str) -> str:
        return self._git("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()

    def has(self, commit: str, path: str) -> bool:
        """Return whether a commit contains a file with this path."""
        return bool(self._git("--literal-pathspecs", "ls-tree", "-z", commit, "--", path))

    def own_commits(self, head: str, *without: str) -> Iterator[tuple[str, str]]:
        """Yield the id and the parent id of each commit of a branch, oldest first. Merges are skipped."""
        listed = self._git(
            *("rev-list", "--reverse", "--topo-order", "--no-merges", "--parents"),
            *(head, *(f"^{commit}" for commit in without)),
        )
        for line in listed.decode().splitlines():
            commit, *parents = line.split()
            if parents:
                yield commit, parents[0]

    def changes_of_its_own(self, merge: str) -> list[str]:
        """Return the files in which a merge differs from all of its parents."""
        shown = self._git("diff-tree", "--cc", "--name-only", "--no-commit-id", "-r", "-z", merge)
        return [path.decode("utf-8", "replace") for path in shown.split(b"\0") if path]

    def log(self, *arguments: str) -> bytes:
        """Run `git log` and return its output.

        The output is empty if contents that git needs are not available.
        """
        done = self._run("log", *arguments)
        return done.stdout if done.ok else b""

    def patch_ids(self, commits: Sequence[str]) -> dict[str, str]:
        """Return git's stable patch-ids of commits."""
        shown = self._git(
            *("log", "--no-walk=unsorted", "--stdin", "-p", "--no-color", "--no-ext-diff", "--full-index"),
            stdin="".join(f"{commit}\n" for commit in commits).encode(),
        )
        told = self._git("patch-id", "--stable", stdin=shown).decode("ascii").splitlines()
        return {commit: patch_id for patch_id, commit in (line.split() for line in told)}

    def left_over(self) -> bool:
        """Return whether the work tree contains changed, untracked or ignored files."""
        return bool(self._git("status", "--porcelain", "--ignored").strip())

    def remove(self) -> None:
        """Remove the repository.

        patchstack's marker file is removed last, so that an interrupted removal can be repeated.

        Raises `UsageError` for a directory that patchstack did not create.
        """
        if not self.directory.exists():
            return
        if not self.is_ours and any(files for _, _, files in os.walk(self.directory)):
            raise SyncNotReady(
                f"{self.directory} was not created by patchstack sync; nothing was removed",
                hint="move it away and run the command again",
            )
        for directory, last in ((self.directory, ".git"), (self.git_dir, MARK)):
            for path in directory.iterdir() if directory.is_dir() else ():
                if path.name == last:
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        shutil.rmtree(self.directory)

    def _markers(self, path: str) -> list[int]:
        shown = self._run("cat-file", "blob", f":0:{path}")
        return [at for at, line in enumerate(shown.stdout.split(b"\n"), 1) if shown.ok and _MARKER.match(line)]

    def _run(self, *args: str, stdin: bytes = b"") -> Finished:
        if not self.git_dir.is_dir():
            raise SyncRepositoryGone(
                f"the sync's repository {self.directory} no longer exists",
                hint="run 'patchstack sync --abort' and begin again: resolutions are remembered",
            )
        return git.isolated(
            self.git_dir,
            *args,
            cwd=self.directory,
            stdin=stdin,
            GIT_WORK_TREE=str(self.directory),
            TZ="UTC",
            **_IDENTITY,
        )

    def _git(self, *args: str, stdin: bytes = b"") -> bytes:
        return git.checked(self._run(*args, stdin=stdin), f"git {args[0]} in {self.directory} failed")


def rewritten(raw: bytes, tree: str, parent: str, message: bytes | None = None) -> bytes:
    """Return a commit object with a different tree and parent.

    A signature is removed, because it covers the original commit.
    """
    head, _, body = raw.partition(b"\n\n")
    kept = []
    skipping = False
    for line in head.split(b"\n"):
        if line.startswith(b" "):
            if not skipping:
                kept.append(line)
            continue
        skipping = line.split(b" ")[0] in (b"tree", b"parent", b"gpgsig", b"gpgsig-sha256", b"mergetag")
        if not skipping:
            kept.append(line)
    lines = [b"tree " + tree.encode(), b"parent " + parent.encode(), *kept]
    return b"\n".join(lines) + b"\n\n" + (body if message is None else message)


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.is_file() else []


def _remote(name: str, url: str) -> str:
    quoted = shown_url(url).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'[remote "{name}"]\n\turl = "{quoted}"\n\tfetch = "+refs/heads/*:refs/remotes/{name}/*"\n'
