"""Writes a function's zip: the binary as `bootstrap`, and the model file as `model.toml`.

    python infra/package.py ZIP BINARY MODEL

The same inputs give the same bytes: entries have a fixed order, time and mode.
"""

import sys
import zipfile
from pathlib import Path

TIME = (1980, 1, 1, 0, 0, 0)


def main(path, binary, model):
    entries = [("bootstrap", Path(binary), 0o755), ("model.toml", Path(model), 0o644)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as package:
        for name, source, mode in entries:
            entry = zipfile.ZipInfo(name, TIME)
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, source.read_bytes())
            print(f"{path}: {name}, {source.stat().st_size:,} bytes")


if len(sys.argv) != 4:
    sys.exit(__doc__)
main(*sys.argv[1:])
