"""The story of the demo: a fork of minillm, what it did later, and what upstream did meanwhile."""

from .edits import Commit, Create, Edit, Replace
from .fork import FORK, MOVED_ON
from .upstream import UPSTREAM_NEXT

__all__ = ["FORK", "MOVED_ON", "UPSTREAM_NEXT", "Commit", "Create", "Edit", "Replace"]
