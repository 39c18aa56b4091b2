# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: probe
short_description: Send probes to many addresses at once
version_added: 0.1.0
description:
  - Sends ICMP echo requests to all targets at the same time, from one process, and counts the answers. Each of the
    O(attempts) takes at most O(count) times O(interval) plus O(timeout), whatever the number of targets.
  - With O(fleet), probes leave from the probe endpoint of the node, a network namespace with an address of each pool.
    So they take the path of workloads' packets, through the host's forwarding and source checks.
  - Probes are never fragmented. With O(tos), a routing rule can give them another route than live packets, so that a
    path is proven before it is used.
  - Lost probes do not fail the module; see RV(targets).
  - With O(watch), a process on the host continues to probe after the module has ended, so that losses while routes are
    replaced are counted as well. It sends packets of 84 bytes without a TOS, 20 per second to each target, but at most
    200 per second in all, so that each of more than ten targets gets fewer. If that takes more than a fiftieth of a
    processor, it sends less often.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.folder
  - baremetal.host_routing.fleet.observed
  - baremetal.host_routing.fleet.probes
attributes:
  check_mode:
    support: full
    details:
      - Sends packets in check mode as well, but neither starts nor ends a watch. It changes nothing.
  diff_mode:
    support: N/A
    details:
      - Changes nothing.
  idempotent:
    support: full
options:
  targets:
    description:
      - The addresses to probe. If O(fleet) is given, the action fills in the addresses of the probe endpoints of all
        other nodes, in each pool, with the largest packet that the path has to carry.
    type: list
    elements: dict
    suboptions:
      address:
        description: Address to probe.
        type: str
        required: true
      name:
        description: Name of the target, for the report.
        type: str
        default: ""
      size:
        description: Size of the whole IP packet in bytes, at least 68, or 88 in IPv6.
        type: int
        default: 84
      pool:
        description: Pool of the path, for the report.
        type: str
        default: ""
      source:
        description: Source address of the packets, one of the host's or of its probe endpoint.
        type: str
        default: ""
  proof:
    description:
      - Send a few probes with a TOS of their own, which use a pool's next mode. Used by the action.
    type: bool
    default: false
  sample:
    description:
      - Number of paths of each pool to probe, V(0) for all. Each run probes others. Used by the action.
    type: int
    default: 0
  seconds:
    description:
      - Seconds to probe. O(count) and O(interval) are computed from it.
    type: int
    default: 0
  watch:
    description:
      - V(start) leaves a watch of the targets running if all of them answered. A host has at most one watch; a new one
        replaces it.
      - V(collect) probes for O(seconds), then ends the watch and returns the results of both. If no watch has been
        running until then, it probes ten times per second, and RV(watch.complete) is false.
      - V(stop) only ends the watch.
    type: str
    choices: [start, collect, stop]
  limit:
    description:
      - Seconds after which a watch ends by itself, even if the controller has failed. If O(fleet) is given, the action
        adds the time that the tasks of a large fleet take.
    type: int
    default: 600
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
  attempts:
    description:
      - How often to probe a target until all of its answers arrive; the last attempt is returned.
      - The first packets of a path may have to wait for a neighbour's address to be resolved.
    type: int
    default: 1
  tos:
    description:
      - The packets' TOS byte, in IPv6 their traffic class.
    type: int
    default: 0
  source:
    description:
      - Source address, one of the host's, of packets to targets of its IP version without their own. By default the
        kernel chooses.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Check whether two workloads answer to full-size packets
  baremetal.host_routing.probe:
    count: 10
    targets:
      - {name: web-1, address: 10.244.3.1, size: 1480}
      - {name: db-1, address: 10.244.7.1, size: 1480}

- name: Count the losses of two workloads from now on, for ten minutes at most
  baremetal.host_routing.probe:
    watch: start
    limit: 600
    targets: &targets
      - {name: web-1, address: 10.244.3.1}
      - {name: db-1, address: 10.244.7.1}

- name: Continue for ten seconds, then report the losses
  baremetal.host_routing.probe:
    watch: collect
    seconds: 10
    targets: *targets
"""

RETURN = r"""
targets:
  description: The results, in the order of the targets.
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
    rtt_min: {description: "Shortest round trip in milliseconds, without those of a watch.", type: float, sample: 0.21}
    rtt_max: {description: "Longest round trip in milliseconds, without those of a watch.", type: float, sample: 0.83}
    longest_gap: {description: Longest time without an answer in milliseconds., type: float, sample: 0.0}
    pool: {description: Pool of the path., type: str, sample: default}
    source: {description: "Source address, empty if the kernel chose it.", type: str, sample: 10.244.3.63}
    reason:
      description:
        - Why probes were lost. V(no route), V(unreachable), V(too large), V(refused) and V(loop) are what this host's
          kernel or an ICMP error said. V(no answer) means that nobody said anything. Empty if none was lost.
      type: str
      sample: no answer
    by: {description: "Address that gave the reason, empty if it was this host.", type: str, sample: 10.10.1.1}
    heard:
      description:
        - Number of probes that arrived here from this address meanwhile, V(null) if they were not counted. A node
          counts only while it probes itself, and only probes of its own run.
      type: int
      sample: 3
    silent:
      description:
        - Milliseconds for which a watch sent before the first answer arrived, V(0.0) if less than a second. Probes of
          this time are not counted, since the path was down before.
      returned: with O(watch=collect)
      type: float
      sample: 0.0
    dead:
      description: Whether no probe of full size was answered. They are sent last, so the path carries no packets now.
      returned: with O(watch=collect)
      type: bool
      sample: false
sent:
  description: Probes sent to all targets.
  returned: always
  type: int
lost:
  description: Probes without an answer.
  returned: always
  type: int
clock:
  description:
    - When probes began and ended in this call, in seconds since it began, and how long it lasted. With O(fleet), the
      action returns C(window) in its place, by the controller's clock.
  returned: without O(fleet)
  type: dict
  sample: {began: 0.011, ended: 0.412, total: 0.413}
watch:
  description: The state of the watch.
  returned: with O(watch)
  type: dict
  contains:
    running: {description: Whether it is running now., type: bool, sample: false}
    complete:
      description: Whether the counts cover the time from its start until now. Only with O(watch=collect).
      type: bool
      sample: true
    reason: {description: "Why it is not running, or not complete.", type: str, sample: ""}
    seconds: {description: How long it counted., type: float, sample: 24.6}
    interval: {description: Milliseconds between two probes to one target as planned., type: float, sample: 50.0}
    resolution:
      description: Longest actual milliseconds between two probes to a target. Shorter gaps may be missed.
      type: float
      sample: 51.3
    lost_by_second:
      description:
        - The seconds in which the watch lost probes, as pairs of the second since its start and the number of lost
          probes to all targets. Only with O(watch=collect).
      type: list
      elements: list
      sample: [[12, 3]]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import probe

main = archive_start.main_of(probe, AnsibleModule)

if __name__ == "__main__":
    main()
