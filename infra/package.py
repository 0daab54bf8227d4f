"""Writes a function's zip: the binary as `bootstrap`, and the model file as `model.toml`.

    python infra/package.py ZIP BINARY MODEL

BINARY may be another zip of the function: of a release, for example. The same inputs give the same bytes: entries have a fixed order,
time and mode.
"""

import sys
import zipfile
from pathlib import Path

TIME = (1980, 1, 1, 0, 0, 0)


def write_zip(path, binary, model):
    entries = [("bootstrap", executable(binary), 0o755), ("model.toml", Path(model).read_bytes(), 0o644)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as package:
        for name, content, mode in entries:
            entry = zipfile.ZipInfo(name, TIME)
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, content)
            print(f"{Path(path).name}: {name}, {len(content):,} bytes")


def executable(path):
    if not zipfile.is_zipfile(path) or Path(path).suffix != ".zip":
        return Path(path).read_bytes()
    with zipfile.ZipFile(path) as package:
        return package.read("bootstrap")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    write_zip(*sys.argv[1:])
