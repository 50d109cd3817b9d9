"""Which nodes the parts of a gang get: all of them, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.server.runs.scheduling.capacity.rooms import Asked, Fit, Room

Parts = tuple[tuple[int, int], ...]  # of each part of a gang: its node, and the ids of its devices as bits


def place(rooms: Sequence[Room | None], asked: Asked, instead: Mapping[int, Room | None]) -> Parts | None:
    """The nodes for a gang, the fullest that suit first; None if it does not fit. `instead` has other rooms for some nodes."""
    parts = _placed(rooms, asked, instead)
    if parts is None or asked.servers is None:
        return parts
    left = dict(instead)
    for number, mask in parts:
        room = left.get(number, rooms[number])
        left[number] = None if room is None else room.beside(asked.demand, mask)
    servers = _placed(rooms, asked.servers, left)
    return None if servers is None else parts + servers


def _placed(rooms: Sequence[Room | None], asked: Asked, instead: Mapping[int, Room | None]) -> Parts | None:
    found: list[tuple[tuple[int, ...], int, Fit]] = []
    for number, room in enumerate(rooms):
        if room is not None and (fit := room.fit(asked)) is not None and number not in instead:
            found.append((fit.score, number, fit))
    for number, other in instead.items():
        if other is not None and (fit := other.fit(asked)) is not None:
            found.append((fit.score, number, fit))
    wanted = asked.demand.nodes
    if sum(len(fit.masks) for _, _, fit in found) < wanted:
        return None
    found.sort(key=_by_score)
    parts: list[tuple[int, int]] = []
    for _, number, fit in found:
        parts += ((number, mask) for mask in fit.masks[: wanted - len(parts)])
        if len(parts) == wanted:
            break
    if on := asked.demand.on:
        parts.sort(key=lambda part: on.index(_name(rooms[part[0]])))
    return tuple(parts)


def parts_in(rooms: Sequence[Room | None], asked: Asked) -> int:
    """How many parts of a gang fit, its servers not among them."""
    return sum(len(fit.masks) for room in rooms if room is not None and (fit := room.fit(asked)) is not None)


def fits_in(rooms: Sequence[Room | None], asked: Asked) -> bool:
    """True if a whole gang fits."""
    fits = parts_in(rooms, asked) >= asked.demand.nodes
    return fits and (asked.servers is None or place(rooms, asked, {}) is not None)


def _name(room: Room | None) -> str:
    return room.shape.name if room is not None else ""


def _by_score(found: tuple[tuple[int, ...], int, Fit]) -> tuple[tuple[int, ...], int]:
    return found[0], found[1]
