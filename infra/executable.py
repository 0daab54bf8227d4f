"""Reads the headers of executable files in the format ELF."""

import struct

INTERPRETER_SEGMENT = 3


def is_static(path):
    """Whether an executable needs no dynamic linker, and so no C library of the machine."""
    with open(path, "rb") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            raise SystemExit(f"release: {path} is not a 64-bit executable of Linux")
        (offset,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        file.seek(offset)
        segments = file.read(size * count)
    return all(struct.unpack_from("<I", segments, index * size)[0] != INTERPRETER_SEGMENT for index in range(count))
