# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files by which operators reach the datastore, in .calico.etcd/operators/NAME beside the inventory.

A run writes what differs and removes the files of operators who are not in the inventory. No change has a content.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import Action, Change
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys

from ..etcd import etcd_folder
from ..etcd.etcd_folder import EtcdFolder
from . import access
from .access import FleetDatastore

_NAMES = (
    *(access.OPERATOR_CONFIG, etcd_folder.TRUSTED),
    *(etcd_folder.CLIENT_CERTIFICATE, etcd_folder.CLIENT_KEY),
)


@dataclasses.dataclass(frozen=True)
class OperatorFiles:
    """What a run does with the files of operators: the changes, and operators without a certificate so far."""

    changes: tuple[Change, ...]
    without_certificate: tuple[str, ...]


def bring(datastore: FleetDatastore, secret: bytes, folder: EtcdFolder, check: bool = False) -> OperatorFiles:
    """Write and remove the files of operators, unless `check`, and return what changes. Raise FleetError."""
    changes: list[Change] = []
    waiting = []
    for operator in datastore.operators:
        wanted = access.operator_files(datastore, secret, operator, folder)
        if not wanted:
            waiting.append(operator.name)
            continue
        found = _found(folder, operator.name)
        differing = [name for name in _NAMES if wanted.get(name) != found.get(name)]
        if not differing:
            continue
        changes.append(_change("~" if found else "+", operator.name, differing))
        for name in differing if not check else ():
            place = etcd_folder.of_operator(operator.name, name)
            if name in wanted:
                folder.write(place, wanted[name])
            else:
                folder.remove(place)
    kept = {operator.name for operator in datastore.operators}
    for name in folder.operators():
        if name in kept or not keys.is_node(name):
            continue
        found = _found(folder, name)
        if found:
            changes.append(_change("-", name, sorted(found)))
            if not check:
                folder.remove_operator(name, _NAMES)
    return OperatorFiles(tuple(changes), tuple(waiting))


def _found(folder: EtcdFolder, operator: str) -> dict[str, bytes]:
    contents = {name: folder.read(etcd_folder.of_operator(operator, name)) for name in _NAMES}
    return {name: content for name, content in contents.items() if content is not None}


def _change(action: Action, operator: str, names: t.Iterable[str]) -> Change:
    """Return a change that names the files which are new, written anew or removed."""
    text = " ".join(names)
    before, after, note = {"-": (text, None, ""), "+": (None, text, "")}.get(action, (None, None, text))
    return Change("files", action, f"{etcd_folder.NAME}/{etcd_folder.OPERATORS}/{operator}", before, after, note)
