"""Prepares the files of a node: working copies of the code, and the files and directories that its plan names."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from muster.plan import NodePlan
from muster.records.files import delete_tree, write_text
from muster.records.untrusted import open_regular


def lay_out(plan: NodePlan, code: str) -> None:
    """Makes all files and directories of a plan."""
    for folder in plan.work:
        copy_tree(code, folder)
    for source, target in plan.linked.items():
        _link_entries(source, target)
    for folder in plan.folders:
        os.makedirs(folder, exist_ok=True)
    for file in plan.files:
        os.makedirs(os.path.dirname(file.path), exist_ok=True)
        write_text(file.path, file.text, file.mode)  # in one step: another node may write the same to a shared disk
    for transfer in plan.outputs:
        os.makedirs(transfer.path, exist_ok=True)
    for transfer in plan.inputs:
        if os.path.isdir(transfer.local):  # no copy of what is at hand
            os.makedirs(os.path.dirname(transfer.path), exist_ok=True)
            os.symlink(transfer.local, transfer.path)
            continue
        os.makedirs(transfer.path, exist_ok=True)
        if transfer.local:
            os.symlink(transfer.local, f"{transfer.path}/{os.path.basename(transfer.local)}")


def clear(folder: str) -> None:
    """Deletes what is in a directory, but places at which something of the machine is shown."""
    for entry in os.scandir(folder) if os.path.isdir(folder) else []:
        with suppress(OSError):
            delete_tree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


def _link_entries(source: str, target: str) -> None:
    """Shows the entries of a directory in another one. A link to the directory itself would make trees without an end."""
    for name in os.listdir(source):
        path = f"{target}/{name}"
        if not os.path.lexists(path):
            os.symlink(os.path.relpath(f"{source}/{name}", target), path)


def copy_tree(source: str, target: str) -> None:
    """Copies a snapshot; file systems that can share blocks until they are written do."""
    os.makedirs(target, exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            path = os.path.join(target, entry.name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), path)
            elif entry.is_dir():
                copy_tree(entry.path, path)
            else:
                _copy_file(entry.path, path)


def _copy_file(source: str, target: str) -> None:
    with open_regular(source) as reader:  # a rank of another run may have put a FIFO there
        info = os.fstat(reader.fileno())
        mode = stat.S_IMODE(info.st_mode) | stat.S_IWUSR
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            _copy_bytes(reader.fileno(), writer, info.st_size)
            os.utime(writer, ns=(info.st_atime_ns, info.st_mtime_ns))
        finally:
            os.close(writer)


def _copy_bytes(reader: int, writer: int, left: int) -> None:
    while left > 0:
        try:
            copied = os.copy_file_range(reader, writer, left)
        except (OSError, AttributeError):  # between file systems that cannot, or in a Python that does not know it
            copied = os.sendfile(writer, reader, None, left)
        if copied == 0:
            return
        left -= copied
