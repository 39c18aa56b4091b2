# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of permanent neighbour and forwarding entries on our VXLAN devices, which say where each node's VTEP is.

Only permanent entries count, and only on VXLAN devices that carry our alias or on devices that are desired to have
entries: all such entries are ours. Forwarding entries without a destination, or with a MAC of zeros, do not count.

One that names the device by which its packets leave was left by a change of a tunnel's local address that did not end
(tunnel.py). It is written anew.
"""

from __future__ import annotations

import errno
import typing as t

from ...state.node_state import FdbEntry, Neighbor
from ..change import Change, apply_each, refused
from ..driver import DriverStep
from ..kernel.port import ForwardingEntry, Kernel, KernelError, NeighborEntry
from .tunnel import MARK

Entry = t.Union[Neighbor, FdbEntry]
#: The entries found: ("neighbor", device, address) -> MAC, and ("fdb", device, MAC, destination) -> destination. If the
#: entry names the device by which its packets leave, the key ends with that device's index as text.
Observed = dict[tuple[str, ...], str]

_NO_MAC = "00:00:00:00:00:00"


def observe(kernel: Kernel, desired: t.Iterable[Entry]) -> Observed:
    devices = {entry.device for entry in desired}
    devices |= {link.name for link in kernel.links("vxlan") if link.alias.startswith(MARK)}
    observed: Observed = {}
    for device in sorted(devices):
        for neighbor in kernel.neighbors(device):
            if neighbor.permanent:
                observed["neighbor", device, neighbor.address] = neighbor.mac
        for entry in kernel.fdb(device):
            if entry.permanent and entry.destination and entry.mac != _NO_MAC:
                via = (str(entry.via),) if entry.via else ()
                observed[("fdb", device, entry.mac, entry.destination, *via)] = entry.destination
    return observed


def diff(desired: t.Iterable[Entry], observed: t.Mapping[tuple[str, ...], str]) -> list[Change]:
    changes: list[Change] = []
    wanted: set[tuple[str, ...]] = set()
    fdb: list[FdbEntry] = []
    for entry in desired:
        if isinstance(entry, FdbEntry):
            wanted.add(("fdb", entry.device, entry.mac, entry.destination))
            fdb.append(entry)
            continue
        key: tuple[str, ...] = ("neighbor", entry.device, entry.address)
        wanted.add(key)
        have = observed.get(key)
        if have != entry.mac:
            before = f"lladdr {have} dev {entry.device}" if have else None
            after = f"lladdr {entry.mac} dev {entry.device}"
            new = NeighborEntry(entry.device, entry.address, entry.mac)
            changes.append(Change("neighbor", "~" if have else "+", entry.address, before, after, new=new))
    stale = [key for key in observed if key not in wanted]
    for entry in fdb:
        if ("fdb", entry.device, entry.mac, entry.destination) in observed:
            continue
        # Entries of one MAC form a list in the kernel; a replacement takes the place of its first.
        old = next((key for key in stale if key[:3] == ("fdb", entry.device, entry.mac)), None)
        if old:
            stale.remove(old)
        before = _words(old) if old else None
        after = f"dst {entry.destination} dev {entry.device}"
        new_entry = ForwardingEntry(entry.device, entry.mac, entry.destination)
        changes.append(Change("fdb", "~" if old else "+", entry.mac, before, after, new=new_entry))
    for key in stale:
        if key[0] == "neighbor":
            neighbor = NeighborEntry(key[1], key[2], observed[key])
            changes.append(Change("neighbor", "-", key[2], f"lladdr {observed[key]} dev {key[1]}", None, old=neighbor))
        else:
            forwarding = ForwardingEntry(key[1], key[2], key[3], via=int(key[4]) if key[4:] else 0)
            changes.append(Change("fdb", "-", key[2], _words(key), None, old=forwarding))
    return changes


def _words(key: tuple[str, ...]) -> str:
    """Return the description of a forwarding entry, by its key in Observed."""
    via = f" via device {key[4]}" if key[4:] else ""
    return f"dst {key[3]}{via} dev {key[1]}"


def apply(kernel: Kernel, changes: t.Iterable[Change]) -> None:
    apply_each(changes, lambda change: _write(kernel, change), _reason)


def _write(kernel: Kernel, change: Change) -> None:
    if change.action in ("+", "~"):
        if change.kind == "fdb":
            kernel.fdb_replace(change.new)
        else:
            kernel.neighbor_replace(change.new)
    elif change.action == "-":
        if change.kind == "fdb":
            kernel.fdb_delete(change.old)
        else:
            kernel.neighbor_delete(change.old)


def _reason(change: Change, error: KernelError) -> t.Optional[str]:
    gone = change.action == "-" and error.errno in (errno.ENOENT, errno.ENODEV)
    return None if gone else refused(error)


def _without(observed: Observed, devices: t.Collection[str]) -> Observed:
    """Return the entries that are not on these devices."""
    return {key: value for key, value in observed.items() if key[1] not in devices}


STEP: DriverStep[t.Sequence[Entry], Observed] = DriverStep(
    name="neighbor",
    kinds=("neighbor", "fdb"),
    stage="neighbors",
    desired=lambda state: (*state.neighbors, *state.fdb),
    needs=("neighbor", "route"),
    by_library=("neighbor", "fdb"),
    device=lambda change: str(change.new.device),
    without=_without,
)
