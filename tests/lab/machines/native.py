# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab on this machine's own kernel."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..handle import BaseLab
from ..shell import locked, progress, run, wait_until
from ..topology import CACHE_ROOT, NODES, STATE_ROOT, TORS, LabError, Node, Places, pick
from . import hosts as power
from . import images, keys, packages, tors, underlay

HERE = Path(__file__).resolve().parent


class NativeLab(BaseLab):
    machine = "native"

    def up(
        self,
        hosts: str | Sequence[str] | None = None,
        baked: bool = True,
        podman: bool = False,
        switches: bool = False,
        ipv6: bool = False,
        docker: bool = False,
    ) -> None:
        nodes = pick(list(hosts) if hosts and not isinstance(hosts, str) else hosts)
        packages.install(packages.NATIVE)
        images.build({node.release for node in nodes}, baked=baked, podman=podman, switches=switches, docker=docker)
        with locked(STATE_ROOT / f".{self.name}.lock"):
            known = self.state
            if not known:
                remove(self.places, say=False)  # left by an interrupted `up`, or by one before this machine's reboot
            if known and known["machine"] != self.machine:
                raise LabError(
                    f"The lab {self.name!r} is up in another machine ({known['machine']}); take it down first."
                )
            if (
                known
                and known["baked"] != baked
                and any(power.supervisor_pid(self.places, node) for node in self.nodes)
            ):
                kind = "baked" if known["baked"] else "plain"
                raise LabError(f"The lab {self.name!r} is up with {kind} hosts; take it down first.")
            self.places.state.mkdir(parents=True, exist_ok=True)
            keys.make(self.places)
            underlay.make(self.places)
            ipv6 = ipv6 or known.get("ipv6", False)
            if ipv6 and not known.get("ipv6"):
                underlay.make_ipv6(self.places)
            underlay.start_router(self.places, ipv6)
            if switches:
                tors.make(self.places)
            # `up --hosts node5` on a running lab adds a host to the present ones.
            members = pick([*known.get("hosts", []), *(node.name for node in nodes)])
            self.write_state(members, baked, ipv6)
            off = [node for node in nodes if not power.supervisor_pid(self.places, node)]
            for node in off:
                power.prepare(self.places, node, baked, podman, ipv6, docker)
                power.power_on(self.places, node)
            if off:
                progress(f"booting {', '.join(node.name for node in off)}")
            self._wait(nodes, booted=bool(off))
        if off:
            progress("SSH answers on " + ", ".join(node.name for node in nodes))

    def _wait(self, nodes: Sequence[Node], booted: bool = True) -> None:
        def one(node: Node) -> None:
            power.wait_for_ssh(self.places, node, float(os.environ.get("HOST_ROUTING_LAB_BOOT_TIMEOUT", "90")))
            if booted:
                self.wait_booted(node.name)

        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(one, nodes))

    def down(self) -> None:
        with locked(STATE_ROOT / f".{self.name}.lock"):
            remove(self.places)
        with contextlib.suppress(OSError):
            (STATE_ROOT / f".{self.name}.lock").unlink()

    def argv(self, where: str, command: Sequence[str]) -> list[str]:
        return [str(HERE / "enter"), str(self.places.state), where, *command]

    def is_running(self, node: str) -> bool:
        return power.leader(self.places, NODES[node]) is not None

    def reboot(self, node: str, wait: bool = True) -> None:
        before = power.nspawn_pid(self.places, NODES[node])
        if before is None:
            raise LabError(f"{node} is off; `start` powers it on.")
        keys.drop_connections(self.places)
        self.exec(node, ["systemctl", "reboot"], check=False)
        if wait:
            wait_until(
                f"{node} goes down and comes back",
                lambda: power.nspawn_pid(self.places, NODES[node]) not in (None, before),
                100,
                0.05,
            )
            self._wait([NODES[node]])

    def power_cut(self, node: str) -> None:
        if node in TORS:
            tors.power_off(self.places, TORS[node])
            return
        power.power_off(self.places, NODES[node])
        keys.drop_connections(self.places)

    def start(self, node: str, wait: bool = True) -> None:
        if node in TORS:
            tors.power_on(self.places, TORS[node], wait)
            return
        if not (self.places.state / node / "env").exists():
            raise LabError(f"{node} is no host of the lab {self.name!r}; `up --hosts {node}` adds it.")
        power.power_on(self.places, NODES[node])
        if wait:
            self._wait([NODES[node]])


def remove(places: Places, say: bool = True) -> None:
    """Remove a lab, complete or not: processes, links, namespaces, cgroups, files. Do nothing if nothing is left of it.

    With `say`, report the end by `progress`. Raise LabError if processes survive SIGKILL for 20 seconds.
    """
    if not places.state.exists() and not places.work.exists() and not underlay.namespaces() & _namespaces(places):
        return
    keys.drop_connections(places)
    for node in NODES.values():
        if (places.state / node.name).exists() or places.netns(node.name) in underlay.namespaces():
            (places.state / node.name).mkdir(parents=True, exist_ok=True)
            power.power_off(places, node)
    tors.remove(places)
    power.kill_group(places, "router")
    power.remove_group(places, "router")
    for netns in sorted(underlay.namespaces() & _namespaces(places)):
        run(["ip", "netns", "del", netns], check=False)
    for top in places.cgroups:
        for folder in (top, top.parent):
            with contextlib.suppress(OSError):
                folder.rmdir()
    shutil.rmtree(places.work, ignore_errors=True)
    shutil.rmtree(places.state, ignore_errors=True)
    for folder in (CACHE_ROOT / "labs", STATE_ROOT):
        with contextlib.suppress(OSError):
            folder.rmdir()
    if say:
        progress(f"the lab {places.name!r} is gone")


def _namespaces(places: Places) -> set[str]:
    return {places.netns(who) for who in (*NODES, *TORS, "router", "outside", "control")}
