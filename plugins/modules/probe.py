# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: probe
short_description: Send probes to many addresses at once
version_added: 0.1.0
description:
  - Sends ICMP echo requests to all targets at the same time, from one process, and counts what comes back. It takes
    O(count) times O(interval) plus O(timeout) at most, however many targets there are.
  - Probes are never fragmented. With O(mark) a routing rule can send them another way than live packets, so that a path
    is proven before it is used.
  - Lost probes are no failure of the module; look at RV(targets).
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
attributes:
  check_mode:
    support: full
    details:
      - Sends packets in check mode as well; it changes nothing.
  diff_mode:
    support: N/A
    details:
      - Changes nothing.
  idempotent:
    support: full
options:
  targets:
    description:
      - Whom to probe. Worked out by the action when O(fleet) is given.
    type: list
    elements: dict
    suboptions:
      address:
        description: IPv4 address that is to answer.
        type: str
        required: true
      name:
        description: Whose it is, for the report.
        type: str
        default: ""
      size:
        description: Size of the whole IP packet in bytes, at least 52.
        type: int
        default: 84
  fleet:
    description:
      - Folder on the controller that M(baremetal.host_routing.fleet) returned. Read by the action; all other nodes are
        probed at an address in one of their blocks, with the largest packet that the path has to carry.
    type: str
  observed:
    description:
      - Name of the variable with the host's M(baremetal.host_routing.node_info) result. Read by the action.
    type: str
  proof:
    description:
      - Send a few marked probes, that take a pool's next mode. Read by the action.
    type: bool
    default: false
  sample:
    description:
      - How many other nodes to probe, V(0) for all. Read by the action.
    type: int
    default: 0
  seconds:
    description:
      - For how long to probe. Read by the action; O(count) and O(interval) come of it.
    type: int
    default: 0
  count:
    description:
      - Probes to each target.
    type: int
    default: 3
  interval:
    description:
      - Milliseconds between two probes to one target.
    type: int
    default: 200
  timeout:
    description:
      - Milliseconds to wait for answers after the last probe.
    type: int
    default: 1000
  mark:
    description:
      - The packets' fwmark, V(0) for none.
    type: int
    default: 0
  source:
    description:
      - Source address, one of the host's. The kernel chooses when there is none.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: See whether two workloads answer to full-size packets
  baremetal.host_routing.probe:
    count: 10
    targets:
      - {name: web-1, address: 10.244.3.1, size: 1480}
      - {name: db-1, address: 10.244.7.1, size: 1480}
"""

RETURN = r"""
targets:
  description: What came back, in the order of the targets.
  returned: always
  type: list
  elements: dict
  contains:
    name: {description: Whose address it is., type: str, sample: node2}
    address: {description: The address., type: str, sample: 10.244.7.0}
    size: {description: Size of the packets., type: int, sample: 1480}
    sent: {description: Probes sent., type: int, sample: 3}
    received: {description: Probes answered., type: int, sample: 3}
    lost: {description: Probes not answered., type: int, sample: 0}
    rtt_min: {description: Shortest round trip in milliseconds., type: float, sample: 0.21}
    rtt_max: {description: Longest round trip in milliseconds., type: float, sample: 0.83}
    longest_gap: {description: Longest time without an answer in milliseconds., type: float, sample: 0.0}
    reason: {description: "Why probes were lost, as far as that is known.", type: str, sample: no answer}
sent:
  description: Probes sent to all targets.
  returned: always
  type: int
lost:
  description: Probes that no target answered.
  returned: always
  type: int
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import probing


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "targets": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "address": {"type": "str", "required": True},
                    "name": {"type": "str", "default": ""},
                    "size": {"type": "int", "default": 84},
                },
            },
            "fleet": {"type": "str"},
            "observed": {"type": "str"},
            "proof": {"type": "bool", "default": False},
            "sample": {"type": "int", "default": 0},
            "seconds": {"type": "int", "default": 0},
            "count": {"type": "int", "default": 3},
            "interval": {"type": "int", "default": 200},
            "timeout": {"type": "int", "default": 1000},
            "mark": {"type": "int", "default": 0},
            "source": {"type": "str", "default": ""},
        },
        required_one_of=[("targets", "fleet")],
        supports_check_mode=True,
    )
    params = module.params
    targets = [probing.Target(entry["address"], entry["size"], entry["name"]) for entry in params["targets"] or ()]
    try:
        answers = probing.probe(
            targets,
            params["count"],
            params["interval"] / 1000,
            params["timeout"] / 1000,
            params["mark"],
            params["source"],
        )
    except probing.ProbeError as error:
        module.fail_json(msg=str(error))
    found: list[dict[str, t.Any]] = [{**answer._asdict(), "lost": answer.lost} for answer in answers]
    module.exit_json(
        changed=False,
        targets=found,
        sent=sum(answer.sent for answer in answers),
        lost=sum(answer.lost for answer in answers),
    )


if __name__ == "__main__":
    main()
