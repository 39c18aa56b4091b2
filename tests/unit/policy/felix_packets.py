# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random sets of policies, and the packets that arrived under real Felix (tests/unit/cases/felix-packets.json.xz).

Each world was applied to the node `bench`, which has six workloads. The file's `about` describes the measurement.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import lzma
import pathlib
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.documents import from_resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.packet_path import PathHost
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    PROTOCOL_NUMBERS,
    Endpoint,
    Flow,
    PolicySet,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources

_CASES = pathlib.Path(__file__).resolve().parent.parent / "cases" / "felix-packets.json.xz"

NODE, HOST_ADDRESS = "bench", "10.10.1.11"
HOST = PathHost(NODE, (("eth0", (HOST_ADDRESS,)),), (("0.0.0.0/0", "eth0"),))
_SOURCE_PORT = 40000


class Probe(t.NamedTuple):
    """A connection, a datagram or an echo request. `port` is 0 for ICMP."""

    source: str
    destination: str
    protocol: str
    port: int

    def flow(self) -> Flow:
        """Return the flow of the probe's first packet."""
        number = PROTOCOL_NUMBERS[self.protocol]
        if self.protocol == "icmp":
            return Flow(number, self.source, self.destination, icmp_type=8, icmp_code=0)
        return Flow(number, self.source, self.destination, _SOURCE_PORT, self.port)


@dataclasses.dataclass(frozen=True)
class FelixWorld:
    """A set of documents, and the probes whose answer came back under Felix.

    `labels` maps the addresses of the workloads to their labels. The worlds of one `run` have the same.
    """

    run: str
    name: str
    documents: tuple[dict[str, t.Any], ...]
    labels: t.Mapping[str, t.Mapping[str, str]]
    probes: tuple[Probe, ...]
    answered: frozenset[Probe]

    def policy_set(self) -> PolicySet:
        return from_resources.policy_set(self._resources())

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the workloads in the order of `labels`, and the HostEndpoints."""
        hosts = [one for one in self._resources() if isinstance(one, resources.HostEndpoint)]
        workloads = [self._workload(index, address) for index, address in enumerate(self.labels)]
        return (*workloads, *map(from_resources.host_endpoint, hosts))

    def _resources(self) -> list[resources.Resource]:
        return [resources.parse(one) for one in self.documents]

    def _workload(self, index: int, address: str) -> Endpoint:
        document = {
            "kind": "WorkloadEndpoint",
            "metadata": {"name": f"w{index}", "namespace": "default", "labels": dict(self.labels[address])},
            "spec": {
                "node": NODE,
                "orchestrator": "cni",
                "workload": f"w{index}",
                "interfaceName": workload_interface(index),
                "ipNetworks": [f"{address}/32"],
                "profiles": ["felixnet"],
            },
        }
        return from_resources.workload_endpoint(t.cast(resources.WorkloadEndpoint, resources.parse(document)))


def workload_interface(index: int) -> str:
    return f"cali{index:011x}"


@functools.cache
def worlds() -> tuple[FelixWorld, ...]:
    """Return all worlds of the file."""
    with lzma.open(_CASES, "rt", encoding="utf-8") as stream:
        runs = json.load(stream)["runs"]
    return tuple(_world(run, number, world) for run in runs for number, world in enumerate(run["worlds"]))


def _world(run: t.Mapping[str, t.Any], number: int, world: t.Mapping[str, t.Any]) -> FelixWorld:
    probes = tuple(
        Probe(*(HOST_ADDRESS if one == "host" else one for one in (source, destination)), protocol, port)
        for source, destination, protocol, port in run["probes"]
    )
    arrived = int(world["arrived"], 16)
    answered = frozenset(probe for bit, probe in enumerate(probes) if arrived >> bit & 1)
    return FelixWorld(run["name"], f"{run['name']}-{number}", tuple(world["docs"]), run["labels"], probes, answered)
