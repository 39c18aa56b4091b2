# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules by name: what each accepts, which the controller needs, and its code, which the node needs."""

from __future__ import annotations

import importlib
import typing as t

from .module_call import ModuleCall, ModuleSpec
from .specs import cluster, nodes, objects

_SPECS: t.Mapping[str, t.Mapping[str, ModuleSpec]] = {
    "nodes": nodes.SPECS,
    "objects": objects.SPECS,
    "cluster": cluster.SPECS,
}
#: {name of a module: its folder beside this file}
FOLDERS: t.Mapping[str, str] = {name: folder for folder, specs in _SPECS.items() for name in specs}


class LoadedModule(t.Protocol):
    """The code of a module.

    `run` carries out the call, and changes nothing in check mode. It ends in `exit_json`, or in `fail_json` for wrong
    parameters (ValueError), for InTheWay, for errors of `node.errors.ERRORS` and of other rooms, and if an agent or a
    member of etcd refuses or is silent. Other exceptions, such as an OSError of a file, are raised.
    """

    __name__: str

    def run(self, module: ModuleCall) -> t.NoReturn: ...


def spec(name: str) -> ModuleSpec:
    """Return what the module `name` (without the collection's) accepts, without its code. Raise KeyError if unknown."""
    return _SPECS[FOLDERS[name]][name]


def load(name: str) -> LoadedModule:
    """Return the module `name`, a name without the collection's. Raise KeyError for one that is not in FOLDERS."""
    return t.cast(LoadedModule, importlib.import_module(f".{FOLDERS[name]}.{name}", __package__))
