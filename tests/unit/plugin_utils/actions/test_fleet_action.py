# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions fleet, phase_gate, settle_gate and fleet_report as Ansible runs them, on valid inventories."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import lockfile_store, targets

from tests.unit.fleet.bad_inventories import ALL, HOSTS, Case
from tests.unit.fleet.fleets import build, pool, states
from tests.unit.plugin_utils import controller
from tests.unit.preflight.test_judge import GOOD

NODES = {"node1": "10.10.1.11/24", "node2": "10.10.1.12/24"}


def folder_with(tmp_path: pathlib.Path, name: str, text: str = ALL) -> pathlib.Path:
    folder = tmp_path / name
    folder.mkdir()
    Case(name, text, HOSTS, None, {}, None, "", "").write(folder)
    return folder


def answers(**registered: t.Any) -> dict[str, dict[str, t.Any]]:
    return {host: {"seen": answer} for host, answer in registered.items()}


NOTHING = {"state": None}


def test_runs_on_good_inventories(tmp_path: pathlib.Path) -> None:
    """The action fleet plans a new fleet, again unchanged, writes nothing in check mode, and reads templates.

    It takes a pool's mode from its arguments, and plans a new fleet without a host that is down.
    """
    templated = "calico_ip_pools: '{{ [shared] }}'\nshared: {name: default, cidr: 10.244.0.0/16, vxlanMode: Always}\n"
    folders = {
        name: folder_with(tmp_path, name, text)
        for name, text in {"plain": ALL, "check": ALL, "templated": templated, "down": ALL, "switched": ALL}.items()
    }

    def run(name: str, registered: t.Mapping[str, t.Any], check: bool = False, **args: t.Any) -> controller.Run:
        return controller.Run(
            "fleet", {"observed": "seen", **args}, str(folders[name] / "hosts.yml"), registered, check
        )

    both = answers(node1=NOTHING, node2=NOTHING)
    results = controller.run(
        [
            run("plain", both),
            run("plain", both),
            run("check", both, check=True),
            run("templated", both),
            run("switched", both, pool="default", mode="direct"),
            run("down", answers(node1={"unreachable": True, "msg": "no"}, node2=NOTHING)),
        ]
    )
    assert [result.get("exception") for result in results] == [None] * 6
    first, second, check, from_template, switched, down = results
    lockfile = folders["plain"] / ".calico.lock.yml"

    assert (first["changed"], first["generation"], first["change"]) == (True, 1, False)
    assert first["lockfile"] == str(lockfile)
    assert first["diff"]["before"] == ""
    assert first["diff"]["after"] == lockfile.read_text()

    assert (second["changed"], second["generation"], second["plan"]) == (False, 1, first["plan"])
    assert "diff" not in second

    assert check["changed"] is True
    assert check["diff"]["after"] == first["diff"]["after"]
    assert not (folders["check"] / ".calico.lock.yml").exists()

    assert from_template["modes"] == {"default": "vxlan"}
    assert switched["modes"] == {"default": "direct"}

    assert down.get("failed") is not True
    assert down["warnings"] == [
        f"{folders['down'] / '.calico.lock.yml'} is missing and no node that answered has blocks: planned as a new "
        "fleet, without the copies of node1."
    ]


def test_a_fleet_with_live_policy_publishes_its_policy(tmp_path: pathlib.Path) -> None:
    """A document that is too large for that is refused by its name, before the lockfile is written."""
    live = (
        f"{ALL}calico_live_policy: true\ncalico_etcd_endpoints: ['https://10.10.1.11:2379']\n"
        "calico_policies: [{kind: Tier, name: security}]\n"
    )
    large = live.replace("name: security", "name: security}, {kind: GlobalNetworkSet, name: all, nets: '{{ nets }}'")
    prefixed = "map('regex_replace', '^', 'fd00:1111:2222:3333:4444:5555:6666:')"
    large += f"nets: \"{{{{ range(9000) | map('string') | {prefixed} | list }}}}\"\n"
    folders = {name: folder_with(tmp_path, name, text) for name, text in {"live": live, "large": large}.items()}
    both = answers(node1=NOTHING, node2=NOTHING)
    found, refused = controller.run(
        [
            controller.Run("fleet", {"observed": "seen"}, str(folders[name] / "hosts.yml"), both)
            for name in ("live", "large")
        ]
    )
    published = targets.load_live(found["path"])
    assert published is not None
    assert sorted(published.values) == [
        "/host-routing/v1/inventory/tiers/default",
        "/host-routing/v1/inventory/tiers/security",
        "/host-routing/v1/settings/fleet",
    ]
    assert [tier.name for tier in published.names.tiers] == ["default", "security"]
    assert refused["msg"].startswith("GlobalNetworkSet all has ")
    assert refused["msg"].endswith(
        " bytes as JSON, and with calico_live_policy at most 262144 are allowed. Make two of it, or set "
        "calico_live_policy to false."
    )
    assert not (folders["large"] / ".calico.lock.yml").exists()


@pytest.fixture(scope="module")
def stored() -> dict[str, t.Any]:
    fleet = build(pool("ipip"), nodes=NODES, workloads=[])
    return {name: state.to_dict() for name, state in states(fleet).items()}


def test_stored_states(tmp_path: pathlib.Path, stored: dict[str, t.Any]) -> None:
    hosts_file = str(folder_with(tmp_path, "restore") / "hosts.yml")
    newer = {**stored["node1"], "version": 99}
    without_bgp = {**stored["node2"], "bird": None}
    generation = {"generation": {"state": stored["node1"]}}
    now = {name: {"state": state} for name, state in stored.items()}
    both_kept = {
        "node1": {"seen": now["node1"], "kept": generation},
        "node2": {"seen": now["node2"], "kept": {"generation": {"state": stored["node2"]}}},
    }
    one_kept = {"node1": {"seen": now["node1"], "kept": generation}, "node2": {"seen": now["node2"], "kept": {}}}
    newer_kept = {
        **both_kept,
        "node2": {"seen": now["node2"], "kept": {"generation": {"state": {**stored["node2"], "later": True}}}},
    }
    run = [
        controller.Run("fleet", {"observed": "seen"}, hosts_file, answers(node1={"state": newer}, node2=NOTHING)),
        controller.Run("fleet", {"observed": "seen", "restore": "kept"}, hosts_file, both_kept),
        controller.Run("fleet", {"observed": "seen", "restore": "kept"}, hosts_file, one_kept),
        controller.Run(
            "fleet", {"observed": "seen"}, hosts_file, answers(node1=now["node1"], node2={"state": without_bgp})
        ),
        controller.Run(
            "fleet",
            {"observed": "seen"},
            hosts_file,
            answers(node1={"state": {**stored["node1"], "bird": None}}, node2={"state": without_bgp}),
        ),
        controller.Run(
            "fleet", {"observed": "seen", "pool": "default", "mode": "vxlan"}, hosts_file, answers(node1=now["node1"])
        ),
        controller.Run("fleet", {"observed": "seen", "restore": "kept"}, hosts_file, newer_kept),
    ]
    results = controller.run(run)
    assert [result.get("exception") for result in results] == [None] * len(run)
    assert [result.get("msg") for result in results] == [
        "stored state of node1 cannot be read: NodeState version 99 is not 1, the one that this release reads. It was "
        "written by another release of this collection: use that release, or remove /var/lib/calico/state.json on the "
        "node if its workloads may be planned anew.",
        None,
        "generation is not stored on node2. Choose one that every node has (playbooks/rollback.yml without a plan "
        "lists them), or leave those nodes out with --limit.",
        "stored state of node2 says that it runs without BGP, unlike the other nodes. Remove "
        "/var/lib/calico/state.json on the node if its workloads may be planned anew.",
        "calico_bgp_enabled true differs from how node1, node2 are running. A running fleet cannot change it in this "
        "release: set it back, or move its workloads to new nodes. Nothing was changed.",
        results[5]["msg"],
        "generation that is stored on node2 cannot be read: NodeState has no field 'later'. If another release of this "
        "collection stored it, return with the playbooks of that release; else choose another one "
        "(playbooks/rollback.yml without a plan lists them). Nothing was changed.",
    ]
    assert (results[1]["changed"], results[1]["change"], results[1]["modes"]) == (False, False, {"default": "ipip"})
    assert results[1]["plan"] == stored["node1"]["plan"]
    assert results[5]["failed"] is True
    assert "node2" in results[5]["msg"]


def test_stored_states_have_the_policy_that_the_datastore_gets(tmp_path: pathlib.Path) -> None:
    """Without live policy there is nothing to publish, and nothing without a datastore."""
    cluster = "calico_etcd_endpoints: ['https://10.10.1.11:2379']\n"
    on = f"{ALL}{cluster}calico_policy_enabled: true\ncalico_live_policy: true\n"
    texts = {"live": on, "off": f"{ALL}{cluster}", "none": ALL, "part": on}
    files = {name: str(folder_with(tmp_path, name, text) / "hosts.yml") for name, text in texts.items()}
    tier = [{"kind": "Tier", "name": "security"}]
    kept = {}
    for live in (True, False):
        made = states(build(pool("ipip"), nodes=NODES, workloads=[], policies=tier, live_policy=live))
        kept[live] = {
            name: {"seen": NOTHING, "kept": {"generation": {"state": state.to_wire()}}} for name, state in made.items()
        }
    one = {"node1": kept[True]["node1"]}

    def run(name: str, registered: t.Mapping[str, t.Any]) -> controller.Run:
        return controller.Run("fleet", {"observed": "seen", "restore": "kept"}, files[name], registered)

    both = [(name, kept[live]) for name in ("live", "off") for live in (True, False)]
    results = controller.run([run(*each) for each in (*both, ("none", kept[True]), ("part", one))])
    assert [result.get("msg") for result in results] == [None] * 6
    found = [targets.load_restored(result["path"]) for result in results]
    assert [result["datastore"] for result in results] == [True, True, True, False, False, True]
    assert [source is not None for source in found] == [True, True, True, False, False, True]
    whole, off, on_again, dummy, dummy, part = found
    assert whole is not None and off is not None and on_again is not None and part is not None
    (policy,) = whole.policy.each
    assert policy is not None and "/host-routing/v1/inventory/tiers/security" in policy.values
    assert whole.policy.reason == "" and whole.policy == on_again.policy and off.policy.each == (None,)
    assert whole.datastore.endpoints == ("https://10.10.1.11:2379",)
    assert part.policy == ((policy,), "not all nodes return")


def test_a_generation_is_restored_with_the_addresses_that_hosts_have_now(
    tmp_path: pathlib.Path, stored: dict[str, t.Any]
) -> None:
    """Node2 had another address when the generation was stored. Both nodes get all else of it, and no phases."""
    hosts_file = str(folder_with(tmp_path, "moved") / "hosts.yml")
    moved = build(pool("ipip"), nodes={**NODES, "node2": "10.10.1.62/24"}, workloads=[])
    now = states(moved)
    registered = {
        name: {"seen": {"state": now[name].to_dict()}, "kept": {"generation": {"state": stored[name]}}}
        for name in NODES
    }
    (result,) = controller.run(
        [controller.Run("fleet", {"observed": "seen", "restore": "kept"}, hosts_file, registered)]
    )
    assert (result.get("msg"), result["change"], result["hold"]) == (None, False, False)
    restored = targets.load(result["path"]).states
    assert {name: state.address for name, state in restored.items()} == {**NODES, "node2": "10.10.1.62/24"}
    assert [peer.address for peer in restored["node1"].bird.peers] == ["10.10.1.62"]
    assert restored["node2"].bird.address == "10.10.1.62"


def test_a_change_that_is_pending_and_the_hosts_of_a_limited_run(
    tmp_path: pathlib.Path, stored: dict[str, t.Any]
) -> None:
    """A limited run is refused while a change of mode is pending, and the lockfile stays as it is."""
    lockfile = tmp_path / "pending" / ".calico.lock.yml"
    hosts_file = str(folder_with(tmp_path, "pending") / "hosts.yml")
    seen = answers(node1={"state": stored["node1"]}, node2=NOTHING)
    first = controller.run([controller.Run("fleet", {"observed": "seen"}, hosts_file, seen)])
    assert (first[0].get("msg"), first[0]["modes"]) == (None, {"default": "ipip"})
    text = lockfile.read_text()
    (tmp_path / "pending" / "group_vars" / "all.yml").write_text(ALL.replace("ipipMode", "vxlanMode"))
    results = controller.run(
        [
            controller.Run("fleet", {"observed": "seen"}, hosts_file, {"node2": seen["node2"]}),
            controller.Run("fleet", {"observed": "seen"}, hosts_file, {"node1": seen["node1"]}),
        ]
    )
    assert [(result.get("exception"), result["failed"]) for result in results] == [(None, True)] * 2
    assert results[0]["msg"] == (
        f"{tmp_path}/pending/group_vars/all.yml:2: calico_ip_pools[0] asks for mode vxlan of pool default, and node1 "
        "still runs it in mode ipip; node2 would not reach them. Run playbooks/site.yml without --limit: it takes "
        "node2 into the fleet as it is, and the run after changes the mode of all nodes (or "
        "playbooks/switch_pool_mode.yml does). Or put mode ipip back into the inventory. Nothing was changed."
    )
    assert results[1]["msg"] == (
        "calico_ip_pools asks for a change of mode or MTU, and node2 cannot take part in it. All nodes go through it "
        "in step: run it without --limit, and bring back or remove nodes that are down. Nothing was changed."
    )
    assert lockfile.read_text() == text


def test_a_change_of_mtu_that_a_node_cannot_take_part_in_is_called_so(tmp_path: pathlib.Path) -> None:
    """A host that is new, and one that is down, are each named with the variable that asks for the change."""
    hosts_file = str(folder_with(tmp_path, "mtu") / "hosts.yml")
    running = states(build(pool("ipip"), nodes=NODES, workloads=[], underlay_mtu=1450))
    seen = {name: {"state": state.to_dict()} for name, state in running.items()}
    fleet = build(pool("ipip"), nodes=NODES, workloads=[], underlay_mtu=1450)
    lockfile_store.write(str(tmp_path / "mtu" / ".calico.lock.yml"), fleet.allocation)
    results = controller.run(
        [
            controller.Run("fleet", {"observed": "seen"}, hosts_file, answers(node1=seen["node1"])),
            controller.Run(
                "fleet",
                {"observed": "seen", "pool": "default", "mode": "direct"},
                hosts_file,
                answers(node1=seen["node1"], node2=NOTHING),
            ),
        ]
    )
    assert results[0]["msg"] == (
        "calico_underlay_mtu 1500 asks for a change from 1450, and node2 cannot take part in it. All nodes go through "
        "it in step: run it without --limit, and bring back or remove nodes that are down. Nothing was changed."
    )
    assert results[1]["msg"] == (
        "calico_underlay_mtu 1500 asks for a change from 1450, and node2 is not running yet. Run playbooks/site.yml "
        "first, so that they join the fleet as it is, or leave them out of group calico_nodes. Nothing was changed."
    )


def test_the_last_gate_of_a_change_remembers_the_mode(tmp_path: pathlib.Path) -> None:
    hosts_file = str(folder_with(tmp_path, "gate") / "hosts.yml")
    lockfile = tmp_path / "gate" / ".calico.lock.yml"
    before = build(pool("ipip"), nodes=NODES, workloads=[]).allocation
    lockfile_store.write(str(lockfile), dataclasses.replace(before, encapsulations={"default": "IPIP"}))
    text = lockfile.read_text()
    path = targets.save(Targets(lockfile=str(lockfile), encapsulations={"default": "None", "gone": "IPIP"}))
    done = {name: {"seen": {"changed": True}} for name in NODES}
    failed = {**done, "node2": {"seen": {"failed": True, "msg": "no"}}}

    def gate(phase: str, results: t.Mapping[str, t.Any], check: bool = False) -> tuple[t.Any, str]:
        args = {"fleet": path, "phase": phase, "results": "seen"}
        (result,) = controller.run([controller.Run("phase_gate", args, hosts_file, results, check)])
        assert "exception" not in result, result
        return result.get("changed", False), lockfile.read_text()

    assert gate("flip", done) == (False, text)
    assert gate("return", failed) == (False, text)
    assert gate("retire", done, check=True) == (False, text)
    # The mode is also stored if the phase retire fails on a node: it was changed before that phase.
    assert gate("retire", failed) == (True, text.replace("IPIP", "None"))
    assert gate("retire", done) == (False, text.replace("IPIP", "None"))
    lockfile.write_text(text)
    assert gate("return", done) == (True, text.replace("IPIP", "None"))


def test_results_can_be_told_apart() -> None:
    """The test's own harness detects an action that connects to the host."""
    with pytest.raises(AssertionError, match=r"a host was to be touched: connection\.exec_command"):
        controller._NoConnection().exec_command("true")


def test_a_run_that_goes_too_far_is_asked_for(tmp_path: pathlib.Path) -> None:
    """A run that exceeds its limits needs approval, here a new AS number on all sessions, which goes through phases."""
    running = build(pool("ipip"), nodes=NODES, workloads=[], bgp_as_number=64999)
    both = answers(**{name: {"state": state.to_dict()} for name, state in states(running).items()})
    folder = folder_with(tmp_path, "limits")

    def run(registered: t.Mapping[str, t.Any] = both, check: bool = False, **args: t.Any) -> controller.Run:
        return controller.Run("fleet", {"observed": "seen", **args}, str(folder / "hosts.yml"), registered, check)

    none, enough = {"session_resets": 0}, {"session_resets": 1}
    (refused,) = controller.run([run(limits=none)])
    name = refused["msg"].split()[1]
    text = (
        f"plan {name} needs approval: it would reset 1 session and calico_node_max_session_resets "
        "is 0 (node1 with node2 restarts: AS number, own AS number). Look at it with --check --diff. If it is what you "
        f"want, run it with -e approve={name}. Nothing was changed."
    )
    assert refused["msg"] == text
    assert not (folder / ".calico.lock.yml").exists()
    checked, other, returning, approved, allowed, alone = controller.run(
        [
            run(check=True, limits=none),
            run(limits=none, approve="0123456789ab"),
            run(as_observed=True, hold=True),
            run(limits=none, approve=name),
            run(limits=enough),
            run({"node1": both["node1"]}, limits=enough),
        ]
    )
    assert text in checked["warnings"] and checked["approval"] == name
    assert "What was approved, 0123456789ab, is another plan. Look" in other["msg"]
    assert alone["msg"] == (
        "plan interrupts BGP sessions (node1 with node2 restarts: AS number, own AS number), and node2 cannot take "
        "part in it. All nodes go through it in step: run it without --limit, and bring back or remove nodes that are "
        "down. Nothing was changed."
    )
    for result in (approved, allowed):
        assert (result["change"], result["hold"], result["fresh"]) == (True, True, [])
    assert (returning["change"], returning["hold"]) == (False, True)


def test_a_return_is_asked_for_as_the_same_change_by_a_run_is(tmp_path: pathlib.Path, stored: dict[str, t.Any]) -> None:
    """A rollback needs the approval that site.yml needs for the same change: the same words, and the same name."""
    folder = folder_with(tmp_path, "return")
    hosts_file = str(folder / "hosts.yml")
    limits = {"session_resets": 0}
    running = build(pool("ipip"), nodes=NODES, workloads=[], bgp_as_number=64999)
    now = {name: {"state": state.to_dict()} for name, state in states(running).items()}
    kept = {name: {"seen": now[name], "kept": {"generation": {"state": stored[name]}}} for name in NODES}

    def run(check: bool = False, **args: t.Any) -> controller.Run:
        return controller.Run("fleet", {"observed": "seen", **args}, hosts_file, kept, check)

    site, refused, checked, other, unlimited = controller.run(
        [
            run(limits=limits),
            run(restore="kept", limits=limits),
            run(True, restore="kept", limits=limits),
            run(restore="kept", limits=limits, approve="0123456789ab"),
            run(restore="kept"),
        ]
    )
    assert site["msg"].startswith("plan ") and "needs approval: it would reset 1 session and" in site["msg"]
    assert refused["msg"] == site["msg"] and "path" not in refused
    assert checked["warnings"] == [site["msg"]] and checked["impact"]
    assert "What was approved, 0123456789ab, is another plan." in other["msg"]
    assert unlimited.get("failed") is not True
    (approved,) = controller.run([run(restore="kept", limits=limits, approve=checked["approval"])])
    assert approved.get("failed") is not True and approved["hold"] is True


def test_a_return_that_takes_the_last_router_asks_unless_routers_know_the_pool(tmp_path: pathlib.Path) -> None:
    """What the inventory says counts, not the name that one node's stored state gives the pool."""
    racks = {"node1": "10.10.1.11/24", "node2": "10.10.2.12/24"}
    tor = [{"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000}]
    before = states(build(pool("direct"), nodes=racks, workloads=[]))
    now = states(build(pool("direct"), nodes=racks, workloads=[], bgp_peers=tor))

    def registered(**other: t.Any) -> dict[str, dict[str, t.Any]]:
        kept = {name: state.to_dict() for name, state in before.items()} | other
        return {
            name: {"seen": {"state": now[name].to_dict()}, "kept": {"generation": {"state": kept[name]}}}
            for name in racks
        }

    def run(name: str, more: str, answers: t.Any, *hosts: str) -> controller.Run:
        folder = folder_with(tmp_path, name, ALL + more)
        of_hosts = {host: answers[host] for host in hosts or racks}
        args = {"observed": "seen", "restore": "kept", "limits": {"external_resets": -1}}
        return controller.Run("fleet", args, str(folder / "hosts.yml"), of_hosts)

    known = "calico_pools_known_to_routers: [default]\n"
    (default,) = before["node2"].pools
    other = "calico_pools_known_to_routers: [racks]\n"
    lying = dataclasses.replace(before["node2"], pools=(dataclasses.replace(default, name="racks"),)).to_dict()
    unknown, said, invalid, lied = controller.run(
        [
            run("unknown", "", registered()),
            run("known", known, registered()),
            run("invalid", "calico_pools_known_to_routers: default\n", registered()),
            run("lied", other, registered(node2=lying)),
        ]
    )
    for refused in (unknown, invalid, lied):
        assert "it would cut 2 paths between subnets in pool default (to node1 from node2, " in refused["msg"]
    assert said.get("msg") is None and said["impact"] != [] and "cut" not in " ".join(said["impact"])


def test_a_steady_fleet_is_known_by_its_plan(tmp_path: pathlib.Path) -> None:
    """The fleet is steady if all hosts have this plan's states, and needs preparation if one lacks packages.

    It needs preparation, too, if the network of the CNI plugin would become the default of containers, or if the answer
    of a host cannot be judged.
    """
    folder = folder_with(tmp_path, "steady")
    good = {**GOOD, "missing_packages": [], "addresses": {"eth0": list(NODES.values())}}

    def run(seen: t.Mapping[str, t.Any], **args: t.Any) -> controller.Run:
        return controller.Run("fleet", {"observed": "seen", **args}, str(folder / "hosts.yml"), seen)

    (first,) = controller.run([run(answers(node1=NOTHING, node2=NOTHING))])
    assert (first["steady"], first["prepare"]) == (False, True)  # the hosts' answers cannot be judged
    before = states(build(pool("ipip", "default"), nodes=NODES, workloads=[]))

    def stored_as(plan: str) -> dict[str, t.Any]:
        return {
            name: {"state": dataclasses.replace(state, plan=plan).to_dict(), "preflight": good}
            for name, state in before.items()
        }

    (begun,) = controller.run([run(answers(**stored_as("")))])
    stored = stored_as(begun["plan"])
    other = {**stored, "node2": {**stored["node2"], "state": {**stored["node2"]["state"], "plan": "other"}}}
    lacking = {**stored, "node2": {**stored["node2"], "preflight": {**good, "missing_packages": ["bird2"]}}}
    networks = {"folder": "/etc/cni/net.d", "networks": ["10-containerd-net.conflist"], "runtimes": ["containerd"]}
    asking = {**stored, "node2": {**stored["node2"], "preflight": {**good, "cni": networks}}}
    results = controller.run(
        [*(run(answers(**seen)) for seen in (stored, other, lacking, asking)), run(answers(**asking), cni=True)]
    )
    assert [(result["steady"], result["prepare"]) for result in results] == [
        (True, False),
        (False, False),
        (True, True),
        (True, False),
        (True, True),
    ], results


def test_networks_of_podman_need_a_look_at_hosts_that_cannot_have_them(tmp_path: pathlib.Path) -> None:
    """A host is prepared if podman has another network of the name, or if hosts differ in these options.

    A wrong network ends the run before it reaches a host.
    """
    good = {**GOOD, "missing_packages": [], "addresses": {"eth0": list(NODES.values())}}
    good["packages"] = {**good["packages"], "netcat-openbsd": "1.229-1"}
    before = states(build(pool("ipip", "default"), nodes=NODES, workloads=[]))

    def run(name: str, networks: t.Any = None, own: str = "", **args: t.Any) -> controller.Run:
        folder = folder_with(tmp_path, name)
        if own:
            (folder / "host_vars").mkdir(exist_ok=True)
            (folder / "host_vars" / "node2.yml").write_text(own)
        podman = {"plugins": True, "networks": networks or {}}
        seen = answers(
            **{
                host: {"state": state.to_dict(), "preflight": {**good, "podman": podman}}
                for host, state in before.items()
            }
        )
        return controller.Run("fleet", {"observed": "seen", **args}, str(folder / "hosts.yml"), seen)

    wanted = {"podman": "auto", "podman_networks": [{"name": "calico"}]}
    taken = {"calico": "bridge"}
    results = controller.run(
        [
            run("a", **wanted),
            run("b", {"calico": "calico", "podman": "bridge"}, **wanted),
            run("c", taken, **wanted),
            run("d", taken),
            run("e", own="calico_node_podman_networks: [{name: other}]\n", **wanted),
            run("f", podman="auto", podman_networks=[{"name": "podman"}]),
        ]
    )
    assert [result.get("prepare") for result in results] == [False, False, True, False, True, None], results
    assert results[-1]["msg"] == (
        "calico_node_podman_networks[0].name podman means something else to podman. Choose another name, such as "
        "calico."
    )


SETTLED = {
    "converged": True,
    "sessions": {"expected": 1, "established": 1},
    "paths": 1,
    "sent": 3,
    "lost": 0,
    "external_sessions": 0,
}


@pytest.mark.parametrize(
    ("answer", "ok"),
    [
        ({"changed": False, "settled": SETTLED}, True),
        ({"changed": False, "settled": {**SETTLED, "paths": 0, "sent": 0}}, True),
        ({"changed": True, "settled": SETTLED}, False),
        ({"changed": False}, False),
        ({"changed": False, "settled": {**SETTLED, "converged": False}}, False),
        ({"changed": False, "settled": {**SETTLED, "lost": 1}}, False),
        ({"changed": False, "settled": "yes"}, False),
        ({"failed": True, "msg": "no"}, False),
        ({"unreachable": True, "msg": "no"}, False),
    ],
)
def test_a_run_is_over_if_all_hosts_are_settled(answer: t.Any, ok: bool, tmp_path: pathlib.Path) -> None:
    hosts_file = str(folder_with(tmp_path, "gate") / "hosts.yml")
    seen = answers(node1={"changed": False, "settled": SETTLED}, node2=answer)
    (result,) = controller.run([controller.Run("settle_gate", {"results": "seen"}, hosts_file, seen)])
    assert result["ok"] is ok, result


def test_the_report_reads_what_settled_hosts_found(tmp_path: pathlib.Path) -> None:
    hosts_file = str(folder_with(tmp_path, "report") / "hosts.yml")
    answer = {"changed": False, "settled": SETTLED}
    args = {"plan": "seen", "convergence": "asked", "reachability": "probed"}
    (result,) = controller.run([controller.Run("fleet_report", args, hosts_file, answers(node1=answer, node2=answer))])
    assert result["lines"] == [
        "converged  2/2 nodes · 1/1 sessions Established · 2/2 paths answer · 0 lost of 6 probes"
    ]
