# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HostEndpoints that deny the probes by which nodes prove their paths: all of them would be taken for broken."""

from __future__ import annotations

from ..policy.evaluator import DENIED, Evaluator
from ..policy.explanation import decided_by
from ..policy.model import HOST_ENDPOINT, PROTOCOL_NUMBERS, Endpoint, Flow
from ..policy.packet_path import Host, Paths
from .compiler import TUNNEL
from .fleet import TUNNEL_KIND, Fleet
from .policy_lint import Finding

_ECHO_REQUEST = 8  # RFC 792; see probing.py for what is probed
_DEVICES = {kind: device for device, kind in TUNNEL.items()}


def findings(fleet: Fleet) -> list[Finding]:
    """One for each HostEndpoint that denies a probe to its node, or from it, asked for one other node.

    Nothing for a node in audit mode. The work is linear in the number of nodes with HostEndpoints.
    """
    if fleet.policy is None:
        return []
    endpoints = [one for found in fleet.policy.own.values() for one in found]
    protected = {one.node for one in endpoints if one.kind == HOST_ENDPOINT}
    probed = _probed(fleet) if protected else []
    if len(probed) < 2:
        return []
    audited = fleet.policy.policy.audited
    heard = [one for one in endpoints if one.kind != HOST_ENDPOINT or one.node not in audited]
    hosts = [Host(name, ((device, (address,)),), (("0.0.0.0/0", device),)) for name, device, address in probed]
    paths = Paths(Evaluator(fleet.policy.policy_set, heard), hosts)
    found: dict[tuple[str, str], Finding] = {}
    for index, (name, _device, address) in enumerate(probed):
        if name not in protected:
            continue
        peer, _its, other = probed[index - 1]
        for source, destination in ((other, address), (address, other)):
            flow = Flow(PROTOCOL_NUMBERS["icmp"], source, destination, icmp_type=_ECHO_REQUEST, icmp_code=0)
            answer = paths.of(flow)
            endpoint = answer.stages[-1].endpoint if answer.action == DENIED else None
            if endpoint is not None:
                key = endpoint.name, answer.stages[-1].direction
                found.setdefault(key, _finding(endpoint, name, peer, decided_by(answer.stages[-1])))
    return list(found.values())


def _probed(fleet: Fleet) -> list[tuple[str, str, str]]:
    """(node, tunnel device, its address): what answers probes, of each node that has it."""
    kinds = {TUNNEL_KIND.get(pool.encapsulation) for pool in fleet.pools}
    found = []
    for node in fleet.nodes.values():
        tunnels = fleet.ipam_of(node.name).tunnels if node.workload_node else {}
        kind = next((kind for kind in sorted(tunnels) if kind in kinds), None)
        if kind is not None:
            found.append((node.name, _DEVICES[kind], tunnels[kind]))
    return found


def _finding(endpoint: Endpoint, node: str, peer: str, decided: str) -> Finding:
    return Finding(
        HOST_ENDPOINT,
        endpoint.name,
        f"keeps {node} and {peer} from proving the path between them: ICMP echo between their tunnel addresses is "
        f"denied by {decided}, so that every run and every change of mode takes it for broken. Allow it both ways: "
        "{action: Allow, protocol: ICMP, icmp: {type: 8}}, with the pools as source nets if you like.",
    )
