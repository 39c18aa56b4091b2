# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIRDs in nodes' namespaces, with the role's own bird.cfg."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import pathlib
import signal
import subprocess
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer, BirdPool
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import backup_routes, kernel_sync
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.client import BirdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import NotAnswering
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

from tests.bird_sessions import established_since

from .debian_bird import Build
from .network import POOL, Namespace, Node, wait_for

AS_NUMBER = 64512


def render(bird: Bird) -> str:
    return bird_config.render(NodeState(node="node", address=f"{bird.address}/24", bird=bird).to_dict()["bird"])


def pool(device: str = "", cross_subnet: bool = False, mtu: t.Optional[int] = None) -> BirdPool:
    return BirdPool(POOL, device, cross_subnet, mtu, block_size=26)


def peer(own: Node, other: Node, kind: str = "mesh", **fields: t.Any) -> BirdPeer:
    name = f"{'Mesh' if kind == 'mesh' else 'Node'}_{other.address.replace('.', '_')}"
    return BirdPeer(name, other.address, AS_NUMBER, kind, passive=own.index > other.index, node=other.name, **fields)


def bird_of(node: Node, peers: t.Sequence[BirdPeer], *pools: BirdPool, **fields: t.Any) -> Bird:
    settings: dict[str, t.Any] = {
        "router_id": node.address,
        "address": node.address,
        "as_number": AS_NUMBER,
        "subnet": node.subnet,
        "blocks": (node.block,),
        "pools": pools,
        "peers": tuple(peers),
    }
    return Bird(**{**settings, **fields})


def mesh(nodes: t.Sequence[Node], *pools: BirdPool, **fields: t.Any) -> dict[str, Bird]:
    return {
        node.name: bird_of(node, [peer(node, other) for other in nodes if other is not node], *pools, **fields)
        for node in nodes
    }


#: The last line in the log of a BIRD 3.4.0 whose threads raced.
_RACE = "<BUG> Assertion 'birdloop_inside(sl->loop)' failed"


class Daemon:
    def __init__(self, build: Build, space: Namespace, folder: pathlib.Path, name: str) -> None:
        self.build, self.space = build, space
        self.config = folder / f"{name}.cfg"
        self.socket = str(folder / f"{name}.ctl")
        self.log = folder / f"{name}.log"
        self._process: t.Optional[subprocess.Popen[bytes]] = None
        self.bird: t.Optional[Bird] = None
        self.restarts = False  # whether `birdc` starts a BIRD again that ended by its known race, as the unit would
        self.ended_itself = False  # whether that has happened

    def write(self, bird: Bird) -> None:
        self.bird = bird
        self.config.write_text(render(bird))

    def start(self, recover: bool = False, command: t.Sequence[str] = ()) -> None:
        if not command:
            command = [self.build.bird, "-f", "-c", str(self.config), "-s", self.socket, *(["-R"] if recover else [])]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(self.space.command(*command), stdout=log, stderr=log)
        wait_for(f"{self.socket} answers", lambda: "ready" in self.birdc("show", "status", check=False))

    def birdc(self, *command: str, check: bool = True) -> str:
        """Return BIRD's answer to a command.

        With `restarts`, start a BIRD 3.4 that ended by its known race again first. Raise AssertionError if `check` and
        `birdc` fails, and subprocess.TimeoutExpired after 60 seconds.
        """
        done = self._asked(command)
        if done.returncode and check and self.restarts and self._has_ended_itself():
            self.ended_itself = True
            time.sleep(1)  # RestartSec= of calico-bird.service, which also adds -R where routes of BIRD are left
            self.start(recover=True)
            with BirdClient(self.socket) as client:  # a command before the first scan may end it again
                kernel_sync.wait_for_first_scan(client)
            done = self._asked(command)
        assert not check or done.returncode == 0, done
        return done.stdout

    def _asked(self, command: t.Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.build.birdc, "-s", self.socket, *command], capture_output=True, text=True, timeout=60, check=False
        )

    def _has_ended_itself(self) -> bool:
        """Return whether BIRD ended by the assertion that BIRD 3.4.0 fails when its threads get little processor time.

        docs/reference/bgp.md describes this race. Any other end is a failure of the test.
        """
        if self._process is None:
            return False
        # Its socket is closed before it has ended, on a busy machine by seconds.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(60)
        return self._process.returncode == -signal.SIGABRT and _RACE in self.log.read_text()

    def configure(self, bird: t.Optional[Bird] = None, **changes: t.Any) -> None:
        assert self.bird
        self.write(bird or dataclasses.replace(self.bird, **changes))
        answer = self.birdc("configure")
        assert "Reconfigur" in answer, answer
        wait_for("reconfiguration", lambda: "up and running" in self.birdc("show", "status"))

    def backup_routes(self) -> frozenset[str]:
        """Return the blocks whose backup route is in use, as `backup_routes.in_use`.

        With `restarts`, start a BIRD 3.4 that ended by its known race again first. Raise what `birdc` raises, and
        NotAnswering if BIRD does not answer afterwards either.
        """
        try:
            return backup_routes.in_use(self.socket)
        except NotAnswering:
            self.birdc("show", "status")
            return backup_routes.in_use(self.socket)

    def restart_sessions(self) -> None:
        """Restart all BGP sessions; do not wait until they are up again.

        Raise AssertionError if no configuration has been written or `birdc` fails.
        """
        self.change_sessions("restart")

    def change_sessions(self, command: str) -> None:
        """Give all BGP sessions BIRD's command `disable`, `enable` or `restart`; do not wait for its effect.

        A command for `all` would reach BIRD's kernel protocols as well: BIRD 3.4 then removes routes and adds them
        again a moment later. Raise AssertionError if no configuration has been written or `birdc` fails.
        """
        assert self.bird
        for kind in {peer.name.partition("_")[0] for peer in self.bird.peers}:
            self.birdc(command, f'"{kind}_*"')

    def established(self) -> int:
        return self.birdc("show", "protocols").count("Established")

    def sessions_since(self) -> dict[str, datetime.datetime]:
        """Return {session: time of its establishment} of the Established BGP sessions.

        See `established_since`. Raise AssertionError if `birdc` fails, as it does without a running BIRD, and
        subprocess.TimeoutExpired if BIRD does not answer within 60 seconds.
        """
        return established_since(self.birdc("show", "protocols"))

    @property
    def arguments(self) -> list[str]:
        assert self._process
        return pathlib.Path(f"/proc/{self._process.pid}/cmdline").read_text().split("\0")

    def kill(self) -> None:
        assert self._process
        self._process.kill()
        self._process.wait()

    def abort(self) -> None:
        """End BIRD as a failed assertion does; raise AssertionError if it was never started."""
        assert self._process
        self._process.send_signal(signal.SIGABRT)

    def wait(self, seconds: float = 60) -> None:
        assert self._process
        self._process.wait(seconds)

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()


class Fleet:
    """The daemons of several nodes."""

    def __init__(self, build: Build, folder: pathlib.Path, nodes: t.Sequence[Node]) -> None:
        self.daemons = {node.name: Daemon(build, node.space, folder, node.name) for node in nodes}
        self.build, self.nodes = build, nodes

    def __getitem__(self, name: str) -> Daemon:
        return self.daemons[name]

    def start(self, birds: t.Mapping[str, Bird]) -> None:
        for name, bird in birds.items():
            self[name].write(bird)
            self[name].start()
        self.wait_established()

    def wait_established(self, seconds: float = 60) -> None:
        for name, daemon in self.daemons.items():
            if daemon.bird:
                wanted = len(daemon.bird.peers)
                wait_for(f"{name}: {wanted} sessions", lambda d=daemon, w=wanted: d.established() == w, seconds)

    def configure(self, birds: t.Mapping[str, Bird]) -> None:
        for name, bird in birds.items():
            self[name].configure(bird)

    def stop(self) -> None:
        for daemon in self.daemons.values():
            daemon.stop()
