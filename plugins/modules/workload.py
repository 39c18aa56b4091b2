# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: workload
short_description: Attach a workload between runs, or detach it
version_added: 0.2.0
description:
  - Attaches a network namespace to the fleet's network, or detaches it, through the agent of the node. The agent
    chooses the address, records it, and repairs changes that other programs make.
  - Inventory workloads (C(calico_workloads), C(calico_node_workloads)) cannot be changed with this module.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  name:
    description:
      - Name of the workload.
    type: str
    required: true
  namespace:
    description:
      - Calico's namespace. Together with O(name) it identifies the workload.
    type: str
    default: default
  netns:
    description:
      - Network namespace. A name as in C(ip netns) is created if it is missing, and then deleted with the workload. An
        absolute path is a namespace that the collection never deletes.
      - By default the name of the workload.
    type: str
  pid:
    description:
      - Use the network namespace of this process, for instance of a container.
    type: int
  peer_interface:
    description:
      - Name of the interface inside.
    type: str
    default: eth0
  address:
    description:
      - IPv4 address of the workload, which has to lie in a block of the node. By default the agent chooses.
    type: str
  address6:
    description:
      - IPv6 address of the workload, which has to lie in a block of the node. By default the agent chooses.
    type: str
  families:
    description:
      - IP versions of its addresses.
      - By default those of O(pools), or without O(pools) those of the node's blocks.
    type: list
    elements: int
    choices: [4, 6]
    default: []
  pools:
    description:
      - Names of the IP pools, of both IP versions, from which the agent may choose. By default all pools in which the
        node has blocks.
    type: list
    elements: str
    default: []
  labels:
    description:
      - Labels of the workload. Values are strings.
    type: dict
    default: {}
  mac:
    description:
      - MAC address of the interface inside. By default any.
    type: str
  mtu:
    description:
      - MTU of both ends, if smaller than the pool's.
    type: int
  state:
    description:
      - Whether the workload shall exist.
      - A workload with other settings is detached and attached again; it keeps its address if that fits.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: baremetal.host_routing.workload_info
  - module: baremetal.host_routing.workload_endpoint
    description: Attaches a network namespace without the agent.
"""

EXAMPLES = r"""
- name: A network namespace with an address that others reach
  baremetal.host_routing.workload:
    name: web-1
    labels: {app: web}
  register: web

- name: A running container, at a given address
  baremetal.host_routing.workload:
    name: db
    pid: "{{ container.State.Pid }}"
    address: 10.244.3.9

- name: Detach it and release its address
  baremetal.host_routing.workload:
    name: web-1
    state: absent
"""

RETURN = r"""
code:
  description: The code of the error in the agent's API.
  returned: when the agent refuses, or does not answer
  type: str
  sample: not_found
plan:
  description: What differed, one line each.
  returned: always
  type: list
  elements: str
  sample: ["+ workload default/web-1  eth0 in web-1  labels app=web"]
workload:
  description: The workload as the agent has it. Missing when it is absent, or would be created in check mode.
  returned: when there is one
  type: dict
  contains:
    id: {description: What it is known by., type: str, sample: default/web-1}
    name: {description: Its name., type: str, sample: web-1}
    namespace: {description: Calico's namespace., type: str, sample: default}
    addresses: {description: Its addresses., type: list, elements: str, sample: [10.244.3.2]}
    pool: {description: The IP pool of its address., type: str, sample: default-ipv4-ippool}
    interface: {description: The host end., type: str, sample: cali1f2e3d4c5b6}
    netns: {description: Its network namespace., type: str, sample: web-1}
    netns_owned: {description: Whether the namespace goes with the workload., type: bool}
    peer_interface: {description: The end inside., type: str, sample: eth0}
    labels: {description: Its labels., type: dict, sample: {app: web}}
    since: {description: "Time of its attachment, UTC.", type: str, sample: "2026-11-21T07:00:00Z"}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api import protocol
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.client import AgentClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.protocol import AgentError
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import add_params
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import Change
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import standalone_module
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine

Data = dict[str, t.Any]


def texts(labels: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return labels with string values: YAML's 1 and true become "1" and "true"."""
    return {str(key): str(value).lower() if isinstance(value, bool) else str(value) for key, value in labels.items()}


def wanted_of(params: t.Mapping[str, t.Any]) -> Data:
    names = ("netns", "pid", "peer_interface", "address", "address6", "families", "pools", "mac", "mtu")
    chosen = {name: params[name] for name in names}
    return add_params.wishes(params["name"], params["namespace"], labels=texts(params["labels"]), **chosen)


def present(agent: AgentClient, wanted: Data) -> t.Optional[Data]:
    """Return the workload as the agent has it, or None if it has none of that name."""
    try:
        return t.cast(Data, agent.call("workload.get", id=identity(wanted))["workload"])
    except AgentError as error:
        if error.code != protocol.NOT_FOUND:
            raise
        return None


def identity(wanted: Data) -> str:
    return add_params.identity(wanted["namespace"], wanted["name"])


def change_of(wanted: Data, have: t.Optional[Data], state: str) -> t.Optional[Change]:
    if state == "absent":
        return Change("workload", "-", identity(wanted), ", ".join(have["addresses"])) if have else None
    if have is None:
        return Change("workload", "+", identity(wanted), None, add_params.described(wanted))
    found = add_params.differences(wanted, have)
    if not found:
        return None
    before, after = ("  ".join(f"{entry[0]} {entry[side]}" for entry in found) for side in (1, 2))
    return Change("workload", "~", identity(wanted), before, after)


def bring_about(agent: AgentClient, change: Change, wanted: Data, have: t.Optional[Data]) -> t.Optional[Data]:
    """Make `change` by the agent, and return the workload afterwards, None if it is gone. Raises AgentError."""
    if have is not None and change.action == "~":
        if {entry[0] for entry in add_params.differences(wanted, have)} == {"labels"}:
            labels = {**dict.fromkeys(have["labels"]), **wanted["labels"]}
            return t.cast(Data, agent.call("workload.label", id=have["id"], labels=labels)["workload"])
    if have is not None:
        agent.call("workload.delete", id=have["id"])
    if change.action == "-":
        return None
    # Others know the workload by its address, so it keeps the address if possible.
    if have is not None and wanted["address"] is None and (not wanted["pools"] or have["pool"] in wanted["pools"]):
        wanted = {**wanted, "address": next(iter(have["addresses"]), None)}
    return t.cast(Data, agent.call("workload.add", **wanted)["workload"])


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "netns": {"type": "str"},
            "pid": {"type": "int"},
            "peer_interface": {"type": "str", "default": "eth0"},
            "address": {"type": "str"},
            "address6": {"type": "str"},
            "families": {"type": "list", "elements": "int", "choices": [4, 6], "default": []},
            "pools": {"type": "list", "elements": "str", "default": []},
            "labels": {"type": "dict", "default": {}},
            "mac": {"type": "str"},
            "mtu": {"type": "int"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        mutually_exclusive=[("netns", "pid")],
        supports_check_mode=True,
    )
    wanted = wanted_of(module.params)
    with AgentClient(machine.here().agent_socket) as agent:
        try:
            have = present(agent, wanted)
            change = change_of(wanted, have, module.params["state"])
            if change is not None and not module.check_mode:
                have = bring_about(agent, change, wanted, have)
        except AgentError as error:
            module.fail_json(msg=error.message, code=error.code)
    changes = [change] if change else []
    answer: Data = {"changed": bool(changes), "plan": [found.line() for found in changes]}
    if have is not None and not (module.check_mode and changes):
        answer["workload"] = have
    if module._diff and changes:
        answer["diff"] = standalone_module.before_after(changes)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
