"""Decompress patch files (gzip, bzip2, xz), up to a limit."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from shlex import quote

from patchstack.series.files.names import packed_as, unpacked_name

LARGEST_UNPACKED = 64 * 1024 * 1024
_MEMORY = 128 * 1024 * 1024  # maximum memory in bytes for decompressing an xz file


class Unpackable(Exception):
    """A compressed file cannot be read. The message is the reason."""


def unpack(file: str, data: bytes) -> bytes:
    """Decompress a patch file. A file that is not compressed is returned unchanged.

    Raises `Unpackable` if the file cannot be decompressed, or if its text is larger than 64 MiB.
    """
    match packed_as(file):
        case None:
            return data
        case "zst":
            command = f"zstd -d {quote(file)}"
            raise Unpackable(
                f"Zstandard is not supported; run '{command}' to decompress the file to {unpacked_name(file)}"
            )
        case packed:
            try:
                text = _UNPACK[packed](data)
            except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
                raise Unpackable(f"it cannot be decompressed: {error}") from error
    if len(text) > LARGEST_UNPACKED:
        raise Unpackable(f"it decompresses to more than {LARGEST_UNPACKED >> 20} MiB")
    return text


def _gunzip(data: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return file.read(LARGEST_UNPACKED + 1)


def _bunzip2(data: bytes) -> bytes:
    with bz2.BZ2File(io.BytesIO(data)) as file:
        return file.read(LARGEST_UNPACKED + 1)


def _unxz(data: bytes) -> bytes:
    if not data:
        raise EOFError("the file is truncated")
    text = b""
    while data and len(text) <= LARGEST_UNPACKED:
        stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
        text += stream.decompress(data, LARGEST_UNPACKED + 1 - len(text))
        if not stream.eof:
            if len(text) <= LARGEST_UNPACKED:
                raise EOFError("the file is truncated")
            break
        data = stream.unused_data.lstrip(b"\0")
    return text


_UNPACK = {"gz": _gunzip, "bz2": _bunzip2, "xz": _unxz}
