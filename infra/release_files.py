"""Checks files of a release: each is there and has the checksum that SHA256SUMS lists.

    release_files.py DIR NAME...

Exit codes: 0 all are right, 3 one is missing or has another checksum.
"""

import hashlib
import sys
from pathlib import Path


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    problem = next(filter(None, (problem_of(folder, name) for name in ["SHA256SUMS", *names])), None)
    if problem:
        sys.stderr.write(f"build: {problem}: download the release again\n")
        sys.exit(3)


def problem_of(folder, name):
    """Why a file cannot be used, if it cannot."""
    file = folder / name
    if not file.is_file():
        return f"{folder} has no {name}"
    if name == "SHA256SUMS":
        return None
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    digests = {listed: digest for digest, listed in (line.split("  ", 1) for line in lines)}
    if hashlib.sha256(file.read_bytes()).hexdigest() != digests.get(name):
        return f"{file} does not have the checksum that SHA256SUMS lists"
    return None


if __name__ == "__main__":
    main()
