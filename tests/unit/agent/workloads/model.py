# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random steps for a node with an agent (calls, sabotage, kills), and a simple model of what must come of them.

Used with a fake kernel (test_agent_model.py here) and with the real one (tests/integration/agent/test_model.py).
"""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    Kernel,
    NewLink,
    RouteAttributes,
    RouteOperation,
)
from hypothesis import strategies as st

from tests.unit.agent.node_under_test import BLOCK, SPARE

NAMES = ("a", "b", "c", "d", "e")
#: Addresses that adds may request: the last two of BLOCK and the last one of SPARE.
ASKED = ("10.244.1.6", "10.244.1.7", "10.244.1.15")
SABOTAGE = ("route", "link", "down", "sysctl", "blackhole", "foreign")


class Add(t.NamedTuple):
    name: str
    address: t.Optional[str] = None
    labels: tuple[tuple[str, str], ...] = ()


class Delete(t.NamedTuple):
    name: str


class Together(t.NamedTuple):
    """Calls at the same time. No name occurs twice."""

    calls: tuple[t.Union[Add, Delete], ...]


class Killed(t.NamedTuple):
    """A kill of the agent during simultaneous calls; the callers then retry.

    `moment` chooses the moment of the kill. On a fake kernel it is the number of earlier writes and failpoints, on the
    real kernel the index of a failpoint, or beyond these a random moment. The series of tests/unit/agent/series have
    other calls as well.
    """

    moment: int
    calls: tuple[t.Any, ...]


class Sabotage(t.NamedTuple):
    what: str
    which: int


def sabotage(kernel: Kernel, step: Sabotage, links: t.Iterable[str], routes: t.Iterable[str]) -> None:
    """Do `step.what` to the kernel; nothing if there is no object for it.

    `step.which` chooses the object: one of the host ends `links`, of the /32 destinations in `routes`, or of the
    blackholes of blocks. "foreign" needs none: it adds a route and a device. A refused route is ignored, and any other
    refusal raises KernelError.
    """
    ours = sorted(links)
    link = ours[step.which % len(ours)] if ours else None
    if step.what == "route":
        _delete_route(kernel, [route for route in sorted(routes) if route.endswith("/32")], step.which)
    elif step.what == "blackhole":
        _delete_route(kernel, [BLOCK, SPARE], step.which)
    elif step.what == "foreign":
        # An undesired route that is ours by its protocol number, and a foreign device.
        extra = RouteAttributes("blackhole", protocol=179)
        kernel.route_batch([RouteOperation("add", f"10.244.7.{step.which * 8}/29", extra)])
        if kernel.link("theirs0") is None:
            kernel.link_add(NewLink("theirs0", "bridge"))
    elif link is None:
        return
    elif step.what == "link":
        kernel.link_delete(link)
    elif step.what == "down":
        kernel.link_set(link, up=False)
    elif step.what == "sysctl":
        kernel.sysctl_write(f"net/ipv4/conf/{link}/proxy_arp", "0")


def _delete_route(kernel: Kernel, destinations: t.Sequence[str], which: int) -> None:
    found = dict(kernel.routes(table=254, protocol=179))
    there = [destination for destination in destinations if destination in found]
    if there:
        destination = there[which % len(there)]
        kernel.route_batch([RouteOperation("delete", destination, found[destination])])


class Restart(t.NamedTuple):
    """A kill of the agent while it has nothing to do, and its next start."""


class Resync(t.NamedTuple):
    pass


Call = t.Union[Add, Delete]
Step = t.Union[Call, Together, Killed, Sabotage, Restart, Resync]

_names = st.sampled_from(NAMES)
_adds = st.builds(Add, _names, st.none() | st.sampled_from(ASKED))
_calls = st.one_of(_adds, _adds, st.builds(Delete, _names))
_several = st.lists(_calls, min_size=1, max_size=4, unique_by=lambda call: call.name).map(tuple)


def steps(moments: int) -> st.SearchStrategy[Step]:
    """Return a strategy for one step. `moments` is the largest moment of a Killed."""
    return st.one_of(
        _calls,
        st.builds(Together, _several),
        st.builds(Killed, st.integers(0, moments), _several),
        st.builds(Sabotage, st.sampled_from(SABOTAGE), st.integers(0, 5)),
        st.just(Restart()),
        st.just(Resync()),
    )


class Model:
    """A model of the node: `standing` is {name: address} of all workloads that must be attached; no others may be."""

    def __init__(self) -> None:
        self.standing: dict[str, str] = {}

    def answered(self, call: Call, answer: t.Union[str, bool, None]) -> None:
        """Check the answer to a call against the model, and update the model.

        Raise AssertionError if they differ. `answer` is the address of an add, the result of a delete, or None for a
        conflict. Simultaneous calls that ask for an address may run in any order. Therefore a conflict is accepted from
        each call that asks for another address than the workload has.
        """
        have = self.standing.get(call.name)
        if isinstance(call, Delete):
            assert answer is (have is not None), (call, have)
            self.standing.pop(call.name, None)
        elif answer is None:
            assert call.address is not None and call.address != have, (call, have)
        else:
            assert isinstance(answer, str) and answer == (have or answer) == (call.address or answer), (call, have)
            assert answer not in {address for name, address in self.standing.items() if name != call.name}
            self.standing[call.name] = answer

    def tried_again(self, call: Call, answer: t.Union[str, bool, None]) -> None:
        """Check the answer to a repeated call, and update the model.

        The outcome of the first call is unknown, because the agent was killed: any answer to a delete is right. Raise
        AssertionError for a wrong answer to an add.
        """
        if isinstance(call, Delete):
            self.standing.pop(call.name, None)
            return
        self.answered(call, answer)
