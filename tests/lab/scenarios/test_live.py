# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet of four hosts that gets an etcd cluster of three members, lives with it and without it, and leaves it again.

Streams run through all of it. ansible-playbook runs in the network of the lab's controller, which reaches the members.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.fleet import Workload, mesh_of_streams, ping, workloads
from tests.lab.handle import BaseLab
from tests.lab.machines.etcd import prepare_members
from tests.lab.measure.reachability import Reachability
from tests.lab.measure.streams import Streams
from tests.lab.scenarios.conftest import PPS
from tests.lab.topology import CONTROL_NET, NODES, Places
from tests.long_form import LONG
from tests.pauses import pause
from tests.run import live_change

from . import live_drill
from .conftest import LAB, ROOT, VARIABLES, Fleet, inventory_of, new_lab, set_variables

#: Three hosts with Debian 12, and one with Debian 13 and without a member.
HOSTS = ("node1", "node3", "node4", "node5")
MEMBERS = ("node1", "node3", "node5")
FLEET = ("node1", "node3", "node4")
#: What lets `app == 'web'` alone in to the workload `guarded`, which comes to node3 between runs.
POLICIES = [
    {
        "kind": "GlobalNetworkPolicy",
        "name": "guarded",
        "selector": "app == 'guarded'",
        "ingress": [{"action": "Allow", "source": {"selector": "app == 'web'"}}],
    }
]
OUTAGE = 300 if LONG else 30  # seconds without any member
FOLLOWED = 60 if LONG else 12  # workloads whose way into the other node's set is timed


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-live", HOSTS) as lab:
        prepare_members(lab, MEMBERS)
        yield lab


@pytest.fixture(scope="module")
def fleet(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = tmp_path_factory.mktemp("live")
    inventory_of(FLEET, folder)
    set_variables(folder, calico_policies=POLICIES)
    # The lab's controller reaches the members.
    fleet = Fleet(lab, str(folder), inside=("ip", "netns", "exec", Places(lab.name).netns("control")))
    run = fleet.site().check()
    assert "6/6 paths answer" in run.output, run.output
    attach(lab, "node3", "guarded", "guarded")
    return fleet


def unset_variables(folder: Path, *names: str) -> None:
    """Remove variables of all hosts from the inventory."""
    found = yaml.safe_load((folder / VARIABLES).read_text("utf-8"))
    left = {name: value for name, value in found.items() if name not in names}
    (folder / VARIABLES).write_text(yaml.safe_dump(left), "utf-8")


def with_cluster(fleet: Fleet, there: bool) -> None:
    """Put the group of members into the inventory, or take it out."""
    path = Path(fleet.inventory) / "hosts.yml"
    hosts = yaml.safe_load(path.read_text("utf-8"))
    hosts["all"]["children"].pop("calico_etcd", None)
    if there:
        members = {name: {"calico_etcd_address": NODES[name].address} for name in MEMBERS}
        hosts["all"]["children"]["calico_etcd"] = {"hosts": members}
    path.write_text(yaml.safe_dump(hosts), "utf-8")


def until(what: str, holds: Callable[[], object], seconds: float = 300) -> float:
    """Wait until `holds` and return the seconds that it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() < began + seconds, f"not within {seconds} s: {what}"
        pause(began, least=0.02)
    return time.monotonic() - began


def webs(lab: BaseLab, node: str = "node3") -> set[str]:
    """Return the members of the set of `app == 'web'` in the node's kernel."""
    saved = lab.exec(node, ["ipset", "save"]).stdout
    found: dict[str, set[str]] = {}
    for words in map(str.split, saved.splitlines()):
        if words[0] == "add" and words[1].startswith("cali40s"):
            found.setdefault(words[1], set()).add(words[2])
    web = next(one for one in workloads(lab, FLEET) if one.name == "web-1").address
    return next((members for members in found.values() if web in members), set())


def attach(lab: BaseLab, node: str, name: str, app: str = "web") -> str:
    """Attach a workload with a label `app` and return its address."""
    lab.exec(node, f"ip netns add {name} 2>/dev/null; true")
    said = lab.exec(node, f"calicoctl workload add {name} --netns {name} --label app={app} -o json").stdout
    return str(json.loads(said)["addresses"][0])


def status(lab: BaseLab, node: str) -> dict[str, Any]:
    """Return the status of the node's agent, {} while none runs."""
    answer: dict[str, Any] = json.loads(lab.exec(node, "calicoctl status -o json", check=False).stdout or "{}")
    return answer


def synced(lab: BaseLab, node: str) -> bool:
    return bool(status(lab, node).get("datastore", {}).get("synced"))


def members(lab: BaseLab, command: str) -> None:
    for member in MEMBERS:
        # A member is not ready before another one is: do not wait for the first.
        lab.exec(member, f"systemctl --no-block {command} calico-etcd")


def test_a_fleet_gets_a_datastore_and_loses_nothing(
    lab: BaseLab, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    """A workload that came between runs is unknown elsewhere before, and known at once afterwards."""
    address = attach(lab, "node4", "early")
    assert address not in webs(lab)
    with_cluster(fleet, True)
    with Streams(lab, mesh_of_streams(lab, workloads(lab, FLEET), PPS)) as streams:
        fleet.play("etcd.yml").check()
        planned = fleet.site("--check", "--diff").check()
        assert re.search(r"^  \+ user +node4 +role node4$", planned.output, re.MULTILINE), planned.output
        run = fleet.site("--diff").check()
        assert re.search(r"^  \+ blocks +node4 +blocks=10\.244\.", run.output, re.MULTILINE), run.output
        until("node3 follows the datastore", lambda: synced(lab, "node3"))
        until("the workload on node4 is known to node3", lambda: address in webs(lab))
        report = streams.stop()
    record_property("loss", report.summary())
    assert report.lost_by_us == 0, report.summary()
    fleet.site("--diff").unchanged(*FLEET)
    lab.exec("node4", "calicoctl workload delete early")
    until("a released address is in no set", lambda: address not in webs(lab))


def test_a_policy_follows_workloads_within_moments(
    lab: BaseLab, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    """A workload on node4 reaches the guarded one on node3 as long as it has the label."""
    times = []
    guarded = json.loads(lab.exec("node3", "calicoctl workload get guarded -o json").stdout)["addresses"][0]
    for number in range(FOLLOWED):
        address = attach(lab, "node4", f"web{number}")
        times.append(until("the workload is in the set of node3", functools.partial(lambda a: a in webs(lab), address)))
    lab.exec("node4", ["ip", "netns", "exec", "web0", "ping", "-c3", "-W5", guarded])
    lab.exec("node4", "calicoctl workload label default/web0 app=other")
    until("the label takes it out of the set", lambda: len(webs(lab)) == FOLLOWED)
    refused = lab.exec("node4", ["ip", "netns", "exec", "web0", "ping", "-c1", "-W2", guarded], check=False)
    assert refused.returncode != 0, refused.stdout
    for number in range(FOLLOWED):
        lab.exec("node4", f"calicoctl workload delete web{number}; ip netns delete web{number}")
    until("all are out of the set", lambda: len(webs(lab)) == 1)
    record_property("followed", f"median {sorted(times)[len(times) // 2]:.3f} s, longest {max(times):.3f} s")


def test_the_fleet_is_seen_without_a_connection_to_any_node(lab: BaseLab, fleet: Fleet) -> None:
    until("all nodes have written a heartbeat", lambda: "good  3/3 nodes" in fleet.play("status.yml").output)
    shown = lab.exec("node1", "calicoctl get nodes -o wide").stdout
    assert all(node in shown for node in FLEET), shown
    listed = json.loads(lab.exec("node1", "calicoctl workload list -o json").stdout)["workloads"]
    guarded = next(one for one in listed if one["name"] == "guarded")
    assert (guarded["node"], guarded["by"], guarded["peer_interface"]) == ("node3", "api", "eth0"), guarded
    assert guarded["pool"], guarded


def test_addresses_are_checked_on_a_node_and_on_all(lab: BaseLab, fleet: Fleet) -> None:
    """Nodes and etcd agree. An address that a node assigned to nothing is found when all are asked."""
    lines = lab.exec("node1", "calicoctl ipam check").stdout.splitlines()
    assert lines[-1] == "Check of the fleet complete; found 0 problems.", lines
    output = fleet.play("ipam_check.yml").check().output
    assert "Found 3 nodes that answer" in output and "Check of the fleet complete; found 0 problems." in output, output
    lab.exec("node3", "systemctl stop calico-agent")
    lab.exec("node3", "mv /run/calico/workloads /run/calico/workloads.away")
    try:
        output = fleet.play("ipam_check.yml").check().output
    finally:
        lab.exec("node3", "mv /run/calico/workloads.away /run/calico/workloads; systemctl start calico-agent")
    assert re.search(r"10\.244\.\S+ leaked on node3", output) and "of default/guarded in etcd, not on node3" in output
    until("node3 follows the datastore again", lambda: synced(lab, "node3"))


CLOSE_TO_WEB = """
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata:
  name: close-to-web
spec:
  order: 1
  selector: app == 'guarded'
  types: [Ingress]
  ingress:
    - action: Deny
      protocol: ICMP
      source:
        selector: app == 'web'
"""
OPEN_TO_WEB = "{apiVersion: projectcalico.org/v3, kind: GlobalNetworkSet, metadata: {name: nobody}}"
#: How often the time until a live change is in force is taken.
CHANGES = 100 if LONG else 15
#: Seconds of a trial that nodes go back from, and the most seconds without a new SSH connection to a node.
TRIAL, SILENT = 8, 10
FAILSAFES = ("calico_failsafe_inbound_host_ports", "calico_failsafe_outbound_host_ports")


def operator_command(fleet: Fleet, *words: str) -> list[str]:
    """Return the command of calicoctl as the operator ada, where the playbooks run."""
    config = Path(fleet.inventory) / ".calico.etcd" / "operators" / "ada" / "calicoctl.cfg"
    return [*fleet.inside, sys.executable, str(ROOT / "bin" / "calicoctl"), "-c", str(config), *words]


def operator(
    fleet: Fleet, *words: str, given: str = "", folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run calicoctl as the operator ada."""
    command = operator_command(fleet, *words)
    return subprocess.run(command, input=given, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def type_commands_of_readme(fleet: Fleet, folder: Path) -> None:
    """Run the commands about live policy of README.md, with the file policy.yaml in `folder`."""
    block = re.search(r"<!-- live: .*?```\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert block is not None
    commands = [shlex.split(line, comments=True) for line in block.group(1).splitlines()]
    assert [words[1] for words in commands] == ["apply", "apply", "history"]
    for program, *words in commands:
        assert program == "bin/calicoctl"
        done = operator(fleet, *words, folder=folder)
        assert done.returncode == 0, (words, done)


def seconds_to_effect(done: subprocess.CompletedProcess[str]) -> float:
    """Return the seconds from the write until all nodes had it in force, as calicoctl says it."""
    found = re.search(r"^It is in force on 3 nodes after (\S+) s\.$", done.stdout, re.MULTILINE)
    assert found, done
    return float(found[1])


def spread(times: list[float]) -> str:
    """Return median, 99th percentile and longest of some seconds, and the load of the machine, for people."""
    ordered = sorted(times)
    late = ordered[-(-len(ordered) * 99 // 100) - 1]
    return (
        f"{len(ordered)} changes: median {statistics.median(ordered):.2f} s, p99 {late:.2f} s, "
        f"longest {ordered[-1]:.2f} s, load {os.getloadavg()[1]:.0f}"
    )


def popen_operator(fleet: Fleet, *words: str, given: str) -> subprocess.Popen[str]:
    """Start calicoctl as the operator ada, with `given` as its input."""
    process = subprocess.Popen(
        operator_command(fleet, *words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    process.stdin.write(given)
    process.stdin.flush()
    process.stdin.close()
    process.stdin = None
    return process


def test_the_first_change_of_the_page(lab: BaseLab, fleet: Fleet, tmp_path: Path) -> None:
    """The five commands of docs/how-to/live-policy.md bring a set into force on all nodes, and take it back.

    What its policy does not deny, the inventory's policy decides as before.
    """
    page = (ROOT / "docs" / "how-to" / "live-policy.md").read_text("utf-8")
    section = page.partition("## A first change in five commands\n")[2]
    given = re.search(r"```yaml\n(calico_live_policy: .*?)```", section, re.DOTALL)
    document = re.search(r"```yaml\n# live/blocked\.yml\n(.*?)```", section, re.DOTALL)
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert given and document and block
    variables = yaml.safe_load(given[1])
    (operator_of_page,) = variables["calico_etcd_operators"]
    operator_of_page["addresses"] = [f"{CONTROL_NET}.1"]
    set_variables(Path(fleet.inventory), **variables, calico_policy_cut_denied_flows=True)
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "blocked.yml").write_text(document[1], "utf-8")
    commands = block[1].replace("inventories/prod", fleet.inventory).replace("-f live", f"-f {tmp_path / 'live'}")
    *before, back = commands.strip().splitlines()
    assert re.match(r"calicoctl rollback ID --wait\b", back)

    def type_in(*lines: str) -> str:
        script = "\n".join(["set -eu", f"PATH={Path(sys.executable).parent}:$PATH", "cd " + str(ROOT), *lines])
        shell = [*fleet.inside, "bash", "-O", "expand_aliases", "-c", script]
        done = subprocess.run(shell, env=fleet.environment, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def knowing() -> list[str]:
        return [node for node in FLEET if "198.51.100.0/24" in lab.exec(node, "ipset save").stdout]

    guarded = json.loads(lab.exec("node3", "calicoctl workload get guarded -o json").stdout)["addresses"][0]
    attach(lab, "node4", "stranger", "other")
    shown = type_in(*before)
    assert ping(lab, "node1", guarded, netns="web-1") and not ping(lab, "node4", guarded, netns="stranger"), shown
    lab.exec("node4", "calicoctl workload delete stranger; ip netns delete stranger")
    assert re.search(r"^GlobalNetworkPolicy +blocks\.networks +added ", shown, re.M) and "This is plan " in shown, shown
    everywhere = r"It is change (\S+), revision \d+\.\nIt is in force on 3 nodes after \d+\.\d\d s\.\n"
    change = re.search(everywhere, shown)
    assert change and knowing() == list(FLEET), shown
    [alias] = [line for line in before if line.startswith("alias ")]
    shown = type_in(alias, back.replace("ID", change[1], 1))
    assert re.search(everywhere, shown) and knowing() == [], shown


def test_the_demo_shows_a_live_change(
    lab: BaseLab,
    fleet: Fleet,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
    """What `make demo` says of it holds: a plan, the time to effect, one stream that stops alone, and the way back."""
    guarded = json.loads(lab.exec("node3", "calicoctl workload get guarded -o json").stdout)["addresses"][0]
    vault = Workload("guarded", "node3", guarded, "")
    till, desk = (Workload(name, "node4", attach(lab, "node4", name), "") for name in ("till", "desk"))
    until("node3 knows both", lambda: {till.address, desk.address} <= webs(lab))
    config = Path(fleet.inventory) / ".calico.etcd" / "operators" / "ada" / "calicoctl.cfg"
    ada = live_change.Operator(config, fleet.inside, tmp_path, ROOT)
    good = live_change.show(lab, ada, vault, till, desk, mesh_of_streams(lab, workloads(lab, FLEET), PPS))
    shown = capsys.readouterr().out
    assert good, shown
    plan, applied, listed, undone = re.split(
        r"^\$ calicoctl (?=apply -f \S+ --wait|history|rollback)", shown, flags=re.M
    )
    assert re.search(r"^GlobalNetworkPolicy +block-till +added +1 +node3 \(1\)$", plan, re.M), shown
    assert "Connections that stand and would be denied: 1 on 1 node. They would be cut.\n" in plan, shown
    connection = rf"udp {re.escape(till.address)}:\d+ > {re.escape(vault.address)}:7400 +block-till#1 "
    assert re.search(rf"^node3 +{connection}", plan, re.M), shown
    everywhere = r"^It is change (\S+), revision \d+\.\nIt is in force on 3 nodes after \d+\.\d\d s\.$"
    change = re.search(everywhere, applied, re.M)
    assert change and re.search(everywhere, undone, re.M), shown
    last = listed.strip().splitlines()[-1].split()
    assert (last[0], last[1], last[3:]) == (change[1], "ada", ["apply", "GlobalNetworkPolicy(block-till)"]), shown
    assert undone.startswith(f"rollback {change[1]} --wait\nSuccessfully undone {change[1]}: 1 resource(s)\n"), shown
    assert re.search(r"^  till +stopped \d+ ms after the write, passed again \d+ ms after that of", undone, re.M), shown
    assert re.search(
        r"^  others +\d+ packets of desk and between all nodes: 0 lost; 5 connections: 0 reset$", undone, re.M
    )
    record_property("demo", next(line.strip() for line in undone.splitlines() if line.startswith("  till")))
    for workload in (till, desk):
        lab.exec("node4", f"calicoctl workload delete {workload.name}; ip netns delete {workload.name}")


def test_an_operator_changes_policy_on_all_nodes_without_a_run(
    lab: BaseLab, fleet: Fleet, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A change is in force before its command returns, on trial or at once, and is undone by one command."""
    guarded = json.loads(lab.exec("node3", "calicoctl workload get guarded -o json").stdout)["addresses"][0]
    attach(lab, "node4", "asking")

    def answers() -> bool:
        ping = ["ip", "netns", "exec", "asking", "ping", "-c1", "-W2", guarded]
        return lab.exec("node4", ping, check=False).returncode == 0

    until("the guarded workload answers", answers)
    quiet = [one for one in mesh_of_streams(lab, workloads(lab, FLEET), PPS) if guarded not in (one.src, one.dst)]
    with Streams(lab, quiet) as streams:
        done = operator(fleet, "apply", "-f", "-", "--wait", given=CLOSE_TO_WEB)
        assert done.returncode == 0 and "It is in force on 3 nodes after " in done.stdout, done
        assert not answers()
        fleet.site("--diff").unchanged(*FLEET)
        assert "1 document, in force as of revision" in lab.exec("node3", "calicoctl status").stdout
        history = json.loads(operator(fleet, "history", "-o", "json").stdout)
        identity = history[-1]["id"]
        done = operator(fleet, "rollback", identity, "--wait")
        assert done.returncode == 0, done
        assert answers()
        times, effects = [], []
        for number in range(CHANGES):
            verb = ["delete", "gnp", "close-to-web"] if number % 2 else ["apply", "-f", "-"]
            began = time.monotonic()
            done = operator(fleet, *verb, "--wait", given=CLOSE_TO_WEB)
            times.append(time.monotonic() - began)
            assert done.returncode == 0, done
            effects.append(seconds_to_effect(done))
            assert answers() is bool(number % 2)
        (tmp_path / "policy.yaml").write_text(CLOSE_TO_WEB, "utf-8")
        type_commands_of_readme(fleet, tmp_path)
        assert not answers()
        (Path(fleet.inventory) / ".live").mkdir()
        config = Path(fleet.inventory) / ".calico.etcd" / "operators" / "ada" / "calicoctl.cfg"
        folder = ["-e", f"folder={Path(fleet.inventory) / '.live'}", "-e", f"datastore={config}"]
        (Path(fleet.inventory) / ".live" / "web.yml").write_text(CLOSE_TO_WEB, "utf-8")
        fleet.play("live.yml", *folder).check()
        assert not answers()
        (Path(fleet.inventory) / ".live" / "web.yml").write_text(OPEN_TO_WEB, "utf-8")
        fleet.play("live.yml", *folder, "-e", "prune=true").check()
        assert answers()
        assert operator(fleet, "delete", "globalnetworkset", "nobody", "--wait").returncode == 0
        report = streams.stop()
    assert report.lost_by_us == 0, report.summary()
    record_property("command", spread(times))
    record_property("effect", spread(effects))
    # A run brings this to the nodes with what the next test changes.
    set_variables(Path(fleet.inventory), calico_policy_cut_denied_flows=False)


def undo(fleet: Fleet, done: subprocess.CompletedProcess[str]) -> None:
    """Undo the change that an operator's command made, by one command, and see that all nodes follow."""
    found = re.search(r"^It is change (\S+), revision", done.stdout, re.MULTILINE)
    assert found, done
    undone = operator(fleet, "rollback", found[1], "--wait")
    assert undone.returncode == 0 and "It is in force on 3 nodes after " in undone.stdout, undone


def live_names(fleet: Fleet) -> str:
    """Return the live GlobalNetworkPolicies as calicoctl lists them."""
    listed = operator(fleet, "get", "gnp", "-o", "wide")
    assert listed.returncode == 0, listed
    return "".join(line + "\n" for line in listed.stdout.splitlines() if line.endswith("live"))


def test_live_policy_cuts_no_node_off(
    lab: BaseLab, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    """The lock-out drill by live policy: SSH, each gate of etcd, and BGP, of one node and of all, tried and applied.

    A node that would be cut off keeps its last policy as a whole. It says why in its status and to the operator. The
    inventory lets policy close all ports of the hosts, until live policy is switched off.
    """
    closed = [*POLICIES, *live_drill.host_endpoints(FLEET)]
    set_variables(Path(fleet.inventory), calico_policies=closed, **{name: [] for name in FAILSAFES})
    fleet.site().check()
    began = time.monotonic()
    gates = [live_drill.no_gate(FLEET, member) for member in MEMBERS]
    by_bgp = [live_drill.no_bgp(FLEET, way) for way in ("ingress", "egress")]
    of_one = live_drill.no_ssh(["node3"])
    of_each = [of_one, live_drill.no_gate(["node4"], "node5"), live_drill.no_bgp(["node1"], "egress")]
    all_ssh, closed_gates = live_drill.no_ssh(FLEET), live_drill.closed_gates(FLEET, MEMBERS)
    before, rules, sessions = live_names(fleet), live_drill.rules(lab, FLEET), live_drill.sessions(lab, FLEET)
    with (
        Streams(lab, mesh_of_streams(lab, workloads(lab, FLEET), PPS)) as streams,
        Reachability(lab, FLEET, 3.0) as seen,
    ):
        for ban in (all_ssh, *gates, closed_gates, *by_bgp, of_one):
            done = operator(fleet, "apply", "-f", "-", "--confirm", "60s", given=live_drill.given(ban))
            live_drill.check_refused(done, [ban])
            live_drill.check_rules(
                {node: rules[node] for node in ban.holding}, live_drill.rules(lab, FLEET), f"at once: {ban}"
            )
            live_drill.wait_for_rules(lab, rules, f"tried {ban}")
        assert live_names(fleet) == before
        for bans in ([all_ssh], [closed_gates], [by_bgp[0]], of_each):
            done = operator(fleet, "apply", "-f", "-", "--wait", given=live_drill.given(*bans))
            shown = live_drill.from_each(lab, FLEET, "calicoctl status")
            live_drill.check_held_back(done, bans, shown)
            holding = {node: text for node, text in rules.items() if any(node in ban.holding for ban in bans)}
            live_drill.check_rules(holding, live_drill.rules(lab, FLEET), str(bans))
            undo(fleet, done)
            live_drill.wait_for_rules(lab, rules, f"undone {bans}")
        for node in FLEET:
            assert status(lab, node)["in_sync"], status(lab, node)
        report = streams.stop()
    cut = live_drill.interrupted(sessions, live_drill.sessions(lab, FLEET))
    assert not cut and max(seen.silent.values()) < SILENT, (cut, seen.silent)
    assert report.lost_by_us == 0 and report.resets == 0, report.summary()
    record_property("drill", f"{time.monotonic() - began:.0f} s; {report.summary()}")


def test_nodes_go_back_from_a_trial_without_new_connections_to_etcd(
    lab: BaseLab, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    """They do it alone, whether the operator's command was killed before it committed the change or has committed it.

    Connections that stand go on, so that nodes know of the trial and of its commit.
    """
    began = time.monotonic()
    given = json.dumps(live_drill.deny("close-4711", FLEET, "ingress", destination={"ports": [4711]}))
    before, rules = live_names(fleet), live_drill.rules(lab, FLEET)
    trying = ["apply", "-f", "-", "--confirm", f"{TRIAL}s"]
    with (
        Streams(lab, mesh_of_streams(lab, workloads(lab, FLEET), PPS)) as streams,
        Reachability(lab, FLEET, 3.0) as seen,
    ):
        # The trial is not committed while node4 does not answer.
        lab.exec("node4", "systemctl kill -s STOP calico-agent")
        killed = popen_operator(fleet, *trying, given=given)
        try:
            until("node1 is on trial", lambda: killed.poll() is not None or live_drill.changed(lab, "node1", rules))
            assert killed.poll() is None, killed.communicate()
        finally:
            killed.kill()
            killed.communicate()
        live_drill.wait_for_rules(lab, {node: rules[node] for node in ("node1", "node3")}, "after the operator died")
        lab.exec("node4", "systemctl kill -s CONT calico-agent")
        assert live_names(fleet) == before
        record_property("killed", f"{time.monotonic() - began:.0f} s")
        # The key of the trial outlives it for some seconds, in which node4 may try the change.
        until(
            "no trial is open",
            lambda: "Try again" not in operator(fleet, "apply", "-f", "-", "--dry-run=server", given=given).stderr,
        )
        live_drill.wait_for_rules(lab, rules, "the trial of node4 is over")
        with live_drill.no_new_connections(lab, FLEET):
            closed = live_drill.rules(lab, FLEET)
            committed = popen_operator(fleet, *trying, given=given)
            until("node1 is on trial", lambda: committed.poll() is not None or live_drill.changed(lab, "node1", closed))
            assert committed.poll() is None, committed.communicate()
            live_drill.wait_for_rules(lab, closed, "without a new connection")
        said, complaints = committed.communicate(timeout=120)
        done = subprocess.CompletedProcess(trying, committed.returncode, said, complaints)
        assert done.returncode == 1, done
        for node in FLEET:
            why = rf"{node} .*: it holds back: the change at revision \d+ keeps this node from new connections"
            assert re.search(why, done.stderr), (node, done)
        undo(fleet, done)
        live_drill.wait_for_rules(lab, rules, "undone")
        for node in FLEET:
            assert live_drill.opens(lab, node, "node5") and status(lab, node)["in_sync"], status(lab, node)
        report = streams.stop()
    assert max(seen.silent.values()) < SILENT, seen.silent
    assert report.lost_by_us == 0 and report.resets == 0, report.summary()
    record_property("drill", f"{time.monotonic() - began:.0f} s; {report.summary()}")


def test_live_policy_is_in_force_after_a_boot_without_etcd(lab: BaseLab, fleet: Fleet) -> None:
    guarded = json.loads(lab.exec("node3", "calicoctl workload get guarded -o json").stdout)["addresses"][0]
    done = operator(fleet, "apply", "-f", "-", "--wait", given=CLOSE_TO_WEB)
    assert done.returncode == 0, done
    before = lab.exec("node3", "iptables-save | grep -c cali-pi").stdout
    members(lab, "stop")
    lab.reboot("node4")
    until("node4 is in sync", lambda: status(lab, "node4").get("in_sync"))
    attach(lab, "node4", "asking")
    lab.exec("node3", "systemctl restart calico-agent")
    until("node3 is in sync", lambda: status(lab, "node3").get("in_sync"))
    refused = lab.exec("node4", ["ip", "netns", "exec", "asking", "ping", "-c1", "-W2", guarded], check=False)
    assert refused.returncode != 0 and lab.exec("node3", "iptables-save | grep -c cali-pi").stdout == before
    members(lab, "start")
    for node in FLEET:
        until(f"{node} follows the datastore", functools.partial(lambda n: synced(lab, n), node))
    done = operator(fleet, "delete", "gnp", "close-to-web", "--wait")
    assert done.returncode == 0, done
    lab.exec("node4", "calicoctl workload delete asking; ip netns delete asking")
    unset_variables(Path(fleet.inventory), *FAILSAFES)
    set_variables(Path(fleet.inventory), calico_policies=POLICIES, calico_live_policy=False, calico_etcd_operators=[])
    run = fleet.site().check()
    assert all(entry["failed"] == 0 for entry in run.recap().values())
    fleet.play("etcd.yml").check()


def test_everything_goes_on_without_etcd(
    lab: BaseLab, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    """No member runs. Agents restart, a host reboots, workloads come and go, and site.yml runs."""
    known = attach(lab, "node4", "known")
    until("the workload is known", lambda: known in webs(lab))
    before = webs(lab)
    quiet = [one for one in mesh_of_streams(lab, workloads(lab, FLEET), PPS) if "node4" not in (one.src, one.dst)]
    with Streams(lab, quiet) as streams:
        members(lab, "stop")
        began = time.monotonic()
        lab.exec("node3", "systemctl restart calico-agent")
        lab.reboot("node4")
        until("node4 is in sync", lambda: status(lab, "node4").get("in_sync"))
        lab.exec("node1", "systemctl kill -s KILL calico-agent")
        late = attach(lab, "node4", "late")
        until("node1 is in sync", lambda: status(lab, "node1").get("in_sync"))
        assert webs(lab) == before
        run = fleet.site().check()
        assert "The datastore was not updated" in run.output, run.output
        until(
            "the outage is a problem in words",
            lambda: "The datastore is not followed: " in " ".join(status(lab, "node3")["problems"]),
        )
        time.sleep(max(0.0, OUTAGE - (time.monotonic() - began)))
        assert webs(lab) == before
        members(lab, "start")
        returned = time.monotonic()
        for node in FLEET:
            until(f"{node} follows the datastore", functools.partial(lambda n: synced(lab, n), node))
        until("what happened meanwhile is known", lambda: late in webs(lab))
        back = time.monotonic() - returned
        report = streams.stop()
    record_property("outage", f"{report.summary()}; known again {back:.1f} s after the return")
    assert report.lost_by_us == 0, report.summary()
    lab.exec("node4", "calicoctl workload delete late")


def test_members_that_stop_one_after_the_other_are_not_missed(lab: BaseLab, fleet: Fleet) -> None:
    """Each member is stopped by SIGSTOP once, and one is killed: what comes meanwhile is known."""
    for number, member in enumerate(MEMBERS):
        lab.exec(member, "systemctl kill -s STOP calico-etcd")
        address = attach(lab, "node4", f"through{number}")
        until("a workload is known with two members", functools.partial(lambda a: a in webs(lab), address))
        lab.exec(member, "systemctl kill -s CONT calico-etcd")
        lab.exec("node4", f"calicoctl workload delete through{number}")
        until("and gone", functools.partial(lambda a: a not in webs(lab), address))
        until("three members answer", lambda: "3 of 3 members answer" in fleet.play("etcd_status.yml").output)
    lab.exec("node5", "systemctl stop calico-etcd-gate")
    assert "! node5: its gate does not answer (Connection refused)" in fleet.play("etcd_status.yml").output
    lab.exec("node5", "systemctl start calico-etcd-gate")
    fleet.play("etcd_status.yml", "-estrict=true").check()


def test_a_fleet_leaves_its_datastore_and_loses_nothing(
    lab: BaseLab, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    with_cluster(fleet, False)
    with Streams(lab, mesh_of_streams(lab, workloads(lab, FLEET), PPS)) as streams:
        run = fleet.site().check()
        report = streams.stop()
    record_property("loss", report.summary())
    assert report.lost_by_us == 0, report.summary()
    assert all(entry["failed"] == 0 for entry in run.recap().values())
    left = "ls /etc/calico/datastore.json /etc/calico/etcd/* /var/lib/calico/datastore.jsonl 2>/dev/null; true"
    for node in FLEET:
        until(f"{node} has no file of it", functools.partial(lambda n: lab.exec(n, left).stdout == "", node))
        assert status(lab, node)["datastore"] == {}
    assert os.path.isdir(Path(fleet.inventory) / ".calico.etcd")  # the keys stay until somebody removes them
