# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module node_info reads the state of a node."""

from __future__ import annotations

import dataclasses
import os
import typing as t
from types import MappingProxyType

from ...base import packed_json
from ...bgp import passwords
from ...dataplane.kernel.port import KernelError
from ...node import machine, report
from ...node.engine import bundle
from ...node.ipam.local_ipam import IpamUnreadable
from ...node.store.store import Store
from ...node.store.stored_file import StoreError
from ...node.write import datastore_files, session_passwords
from ...preflight import observe, packages
from ...preflight.files import CNI_CONF_DIR, Files
from ...state.node_state import NodeState
from ..error_report import errors_reported
from ..module_call import ModuleCall


def gather(
    here: machine.Machine,
    subsets: t.Collection[str],
    generation: t.Optional[int],
    policy: bool = True,
    given: t.Mapping[str, str] = MappingProxyType({}),
    cni_conf_dir: str = CNI_CONF_DIR,
) -> dict[str, t.Any]:
    store = Store(here.store)
    result: dict[str, t.Any] = {}
    stored = store.load() if {"state", "blocks", "workloads"} & set(subsets) else None
    if "state" in subsets:
        result["state"] = told(stored.state, policy) if stored else None
        result["complete"] = stored.complete if stored else False
        result["passwords_changed"] = session_passwords.outdated(here, given)
        result["datastore"] = os.path.exists(here.placed(datastore_files.PATHS["settings"]))
    if "engine" in subsets:
        # A damaged engine counts as none, so that the node module installs it again.
        result["engine_digest"] = None if bundle.damage(here.engine) else bundle.installed_digest(here.engine)
    if "preflight" in subsets:
        result["preflight"] = observe.observe(here.kernel, here.root, cni_conf_dir=cni_conf_dir)
        result["missing_packages"] = result["preflight"]["missing_packages"]
    elif "packages" in subsets:
        result["missing_packages"] = packages.missing(packages.of_node(Files(here.root)))
    if "generations" in subsets:
        result["generations"] = [entry._asdict() for entry in store.generations()]
    if "generation" in subsets and generation is not None:
        result["generation"] = with_packed_policy(store.generation(generation))
    if "blocks" in subsets:
        result["blocks"] = report.blocks(stored)
    if "ipam" in subsets:
        result["ipam"] = report.ipam(here)
    if "devices" in subsets:
        result["devices"] = report.devices(here.kernel)
    if "routes" in subsets:
        result["routes"] = report.routes(here.kernel)
    if "workloads" in subsets:
        result["workloads"] = report.workloads(here.kernel, stored.state if stored else None)
    if "bgp" in subsets:
        result["bgp"] = report.bgp(here)
    return result


def told(state: NodeState, policy: bool) -> dict[str, t.Any]:
    return (state if policy else dataclasses.replace(state, policy=None)).to_wire()


def with_packed_policy(generation: dict[str, t.Any]) -> dict[str, t.Any]:
    state = generation.get("state")
    if not isinstance(state, dict) or "policy" not in state:
        return generation
    return {**generation, "state": {**state, "policy": packed_json.pack(state["policy"])}}


def _gathered(params: t.Mapping[str, t.Any], here: machine.Machine) -> dict[str, t.Any]:
    given = passwords.unpack(params["bgp_passwords"])
    return gather(here, params["gather"], params["generation"], params["policy"], given, params["cni_conf_dir"])


def run(module: ModuleCall) -> t.NoReturn:
    """Read the state of a node, and answer as the module node_info."""
    here = machine.here()
    with errors_reported(module, here, StoreError, IpamUnreadable, KernelError, ValueError):
        found = _gathered(module.params, here)
    module.exit_json(changed=False, **found)
