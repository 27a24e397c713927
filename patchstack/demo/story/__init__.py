"""Provide the commits of the demo.

They are the commits of the fork, a later commit of the fork, two candidates, and later upstream commits.
"""

from .candidates import COARSE_KEYS, SHORT_LOG
from .edits import Commit, Create, Edit, Replace
from .fork import FORK, MOVED_ON
from .upstream import UPSTREAM_NEXT

__all__ = ["COARSE_KEYS", "FORK", "MOVED_ON", "SHORT_LOG", "UPSTREAM_NEXT", "Commit", "Create", "Edit", "Replace"]
