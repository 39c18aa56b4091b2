# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node: what it says about the addresses that hosts have, or had before."""

from __future__ import annotations

import copy
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import targets

from tests.integration.attacks import hostile_answers as answers
from tests.integration.attacks.node.test_another_node import NODES, inventory, lockfile_nodes
from tests.unit.fleet import fleets
from tests.unit.plugin_utils import controller

LIAR, MOVED = "node3", "node2"
EARLIER = {"node2": "10.10.1.62/24", "node3": "10.10.2.63/24"}
FOREIGN = "192.0.2.66"
PHASES = (
    "node3 says that it is in a change of mode, MTU, sessions or addresses, and the other nodes are not: brought to "
    "the plan without phases."
)

Data = dict[str, t.Any]


def fleet(**addresses: str) -> dict[str, NodeState]:
    """Return the states of three nodes after a first run, by name, some of them with these addresses (CIDR)."""
    nodes = {name: addresses.get(name, fleets.LAB[name]) for name in NODES}
    return fleets.states(fleets.build(fleets.pool("ipip"), nodes=nodes, workloads=[]))


def told(states: t.Mapping[str, NodeState], held: t.Mapping[str, t.Sequence[str]] = {}) -> dict[str, Data]:
    """Return the nodes' answers, {name: {"seen": answer}}, in which hosts have the addresses `held` on eth0."""
    found = {}
    for name, state in states.items():
        own = held.get(name, [state.address])
        found[name] = {"seen": {**answers.node_info(state), "preflight": {"addresses": {"eth0": list(own)}}}}
    return found


def accepted(result: Data) -> dict[str, tuple[str, ...]]:
    """Return the addresses from which each node is to accept IPIP, by the targets of a run."""
    found = targets.load(result["path"])
    sets = {name: found.state(name).ipsets for name in NODES}
    return {
        name: next(one.members for one in ipsets if one.name == firewall.ALL_HOSTS[4]) for name, ipsets in sets.items()
    }


def run(folder: pathlib.Path, seen: dict[str, Data]) -> Data:
    """Return the result of the action fleet for these answers, in an inventory with the lab's addresses."""
    (result,) = controller.run([controller.Run("fleet", {"observed": "seen"}, inventory(folder), seen)])
    assert "exception" not in result, result["exception"]
    assert not result.get("failed"), result
    return t.cast(Data, result)


def _own_list(state: Data) -> None:
    for member in state["nodes"]:
        if member["name"] == LIAR:
            member["address"] = EARLIER[LIAR]
    state["address"] = EARLIER[LIAR]


def _list_of_another(state: Data) -> None:
    for member in state["nodes"]:
        if member["name"] == MOVED:
            member["address"] = EARLIER[MOVED]


LIES: dict[str, tuple[t.Callable[[Data], t.Any], list[str]]] = {
    "its own address": (lambda state: state.update(address=EARLIER[LIAR]), []),
    "its own address, in its list too": (_own_list, [PHASES]),
    "the address of another node": (_list_of_another, []),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_node_alone_starts_no_change_of_addresses(tmp_path: pathlib.Path, lie: str) -> None:
    """Report another address than the inventory's as its own in the stored state, or as another node's.

    Gain: Phases of a change for all nodes, as often as the attacker likes.
    Precedent: CWE-345, CWE-400.
    Closed: 0.3.0
    Result: Phases need the word of the node with the new address, and of more than half of the nodes. The plan of all
    nodes is the same as with honest answers.
    """
    change, warnings = LIES[lie]
    honest = told(fleet())
    lying = copy.deepcopy(honest)
    change(lying[LIAR]["seen"]["state"])
    expected, found = run(tmp_path / "honest", honest), run(tmp_path / "lying", lying)
    assert (found["change"], found["hold"], found["warnings"]) == (False, False, warnings)
    assert found["plan"] == expected["plan"]
    assert lockfile_nodes(tmp_path / "lying") == lockfile_nodes(tmp_path / "honest")


def test_a_node_alone_has_no_address_accepted(tmp_path: pathlib.Path) -> None:
    """Claim an address on its interfaces, and that its own set of hosts from which it accepts IPIP has it.

    Gain: All nodes accept encapsulated packets from a host that is no node, as if it were one.
    Precedent: CWE-290, CWE-345.
    Closed: 0.3.0
    Result: An earlier address is accepted only if more than half of the nodes accept it already. The plan is the same
    as with honest answers.
    """
    states = fleet()
    honest = told(states)
    lying = told(states, {LIAR: [states[LIAR].address, f"{FOREIGN}/32", states["node1"].address]})
    for one in lying[LIAR]["seen"]["state"]["ipsets"]:
        if one["name"] == firewall.ALL_HOSTS[4]:
            one["members"].append(FOREIGN)
    expected, found = run(tmp_path / "honest", honest), run(tmp_path / "lying", lying)
    assert accepted(found) == accepted(expected)
    assert FOREIGN not in str(accepted(found))
    assert (found["plan"], found["change"], found["warnings"]) == (expected["plan"], False, [])


def test_an_earlier_address_stays_accepted_while_a_node_claims_it(tmp_path: pathlib.Path) -> None:
    """Claim the earlier address of another node, which its host no longer has.

    Gain: All nodes go on to accept IPIP from that address, which may be another host's by now.
    Precedent: CWE-345.
    Closed: 0.3.0
    Result: This succeeds for addresses that nodes had, and for no others. Each run names the claiming node, until it
    no longer claims the address or is removed. The claiming node can send such packets from its own address as well.
    """
    before = fleet(node2=EARLIER[MOVED])
    earlier = EARLIER[MOVED].partition("/")[0]
    lying = told(before, {MOVED: [fleets.LAB[MOVED]], LIAR: [fleets.LAB[LIAR], EARLIER[MOVED]]})
    found = run(tmp_path / "lying", lying)
    assert {earlier in members for members in accepted(found).values()} == {True}
    assert found["warnings"] == [
        f"node3 still has its earlier address {earlier}, and IPIP may leave with it: all nodes accept that. Remove it "
        "from the host, and run again."
    ]
    honest = run(tmp_path / "honest", told(before, {MOVED: [fleets.LAB[MOVED]]}))
    assert earlier not in str(accepted(honest)) and honest["warnings"] == []


def test_addresses_that_cannot_be_read_count_as_none(tmp_path: pathlib.Path) -> None:
    """Report addresses of interfaces as other types, with terminal escapes, or 100,000 of them.

    Gain: No run for any node, or the attacker's text in a warning about another node.
    Precedent: CWE-20, CWE-117, CWE-400.
    Closed: 0.3.0
    Result: The host counts as one without earlier addresses. The plan is the same as with honest answers.
    """
    honest = told(fleet())
    expected = run(tmp_path / "honest", honest)
    many = {f"eth{number}": [f"10.{number >> 8}.{number & 255}.1/24"] for number in range(5000)}
    for number, preflight in enumerate(
        [
            "text",
            7,
            {"addresses": [1]},
            {"addresses": {"eth0": "10.10.1.99"}},
            {"addresses": {"eth0": ["\x1b[2J" * 40]}},
            {"addresses": many},
            {"addresses": {"eth0": [{"a": 1}]}},
        ]
    ):
        lying = copy.deepcopy(honest)
        lying[LIAR]["seen"]["preflight"] = preflight
        found = run(tmp_path / f"lying {number}", lying)
        assert (found["plan"], found["change"], found["warnings"]) == (expected["plan"], False, [])


def _probes(**probes: str) -> t.Callable[[Data], t.Any]:
    def change(state: Data) -> None:
        state["ipam"]["generation"] += 1
        state["ipam"]["probes"] = {**probes}

    return change


def _probes_of_all(address: str) -> t.Callable[[Data], t.Any]:
    def change(state: Data) -> None:
        for member in state["nodes"]:
            member["probes"] = [address]

    return change


UNREADABLE = (
    "stored state of node3 cannot be read: {}. It was written by another release of this collection: use that release, "
    "or remove /var/lib/calico/state.json on the node if its workloads may be planned anew."
)
PROBES: dict[str, tuple[t.Callable[[Data], t.Any], str]] = {
    "that of another node": (_probes(default="{of node1}"), ""),
    "one of no pool": (_probes(public="{of node3}", default=FOREIGN), ""),
    "one that is none": (
        _probes(default="web; reboot"), "ipam.probes has web; reboot, which is not an IP address"
    ),
    "ten thousand": (_probes(**{f"pool-{n}": FOREIGN for n in range(10_000)}), "ipam.probes is more than 1024"),
    "a foreign one for all nodes": (_probes_of_all(FOREIGN), ""),
    "none for all nodes": (_probes_of_all("web; reboot"), "nodes probes is web; reboot, no single address"),
}  # fmt: skip


@pytest.mark.parametrize("lie", PROBES)
def test_a_node_alone_moves_no_probe_endpoint(tmp_path: pathlib.Path, lie: str) -> None:
    """Report other addresses as those of its probe endpoint, or of all nodes' probe endpoints.

    Gain: All nodes send probes to a host of the attacker's choice, another node loses its address, or no run is made.
    Precedent: CWE-20, CWE-345.
    Closed: 0.3.0
    Result: An address outside of the node's own blocks of the pool is left out, and a list of nodes counts for nobody
    else. A state that cannot be read is named. The plan of all nodes is the same as with honest answers.
    """
    change, refusal = PROBES[lie]
    states = fleet()
    honest = told(states)
    lying = copy.deepcopy(honest)
    change(lying[LIAR]["seen"]["state"])
    own = lying[LIAR]["seen"]["state"]["ipam"]["probes"]
    for pool, address in own.items():
        own[pool] = {f"{{of {name}}}": state.ipam.probes["default"] for name, state in states.items()}.get(
            address, address
        )
    expected, found = run(tmp_path / "honest", honest), run(tmp_path / "lying", lying)
    assert found["plan"] == expected["plan"]
    assert lockfile_nodes(tmp_path / "lying") == lockfile_nodes(tmp_path / "honest")
    newer = "node3 says that it runs generation 2, "
    warnings = [text for text in found["warnings"] if not text.startswith(newer)]
    assert warnings == ([UNREADABLE.format(refusal)] if refusal else [])
    assert all(state.ipam.probes for state in states.values())
