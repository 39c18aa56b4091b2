# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A search for HostEndpoints that deny the probes by which nodes test their paths, so that all paths seem broken."""

from __future__ import annotations

import typing as t

from ....policy.explain.evaluator import DENIED, Evaluator
from ....policy.explain.explanation import decided_by
from ....policy.explain.packet_path import PathHost, Paths
from ....policy.model import HOST_ENDPOINT, PROTOCOL_NUMBERS, Endpoint, Flow
from ...fleet import TUNNEL_DEVICE, Fleet, tunnel_kind
from .policy_lint import PolicyFinding


class _Echo(t.NamedTuple):
    """A kind of probe, one for each IP version: its name in policy and the ICMP type of its message."""

    version: int
    protocol: str
    request: int
    everything: str  # the CIDR of all addresses


_ECHOES = (_Echo(4, "ICMP", 8, "0.0.0.0/0"), _Echo(6, "ICMPv6", 128, "::/0"))  # RFC 792, RFC 4443


def findings(fleet: Fleet) -> list[PolicyFinding]:
    """Return a finding for each HostEndpoint, direction and protocol (ICMP or ICMPv6) that denies a probe.

    Each node with a HostEndpoint is checked with one other node, by an echo request between their tunnel addresses in
    both directions. Of two HostEndpoints that deny the same probe, only the first on its path is found. Left out are
    nodes in audit mode, without a tunnel of an IP version, or with the only one.
    """
    if fleet.policy is None:
        return []
    endpoints = [one for found in fleet.policy.own.values() for one in found]
    protected = {one.node for one in endpoints if one.kind == HOST_ENDPOINT}
    if not protected:
        return []
    audited = fleet.policy.policy.audited
    heard = [one for one in endpoints if one.kind != HOST_ENDPOINT or one.node not in audited]
    evaluator = Evaluator(fleet.policy.policy_set, heard)
    found: dict[tuple[str, str, str], PolicyFinding] = {}
    for echo in _ECHOES:
        probed = _probed(fleet, echo.version)
        if len(probed) < 2:
            continue
        hosts = [
            PathHost(name, ((device, (address,)),), ((echo.everything, device),)) for name, device, address in probed
        ]
        paths = Paths(evaluator, hosts)
        for index, (name, _device, address) in enumerate(probed):
            if name not in protected:
                continue
            peer, _its, other = probed[index - 1]
            for source, destination in ((other, address), (address, other)):
                number = PROTOCOL_NUMBERS[echo.protocol.lower()]
                answer = paths.of(Flow(number, source, destination, icmp_type=echo.request, icmp_code=0))
                endpoint = answer.stages[-1].endpoint if answer.action == DENIED else None
                if endpoint is not None:
                    key = endpoint.name, answer.stages[-1].direction, echo.protocol
                    found.setdefault(key, _finding(echo, endpoint, name, peer, decided_by(answer.stages[-1])))
    return list(found.values())


def _probed(fleet: Fleet, version: int) -> list[tuple[str, str, str]]:
    """Return (node, tunnel device, its address) for the first tunnel of each node that a pool of `version` uses."""
    kinds = {tunnel_kind(pool) for pool in fleet.pools if pool.version == version}
    found = []
    for node in fleet.nodes.values():
        tunnels = fleet.ipam_of(node.name).tunnels if node.workload_node else {}
        kind = next((kind for kind in sorted(tunnels) if kind in kinds), None)
        if kind is not None:
            found.append((node.name, TUNNEL_DEVICE[kind], tunnels[kind]))
    return found


def _finding(echo: _Echo, endpoint: Endpoint, node: str, peer: str, decided: str) -> PolicyFinding:
    return PolicyFinding(
        HOST_ENDPOINT,
        endpoint.name,
        f"keeps {node} and {peer} from proving the path between them: {echo.protocol} echo between their tunnel "
        f"addresses is denied by {decided}, so that every run and every change of mode takes it for broken. Allow it "
        f"both ways: {{action: Allow, protocol: {echo.protocol}, icmp: {{type: {echo.request}}}}}, with the pools as "
        "source nets if you like.",
    )
