# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of nodes: honest ones, and what root on a node can make of them."""

from __future__ import annotations

import copy
import functools
import json
import math
import random
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.labels import namespaced_labels
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import DefinedPort, Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.plain_data import to_plain
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import Collected

Data = dict[str, t.Any]


def endpoint(node: str, address: str, name: str = "web", **labels: str) -> Endpoint:
    """Return the WorkloadEndpoint `default/<name>` of `node`, with the named port http (TCP 80).

    It has `labels` and those of the namespace.
    """
    return Endpoint(
        "WorkloadEndpoint",
        f"default/{name}",
        node,
        f"cali{name}",
        (address,),
        namespaced_labels(labels, "default"),
        ("projectcalico-default-allow",),
        (DefinedPort("http", "tcp", 80),),
        "default",
    )


def remote_endpoints_info(node: str, *endpoints: Endpoint) -> Data:
    """Return an honest answer of the module remote_endpoints_info: the node's workloads are `endpoints`."""
    known = {"node9": {"collected": "2026-11-22T06:00:00Z", "endpoints": 1, "digest": "0" * 16}}
    return {
        "changed": False,
        "node": node,
        "endpoints": to_plain(endpoints),
        "digest": Collected("", endpoints).digest,
        "known": known,
    }


def node_info(state: t.Optional[NodeState], *allocated: str, opened: t.Sequence[str] = ()) -> Data:
    """Return an honest answer of the module node_info. The node has no stored state if `state` is None.

    `allocated` are the addresses in its journal, all given to podman.1. `opened` are the CIDRs of the blocks that its
    agent opened for addresses.
    """
    return {
        "changed": False,
        "state": None if state is None else json.loads(json.dumps(state.to_dict())),
        "complete": True,
        "passwords_changed": [],
        "engine_digest": "0123456789abcdef",
        "ipam": {"allocated": dict.fromkeys(allocated, "podman.1"), "opened": list(opened)},
        "generations": [
            {"n": n, "when": "2026-11-22T06:00:00Z", "who": "ops@control", "plan": "7f3a91", "phase": "converge"}
            for n in (1, 2)
        ],
    }


def plan() -> Data:
    """Return an honest answer of the module node, with changes of two kinds."""
    change = {"kind": "route", "action": "+", "subject": "10.244.7.0/26", "before": None, "after": "x", "by": "node"}
    return {
        "changed": True,
        "new": False,
        "changes": [change, {**change, "kind": "session", "action": "!", "before": None, "after": "ends"}],
        "sessions_reset": 1,
        "sessions_begun": 2,
        "routes_withdrawn": 0,
        "kept": ["tunl0 10.244.1.0 (2 open connections use it)"],
        "cut": [],
        "confirmed": True,
        "phases": [{"phase": "prepare", "plan": ["x"], "changes": [change]}],
    }


def convergence() -> Data:
    """Return an honest answer of the module convergence_info, as its action passes it on."""
    return {
        "changed": False,
        "converged": True,
        "sessions": {"expected": 2, "established": 2},
        "routes": {"expected": 2, "present": 2},
        "missing": [],
        "external_sessions": 0,
    }


def settled() -> Data:
    """Return the answer of the module node on a host that it did not change and found converged."""
    found = {"converged": True, "sessions": {"expected": 2, "established": 2}, "paths": 2, "sent": 6, "lost": 0}
    return {
        "changed": False,
        "changes": [],
        "kept": [],
        "settled": {**found, "external_sessions": 1, "targets": probes()["targets"]},
    }


def probes() -> Data:
    """Return an honest answer of the module probe, with what its action adds."""
    target = {"name": "node1", "address": "10.244.1.63", "size": 84, "sent": 30, "received": 30, "lost": 0}
    target |= {"pool": "default", "source": "10.244.2.63", "reason": "", "by": "", "heard": 30}
    times = {"rtt_min": 0.2, "rtt_max": 0.8, "longest_gap": 1.5, "silent": 0.0, "dead": False}
    when = {
        "clock": {"began": 0.1, "ended": 9.2, "total": 9.3},
        "window": {"earliest": 7.1, "latest": 8.0, "seconds": 9.1},
    }
    watch = {"running": False, "complete": True, "reason": "", "seconds": 9.0, "interval": 50.0, "resolution": 51.0}
    return {"changed": False, "targets": [{**target, **times}], "sent": 30, "lost": 0, "watch": watch, **when}


def status(node: str) -> Data:
    """Return an honest answer of the module node_status_info on `node`."""
    session = {"name": "Mesh", "node": "node1", "address": "10.10.1.11", "established": True, "state": "Established"}
    return {
        "changed": False,
        "node": node,
        "plan": "7f3a91",
        "complete": True,
        "phase": "converge",
        "bgp": {
            "enabled": True,
            "running": True,
            "sessions": [{**session, "since": "14:02", "error": "", "reason": "", "routes_kept": False}],
        },
        "routes": {"expected": 2, "present": 2, "missing": []},
        "blocks": [
            {"cidr": "10.244.3.0/26", "pool": "p", "size": 64, "in_use": 1, "reserved": 0, "free": 63, "spare": False}
        ],
        "workloads": 3,
        "agent": {
            "wanted": True,
            "running": True,
            "version": "0.2.0",
            "since": "x",
            "uptime": 99,
            "in_sync": True,
            "problems": [],
            "drift": {"total": 1, "day": 1, "kinds": {"route": 1}},
        },
        "problems": [],
    }


def nested(levels: int) -> t.Any:
    """Return an empty list inside `levels` lists."""
    found: t.Any = []
    for dummy in range(levels):
        found = [found]
    return found


#: Makers of values that root on a node may put in place of valid ones, such as commands of other programs, other types
#: and huge values. Each call returns a copy of its own, so that a test that changes one changes it for no other test.
HOSTILE: tuple[t.Callable[[], t.Any], ...] = (
    *(functools.partial(copy.deepcopy, value) for value in (
        None, True, False, 0, -1, 2**31, 2**64, 10**400, 0.5, -0.0, math.nan, math.inf, 1e308, "", " ", "x", "\n", "\0",
        "10.244.0.1\nsave -file /etc/cron.d/x", "10.244.0.1 nomatch", "10.244.0.1 timeout 1", "0.0.0.0", "0.0.0.0/0",
        "::", "::/0", "10.244.0.0/16", "10.244.1.0/26", "10.244.3.2", "10.10.1.11", "127.0.0.1", "::ffff:10.244.0.1",
        "fe80::1%eth0", "010.244.0.1", "10.244.0.1,tcp:80", "١٠.٢٤٤.٠.١", "cali40s:x", "eth0", "*", "lo", "../../etc",
        "{{ lookup('pipe', 'id') }}", "\x1b]0;x\x07", "\u202e", "\ud800", "a" * 300, "a" * 100_000, "node1", "node2",
        "default/web", "all()", "HostEndpoint", "tcp", "flip", "IPIP", [], {}, [[]], [None], {"": ""}, {"a": {"a": {}}},
        ["10.244.0.1"], [1, "x"], {"node1": {}}, {"10.244.3.5": "x", "0.0.0.0/0": "y"}, list(range(5_000)),
        dict.fromkeys(map(str, range(5_000)), 0),
    )),
    functools.partial(nested, 90),
    functools.partial(nested, 3_000),
)  # fmt: skip


def _name(chance: random.Random) -> str:
    """Return a random key for a mapping: a text of HOSTILE without what follows its 40th character."""
    while True:
        text = chance.choice(HOSTILE)()
        if isinstance(text, str):
            return text[:40]


def tampered(answer: t.Mapping[str, t.Any], chance: random.Random) -> Data:
    """Return a copy of the answer with one, two or four random changes at any depth.

    A change removes a value, replaces it, copies it to another key of its table, or adds one to an empty table or list.
    """
    found = json.loads(json.dumps(answer))
    for dummy in range(chance.choice((1, 1, 1, 2, 4))):
        _change(found, chance)
    return t.cast(Data, found)


def _change(found: t.Any, chance: random.Random) -> None:
    place = found
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = chance.choice(keys)
        inner = place[key]
        if isinstance(inner, (dict, list)) and chance.random() < 0.85:
            place = inner
            continue
        if chance.random() < 0.15:
            del place[key]
        elif chance.random() < 0.1 and isinstance(place, dict):
            place[_name(chance)] = inner
        else:
            place[key] = chance.choice(HOSTILE)()
        return
    if isinstance(place, list):
        place.append(chance.choice(HOSTILE)())
    else:
        place[_name(chance)] = chance.choice(HOSTILE)()


def lying(answer: t.Mapping[str, t.Any], others: t.Sequence[str], pool: str, chance: random.Random) -> Data:
    """Return a copy of `answer`, one of node_info, with up to three random lies of valid types.

    The stored state in `answer` needs a pool, and a BIRD with a peer and a route. `others` are CIDRs of other nodes'
    blocks, all in 10.244.0.0/16, the range of the pool `pool`. No lie follows the one that there is no state.
    """
    found = t.cast(Data, json.loads(json.dumps(answer)))
    state, ipam = found["state"], found["state"]["ipam"]

    def block() -> Data:
        free = f"10.244.{chance.randrange(256)}.{chance.randrange(4) * 64}/26"
        odd = chance.choice(("10.244.0.0/16", "10.244.7.0/25", "10.244.7.0/32", "192.0.2.0/26", "fd00::/122", "x"))
        return {"cidr": chance.choice((chance.choice(others), free, odd)), "pool": chance.choice((pool, pool, "other"))}

    def address() -> str:
        inside = ipam["blocks"][0]["cidr"].rpartition(".")[0] if ipam["blocks"] else "10.244.9"
        theirs = chance.choice(others).rpartition(".")[0]
        return f"{chance.choice((inside, theirs, '192.0.2'))}.{chance.randrange(256)}"

    bird = copy.deepcopy(state["bird"])
    state["bird"] = bird

    def peer() -> Data:
        first = bird["peers"][0] if bird["peers"] else copy.deepcopy(answer["state"]["bird"]["peers"][0])
        node = chance.choice(("", "node1", "node2", "node9"))
        odd = {"address": chance.choice(("10.10.1.1", "10.10.1.99", "fd00::1", "x\ny")), "name": f"x{chance.random()}"}
        return {**first, **odd, "node": node, "kind": chance.choice(("external", "reflector", "client", "mesh"))}

    lies: tuple[t.Callable[[], t.Any], ...] = (
        lambda: ipam["blocks"].append(block()),
        lambda: ipam["blocks"].extend(block() for dummy in range(2_000)),
        lambda: ipam["spare_blocks"].append(block()),
        lambda: ipam.update(blocks=[], spare_blocks=[]),
        lambda: ipam.update(generation=chance.choice((0, 1, 2, 99, 20_000, 2**50))),
        lambda: ipam["workloads"].update({chance.choice(("w1", "w3", "x\ny")): address()}),
        lambda: ipam["tunnels"].update(ipip=address()),
        lambda: found["ipam"]["allocated"].update((address(), "x") for dummy in range(chance.choice((1, 70, 3_000)))),
        lambda: found["ipam"].update(allocated={f"{ipam['blocks'][0]['cidr'][:-4]}{n}": "x" for n in range(64)}),
        lambda: found["ipam"]["opened"].append(block()["cidr"]),
        lambda: state.update(phase=chance.choice(("prepare", "flip", "retire"))),
        lambda: state.update(underlay_mtu=chance.choice((1280, 9000))),
        lambda: [entry.update(encapsulation="VXLAN") for entry in state["pools"]],
        lambda: state["pools"].append({**state["pools"][0], "name": "other", "cidr": "10.0.0.0/8"}),
        lambda: state.update(bird=None),
        lambda: bird["blocks"].extend(block()["cidr"] for dummy in range(chance.choice((1, 11, 2_000)))),
        lambda: state["bird_routes"].append({**state["bird_routes"][0], "destination": block()["cidr"]}),
        lambda: bird["peers"].append(peer()),
        lambda: bird["peers"].extend({**peer(), "name": f"x{n}"} for n in range(2_000)),
        lambda: [entry.update(as_number=chance.randrange(1, 99)) for entry in bird["peers"]],
        bird["peers"].clear,
        lambda: bird.update(
            chance.choice(({"hold_time": 33}, {"router_id": "192.0.2.1"}, {"cluster_id": "192.0.2.1"}))
        ),
        lambda: bird.update(backups=[{"destination": chance.choice(others), "next_hop": "10.10.1.11"}]),
        lambda: [entry.update(device=chance.choice(("", "vxlan.calico"))) for entry in bird["pools"]],
        lambda: state.update(node=chance.choice(("node1", "node2", "node9"))),
        lambda: found.update(passwords_changed=["x"] * chance.choice((1, 500))),
        lambda: found.update(state=None),
    )
    for lie in chance.sample(lies, chance.choice((1, 1, 2, 3))):
        if found["state"] is not None and (ipam["blocks"] or lie is not lies[8]):
            lie()
    return found
