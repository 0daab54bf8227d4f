"""Checks files of a release: each is there and has the checksum that SHA256SUMS lists.

    release_files.py DIR NAME...

Exit codes: 0 all are right, 3 one is missing or has another checksum.
"""

import hashlib
import sys
from pathlib import Path


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    digests = listed_digests(folder)
    for name in names:
        digest = hashlib.sha256(contents(folder, name)).hexdigest()
        if digest != digests.get(name):
            refuse(f"{folder / name} does not have the checksum that SHA256SUMS lists")


def listed_digests(folder):
    """The checksums by the names of the files."""
    return read_digests(contents(folder, "SHA256SUMS"))


def listed_names(folder):
    """The names of the files that a release in the folder has; empty if it has none."""
    sums = folder / "SHA256SUMS"
    return read_digests(sums.read_bytes()).keys() if sums.is_file() else set()


def read_digests(sums):
    lines = [line.split("  ", 1) for line in sums.decode(errors="replace").splitlines()]
    return {line[1]: line[0] for line in lines if len(line) == 2}


def contents(folder, name):
    file = folder / name
    if not file.is_file():
        refuse(f"{folder} has no {name}")
    return file.read_bytes()


def refuse(problem):
    sys.stderr.write(f"build: {problem}: download the release again\n")
    sys.exit(3)


if __name__ == "__main__":
    main()
