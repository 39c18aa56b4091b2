# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes of other programs to rules, sets, routes and sysctls, on any kernel."""

from __future__ import annotations

import random
import re
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import ipset
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.iptables_saved import (
    PREFIX,
    Chains,
    parse,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    Kernel,
    RouteAttributes,
    RouteOperation,
)

#: What other programs do to rules, to sets, and to routes and sysctls beside `model.sabotage`.
RULES = (
    *("flush", "flush all", "insert", "append", "delete", "replace", "alter", "order"),
    *("unhook", "before us", "new chain"),
)
SETS = ("add member", "delete member", "other member", "flush set", "new empty set", "extra set", "lose ours")
FOREIGN = (*RULES, *RULES, *SETS, *SETS, *("replace route", "sysctl") * 2)

_TARGET = re.compile(r"(?<!\S)-[jg] \S+")

#: The beginnings of the addresses of the node's own workloads.
_OWN = ("10.244.", "fd00:10:244:")


def write(kernel: Kernel, what: str, seed: int, backend: str = "nft") -> bool:
    """Do what another program does; return whether there was something to do it to.

    `seed` chooses the object. `backend` is that of the tables, nft or legacy. A refused write does nothing.
    """
    rng = random.Random(f"{what} {seed}")
    if what in RULES:
        return _write_rules(kernel, what, rng, backend)
    if what in SETS:
        return _write_sets(kernel, what, rng)
    return _write_sysctl(kernel, rng) if what == "sysctl" else _replace_route(kernel, rng)


def _write_rules(kernel: Kernel, what: str, rng: random.Random, backend: str) -> bool:
    program = rng.choice(("iptables", "iptables", "ip6tables"))
    tables = parse(kernel.run([f"{program}-{backend}-save"]).output).tables
    places = [
        (table, chain)
        for table, chains in sorted(tables.items())
        for chain in sorted(chains)
        if chain.startswith(PREFIX)
    ]
    if not places:
        return False
    table, chain = rng.choice(places)
    text = "\n".join([f"*{table}", *_lines(what, rng, tables[table], chain), "COMMIT", ""])
    return kernel.run([f"{program}-{backend}-restore", "--noflush"], text).code == 0


def _lines(what: str, rng: random.Random, chains: Chains, chain: str) -> t.Iterator[str]:
    """Yield the lines of iptables-restore for one table; nothing if there is no such rule."""
    hooked = [
        (name, number)
        for name, rules in sorted(chains.items())
        if not name.startswith(PREFIX)
        for number, rule in enumerate(rules, 1)
        if rule.hash
    ]
    rules = len(chains[chain])
    number = rng.randint(1, max(rules, 1))
    if what == "flush":
        yield f"-F {chain}"
    elif what == "flush all":
        yield from (f"-F {name}" for name in chains)
        yield from (f"-X {name}" for name in chains if name.startswith(PREFIX))
    elif what in ("insert", "append"):
        yield f"-I {chain} {number} -j RETURN" if what == "insert" else f"-A {chain} -j RETURN"
    elif what == "new chain":
        yield f":{PREFIX}of-others - [0:0]"
    elif what == "delete" and rules:
        yield f"-D {chain} {number}"
    elif what == "replace" and rules:
        yield f"-R {chain} {number} -j RETURN"
    elif what == "alter" and rules:  # it keeps our comment
        yield f"-R {chain} {number} {_TARGET.sub('-j RETURN', chains[chain][number - 1].text)}"
    elif what == "order" and rules > 1:
        yield f"-D {chain} {number}"
        yield f"-I {chain} {1 if number > 1 else rules} {chains[chain][number - 1].text}"
    elif what in ("unhook", "before us") and hooked:
        name, place = rng.choice(hooked)
        yield f"-D {name} {place}" if what == "unhook" else f"-I {name} 1 -p udp -j ACCEPT"


def _write_sets(kernel: Kernel, what: str, rng: random.Random) -> bool:
    saved = [line.split() for line in kernel.run(["ipset", "save"]).output.splitlines()]
    made = {words[1]: words[2] for words in saved if words[0] == "create" and ipset.is_ours(words[1])}
    if not made:
        return False
    name = rng.choice(sorted(made))
    members = sorted(words[2] for words in saved if words[:2] == ["add", name])
    family = "inet6" if ipset.is_ipv6(name) else "inet"
    lines = {
        "add member": [f"add {name} {_member(rng, made[name], family)}"],
        "delete member": [f"del {name} {rng.choice(members)}"] if members else [],
        "other member": [f"del {name} {rng.choice(members)}", f"add {name} {_member(rng, made[name], family)}"]
        if members
        else [],
        "flush set": [f"flush {name}"],
        "new empty set": [
            f"create of-others {made[name]} family {family}",
            f"swap {name} of-others",
            "destroy of-others",
        ],
        "lose ours": [
            f"del {words[1]} {words[2]}"
            for words in saved
            if words[0] == "add" and words[2].startswith(_OWN) and words[1] in made
        ],
        "extra set": [f"create {name[:6]}s:of-others hash:net family {family}"],
    }[what]
    return bool(lines) and kernel.run(["ipset", "-exist", "restore"], "\n".join([*lines, ""])).code == 0


def _member(rng: random.Random, kind: str, family: str) -> str:
    """Return a member that no set of ours has."""
    address = f"203.0.113.{rng.randint(1, 250)}" if family == "inet" else f"2001:db8:113::{rng.randint(1, 250)}"
    return address + {"hash:ip,port": ",tcp:4242", "hash:net,iface": ",cali-none"}.get(kind, "")


def _replace_route(kernel: Kernel, rng: random.Random) -> bool:
    """Replace a route of ours by one of BIRD's protocol number, which leads nowhere."""
    found = sorted(
        (destination, one.metric)
        for family in (4, 6)
        for destination, one in kernel.routes(table=254, protocol=179, family=family)
    )
    if not found:
        return False
    destination, metric = rng.choice(found)
    other = RouteAttributes("unreachable", protocol=12, metric=metric)
    return not kernel.route_batch([RouteOperation("replace", destination, other)])


def _write_sysctl(kernel: Kernel, rng: random.Random) -> bool:
    """Change a sysctl of a host end that no notification announces."""
    ends = sorted(link.name for link in kernel.links() if link.name.startswith("cali"))
    keys = [(f"net/ipv4/neigh/{name}/proxy_delay", "80") for name in ends]
    keys += [(f"net/ipv6/conf/{name}/forwarding", "0") for name in ends]
    if not keys:
        return False
    kernel.sysctl_write(*rng.choice(keys))
    return True
