"""Store each output of an observation in a gzip file, named by the SHA-256 of the uncompressed content.

Equal outputs share a file. To check a file, compare its name with the output of `zcat FILE | sha256sum`.
"""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

from patchstack.files.atomic import replace_file
from patchstack.files.regular import read_regular

SUFFIX = ".gz"
LARGEST = 4 << 30
"""The maximum size of a compressed output that is read, in bytes."""
_GZIP = 16 + zlib.MAX_WBITS


class Outputs:
    """The outputs in a directory. The directory need not exist."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, digest: str) -> Path:
        """Return the path of the content with this digest.

        The digest comes from an untrusted record, so only its last path component is used.
        """
        return self.directory / f"{Path(digest).name}{SUFFIX}"

    def keep(self, content: bytes) -> str:
        """Store content if it is not stored yet, and return its digest."""
        digest = hashlib.sha256(content).hexdigest()
        if self.read(digest, len(content)) is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP)
            replace_file(self.path(digest), packer.compress(content) + packer.flush())
        return digest

    def read(self, digest: str, size: int) -> bytes | None:
        """Return the content with this digest and size in bytes. Return None if it is missing or does not match.

        At most `size` + 1 bytes are decompressed, because the file is untrusted.
        """
        try:
            packed = read_regular(self.path(digest), LARGEST)
            unpacker = zlib.decompressobj(_GZIP)
            content = unpacker.decompress(packed, max(size, 0) + 1)
        except (OSError, zlib.error, OverflowError, ValueError):
            return None
        whole = unpacker.eof and not unpacker.unused_data and len(content) == size
        return content if whole and hashlib.sha256(content).hexdigest() == digest else None
