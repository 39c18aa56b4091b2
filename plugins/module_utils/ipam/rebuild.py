# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last plan, from the lockfile and from the copies that the nodes keep of their own parts."""

from __future__ import annotations

import dataclasses
import typing as t

from .allocation_plan import AllocationPlan


class BlockCopy(t.Protocol):
    @property
    def cidr(self) -> str: ...

    @property
    def pool(self) -> str: ...


class NodeCopy(t.Protocol):
    """A node's own part of a plan, as the node keeps it (fleet.node_state.Ipam)."""

    @property
    def generation(self) -> int: ...

    @property
    def blocks(self) -> t.Sequence[BlockCopy]: ...

    @property
    def spare_blocks(self) -> t.Sequence[BlockCopy]: ...

    @property
    def tunnels(self) -> t.Mapping[str, str]: ...

    @property
    def workloads(self) -> t.Mapping[str, str]: ...


@dataclasses.dataclass(frozen=True)
class Reconciled:
    """`plan` is what to plan from, None for a fleet that never had a plan; `notices` are sentences for people."""

    plan: t.Optional[AllocationPlan]
    notices: tuple[str, ...] = ()


def reconcile(
    lockfile_plan: t.Optional[AllocationPlan],
    node_copies: t.Mapping[str, NodeCopy],
    *,
    unreachable: t.Collection[str],
    inventory_nodes: t.Collection[str],
    not_asked: t.Collection[str] = (),
    accept_missing: bool = False,
    lockfile_name: str = ".calico.lock.yml",
) -> Reconciled:
    """Raises RebuildError.

    `unreachable` are inventory nodes that did not answer, `not_asked` those that a limited run left out. A node that
    answered and has no copy is in neither, and not in `node_copies` (or there with generation 0).
    """
    raise NotImplementedError
