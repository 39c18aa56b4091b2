# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""podman in memory, as far as netavark's plugin is concerned: what it sends, with an agent in memory."""

from __future__ import annotations

import asyncio
import json
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.cni.dispatch import CniPlugin
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.deleted import DeletedWhileDown
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.netavark.dispatch import (
    NetavarkPlugin,
)

from tests.unit.runtimes.cni.fake_agent import FakeAgent

NETNS = "/run/netns/netns-1"
CONTAINER = "e2cf780eccff" + "0" * 52

#: A network as `podman network create` sends it.
CREATED: dict[str, t.Any] = {
    "name": "pods",
    "id": "6a1e76" + "0" * 58,
    "driver": "calico",
    "created": "0001-01-01T00:00:00Z",
    "ipv6_enabled": False,
    "internal": False,
    "dns_enabled": True,
}


def attachment(network: t.Any = None, options: t.Any = None, **fields: t.Any) -> dict[str, t.Any]:
    """Return what podman sends for setup and teardown; `network`, `options` and `fields` override parts of it."""
    return {
        "container_id": CONTAINER,
        "container_name": "web",
        "port_mappings": None,
        "network": {
            **CREATED,
            "dns_enabled": False,
            "network_interface": None,
            "options": None,
            "ipam_options": {"driver": "none"},
            "subnets": None,
            "routes": None,
            "network_dns_servers": None,
            **(network or {}),
        },
        "network_options": {
            "aliases": ["w", "e2cf780eccff"],
            "interface_name": "eth0",
            "static_ips": None,
            "static_mac": None,
            "options": None,
            **(options or {}),
        },
        **fields,
    }


class Podman:
    """An agent in memory with netavark's plugin; `deleted` is the folder of stored requests."""

    def __init__(self, deleted: str = "/nowhere") -> None:
        self.agent = FakeAgent()
        self.agent.namespaces[NETNS] = {}
        self.observed: list[tuple[str, str]] = []
        self.deleted = DeletedWhileDown(self.agent, deleted, (CniPlugin.stored, NetavarkPlugin.stored))
        self.plugin = NetavarkPlugin(
            self.agent,
            self.deleted,
            observed=lambda command, outcome, seconds: self.observed.append((command, outcome)),
        )

    def execute(self, command: str, stdin: t.Any, netns: str = NETNS) -> tuple[int, t.Any]:
        """Return (exit status, parsed stdout or None) of a command; `stdin` is JSON, or bytes as they are."""
        data = stdin if isinstance(stdin, bytes) else json.dumps(stdin).encode()
        variables = {"NETAVARK_COMMAND": command, "NETAVARK_NETNS": netns}
        status, output = asyncio.run(self.plugin.handle(variables, data))
        return status, json.loads(output) if output else None

    def setup(self, sent: t.Optional[t.Mapping[str, t.Any]] = None, netns: str = NETNS) -> t.Any:
        """Return the status block of a setup; AssertionError if it fails."""
        status, answer = self.execute("setup", attachment() if sent is None else sent, netns)
        assert status == 0, answer
        return answer

    def refused(self, command: str, stdin: t.Any, netns: str = NETNS) -> str:
        """Return the text of a refusal; AssertionError if the command succeeds, or has left something behind."""
        before = dict(self.agent.given), dict(self.agent.workloads)
        status, answer = self.execute(command, stdin, netns)
        assert (status, list(answer)) == (1, ["error"]), answer
        assert (self.agent.given, self.agent.workloads) == before
        return t.cast(str, answer["error"])
