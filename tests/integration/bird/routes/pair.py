# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node and a router with a cable between them.

The node has 10.9.0.1 and fd09::1 and our bird.cfg, the router 10.9.0.2 and fd09::2 and the test's configuration.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer, BirdPool
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import (
    dropped_segments,
    refusals,
    secrets_file,
    status,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import NotAnswering
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.status import Session

from tests.integration.bird.daemons import Daemon
from tests.integration.bird.debian_bird import Build
from tests.integration.bird.network import POOL, Namespace, wait_for

NODE, ROUTER = "10.9.0.1", "10.9.0.2"
NODE6, ROUTER6 = "fd09::1", "fd09::2"
BLOCK, BLOCK6 = "10.244.1.0/26", "fd10:244::40/122"
POOL6 = "fd10:244::/64"
SECRET = "tor-a:password"

BIRD = Bird(
    router_id=NODE,
    address=NODE,
    as_number=64512,
    subnet="10.9.0.0/24",
    blocks=(BLOCK, BLOCK6),
    pools=(BirdPool(POOL, block_size=26), BirdPool(POOL6, block_size=122)),
    address6=NODE6,
    subnet6="fd09::/64",
    hold_time=9,
    keepalive_time=3,
)


def bird(*peers: BirdPeer, **changes: t.Any) -> Bird:
    names = tuple(sorted({peer.password for peer in peers if peer.password}))
    return dataclasses.replace(BIRD, peers=peers, secrets=names, **changes)


def tor(**changes: t.Any) -> BirdPeer:
    """Return the node's session with the router as a top-of-rack switch in AS 65001, with `changes`."""
    return dataclasses.replace(BirdPeer("Global_10_9_0_2", ROUTER, 65001, "external", multihop=False), **changes)


class Pair:
    def __init__(self, build: Build, folder: pathlib.Path) -> None:
        self._stack = contextlib.ExitStack()
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.node, self.router = self._space("node"), self._space("router")
        self.node.ip(
            f"link add eth0 type veth peer name eth0 netns {self.router.pid}",
            "link set eth0 up",
            f"addr add {NODE}/24 dev eth0",
            f"addr add {NODE6}/64 dev eth0 nodad",
            f"route add blackhole {BLOCK} proto 179",
        )
        self.node.run("ip", "-6", "route", "add", "blackhole", BLOCK6, "proto", "179")
        self.router.ip("link set eth0 up", f"addr add {ROUTER}/24 dev eth0", f"addr add {ROUTER6}/64 dev eth0 nodad")
        self.daemon = Daemon(build, self.node, folder, "node")
        self._stack.callback(self.daemon.stop)

    def _space(self, name: str) -> Namespace:
        space = Namespace(name)
        self._stack.callback(space.close)
        return space

    def until_closed(self, stop: t.Callable[[], t.Any]) -> None:
        self._stack.callback(stop)

    def start(self, what: Bird, **passwords: str) -> None:
        """Start the node's daemon with the configuration `what`; raise AssertionError unless it answers in 60 seconds.

        The keyword `tor` gives the password of the secret SECRET; without keywords there are no secrets.
        """
        values = {SECRET: passwords["tor"]} if passwords else {}
        secrets_file.install(str(self.daemon.config), values)
        self.daemon.write(what)
        self.daemon.start()

    def session(self, name: str = "Global_10_9_0_2") -> t.Optional[Session]:
        try:
            sessions = {session.name: session for session in status.observe(self.daemon.socket).sessions}
        except NotAnswering:
            return None
        return sessions.get(name)

    def established(self, name: str = "Global_10_9_0_2", seconds: float = 20) -> None:
        wait_for(f"{name} Established", lambda: (found := self.session(name)) and found.established, seconds)

    def why(self, name: str = "Global_10_9_0_2") -> str:
        session, planned = self.session(name), self.daemon.bird
        if session is None or planned is None:
            return ""
        peer = next(peer for peer in planned.peers if peer.name == name)
        dropped = dropped_segments.read(f"/proc/{self.node.pid}/net/netstat")
        return refusals.why(session, planned, peer, dropped)

    def close(self) -> None:
        self._stack.close()
