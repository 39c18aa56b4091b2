# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check for lockout: which SSH connections a new policy would not let be opened again.

Connection tracking keeps the present ones alive (but see denied_flows.py). The next one like them would be denied, and
with it the way by which the node is managed.
"""

from __future__ import annotations

import typing as t

from ....dataplane.change import Change
from ....dataplane.kernel.port import Kernel
from ....policy.model import Endpoint
from ....state.node_state import NodeState
from ... import desired
from ...host.ssh_session import SshSession
from ...store.store import Store
from ...store.unconfirmed import UnconfirmedStore
from . import own_ways
from .own_ways import DeniedWay

if t.TYPE_CHECKING:
    from ...machine import Machine

_KIND = "session"
_MOST = 5  # the most problems that are reported one by one; all further ones are one problem


def cut(
    kernel: Kernel,
    state: NodeState,
    sessions: t.Sequence[SshSession],
    others: t.Iterable[Endpoint] = (),
    live: t.Collection[str] = (),
) -> list[Change]:
    """Return a problem for each client and server of `sessions` whose next connection the policy of `state` would deny.

    It looks like `! session  ssh from 10.10.1.1 to 10.10.1.11 port 22    a new connection would be cut by ...`. `state`
    has all workloads; `others` are other nodes' endpoints that the inventory does not have, and what it says of
    workloads of `live` nodes does not count. After five problems there is one more with the number of the others. The
    list is empty if `state` has no policy, or no HostEndpoint of this node. Sessions to an address that the host does
    not have are skipped. Raise KernelError.
    """
    changes = [
        Change(_KIND, "!", one.what, None, None, f"a new connection would be cut by {one.by}")
        for one in denied(kernel, state, sessions, others, live)
    ]
    if len(changes) <= _MOST:
        return changes
    words = f"new connections like {len(changes) - _MOST} more would be cut, the first of them"
    note = changes[_MOST].note.replace("a new connection would be cut", words, 1)
    return [*changes[:_MOST], Change(_KIND, "!", "more sessions", None, None, note)]


def denied(
    kernel: Kernel,
    state: NodeState,
    sessions: t.Sequence[SshSession],
    others: t.Iterable[Endpoint] = (),
    live: t.Collection[str] = (),
) -> list[DeniedWay]:
    """Return one entry for each client and server of `sessions` that `cut` would report, however many they are."""
    return own_ways.denied(kernel, state, own_ways.of_sessions(sessions), others, live)


def newly_denied(machine: Machine, state: NodeState) -> list[DeniedWay]:
    """Return at most five sessions of this host that the policy of `state` denies and the present one does not.

    The present policy is that of the stored state, or of the one before a change that waits for its confirmation.
    Without a stored state the result is all that `state` denies. Workloads that an agent attached are read from the
    disk, and so are other nodes' endpoints. Raise KernelError, or StoreError if a state cannot be read.
    """

    def by(found: NodeState) -> list[DeniedWay]:
        others = desired.others(machine, found)
        present = desired.with_attached(machine, found)
        return denied(machine.kernel, present, sessions, others.endpoints(), others.live)

    sessions = machine.sessions()
    new = by(state) if sessions else []
    if not new:
        return []
    pending = UnconfirmedStore(machine.store).load()
    stored = pending.previous if pending is not None else Store(machine.store).load()
    before = {one.what for one in by(stored.state)} if stored is not None else set()
    return [one for one in new if one.what not in before][:_MOST]
