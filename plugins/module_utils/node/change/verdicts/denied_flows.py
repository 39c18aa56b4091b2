# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tracked connections that the node's policy would deny if they began at this moment, and how they are ended.

Policy decides on the first packet of a flow, and an allowed flow goes on when policy changes. With
`calico_policy_cut_denied_flows` a new policy ends the flows that it denies, and no others: their connections get a
mark, and a rule drops packets with it. Deleting the connections would not end them. If policy lets the other end open
connections, its next packet, of a download for example, would create a new one (nf_conntrack_tcp_loose). Connections
that a later policy allows lose the mark.

Connections that cannot be judged as the kernel would judge them go on: multicast, and connections in zones. A
connection that another one brought about (RELATED) is judged as that one.
"""

from __future__ import annotations

import errno
import typing as t

from ....base.addresses import family_of
from ....dataplane.kernel.port import Connection, Kernel, KernelError
from ....policy.chains.rules.marks import marks
from ....policy.explain.evaluator import DENIED
from ....policy.explain.explanation import decided_by
from ....policy.explain.packet_path import Path
from ....policy.model import Endpoint, Policy, PolicyProfile, PolicySet
from ....state.node_state import NodeState
from ... import desired
from . import kernel_paths

if t.TYPE_CHECKING:
    from ...machine import Machine

_MULTICAST = 224  # the least first octet of IPv4 multicast; the broadcast address 255.255.255.255 is above it
_MULTICAST6 = 0xFF00  # the least first group of IPv6 multicast


class NotCut(KernelError):
    """The error for a kernel that refuses to cut denied connections; `again` is a sentence about the next attempt."""

    def __init__(self, error: KernelError, again: str) -> None:
        super().__init__(error.errno or errno.EIO, error.operation, error.extack)
        self._again = again

    def __str__(self) -> str:
        return (
            f"Connections that policy denies go on, because the kernel refused to cut them: {super().__str__()}."
            f" calico_policy_cut_denied_flows wants them cut. {self._again} If it stays, look at dmesg and at the"
            " connections (conntrack -L), and end the programs that hold them."
        )


class Judged(t.NamedTuple):
    """The verdict on the tracked connections.

    `ending` are connections that the policy denies and that are not cut yet. `returning` are connections that were cut
    and that the policy allows. `bits` is the mark of a cut connection, 0 if policy does not cut denied flows. `masters`
    are cut connections that the policy denies and that brought about `ending` ones.
    """

    ending: tuple[Connection, ...] = ()
    returning: tuple[Connection, ...] = ()
    bits: int = 0
    masters: tuple[Connection, ...] = ()

    @property
    def in_question(self) -> tuple[Connection, ...]:
        """The connections by which `ending` and `returning` ones can be judged again."""
        return (*self.returning, *self.ending, *self.masters)

    def carry_out(self, kernel: Kernel) -> int:
        """Cut the `ending` connections, then let the `returning` ones go on; return the number of connections cut.

        Connections that ended meanwhile do not count. Raise KernelError if the kernel refuses.
        """
        count = kernel.connections_mark(self.ending, self.bits, True) if self.ending else 0
        if self.returning:
            kernel.connections_mark(self.returning, self.bits, False)
        return count


def judged(
    kernel: Kernel,
    state: NodeState,
    others: t.Iterable[Endpoint] = (),
    connections: t.Optional[t.Iterable[Connection]] = None,
    live: t.Collection[str] = (),
) -> Judged:
    """Return which connections to cut (`ending`) and which to let go on again (`returning`), by the policy of `state`.

    Both are empty if there is no policy, or if policy does not cut denied flows. `state` has all workloads. `others`
    are other nodes' endpoints that the inventory does not have; what it says of workloads of `live` nodes does not
    count. `connections` are those to judge, by default all of the kernel's. One to a multicast address counts as
    allowed. One that another connection brought about is judged as that one, and counts as allowed if that one is not
    among them, or was itself brought about. Raise KernelError.
    """
    policy = state.policy
    if policy is None or not policy.settings.cut_denied_flows:
        return Judged()
    judge = _Judge(kernel, state, others, live)
    bits = marks(policy.settings.mark_mask).cut
    # The connections that policy denies and that no other one brought about, by `Connection.ends`.
    denied: dict[bytes, Connection] = {}
    brought_about: list[Connection] = []
    ending: list[Connection] = []
    returning: list[Connection] = []

    def sort(connection: Connection, is_denied: bool) -> None:
        if is_denied and not connection.mark & bits:
            ending.append(connection)
        elif connection.mark & bits and not is_denied:
            returning.append(connection)

    for connection in kernel.connections() if connections is None else connections:
        if connection.master:
            brought_about.append(connection)
            continue
        is_denied = judge.denies(connection)
        if is_denied:
            denied[connection.ends] = connection
        sort(connection, is_denied)
    for connection in brought_about:
        sort(connection, connection.master in denied)
    found = {connection.master for connection in ending}
    masters = tuple(one for ends, one in denied.items() if ends in found and one.mark & bits)
    return Judged(tuple(ending), tuple(returning), bits, masters)


def newly_denied(
    kernel: Kernel,
    before: NodeState,
    after: NodeState,
    others: t.Sequence[Endpoint] = (),
    live: t.Collection[str] = (),
) -> t.Iterator[tuple[Connection, str]]:
    """Yield the connections that the policy of `after` denies and that of `before` does not, and what denies each.

    See `judged` for the other arguments. One that another connection brought about is judged as that one. Raise
    KernelError.
    """
    judge = _Judge(kernel, after, others, live)
    earlier = _Judge(kernel, before, others, live) if before.policy is not None else None
    denied: dict[bytes, str] = {}
    brought_about: list[Connection] = []
    for connection in kernel.connections():
        if connection.master:
            brought_about.append(connection)
        elif judge.denies(connection) and not (earlier is not None and earlier.denies(connection)):
            by = denied[connection.ends] = judge.denied_by(connection)
            yield connection, by
    for connection in brought_about:
        if connection.master in denied:
            yield connection, denied[connection.master]


def of_machine(machine: Machine, state: NodeState) -> Judged:
    """Return the verdict of `judged` for a node without a running agent.

    `state` is without the workloads that an agent attached. They are read from the disk, and so are other nodes'
    endpoints; what cannot be read is left out. Raise KernelError.
    """
    if state.policy is None or not state.policy.settings.cut_denied_flows:
        return Judged()
    others = desired.others(machine, state)
    present = desired.with_attached(machine, state)
    return judged(machine.kernel, present, others.endpoints(), live=others.live)


class _Judge:
    def __init__(self, kernel: Kernel, state: NodeState, others: t.Iterable[Endpoint], live: t.Collection[str]) -> None:
        if state.policy is None:
            raise ValueError("without policy nothing is denied")
        host = kernel_paths.kernel_host(kernel, state.node)
        self._paths = kernel_paths.paths(host, state, state.policy, others, live)
        self._source_ports = _asks_for_source_ports(state.policy.policy_set)
        self._known: dict[tuple[t.Any, ...], bool] = {}

    def denies(self, connection: Connection) -> bool:
        """Return whether policy denies the connection, judging alike flows once. Multicast is not denied."""
        sent, flow = connection.sent, connection.flow
        if _is_multicast(sent.destination):
            return False
        source_port = flow.source_port if self._source_ports else None
        key = (flow.protocol, flow.source, flow.destination, source_port, flow.destination_port, flow.icmp_type,
               flow.icmp_code, sent.destination, sent.destination_port)  # fmt: skip
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._path(connection).action == DENIED
        return known

    def denied_by(self, connection: Connection) -> str:
        """Return what denies a connection that is denied, as `decided_by` says it."""
        return decided_by(self._path(connection).stages[-1])

    def _path(self, connection: Connection) -> Path:
        sent, flow = connection.sent, connection.flow
        return self._paths.there(flow, sent if sent is not flow else None)


def _is_multicast(address: str) -> bool:
    """Return whether an address, as inet_ntop(3) writes it, is in ff00::/8, or is 224.0.0.0 or above."""
    if family_of(address) == 6:
        return int(address.partition(":")[0] or "0", 16) >= _MULTICAST6
    return int(address.partition(".")[0]) >= _MULTICAST


def _asks_for_source_ports(policy_set: PolicySet) -> bool:
    """Return whether the verdict may depend on source ports: a rule names some, or untracked policy allows replies."""
    if any(policy.do_not_track for policy in policy_set.policies):
        return True
    owners: list[t.Union[Policy, PolicyProfile]] = [*policy_set.policies, *policy_set.profiles]
    rules = (rule for owner in owners for rule in (*owner.ingress, *owner.egress))
    return any(rule.source.ports or rule.source.not_ports for rule in rules)
