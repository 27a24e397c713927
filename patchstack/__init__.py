"""patchstack: prove that pin + patches = fork."""

__version__ = "0.1.0"
