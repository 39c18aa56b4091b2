# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run is asked for, and the lockfile that it finds."""

from __future__ import annotations

import dataclasses
import typing as t

from ...ipam.allocation_plan import AllocationPlan
from ...state.errors import FleetError
from ..host import Host
from ..inventory.inventory import Inventory
from . import node_removal
from .pool_modes import MODES
from .topology import with_topology


class Lockfile(t.NamedTuple):
    """The lockfile as a run finds it: its path, and its plan, None if the file does not exist."""

    path: str
    plan: t.Optional[AllocationPlan]


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """What a run is asked for.

    `pool` and `mode` choose the mode of one pool; they are ignored if pools keep their live modes. `as_observed` plans
    with the modes, underlay MTU and BGP sessions that the nodes have, not with the inventory's. With a `topology` other
    than "", BGP is that of `with_topology`. `without` leaves one node out. `hold` uses backup routes in the phases,
    even if nothing requires them.

    `nodes_asked` is False if no node was asked (ad hoc). Then the lockfile must exist, unless the fleet `may_be_new`.
    `play_hosts` are the hosts to which the run is limited; () means all. `etcd_members` are the addresses of the hosts
    of group calico_etcd.
    """

    pool: t.Optional[str] = None
    mode: t.Optional[str] = None
    as_observed: bool = False
    topology: str = ""
    without: t.Optional[str] = None
    hold: bool = False
    nodes_asked: bool = True
    may_be_new: bool = False
    play_hosts: t.Collection[str] = ()
    etcd_members: t.Collection[str] = ()

    @property
    def keeps_modes(self) -> bool:
        """Whether the pools keep the modes that the nodes run."""
        return self.as_observed or bool(self.topology)

    def hosts_of(self, hosts: t.Sequence[Host]) -> t.Sequence[Host]:
        """Return the hosts without the one that leaves, with the topology's variables. Raise FleetError if refused."""
        if self.without is not None:
            hosts = node_removal.of(hosts, self.without).others
        return with_topology(hosts, self.topology) if self.topology else hosts

    def modes(self, inventory: Inventory) -> dict[str, str]:
        """Return the encapsulation that `pool` and `mode` choose, by pool; {} if both are None.

        Raise FleetError if only one of them is given, if it does not exist, or if the pool cannot have that mode.
        """
        pool, mode = self.pool, self.mode
        if pool is None and mode is None:
            return {}
        names = [item.name for item in inventory.pools]
        if pool not in names:
            raise FleetError("pool", pool, "is not a pool of this inventory.", f"Choose one of {', '.join(names)}.")
        if mode not in MODES:
            raise FleetError("mode", mode, "is not a mode.", f"Choose one of {', '.join(MODES)}.")
        if mode.startswith("ipip") and next(item for item in inventory.pools if item.name == pool).version == 6:
            raise FleetError(
                "mode",
                mode,
                f"is not possible for pool {pool}, which is IPv6: IPIP carries IPv4 only.",
                "Choose direct, vxlan or vxlan-crosssubnet.",
            )
        if not inventory.settings.bgp_enabled and not mode.startswith("vxlan"):
            raise FleetError(
                "mode",
                mode,
                "needs BGP, but calico_bgp_enabled is false.",
                "Choose vxlan or vxlan-crosssubnet, or enable BGP.",
            )
        return {pool: MODES[mode]}
