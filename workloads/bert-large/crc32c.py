"""CRC-32C of many pieces of one buffer at once: the checksum of TFRecord files, in numpy alone.

The register of a CRC is linear: leading zeros leave an empty register empty, and what it starts with can be put into the first
four bytes instead. So pieces of any length stand at the right edge of one table, and all of them advance eight bytes at a time.
"""

from __future__ import annotations

import numpy as np

POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
# What a register that starts with ones is combined with in the end: all ones, less what too few bytes have not pushed out.
END = np.array([0, 0xFF000000, 0xFFFF0000, 0xFFFFFF00, 0xFFFFFFFF], np.uint32)
TABLE_BYTES = 4 << 20  # about as much as the caches of a core hold


def _tables() -> np.ndarray:
    """What two bytes, 3, 2, 1 and 0 pairs before the end of eight, leave in the register."""
    one = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        one = np.where(one & 1, (one >> 1) ^ np.uint32(POLYNOMIAL), one >> 1)
    bytes_before_end = [one]
    for _ in range(7):
        before = bytes_before_end[-1]
        bytes_before_end.append(one[before & 255] ^ (before >> 8))
    pair = np.arange(65536)
    return np.stack([bytes_before_end[k + 1][pair & 255] ^ bytes_before_end[k][pair >> 8] for k in (6, 4, 2, 0)])


TABLES = _tables()


def checksums(buffer: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The CRC-32C of each piece of a buffer of bytes."""
    found = np.empty(len(starts), np.uint32)
    rows = max(1, TABLE_BYTES // max(1, int(lengths.max(initial=1))))
    for first in range(0, len(starts), rows):
        part = slice(first, first + rows)
        found[part] = _together(buffer, starts[part], lengths[part])
    return found


def masked(crcs: np.ndarray) -> np.ndarray:
    """As TFRecord stores them, so that a checksum of data that holds checksums is a good one."""
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(0xA282EAD8)


def _together(buffer: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    width = max(8, -(-int(lengths.max(initial=0)) // 8) * 8)
    table = np.zeros((len(starts), width), np.uint8)
    for row, start, length in zip(table, starts.tolist(), lengths.tolist()):
        row[width - length :] = buffer[start : start + length]
        row[width - length : width - length + 4] ^= 255
    pairs = np.ascontiguousarray(table.view("<u2").T)
    register = np.zeros(len(starts), np.uint32)
    for column in range(0, len(pairs), 4):
        low, high = register & 0xFFFF, register >> 16
        register = TABLES[0][pairs[column] ^ low] ^ TABLES[1][pairs[column + 1] ^ high]
        register ^= TABLES[2][pairs[column + 2]]
        register ^= TABLES[3][pairs[column + 3]]
    found: np.ndarray = register ^ END[np.minimum(lengths, 4)]
    return found
