# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lockfile: its text, its content, and the words of every refusal."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam import lockfile
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import (
    AllocationPlan,
    BlockGrant,
    NodeAllocations,
    PlannedPool,
    QuarantinedBlock,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.lockfile import LockfileError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PLAN = AllocationPlan(
    generation=7,
    pools={"main": PlannedPool("10.244.0.0/16", 26), "six": PlannedPool("fd00::/64", 122)},
    nodes={
        "node1": NodeAllocations(
            (BlockGrant("10.244.3.0/26", "main"), BlockGrant("fd00::40/122", "six")),
            (BlockGrant("10.244.3.64/26", "main"),),
            {"vxlan": "10.244.3.1", "ipip": "10.244.3.0", "vxlan6": "fd00::40"},
            {"web-1": "10.244.3.2", "db": "10.244.3.3"},
            {"db": "fd00::41"},
            {"six": "fd00::7f", "main": "10.244.3.63"},
        ),
        "on": NodeAllocations(),
    },
    quarantine=(
        QuarantinedBlock("10.244.9.0/26", "main", "node9", 6),
        QuarantinedBlock("10.244.9.64/26", "main", "node9", 6, True),
    ),
)

TEXT = """\
# Who owns which block of addresses: the plan that baremetal.host_routing keeps of this inventory's nodes.
# It is written before any host changes. Commit it with the inventory; do not edit it.
# If it is lost or older than what the nodes run, the next run over all nodes rebuilds it from their copies.
---
version: 1
generation: 7
pools:
  main: {cidr: 10.244.0.0/16, blockSize: 26}
  six: {cidr: "fd00::/64", blockSize: 122}
nodes:
  node1:
    blocks:
      - {cidr: 10.244.3.0/26, pool: main}
      - {cidr: "fd00::40/122", pool: six}
    spareBlocks:
      - {cidr: 10.244.3.64/26, pool: main}
    tunnels:
      ipip: 10.244.3.0
      vxlan: 10.244.3.1
      vxlan6: "fd00::40"
    workloads:
      db: 10.244.3.3
      web-1: 10.244.3.2
    workloads6:
      db: "fd00::41"
    probes:
      main: 10.244.3.63
      six: "fd00::7f"
  "on": {}
quarantine:
  - {cidr: 10.244.9.0/26, pool: main, node: node9, generation: 6}
  - {cidr: 10.244.9.64/26, pool: main, node: node9, generation: 6, spare: true}
"""

RESTORE = (
    "Restore it from version control, or move it away: a run that reaches all nodes rebuilds it from their copies."
)


def test_a_plan_is_dumped_as_the_expected_text() -> None:
    assert lockfile.dump(PLAN) == TEXT


def test_the_text_of_nothing() -> None:
    assert lockfile.dump(AllocationPlan()).endswith(
        "---\nversion: 1\ngeneration: 0\npools: {}\nnodes: {}\nquarantine: []\n"
    )
    assert lockfile.load(lockfile.dump(AllocationPlan())) == AllocationPlan()


def test_encapsulations_of_pools_are_stored_and_optional() -> None:
    knowing = dataclasses.replace(PLAN, encapsulations={"main": "VXLANCrossSubnet"})
    text = TEXT.replace("blockSize: 26}", "blockSize: 26, encapsulation: VXLANCrossSubnet}")
    assert lockfile.dump(knowing) == text
    assert lockfile.load(text) == knowing
    assert lockfile.load(TEXT).encapsulations == {}
    assert lockfile.load(text.replace("VXLANCrossSubnet", "None")).encapsulations == {"main": "None"}
    assert knowing.same_content(PLAN)


def test_a_plan_without_probe_endpoints_has_no_such_key() -> None:
    part = dataclasses.replace(PLAN.nodes["node1"], probes={})
    text = TEXT.replace('    probes:\n      main: 10.244.3.63\n      six: "fd00::7f"\n', "")
    assert lockfile.dump(dataclasses.replace(PLAN, nodes={**PLAN.nodes, "node1": part})) == text
    assert lockfile.load(text).nodes["node1"].probes == {}


def test_ten_thousand_probe_endpoints_are_refused_at_the_first_unknown_pool() -> None:
    document = lockfile.to_document(PLAN)
    document["nodes"]["on"] = {"probes": {f"pool-{number}": "10.244.3.9" for number in range(10_000)}}
    with pytest.raises(LockfileError) as caught:
        lockfile.from_document(document, "lock")
    assert caught.value.rule == "names pool pool-0 at nodes.on.probes.pool-0, which is not among its pools."


def test_the_text_and_the_document_give_the_plan_back() -> None:
    assert lockfile.load(TEXT) == PLAN
    assert lockfile.from_document(lockfile.to_document(PLAN)) == PLAN
    assert yaml.safe_load(TEXT) == lockfile.to_document(PLAN)


def test_the_text_does_not_depend_on_the_order_in_the_plan() -> None:
    turned = AllocationPlan(
        PLAN.generation,
        dict(reversed(PLAN.pools.items())),
        dict(reversed(PLAN.nodes.items())),
        PLAN.quarantine,
    )
    assert lockfile.dump(turned) == TEXT


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.one_of(
            st.sampled_from(
                ["yes", "No", "null", "1", "1.5", "0x1", "1e3", "~", "a: b", "a #b", "- a", "{a}", "2026-01-01"]
            ),
            st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=63),
            st.text(st.characters(blacklist_categories=("Cs",), max_codepoint=0xFFFF), min_size=1, max_size=63),
        ),
        st.sampled_from(["10.244.3.5", "10.244.3.6"]),
        max_size=1,
    )
)
def test_names_of_every_kind_come_back_as_they_were(workloads: dict[str, str]) -> None:
    part = NodeAllocations((BlockGrant("10.244.3.0/26", "main"),), workloads=workloads)
    found = AllocationPlan(1, {"main": PlannedPool("10.244.0.0/16", 26)}, {"node1": part})
    assert lockfile.load(lockfile.dump(found)) == found


def changed(path: str, value: t.Any = None) -> dict[str, t.Any]:
    """Return PLAN's document with the place at the dotted `path` changed to `value`; the value "del" removes it.

    A new last key of a mapping is added. Raise KeyError or IndexError if the document lacks anything else of the path,
    or what is to be removed.
    """
    document = copy.deepcopy(lockfile.to_document(PLAN))
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    place: t.Any = document
    for step in way:
        place = place[step]
    if value == "del":
        del place[last]
    else:
        place[last] = value
    return document


BROKEN = {
    "not a mapping": (["a"], "is not a mapping of version, generation, pools, nodes and quarantine."),
    "empty": (None, "is empty."),
    "no version": (changed("version", "del"), None),
    "version": (changed("version", 2), None),
    "version is text": (changed("version", "1"), None),
    "no generation": (changed("generation", "del"), "has a wrong field: generation is missing."),
    "generation is text": (
        changed("generation", "7"),
        "has a wrong field: generation is 7, not a whole number from 0 to 9007199254740992.",
    ),
    "generation is true": (
        changed("generation", True),
        "has a wrong field: generation is True, not a whole number from 0 to 9007199254740992.",
    ),
    "generation below zero": (
        changed("generation", -1),
        "has a wrong field: generation is -1, not a whole number from 0 to 9007199254740992.",
    ),
    "unknown field": (
        changed("pool", {}),
        "has a wrong field: pool is not known. There are: version, generation, pools, nodes, quarantine.",
    ),
    "nodes is a list": (changed("nodes", []), "has a wrong field: nodes is a list, not a table of at most 131072."),
    "unknown field of a node": (
        changed("nodes.node1.block", []),
        "has a wrong field: nodes.node1.block is not known. There are: blocks, spareBlocks, tunnels, workloads, "
        "workloads6, probes.",
    ),
    "node is nothing": (changed("nodes.node1", None), "has a wrong field: nodes.node1 is None, not a table."),
    "node named with a number": (
        {"version": 1, "generation": 7, "nodes": {5: {}}},
        "has a wrong field: nodes.5 is 5, not a text of 1 to 4096 characters.",
    ),
    "workload without a name": (
        changed("nodes.node1.workloads.", "10.244.3.4"),
        "has a wrong field: nodes.node1.workloads.'' is '', not a text of 1 to 4096 characters.",
    ),
    "length of a block": (
        changed("pools.main.blockSize", 129),
        "has a wrong field: pools.main.blockSize is 129, not a whole number from 0 to 128.",
    ),
    "quarantine is spare": (
        changed("quarantine.1.spare", "yes"), "has a wrong field: quarantine[1].spare is yes, not true or false.",
    ),
    "unknown field of a block": (
        changed("nodes.node1.blocks.0.size", 26),
        "has a wrong field: nodes.node1.blocks[0].size is not known. There are: cidr, pool.",
    ),
    "block without its pool": (
        changed("nodes.node1.blocks.0.pool", "del"), "has a wrong field: nodes.node1.blocks[0].pool is missing.",
    ),
    "block of an unknown pool": (
        changed("nodes.node1.blocks.0.pool", "mian"),
        "names pool mian at nodes.node1.blocks[0], which is not among its pools.",
    ),
    "block outside its pool": (
        changed("nodes.node1.blocks.0.cidr", "10.245.0.0/26"),
        "has block 10.245.0.0/26 at nodes.node1.blocks[0], which lies outside pool main.",
    ),
    "block of another size": (
        changed("nodes.node1.blocks.0.cidr", "10.244.3.0/27"),
        "has block 10.244.3.0/27 at nodes.node1.blocks[0], but blocks of pool main are /26.",
    ),
    "block misaligned": (
        changed("nodes.node1.blocks.0.cidr", "10.244.3.32/26"),
        "has a wrong block at nodes.node1.blocks[0]: '10.244.3.32/26' has bits set behind its prefix.",
    ),
    "block unreadable": (
        changed("nodes.node1.spareBlocks.0.cidr", "10.244.3/26"),
        "has a wrong block at nodes.node1.spareBlocks[0]: '10.244.3' is not an IP address.",
    ),
    "block of two nodes": (
        changed("nodes.on.blocks", [{"cidr": "10.244.3.64/26", "pool": "main"}]),
        "has block 10.244.3.64/26 twice, at node1 and at on.",
    ),
    "block open and spare": (
        changed("nodes.node1.spareBlocks.0.cidr", "10.244.3.0/26"), "has block 10.244.3.0/26 twice, at node1.",
    ),
    "block in quarantine and in use": (
        changed("quarantine.0.cidr", "10.244.3.0/26"),
        "has block 10.244.3.0/26 twice, at node1 and at quarantine (of node9).",
    ),
    "bad pool": (
        changed("pools.main.blockSize", 12),
        "has a wrong pool at pools.main: blocks of /12 cannot be cut from 10.244.0.0/16.",
    ),
    "how a pool is run": (
        changed("pools.main.encapsulation", "GRE"),
        "has a wrong field: pools.main.encapsulation is GRE, not one of IPIP, IPIPCrossSubnet, VXLAN, "
        "VXLANCrossSubnet, None.",
    ),
    "kind of tunnel": (
        changed("nodes.node1.tunnels.gre", "10.244.3.7"),
        "has a wrong field: nodes.node1.tunnels.gre is not known. There are: ipip, vxlan, vxlan6.",
    ),
    "tunnel address outside": (
        changed("nodes.node1.tunnels.ipip", "10.244.3.64"),
        "has address 10.244.3.64 at nodes.node1.tunnels.ipip, which lies in none of the node's blocks.",
    ),
    "address of a tunnel and a workload": (
        changed("nodes.node1.workloads.web-1", "10.244.3.1"),
        "has address 10.244.3.1 twice, at nodes.node1.tunnels.vxlan and at nodes.node1.workloads.web-1.",
    ),
    "address of two workloads": (
        changed("nodes.node1.workloads.web-2", "10.244.3.2"),
        "has address 10.244.3.2 twice, at nodes.node1.workloads.web-1 and at nodes.node1.workloads.web-2.",
    ),
    "address unreadable": (
        changed("nodes.node1.workloads.web-1", "10.244.3.2/32"),
        "has a wrong address at nodes.node1.workloads.web-1: '10.244.3.2/32' is not an IP address.",
    ),
    "address is a number": (
        changed("nodes.node1.workloads.web-1", 10.2),
        "has a wrong field: nodes.node1.workloads.web-1 is 10.2, not a text of at most 4096 characters.",
    ),
    "IPv4 address among those of IPv6": (
        changed("nodes.node1.workloads6.db", "10.244.3.9"),
        "has address 10.244.3.9 at nodes.node1.workloads6.db, where an IPv6 address should stand.",
    ),
    "IPv6 address among those of IPv4": (
        changed("nodes.node1.workloads.web-1", "fd00::9"),
        "has address fd00::9 at nodes.node1.workloads.web-1, where an IPv4 address should stand.",
    ),
    "IPv4 address of a tunnel of IPv6": (
        changed("nodes.node1.tunnels.vxlan6", "10.244.3.9"),
        "has address 10.244.3.9 at nodes.node1.tunnels.vxlan6, where an IPv6 address should stand.",
    ),
    "workload on two nodes": (
        changed("nodes.on", {
            "blocks": [{"cidr": "10.244.7.0/26", "pool": "main"}], "workloads": {"web-1": "10.244.7.1"},
        }),
        "has workload web-1 twice, at node1 and at on.",
    ),
    "workload of IPv6 on two nodes": (
        changed("nodes.on", {
            "blocks": [{"cidr": "fd00::80/122", "pool": "six"}], "workloads6": {"db": "fd00::81"},
        }),
        "has workload db twice, at node1 and at on.",
    ),
    "probe endpoint outside of the node's blocks": (
        changed("nodes.node1.probes.main", "10.244.7.63"),
        "has address 10.244.7.63 at nodes.node1.probes.main, which lies in none of the node's blocks.",
    ),
    "probe endpoint in a spare block": (
        changed("nodes.node1.probes.main", "10.244.3.127"),
        "has address 10.244.3.127 at nodes.node1.probes.main, which lies in none of the node's blocks.",
    ),
    "probe endpoint in another node's block": (
        changed("nodes.on", {
            "blocks": [{"cidr": "10.244.7.0/26", "pool": "main"}], "probes": {"main": "10.244.3.62"},
        }),
        "has address 10.244.3.62 at nodes.on.probes.main, which lies in none of the node's blocks.",
    ),
    "probe endpoint in a block of another pool": (
        changed("nodes.node1.probes.main", "fd00::7e"),
        "has address fd00::7e at nodes.node1.probes.main, where an IPv4 address should stand.",
    ),
    "probe endpoint in a pool that is not there": (
        changed("nodes.node1.probes.public", "10.244.3.60"),
        "names pool public at nodes.node1.probes.public, which is not among its pools.",
    ),
    "probe endpoint with a workload's address": (
        changed("nodes.node1.probes.main", "10.244.3.3"),
        "has address 10.244.3.3 twice, at nodes.node1.workloads.db and at nodes.node1.probes.main.",
    ),
    "probe endpoint with a tunnel's address": (
        changed("nodes.node1.probes.six", "fd00::40"),
        "has address fd00::40 twice, at nodes.node1.tunnels.vxlan6 and at nodes.node1.probes.six.",
    ),
    "probe endpoint without an address": (
        changed("nodes.node1.probes.main", "no address"),
        "has a wrong address at nodes.node1.probes.main: 'no address' is not an IP address.",
    ),
    "quarantine without its node": (
        changed("quarantine.1.node", "del"), "has a wrong field: quarantine[1].node is missing.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_lockfile_is_refused_with_rule_and_remedy(name: str) -> None:
    document, rule = BROKEN[name]
    remedy = RESTORE
    if rule is None:
        version = document.get("version")
        rule = f"has version {version!r}; this release reads version 1."
        remedy = "Use the release of the collection that wrote it, or restore the file from version control."
    with pytest.raises(LockfileError) as caught:
        lockfile.from_document(document, "inventories/lab/.calico.lock.yml")
    assert str(caught.value) == f"lockfile inventories/lab/.calico.lock.yml {rule} {remedy}"


def refusal(text: str) -> str:
    with pytest.raises(LockfileError) as caught:
        lockfile.load(text, "lock")
    return str(caught.value)


def test_an_empty_file_is_refused() -> None:
    assert refusal("# nothing\n") == f"lockfile lock is empty. {RESTORE}"


def test_invalid_yaml_is_refused_with_its_line() -> None:
    text = refusal(TEXT.replace("tunnels:\n", "tunnels: [\n"))
    assert text.startswith("lockfile lock cannot be read as YAML: ")
    assert text.endswith(f"(line 19). {RESTORE}")


def test_a_lockfile_beyond_the_limits_of_a_document_is_refused_with_its_line() -> None:
    """A lockfile that nests too deeply is refused with its line, and one over 64 MiB without a line."""
    text = refusal(TEXT + "more: " + "[" * 300 + "]" * 300 + "\n")
    line = TEXT.count("\n") + 1
    assert text.endswith(f"(line {line}). {RESTORE}")
    assert "(line" not in refusal("x" * (64 * 2**20 + 1))


def test_an_unfinished_merge_is_refused() -> None:
    ours = "  node3: {}\n"
    merge = f"<<<<<<< HEAD\n{ours}=======\n  node4: {{}}\n>>>>>>> branch\n"
    line = TEXT.partition("quarantine:\n")[0].count("\n") + 1
    assert refusal(TEXT.replace("quarantine:\n", f"{merge}quarantine:\n")) == (
        f"lockfile lock has marks of a merge that was not finished (line {line}). Take either side whole (git checkout "
        "--ours lock), then run playbooks/site.yml without --limit: it brings the file up to date from the nodes' "
        "copies."
    )


def test_a_duplicate_key_is_refused() -> None:
    assert refusal(TEXT.replace('"on": {}', "node1: {}")) == f"lockfile lock has node1 twice (line 29). {RESTORE}"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text())
def test_no_text_ends_in_another_error(text: str) -> None:
    try:
        lockfile.load(text, "lock")
    except LockfileError as error:
        assert error.remedy
