"""Tars without times and owners' names: the same entries give the same bytes."""

import gzip
import io
import tarfile


def file_entry(path, data, mode=0o644):
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(data), mode
    return entry, data


def folder_entry(path, mode=0o755, owner=0):
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, owner, owner
    return entry, b""


def tar_of(entries):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for entry, data in entries:
            tar.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def compressed(data):
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", filename="", mtime=0, compresslevel=6) as zipped:
        zipped.write(data)
    return content.getvalue()
