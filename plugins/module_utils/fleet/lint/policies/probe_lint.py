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
from ....state.fleet_list import probe_nodes
from ...fleet import Fleet, tunnel_device
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

    Probes are forwarded as workloads' packets are, so policy with applyOnForward applies to them. Each node with a
    HostEndpoint is checked with one other node in each pool, by an echo request between their probe endpoints in both
    directions. Of two HostEndpoints that deny the same probe, only the first on its path is found. Left out are nodes
    in audit mode, and nodes with the only probe endpoint of a pool. Without a tunnel the underlay's interface is not
    known here, so only a HostEndpoint of "*" is checked.
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
    nodes = probe_nodes(fleet.members)
    for pool in fleet.pools:
        echo = _ECHOES[0] if pool.version == 4 else _ECHOES[1]
        probed = _probed(fleet, pool.name)
        if len(probed) < 2:
            continue
        hosts = [PathHost(name, routes=((echo.everything, tunnel_device(pool)),)) for name, _address in probed]
        paths = Paths(evaluator, hosts, probes=nodes)
        for index, (name, address) in enumerate(probed):
            if name not in protected:
                continue
            peer, other = probed[index - 1]
            for source, destination in ((other, address), (address, other)):
                number = PROTOCOL_NUMBERS[echo.protocol.lower()]
                answer = paths.of(Flow(number, source, destination, icmp_type=echo.request, icmp_code=0))
                endpoint = answer.stages[-1].endpoint if answer.action == DENIED else None
                if endpoint is not None:
                    key = endpoint.name, answer.stages[-1].direction, echo.protocol
                    by = decided_by(answer.stages[-1])
                    found.setdefault(key, _finding(echo, endpoint, (name, peer, pool.name), by))
    return list(found.values())


def _probed(fleet: Fleet, pool: str) -> list[tuple[str, str]]:
    """Return (node, address) for each probe endpoint in a pool."""
    addresses = ((name, fleet.ipam_of(name).probes.get(pool, "")) for name in fleet.nodes)
    return [(name, address) for name, address in addresses if address]


def _finding(echo: _Echo, endpoint: Endpoint, path: tuple[str, str, str], decided: str) -> PolicyFinding:
    node, peer, pool = path
    return PolicyFinding(
        HOST_ENDPOINT,
        endpoint.name,
        f"keeps {node} and {peer} from proving the path between them in pool {pool}: {echo.protocol} echo that they "
        f"forward is denied by {decided}, so that every run and every change of mode takes it for broken. Allow it "
        f"both ways: {{action: Allow, protocol: {echo.protocol}, icmp: {{type: {echo.request}}}}}, with the pools as "
        "source nets if you like.",
    )
