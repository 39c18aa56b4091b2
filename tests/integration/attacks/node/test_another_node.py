# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import endpoint_sync
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam import lockfile
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.plain_data import to_plain
from ansible_collections.baremetal.host_routing.plugins.modules import remote_endpoints, remote_endpoints_info
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import targets

from tests.integration.attacks import hostile_answers as answers
from tests.integration.modules.conftest import host as host
from tests.unit.fleet import fleets
from tests.unit.plugin_utils import controller

WHEN = "2026-11-22T06:00:00Z"
NODES = ["node1", "node2", "node3"]
POLICY = {
    "kind": "NetworkPolicy",
    "name": "db",
    "selector": "app == 'db'",
    "ingress": [{"action": "Allow", "source": {"selector": "app == 'app'"}}],
}
BLOCK, BLOCK6 = "10.244.200.0/26", "fd00:10:244:c8::/122"
APP, APP6 = "10.244.200.2", "fd00:10:244:c8::2"


@pytest.fixture
def victim(host: t.Any) -> t.Any:
    """A node with a workload that policy protects: only workloads with the label app=app reach it.

    Its `state` is the stored one.
    """
    state = fleets.states(
        fleets.build(
            fleets.pool("direct"),
            fleets.pool("direct", "six", "fd00:10:244::/48", blockSize=122),
            nodes={"node1": "10.10.1.11/24"},
            own={"node1": {"calico_node_address_ipv6": "fd00:10:10:1::11/64"}},
            workloads=[{"name": "db", "node": "node1", "labels": {"app": "db"}}],
            policies=[POLICY],
        )
    )["node1"]
    for words in ("-6 address add fd00:10:10:1::11/64 dev eth0 nodad", "-6 route add default via fd00:10:10:1::1"):
        assert host.kernel.run(["ip", *words.split()]).code == 0
    Store(host.machine.store).save(Stored(state, complete=True))
    assert command.main(["apply"], host.machine) == 0
    host.state = state
    return host


def sources(victim: t.Any) -> set[str]:
    """Return the members, with their options (`nomatch`), of the kernel's sets of allowed sources, both IP versions."""
    saved = victim.kernel.run(["ipset", "save"]).output.splitlines()
    return {line.split(" ", 2)[2] for line in saved if line.startswith(("add cali40s:", "add cali60s:"))}


def told(*endpoints: t.Any, blocks: t.Optional[t.Sequence[str]] = (BLOCK, BLOCK6)) -> dict[str, t.Any]:
    """Return a report about node2, {"node2": ...}, as a controller that checks nothing would send it to node1.

    With `blocks` None it has no blocks, as a controller of another release may send it.
    """
    content = [one if isinstance(one, dict) else to_plain(one) for one in endpoints]
    entry: dict[str, t.Any] = {"collected": WHEN, "endpoints": content}
    return {"node2": {**entry, "blocks": list(blocks)} if blocks is not None else entry}


def workload(address: t.Any, name: str = "app", **fields: t.Any) -> dict[str, t.Any]:
    """Return a workload of node2, as a dictionary, with the label that the rule allows.

    `address` is one address or the list of all; `fields` replace other fields or add some. Nothing is checked.
    """
    plain = t.cast("dict[str, t.Any]", to_plain(answers.endpoint("node2", "", name, app="app")))
    return {**plain, "addresses": address if isinstance(address, list) else [address], **fields}


def port(name: str, protocol: str, number: t.Any) -> dict[str, t.Any]:
    """Return a named port in the form in which a node reports it."""
    return {"name": name, "protocol": protocol, "port": number}


def take(victim: t.Any, content: dict[str, t.Any]) -> list[str]:
    """Send the report `content` to the node; return the texts of its warnings.

    Raise AssertionError if the module fails.
    """
    answer = victim.run(remote_endpoints, told=content, nodes=NODES)
    assert not answer.get("failed"), answer
    return list(answer.get("warnings", ()))


def boot(victim: t.Any) -> None:
    """Remove all rules of the filter tables, and run the boot unit's command; raise AssertionError if it fails."""
    victim.kernel.run(["iptables", "-F"])
    victim.kernel.run(["ip6tables", "-F"])
    assert command.main(["apply"], victim.machine) == 0


def test_a_line_break_in_an_address_is_no_command(victim: t.Any, tmp_path: pathlib.Path) -> None:
    """Insert an ipset command into another node through a line break in an endpoint's address.

    Gain: Root on every other node: `save -file` of ipset writes any file, and the boot unit repeats it at each boot.
    Precedent: CWE-93 (line breaks in the input of another program).
    Closed: 0.2.0
    Result: The endpoint is left out and named with its node. A valid endpoint beside it is used.
    """
    written = tmp_path / "written-by-ipset"
    for address, good in ((f"10.244.200.3\nsave -file {written}", APP), (f"fd00::3\nsave -file {written}", APP6)):
        assert take(victim, told(workload(address, "evil"), workload(good))) == [
            f"node2: workload default/evil is left out: {ascii(address)[:77]}"
            f"{'...' if len(ascii(address)) > 80 else ascii(address)[77:]} is not a single address."
        ]
        boot(victim)
        assert sources(victim) == {good} and not written.exists()


NO_ADDRESSES = (
    "0.0.0.0/0", "::/0", "10.244.200.0/26", f"{APP} nomatch", f"{APP} timeout 1", f"{APP},tcp:80", "0.0.0.0", f" {APP}",
    "10.244.200.02", "::ffff:10.244.200.2", f"{APP6}%eth0", 7, None, [APP], {"a": APP}, "٢.٢.٢.٢", "",
)  # fmt: skip


def test_an_invalid_address_widens_no_rule(victim: t.Any) -> None:
    """Report a workload with a range, an address and an ipset option, or a number as its address.

    Gain: A rule that matches all packets, or a member of a set that no repair removes.
    Precedent: CWE-88.
    Closed: 0.2.0
    Result: the endpoint is left out and named with its node.
    """
    for address in NO_ADDRESSES:
        (warning,) = take(victim, told(workload([address], "evil"), workload(APP)))
        assert warning.startswith("node2: workload default/evil is left out: "), address
        assert sources(victim) == {APP}, address
    boot(victim)
    assert sources(victim) == {APP}


def test_a_node_speaks_for_its_own_addresses_alone(victim: t.Any) -> None:
    """Report workloads with addresses of another node's block, of a host, or of the receiving node.

    Gain: Labels that rules allow, for packets of any source.
    Precedent: CWE-345.
    Closed: 0.2.0
    Result: Each is left out and named. The controller sends the reporting node's blocks along, and the receiving node
    checks them again. If a report has no blocks, addresses of hosts, outside of all pools, and in the receiving node's
    blocks are left out.
    """
    own = victim.state.ipam.blocks[0].cidr.rpartition("/")[0]
    foreign = ("10.244.7.7", "10.10.1.11", "8.8.8.8", "fd00:10:244:77::1", own)
    content = told(*(workload(address, f"w{n}") for n, address in enumerate(foreign)), workload(APP))
    assert take(victim, content) == [
        f"node2: workload default/w{n} is left out: its address {address} lies in none of the node's blocks."
        for n, address in enumerate(foreign)
    ]
    assert sources(victim) == {APP}
    # A report from a controller of another release may have no blocks.
    content = told(*(workload(address, f"w{n}") for n, address in enumerate(foreign)), workload(APP), blocks=None)
    left_out = take(victim, content)
    assert [line.partition(" is left out: ")[2] for line in left_out] == [
        "its address 10.10.1.11 is that of a node.",
        "its address 8.8.8.8 lies in no pool.",
        f"its address {own} lies in a block of node1.",
    ]


def test_a_report_stored_by_an_older_release_is_checked_at_boot(victim: t.Any, tmp_path: pathlib.Path) -> None:
    """Send a hostile report to a release that stores it unchecked, and wait until the upgraded node boots.

    Gain: Root, again at each boot.
    Precedent: CWE-93.
    Closed: 0.2.0
    Result: The boot unit leaves it out, the node reports it, and the next sync rewrites the file.
    """
    written = tmp_path / "written-by-ipset"
    path = pathlib.Path(victim.machine.store, "remote-endpoints.json")
    evil = [workload(f"10.244.200.3\nsave -file {written}", "one"), workload("0.0.0.0/0", "two")]
    evil += [workload(f"{APP} nomatch", "three"), workload("10.10.1.11", "four"), workload(APP)]
    path.write_text(json.dumps({"complete": True, "nodes": told(*evil, blocks=None)}))
    boot(victim)
    assert sources(victim) == {APP} and not written.exists()
    (warning,) = victim.run(remote_endpoints_info)["warnings"]
    assert warning.startswith(f"{path} has workloads of other nodes that are not taken. node2: workload default/one ")
    assert victim.run(remote_endpoints, told=told(workload(APP)), nodes=NODES)["changed"] is True
    assert "nomatch" not in path.read_text() and "warnings" not in victim.run(remote_endpoints_info)


def test_exception_that_an_older_release_left_in_a_set_is_removed(victim: t.Any) -> None:
    """Leave a `nomatch` member in the kernel's IP set, which ipset does not delete with a plain `del`.

    Gain: An exception from a rule that no repair removes.
    Precedent: CWE-88.
    Closed: 0.2.0
    Result: the node's next run deletes the member, and the run goes on.
    """
    take(victim, told(workload(APP)))
    saved = victim.kernel.run(["ipset", "save"]).output.splitlines()
    (name,) = {line.split()[1] for line in saved if line.startswith("add cali40s:")}
    for member in (APP, "10.244.200.9"):
        assert victim.kernel.run(["ipset", "-exist", "add", name, member, "nomatch"]).code == 0
    assert sources(victim) == {f"{APP} nomatch", "10.244.200.9 nomatch"}
    boot(victim)
    assert sources(victim) == {APP}


def test_names_labels_and_ports_are_calico_s(victim: t.Any) -> None:
    """Report a workload with an invalid field, such as its name, namespace, interface, labels, profiles or ports.

    Gain: The attacker's text in rules, logs and terminals, or the rights of another namespace.
    Precedent: CWE-20.
    Closed: 0.2.0
    Result: The endpoint is left out and named; labels of a namespace come from its own namespace only.
    """
    odd: list[dict[str, t.Any]] = [
        {"name": "other/x"}, {"name": "default/x\ny"}, {"name": "default/"}, {"name": "d" * 300}, {"name": 3},
        {"namespace": "Default x"}, {"namespace": "kube-system"}, {"namespace": None}, {"interface": "cali 1"},
        {"interface": "*"}, {"interface": "eth0\n"}, {"interface": "x" * 16}, {"kind": "HostEndpoint"},
        {"node": "node3"}, {"node": "node1"}, {"labels": {"app": "a b"}}, {"labels": {"a/b/c": "x"}},
        {"labels": {"": "x"}}, {"labels": {"app": "x" * 10_000_000}}, {"labels": {str(n): "x" for n in range(65)}},
        {"labels": [["app", "app"]]}, {"labels": {"app": 1}}, {"profiles": ["A B"]}, {"profiles": ["a"] * 17},
        {"ports": [port("http", "tcp", 0)]}, {"ports": [port("80", "tcp", 80)]}, {"ports": [port("http", "icmp", 80)]},
        {"ports": [port("http", "tcp", 80.5)]}, {"ports": [port("http", "tcp", math.nan)]}, {"ports": "http"},
        {"addresses": []}, {"addresses": [APP, APP]}, {"addresses": APP}, {"colour": "red"},
    ]  # fmt: skip
    for fields in odd:
        entry = {**workload("10.244.200.3", "evil"), **copy.deepcopy(fields)}
        content = json.loads(json.dumps(told(entry, workload(APP))))
        (warning,) = take(victim, content)
        assert warning.startswith("node2: workload ") and " is left out: " in warning and len(warning) < 400, fields
        assert warning.isprintable(), fields
    claimed = workload(APP, labels={"app": "app", "pcns.role": "admin", "projectcalico.org/namespace": "kube-system"})
    assert take(victim, told(claimed)) == []
    known = json.loads(pathlib.Path(victim.machine.store, "remote-endpoints.json").read_text())["nodes"]["node2"]
    assert known["endpoints"][0]["labels"] == {
        "app": "app",
        "projectcalico.org/namespace": "default",
        "pcns.projectcalico.org/name": "default",
    }


def test_there_is_an_end_to_what_a_node_tells() -> None:
    """Report a million workloads, many of them with the same address.

    Gain: The memory of the controller and of all nodes, or the removal of another endpoint.
    Precedent: CWE-770.
    Closed: 0.2.0
    Result: The first 16,384 are read. The rest is left out and counted. If two have the same name, address or
    interface, the first is used.
    """
    many = [workload(APP, f"w{n}") for n in range(20_000)]
    answer = {**answers.remote_endpoints_info("node2"), "endpoints": many + [None] * 980_000}
    teller, left_out = endpoint_sync.teller("node2", answer, [BLOCK])
    assert [one.name for one in teller.endpoints] == ["default/w0"]
    assert len(left_out) == 16_384
    assert str(left_out[0]) == f"node2: workload default/w1 is left out: another workload of the node has {APP}."
    assert left_out[-1].what == "the rest of its workloads, 983616 of them,"


@pytest.fixture(scope="module")
def fleet() -> dict[str, NodeState]:
    """The states of three nodes after a first run, by name."""
    nodes = {name: fleets.LAB[name] for name in NODES}
    return fleets.states(fleets.build(fleets.pool("ipip"), nodes=nodes, workloads=[]))


def inventory(folder: pathlib.Path, with_lockfile: bool = True) -> str:
    """Write an inventory of NODES into the new folder `folder`, and return the path of its hosts.yml.

    With `with_lockfile` it has the lockfile of a first run. Raise FileExistsError if the folder exists.
    """
    folder.mkdir()
    hosts = {name: {"calico_node_address": fleets.LAB[name]} for name in NODES}
    (folder / "hosts.yml").write_text(json.dumps({"calico_nodes": {"hosts": hosts}}))
    (folder / "group_vars").mkdir()
    pool = {"name": "default", "cidr": "10.244.0.0/16", "ipipMode": "Always"}
    (folder / "group_vars" / "all.yml").write_text(json.dumps({"calico_ip_pools": [pool]}))
    if with_lockfile:
        plan = fleets.build(fleets.pool("ipip"), nodes={name: fleets.LAB[name] for name in NODES}, workloads=[])
        remembered = dataclasses.replace(plan.allocation, encapsulations={"default": "IPIP"})
        (folder / ".calico.lock.yml").write_text(lockfile.dump(remembered))
    return str(folder / "hosts.yml")


def test_lies_about_blocks_harm_the_liar_alone(tmp_path: pathlib.Path, fleet: dict[str, NodeState]) -> None:
    """Claim another node's block or name or a newer plan, deny having BGP, or report an invalid state or journal.

    Gain: Another node's traffic, or no run for any node as long as the lie lasts.
    Precedent: CWE-345, CWE-290.
    Closed: 0.2.0
    Result: The claim is named with its node, and the plan of the others stays as before.
    """
    honest = {name: answers.node_info(state) for name, state in fleet.items()}
    block = fleet["node1"].ipam.blocks[0].cidr

    def liar(change: t.Callable[[dict[str, t.Any]], t.Any]) -> dict[str, t.Any]:
        answer = copy.deepcopy(honest["node3"])
        change(answer)
        return answer

    claim = {"cidr": block, "pool": "default"}
    lies: dict[str, tuple[dict[str, t.Any], str]] = {
        "block": (
            liar(lambda answer: answer["state"]["ipam"]["blocks"].append(claim)),
            f"node3: block {block} is left out: it belongs to node1 in",
        ),
        "newer": (
            liar(lambda answer: answer["state"]["ipam"].update(generation=7, blocks=[claim])),
            f"node3: block {block} is left out: it belongs to node1 in",
        ),
        "identity": (
            liar(lambda answer: answer["state"].update(node="node1")),
            "stored state of node3 is that of another node, node1: the host was cloned or renamed, or is not what it ",
        ),
        "other release": (
            liar(lambda answer: answer["state"].update(version=99)),
            "stored state of node3 cannot be read: NodeState version 99 is not 1,",
        ),
        "types": (
            liar(lambda answer: answer.update(state=["no", "state"])),
            "stored state of node3 cannot be read: a list, not a stored state.",
        ),
        "nesting": (
            liar(lambda answer: answer["state"].update(pools=answers.nested(60))),
            "stored state of node3 cannot be read: ",
        ),
        "journal": (
            liar(lambda answer: answer["ipam"]["allocated"].update({block.replace("/26", ""): "x", "0.0.0.0/0": "x"})),
            "node3: address 0.0.0.0/0 of its journal is left out: it is no single address.",
        ),
        "no BGP": (
            liar(lambda answer: answer["state"].update(bird=None)),
            "stored state of node3 says that it runs without BGP, unlike the other nodes.",
        ),
    }

    def run(name: str, answer: dict[str, t.Any]) -> controller.Run:
        registered = {**{host: {"seen": told} for host, told in honest.items()}, "node3": {"seen": answer}}
        return controller.Run("fleet", {"observed": "seen"}, inventory(tmp_path / name), registered)

    runs = [run(name, lie) for name, (lie, dummy) in lies.items()]
    first, *found = controller.run([run("honest", honest["node3"]), *runs])
    for (name, (dummy, words)), result in zip(lies.items(), found):
        assert "exception" not in result, result["exception"]
        assert not result.get("failed"), (name, result)
        assert any(line.startswith(words) for line in result["warnings"]), (name, result["warnings"])
        before = json.loads(json.dumps(lockfile_nodes(tmp_path / "honest")))
        after = lockfile_nodes(tmp_path / name)
        assert {host: after[host] for host in ("node1", "node2")} == {host: before[host] for host in ("node1", "node2")}
    assert (first["warnings"], first["generation"]) == ([], 1)


def lockfile_nodes(folder: pathlib.Path) -> dict[str, t.Any]:
    """Return what the lockfile in `folder` gives to each node, by name. Raise FileNotFoundError if there is none."""
    document = lockfile.to_document(lockfile.load((folder / ".calico.lock.yml").read_text()))
    return t.cast("dict[str, t.Any]", document["nodes"])


def test_a_rebuild_stops_where_nodes_disagree(tmp_path: pathlib.Path, fleet: dict[str, NodeState]) -> None:
    """Claim another node's block, an impossible generation or an invalid block while the lockfile is lost.

    Gain: The block, through the plan that is rebuilt from the nodes' answers.
    Precedent: CWE-345.
    Closed: 0.2.0
    Result: The run stops and writes nothing. It names the block and both nodes that claim it, or the node whose copy is
    impossible or cannot be read.
    """
    honest = {name: answers.node_info(state) for name, state in fleet.items()}
    block = fleet["node1"].ipam.blocks[0].cidr
    thief, newer, no_block = (copy.deepcopy(honest["node3"]) for dummy in range(3))
    thief["state"]["ipam"]["blocks"].append({"cidr": block, "pool": "default"})
    newer["state"]["ipam"]["generation"] = 2**52
    no_block["state"]["ipam"]["blocks"].append({"cidr": "10.244.0.0/16\nx", "pool": "default"})
    runs = [
        controller.Run(
            "fleet",
            {"observed": "seen"},
            inventory(tmp_path / str(number), with_lockfile=False),
            {**{name: {"seen": told} for name, told in honest.items()}, "node3": {"seen": lie}},
        )
        for number, lie in enumerate((thief, newer, no_block))
    ]
    results = controller.run(runs)
    assert [result["failed"] for result in results] == [True] * 3
    assert results[0]["msg"].startswith(
        f"block {block} is claimed by node1 (generation 1) and by node3 (generation 1). Decide which one keeps it."
    )
    assert results[1]["msg"].startswith(
        f"node3 keeps a copy of its blocks of generation {2**52}, which no fleet has come to."
    )
    assert results[2]["msg"].startswith(
        "stored state of node3 cannot be read: "
        "'ipam.blocks has 10.244.0.0/16\\nx, which is not a CIDR without host bits'."
    )
    assert results[2]["msg"].isprintable()
    assert not list(tmp_path.glob("*/.calico.lock.yml"))


def test_wrong_types_end_in_words(tmp_path: pathlib.Path, fleet: dict[str, NodeState]) -> None:
    """Answer with wrong types to the tasks of a change of all nodes, and to reports.

    Gain: A traceback on the controller, which ends the run for all nodes half-way.
    Precedent: CWE-755.
    Closed: 0.2.0
    Result: No action ends with a traceback. The node is named with the reason, and the others' workloads are exchanged.
    """
    hosts_file = inventory(tmp_path / "one")
    names = {"asked", "plan", "convergence", "probes", "status", "taken"}
    good = {
        host: {
            "asked": answers.remote_endpoints_info(host),
            "plan": answers.plan(),
            "convergence": answers.convergence(),
            "probes": answers.probes(),
            "status": answers.status(host),
            "taken": {"changed": False, "changes": []},
        }
        for host in NODES
    }
    wrong = {
        "asked": {"node": "node3", "endpoints": "x", "known": []},
        "plan": {"changed": True, "changes": [{"kind": ["x"], "action": {}, "by": 1}], "sessions_reset": "many"},
        "convergence": {"sessions": {"expected": 10**400, "established": "all"}},
        "probes": {"targets": [{"sent": "1", "lost": [], "address": None}]},
        "status": {"agent": [], "node": "node3", "bgp": {"sessions": 7}},
        "taken": {"changes": [{"action": [], "subject": 1}]},
    }
    registered: dict[str, dict[str, t.Any]] = {**good, "node3": {name: wrong[name] for name in names}}
    report = {"plan": "plan", "convergence": "convergence", "reachability": "probes"}
    runs = [
        controller.Run("fleet_report", report, hosts_file, registered),
        controller.Run("fleet_report", report, hosts_file, registered, check_mode=True),
        controller.Run("fleet_status", {"status": "status"}, hosts_file, registered),
        controller.Run("endpoint_sync", {"asked": "asked"}, hosts_file, registered),
        controller.Run("endpoint_sync_report", {"asked": "asked", "taken": "taken"}, hosts_file, registered),
    ]
    converged, planned, status, exchange, exchanged = controller.run(runs)
    for result in (converged, planned, status, exchange, exchanged):
        assert "exception" not in result, result["exception"]
    unusable = "its answer cannot be used: "
    remedy = ". Look at the node: its modules do not answer so."
    assert (
        converged["lines"][0]
        == f"! node3: {unusable}sessions.expected is a very large number, not a whole number from 0 to 131072{remedy}"
    )
    assert (
        planned["lines"][0] == f"! node3: {unusable}sessions_reset is many, not a whole number from 0 to 131072{remedy}"
    )
    assert f"! node3: {unusable}agent is a list, not a table{remedy}" in status["lines"]
    assert exchange["answered"] == ["node1", "node2"]
    assert exchanged["problems"] == [
        "node3 could not be asked (it answered no list of its workloads, but x). The others keep what they knew of its "
        "workloads."
    ]


def test_a_node_that_lies_is_not_changed_and_the_others_are(
    tmp_path: pathlib.Path, fleet: dict[str, NodeState]
) -> None:
    """Answer with wrong types, so that a run changes a refused node, or fails where all nodes must agree.

    Gain: A node that blocks the others, or gets a state that its false reports made.
    Precedent: CWE-345, CWE-755.
    Closed: 0.2.0
    Result: The actions for that node fail with an explanation, and the check before the change names it.
    """
    hosts_file = inventory(tmp_path / "one")
    nodes = {name: fleets.LAB[name] for name in NODES}
    why = FleetError("stored state of node3", None, "cannot be read: x.", "Look at the node.")
    path = targets.save(Targets(fleets.build(fleets.pool("ipip"), nodes=nodes, workloads=[]), refused={"node3": why}))
    info = {name: {"seen": answers.node_info(state)} for name, state in fleet.items()}
    facts = {"uid": [], "os": "x"}
    lying = {"node1": {"seen": {**info["node1"]["seen"], "preflight": facts}}}
    odd = {"seen": {**info["node2"]["seen"], "generations": [{"n": "1"}]}}
    probed = {**{name: {"seen": answers.probes()} for name in NODES}, "node3": {"seen": {"targets": [{"sent": []}]}}}
    arguments = {"fleet": path, "observed": "seen"}
    refused, unjudged, generations, gate = controller.run(
        [
            controller.Run("preflight", arguments, hosts_file, {"node3": info["node3"]}),
            controller.Run("preflight", arguments, hosts_file, lying),
            controller.Run("generation_choice", {"observed": "seen"}, hosts_file, {"node2": odd}),
            controller.Run("phase_gate", {"fleet": path, "phase": "prove", "results": "seen"}, hosts_file, probed),
        ]
    )
    for result in (refused, unjudged, generations, gate):
        assert "exception" not in result, result["exception"]
    assert (refused["failed"], refused["msg"]) == (True, str(why))
    assert (unjudged["failed"], unjudged["msg"]) == (
        True,
        "node1: what it says of itself cannot be judged: a part is missing, or is something else. Its modules do not "
        "answer so. Look at the node. Nothing was changed on it.",
    )
    assert (generations["failed"], generations["msg"]) == (
        True,
        "node2: its generations cannot be read: generations[0].n is 1, not a whole number from 0 to 9007199254740992. "
        "Look at the node.",
    )
    assert gate["ok"] is False
    assert gate["problems"] == [
        "node3: its answer cannot be used: targets[0].address is missing. Look at the node: its modules do not answer "
        "so."
    ]
