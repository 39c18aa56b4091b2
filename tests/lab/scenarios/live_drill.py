# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock-out drill by live policy: policies that would deny ways that nodes need, and what nodes have meanwhile."""

from __future__ import annotations

import contextlib
import datetime
import difflib
import json
import re
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.bird_sessions import changed_sessions, established_since
from tests.lab.handle import BaseLab
from tests.lab.topology import NODES
from tests.pauses import pause

GATE_PORT = 2378
ALLOW = [{"action": "Allow"}]


def host_endpoints(nodes: Sequence[str]) -> list[dict[str, object]]:
    """Return what an inventory needs so that policy can deny all ways of these hosts: it allows all of them."""
    endpoints: list[dict[str, object]] = [
        {"kind": "HostEndpoint", "name": f"{node}-all", "node": node, "interfaceName": "*", "labels": {"host": node}}
        for node in nodes
    ]
    hosts = {"kind": "GlobalNetworkPolicy", "name": "hosts", "selector": "has(host)"}
    return [*endpoints, {**hosts, "ingress": ALLOW, "egress": ALLOW}]


@dataclass(frozen=True)
class Ban:
    """A live policy that would deny a way that nodes need.

    `words` is a pattern of the reason that a node gives, and `holding` are the nodes that have to hold it back.
    """

    document: Mapping[str, Any]
    words: str
    holding: tuple[str, ...]

    def reason(self, node: str) -> str:
        """Return the pattern of what a node says about it."""
        way = "egress" if "egress" in self.document["spec"] else "ingress"
        name = self.document["metadata"]["name"]
        return rf"{self.words} would be cut by {name}#1 \({way}, HostEndpoint {node}-all\)"


def deny(name: str, nodes: Sequence[str], way: str, **rule: object) -> dict[str, Any]:
    """Return a policy that denies TCP with what `rule` says, ingress or egress of these hosts, before all others."""
    here = ", ".join(f"'{node}'" for node in nodes)
    rules = [{"action": "Deny", "protocol": "TCP", **rule}]
    spec = {"order": 1, "selector": f"host in {{{here}}}", "types": [way.capitalize()], way: rules}
    return {
        "apiVersion": "projectcalico.org/v3",
        "kind": "GlobalNetworkPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def no_ssh(nodes: Sequence[str]) -> Ban:
    document = deny("no-ssh", nodes, "ingress", destination={"ports": [22]})
    return Ban(document, r"ssh from \S+ to \S+ port 22", tuple(nodes))


def no_gate(nodes: Sequence[str], member: str) -> Ban:
    """Return the ban of the way to one gate, which the host that has it does not need."""
    address = NODES[member].address
    destination = {"nets": [f"{address}/32"], "ports": [GATE_PORT]}
    document = deny(f"no-gate-{member}", nodes, "egress", destination=destination)
    holding = tuple(node for node in nodes if node != member)
    return Ban(document, re.escape(f"the datastore at {address} port {GATE_PORT}"), holding)


def closed_gates(nodes: Sequence[str], members: Sequence[str]) -> Ban:
    """Return the ban of what comes to gates, which those nodes hold back that have one."""
    document = deny("closed-gates", nodes, "ingress", destination={"ports": [GATE_PORT]})
    return Ban(document, r"the datastore here from \S+", tuple(node for node in nodes if node in members))


def no_bgp(nodes: Sequence[str], way: str) -> Ban:
    document = deny(f"no-bgp-{way}", nodes, way, destination={"ports": [179]})
    return Ban(document, r"BGP to \S+" if way == "egress" else r"BGP from \S+", tuple(nodes))


def given(*bans: Ban) -> str:
    """Return the documents as calicoctl reads them from its input."""
    return "---\n".join(json.dumps(ban.document) + "\n" for ban in bans)


def from_each(lab: BaseLab, nodes: Collection[str], command: str) -> dict[str, str]:
    """Return what a command prints on each node; all nodes run it at the same time."""
    with ThreadPoolExecutor(len(nodes)) as pool:
        said = pool.map(lambda node: str(lab.exec(node, command, check=False).stdout), nodes)
        return dict(zip(nodes, said, strict=True))


def rules(lab: BaseLab, nodes: Collection[str]) -> dict[str, str]:
    """Return each node's rules and sets, without counters."""
    command = "iptables-save | grep -v '^#' | sed 's/\\[[0-9:]*\\]//'; ipset save | sort"
    return from_each(lab, nodes, command)


def check_rules(before: Mapping[str, str], after: Mapping[str, str], when: str) -> None:
    """Assert that the nodes of `before` have the same rules as then."""
    for node, text in before.items():
        differing = "\n".join(difflib.unified_diff(text.splitlines(), after[node].splitlines(), lineterm="", n=0))
        assert not differing, f"{node}, {when}:\n{differing}"


def changed(lab: BaseLab, node: str, before: Mapping[str, str]) -> bool:
    """Return whether a node has other rules than those of it in `before`."""
    return rules(lab, [node])[node] != before[node]


def wait_for_rules(lab: BaseLab, before: Mapping[str, str], when: str, seconds: float = 60) -> None:
    """Wait until the nodes of `before` have the same rules as then; assert that this takes at most `seconds`."""
    began = time.monotonic()
    while (after := rules(lab, before)) != before and time.monotonic() < began + seconds:
        pause(began, least=0.05)
    check_rules(before, after, when)


def holding(bans: Iterable[Ban]) -> dict[str, Ban]:
    """Return the nodes that have to hold one of the bans back."""
    return {node: ban for ban in bans for node in ban.holding}


def check_refused(done: subprocess.CompletedProcess[str], bans: Iterable[Ban]) -> None:
    """Assert that a trial was withdrawn, and that the command names nodes with their reasons.

    It need not name all of them: the first refusal ends the trial.
    """
    found = holding(bans)
    said = re.findall(r"(node\d): it has refused it: ([^;]*)", done.stderr)
    assert done.returncode == 1 and said and "nothing is committed, and nodes go back" in done.stderr, done
    for node, why in said:
        assert node in found and re.match(found[node].reason(node), why), (node, done)


def check_held_back(done: subprocess.CompletedProcess[str], bans: Iterable[Ban], shown: Mapping[str, str]) -> None:
    """Assert that each node that has to hold a change back says why to the command, and in `shown`, its status."""
    found = holding(bans)
    count = len(shown) - len(found)
    assert done.returncode == 1 and f"It is in force on {count} node" in done.stdout, done
    for node, text in shown.items():
        if node not in found:
            assert f"{node} does not have it" not in done.stderr and "stays as it was" not in text, (node, done, text)
            continue
        reason = found[node].reason(node)
        why = rf"{node} does not have it in force: it holds back: {reason}"
        assert re.search(why, done.stderr), (node, reason, done)
        why = rf"Live policy stays as it was at revision \d+: {reason}"
        assert re.search(why, " ".join(text.split())), (node, reason, text)


def sessions(lab: BaseLab, nodes: Collection[str]) -> dict[str, dict[str, datetime.datetime]]:
    """Return since when each node's BGP sessions are established."""
    shown = from_each(lab, nodes, "birdc -s /run/calico/bird.ctl show protocols")
    return {node: established_since(text) for node, text in shown.items()}


def interrupted(
    before: Mapping[str, Mapping[str, datetime.datetime]], after: Mapping[str, Mapping[str, datetime.datetime]]
) -> dict[str, list[str]]:
    """Return the sessions of each node that were interrupted meanwhile."""
    found = {node: changed_sessions(since, after[node]) for node, since in before.items()}
    return {node: names for node, names in found.items() if names}


def opens(lab: BaseLab, node: str, member: str) -> bool:
    """Return whether a new connection from a node to a gate comes about within two seconds."""
    command = f"timeout 2 bash -c '</dev/tcp/{NODES[member].address}/{GATE_PORT}'"
    return lab.exec(node, command, check=False).returncode == 0


@contextlib.contextmanager
def no_new_connections(lab: BaseLab, nodes: Sequence[str]) -> Iterator[None]:
    """Keep nodes from new connections to gates while a with block runs. Connections that stand go on."""
    # The rule is in the table raw, where policy accepts nothing: in other tables, policy's chains always come first.
    rule = ["OUTPUT", "-p", "tcp", "--dport", str(GATE_PORT), "--syn", "-j", "DROP"]
    for node in nodes:
        lab.exec(node, ["iptables", "-t", "raw", "-I", *rule])
    try:
        yield
    finally:
        for node in nodes:
            lab.exec(node, ["iptables", "-t", "raw", "-D", *rule])
