# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of a workload that another node reports, and of the text that is shown of what a node answers."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import DefinedPort, Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers import endpoints, left_out
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.plain_data import to_plain

#: The longest text of an address, 39 characters.
LONGEST = "fd00:1111:1111:1111:1111:1111:1111:1111"
PORT = {"name": "http", "protocol": "tcp", "port": 80}


def workload(**fields: t.Any) -> dict[str, t.Any]:
    """Return one workload of node2 as a node reports it, with these fields replaced."""
    web = Endpoint("WorkloadEndpoint", "default/web", "node2", "caliweb", ("10.244.2.2",), (), (), (), "default")
    (plain,) = to_plain((web,))
    return {**plain, **fields}


def refusal(*told: t.Any, blocks: t.Optional[endpoints.OwnBlocks] = None) -> list[str]:
    """Return the sentences about the parts of an answer of node2 with these workloads that are left out.

    Without `blocks`, addresses need not be in the node's blocks.
    """
    return left_out.sentences(endpoints.read_endpoints("node2", list(told), blocks)[1])


@pytest.mark.parametrize(
    ("fits", "exceeds", "why"),
    [
        (
            {"name": "default/" + "w" * 223},
            {"name": "default/" + "w" * 224},
            "its name is not a text of at most 231 characters.",
        ),
        (
            {"name": "n" * 63 + "/web", "namespace": "n" * 63},
            {"name": "n" * 64 + "/web", "namespace": "n" * 64},
            f"its namespace {'n' * 64} is not a name that a namespace can have.",
        ),
        (
            {"interface": "i" * 15},
            {"interface": "i" * 16},
            "its interface iiiiiiiiiiiiiiii is not the name of an interface.",
        ),
        (
            {"addresses": [f"10.244.2.{number}" for number in range(16)]},
            {"addresses": [f"10.244.2.{number}" for number in range(17)]},
            "its addresses are not a list of 1 to 16.",
        ),
        ({"addresses": [LONGEST]}, {"addresses": [f"{LONGEST}1"]}, f"{LONGEST}1 is not a single address."),
        ({"addresses": ["10.244.2.2"]}, {"addresses": []}, "its addresses are not a list of 1 to 16."),
        (
            {"labels": {f"l{number}": "" for number in range(64)}},
            {"labels": {f"l{number}": "" for number in range(65)}},
            "its labels are not a table of at most 64.",
        ),
        (
            {"profiles": [f"p{number}" for number in range(16)]},
            {"profiles": [f"p{number}" for number in range(17)]},
            "its profiles are not a list of at most 16.",
        ),
        ({"profiles": ["p" * 253]}, {"profiles": ["p" * 254]}, f"{'p' * 77}... is not the name of a profile."),
        ({"ports": [PORT] * 64}, {"ports": [PORT] * 65}, "its ports are not a list of at most 64."),
        ({"ports": [{**PORT, "port": 1}]}, {"ports": [{**PORT, "port": 0}]}, "0 is not a port."),
        ({"ports": [{**PORT, "port": 65535}]}, {"ports": [{**PORT, "port": True}]}, "True is not a port."),
        ({}, {"ports": [{**PORT, "more": 1}]}, "one of its ports is not a name, a protocol and a port."),
        ({}, {"ports": ["http"]}, "one of its ports is not a name, a protocol and a port."),
    ],
)
def test_a_workload_of_another_node_has_limits(fits: dict[str, t.Any], exceeds: dict[str, t.Any], why: str) -> None:
    """A workload is read up to each limit, and left out just beyond it, with the reason."""
    assert refusal(workload(**fits)) == []
    (text,) = refusal(workload(**exceeds))
    assert text.endswith(f" is left out: {why}")


def test_the_rest_of_too_many_workloads_is_left_out() -> None:
    """A node may report 16,384 workloads; those after them are counted and left out."""
    dummy, all_read = endpoints.read_endpoints("node2", [None] * 16_384, None)
    assert {str(one).partition(" left out: ")[2] for one in all_read} == {"it is None."}
    dummy, odd = endpoints.read_endpoints("node2", [None] * 16_386, None)
    assert odd[:-1] == all_read
    assert str(odd[-1]) == (
        "node2: the rest of its workloads, 2 of them, is left out: a node tells of at most 16384 workloads."
    )


def test_a_workload_without_a_name_is_called_by_its_number() -> None:
    """A part that has no name is called by its number in the list, counted from 1."""
    assert refusal(workload(), None, workload(name="")) == [
        "node2: workload number 2 is left out: it is None.",
        "node2: workload number 3 is left out: its name is not its namespace, a '/' and the name of a workload.",
    ]


def test_an_address_lies_in_the_smallest_block_around_it() -> None:
    """The smallest of nested blocks owns an address, up to the last one in it, and a block has no host bits."""
    owners = endpoints.BlockOwners([("10.244.0.0/16", "wide"), ("10.244.2.0/26", "narrow"), ("fd00::/122", "six")])

    def owner(text: str) -> t.Optional[str]:
        address = endpoints.single_address(text)
        assert address is not None
        return owners.of(address)

    assert [owner(one) for one in ("10.244.2.0", "10.244.2.63", "10.244.2.64", "10.245.0.0")] == [
        "narrow",
        "narrow",
        "wide",
        None,
    ]
    assert [owner(one) for one in ("fd00::3f", "fd00::40")] == ["six", None]
    for text in ("10.244.2.1/26", "x", "fd00::1/122"):
        with pytest.raises(ValueError, match="is not a block"):
            endpoints.OwnBlocks([text])


@pytest.mark.parametrize("text", ["10.244.2.2/32", "010.244.2.2", "FD00::1", "fd00:0::1", "", " 10.244.2.2", 7, None])
def test_an_address_has_one_form(text: t.Any) -> None:
    """An address that is not written in its canonical form, or has a prefix length, is none."""
    assert endpoints.single_address(text) is None


@pytest.mark.parametrize(
    ("count", "last"),
    [
        (8, "node2: part 7 is left out: why."),
        (9, "node2: 1 more parts of its answer are left out."),
        (20, "node2: 12 more parts of its answer are left out."),
    ],
)
def test_eight_parts_of_a_node_are_named(count: int, last: str) -> None:
    """Eight parts of each node are named, and the others are counted if there are any."""
    parts = [left_out.LeftOut("node2", f"part {number}", "why.") for number in range(count)]
    found = left_out.sentences([*parts, left_out.LeftOut("node1", "a part", "why.")])
    assert found[0] == "node1: a part is left out: why."
    assert (len(found), found[-1]) == (1 + min(count, 9), last)


def test_a_port_is_read_with_its_protocol() -> None:
    """A named port of another node keeps its name, protocol and number."""
    found, odd = endpoints.read_endpoints("node2", [workload(ports=[PORT])], None)
    assert (odd, found[0].ports) == ((), (DefinedPort("http", "tcp", 80),))
