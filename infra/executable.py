"""Reads the headers of executable files in the format ELF."""

import struct

INTERPRETER_SEGMENT, NOTE_SEGMENT = 3, 4
# glibc's start-up code has this note; musl's has none.
GLIBC_NOTE = struct.pack("<II", 4, 16) + struct.pack("<I", 1) + b"GNU\0"
# The word for the instruction set in the header, as the options of infra/release name it.
ARCHITECTURES = {0x3E: "x86-64", 0xB7: "arm64"}


def architecture_of(path):
    """The architecture that an executable was built for. None: another one, or the file is not a 64-bit executable of Linux."""
    with open(path, "rb") as file:
        header = file.read(20)
    if header[:6] != b"\x7fELF\x02\x01" or len(header) < 20:
        return None
    return ARCHITECTURES.get(struct.unpack_from("<H", header, 18)[0])


def is_static(path):
    """Whether an executable needs no dynamic linker, and so no C library of the machine."""
    return not segments(path, INTERPRETER_SEGMENT)


def c_library(path):
    """The C library that an executable was built for, as targets name it. One without any runs wherever musl's do."""
    interpreters = segments(path, INTERPRETER_SEGMENT)
    if interpreters:
        return "musl" if any(b"ld-musl" in interpreter for interpreter in interpreters) else "gnu"
    return "gnu" if any(GLIBC_NOTE in note for note in segments(path, NOTE_SEGMENT)) else "musl"


def segments(path, kind):
    """The contents of an executable's segments of one kind."""
    with open(path, "rb") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            raise SystemExit(f"release: {path} is not a 64-bit executable of Linux")
        (offset,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        file.seek(offset)
        table = file.read(size * count)
        found = []
        for entry in range(0, size * count, size):
            if struct.unpack_from("<I", table, entry)[0] == kind:
                file.seek(struct.unpack_from("<Q", table, entry + 8)[0])
                found.append(file.read(struct.unpack_from("<Q", table, entry + 32)[0]))
    return found
