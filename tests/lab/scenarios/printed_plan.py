# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as `--check --diff` prints it, held against what a run then did, by readings of the host before and after.

`read` knows what is printed, `check` compares it with two `Observed`, which know nothing of plans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.lab.observed import Observed

_HEAD = re.compile(r"^(node\d+)  (\d+) changes? +plan [0-9a-f]+$")
_LINE = re.compile(r"^  ([+~!=-]) (\w+) +(\S.*)$")

#: Files that stand for others: the engine is a folder with a link to it, the state is kept as a generation as well, and
#: enabling a unit is a link. What the hosts keep for themselves while they run is no part of a plan.
_BEHIND = re.compile(
    r"/usr/local/lib/calico/[0-9a-f]+/.*"
    r"|/var/lib/calico/generations/\d+\.json"
    r"|/etc/systemd/system/multi-user\.target\.wants/calico-(bird|node-state)\.service"
    r"|/run/calico/.*"
)


class Line(NamedTuple):
    """`before` and `after` as printed, "" where there is none."""

    action: str
    kind: str
    subject: str
    before: str
    after: str


def read(output: str) -> dict[str, list[Line]]:
    """{node: lines}. The number in each head must be that of its lines."""
    found: dict[str, list[Line]] = {}
    counts: dict[str, int] = {}
    node = ""
    for line in output.splitlines():
        head = _HEAD.match(line)
        if head:
            node = head.group(1)
            found[node], counts[node] = [], int(head.group(2))
            continue
        match = _LINE.match(line)
        if not match:
            node = ""  # what follows is the text of files
        elif node:
            found[node].append(_line(*match.groups()))
    assert {name: len(lines) for name, lines in found.items()} == counts, (counts, found)
    return found


def _line(action: str, kind: str, rest: str) -> Line:
    subject, _, text = rest.partition("  ")
    before, arrow, after = text.strip().partition("  ->  ")
    if not arrow:
        before, after = (before, "") if action == "-" else ("", before)
    return Line(action, kind, subject, before, re.split(r" {4,}", after)[0])  # the note comes after four spaces


class _Plan:
    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = [line for line in lines if line.action in "+~-"]

    def of(self, *kinds: str) -> list[Line]:
        return [line for line in self.lines if line.kind in kinds]

    def subjects(self, *kinds: str) -> set[tuple[str, str]]:
        return {(line.action, line.subject) for line in self.of(*kinds)}


def check(lines: Iterable[Line], before: Observed, after: Observed, files: bool = True) -> None:
    """Asserts that the plan says all that changed, and nothing else. `files` False: packages were installed as well,
    so only that the planned ones changed."""
    plan = _Plan(lines)
    name = after.name
    _same(name, "routes", _planned_routes(plan), _changed(_routes(before), _routes(after)))
    _check_links(plan, before, after)
    _same(
        name,
        "addresses",
        {(line.action, line.subject, (line.after or line.before).split()[1]) for line in plan.of("address")},
        {
            (action, *key)
            for action, key, _ in _changed(_addresses(before, after.links), _addresses(after, before.links))
        },
    )
    _same(
        name,
        "neighbours",
        {(line.action, line.subject, _word(line, "lladdr")) for line in plan.of("neighbor")},
        _changed(_neighbors(before), _neighbors(after)),
    )
    _same(
        name,
        "forwarding entries",
        {(line.action, line.subject, _word(line, "dst")) for line in plan.of("fdb")},
        _changed(_fdb(before), _fdb(after)),
    )
    _same(name, "sets", plan.subjects("ipset"), _keys(_changed(before.ipsets, after.ipsets)))
    _same(name, "iptables", {subject for _, subject in plan.subjects("iptables")}, _chains(before, after))
    _same(
        name,
        "namespaces",
        {(line.action, line.subject.partition("/")[2]) for line in plan.of("workload") if line.action in "+-"},
        _keys(_changed(dict.fromkeys(before.raw["namespaces"], ""), dict.fromkeys(after.raw["namespaces"], ""))),
    )
    _check_sysctls(plan, before, after)
    written = _keys(_changed(_files(before), _files(after)))
    planned = plan.subjects("file", "bird")
    if files:
        _same(name, "files", planned, written)
    else:
        assert planned <= written, (name, planned - written)


def _same(name: str, what: str, planned: set, actual: set) -> None:
    missing, unsaid = sorted(planned - actual), sorted(actual - planned)
    assert planned == actual, f"{name}, {what}: planned and not done {missing}, done and not planned {unsaid}"


def _changed(before: Mapping, after: Mapping) -> set[tuple]:
    """{(action, key, value)}; the value is what it became, for what is gone what it was."""
    return {
        (
            "+" if key not in before else "-" if key not in after else "~",
            key,
            _hashable(after[key] if key in after else before[key]),
        )
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }


def _hashable(value: object) -> object:
    return frozenset(value) if isinstance(value, set) else tuple(value) if isinstance(value, list) else value


def _keys(changed: set[tuple]) -> set[tuple]:
    return {(action, key) for action, key, _ in changed}


def _word(line: Line, label: str) -> str:
    words = (line.after or line.before).split()
    return words[words.index(label) + 1]


# --- routes ---------------------------------------------------------------------------------------------------------


def _planned_routes(plan: _Plan) -> set[tuple[str, str, str]]:
    return {(line.action, line.subject, line.after or line.before) for line in plan.of("route")}


def _routes(observed: Observed) -> dict[str, str]:
    """{destination with its length: what a plan says of it} of the main table."""
    found = {}
    for line in observed.routes:
        words = line.split()
        kind = [words.pop(0)] if words[0] == "blackhole" else []
        destination = words.pop(0)
        for label in ("proto", "scope", "src"):
            if label in words:
                at = words.index(label)
                del words[at : at + 2]
        key = destination if "/" in destination or destination == "default" else f"{destination}/32"
        found[key] = " ".join([*kind, *words])
    return found


# --- devices --------------------------------------------------------------------------------------------------------


def _check_links(plan: _Plan, before: Observed, after: Observed) -> None:
    planned = plan.subjects("device")
    for line in plan.of("workload"):
        end = re.search(r"host end (cali\w+)", line.after or line.before)
        if end and line.action in "+-":
            planned.add((line.action, end.group(1)))
    changing = {line.subject.partition("/")[2] for line in plan.of("workload") if line.action == "~"}
    ends = {workload["interface"] for workload in after.workloads if workload["name"] in changing}
    planned |= {("~", end) for end in ends}
    _same(after.name, "devices", planned, _keys(_changed(_links(before), _links(after))))


def _links(observed: Observed) -> dict[str, str]:
    """tunl0 is never made or deleted by anyone but the module's loading: up is what counts."""
    return {
        name: f"{link['mtu']} {link.get('address')} {'UP' in link['flags']}"
        for name, link in observed.links.items()
        if name != "tunl0" or "UP" in link["flags"]
    }


def _addresses(observed: Observed, links: Mapping[str, dict]) -> dict[tuple[str, str], str]:
    """Of a device that goes, its addresses go unsaid."""
    return {
        (address, device): ""
        for device, addresses in observed.addresses.items()
        for address in addresses
        if device in links or device in ("tunl0", "vxlan.calico")
    }


def _neighbors(observed: Observed) -> dict[str, str]:
    return {entry["dst"]: entry["lladdr"] for entry in observed.raw["neighbors"] if entry["dev"] == "vxlan.calico"}


def _fdb(observed: Observed) -> dict[str, str]:
    return {entry["mac"]: entry["dst"] for entry in observed.raw["fdb"] if entry.get("ifname") == "vxlan.calico"}


# --- the host -------------------------------------------------------------------------------------------------------


def _chains(before: Observed, after: Observed) -> set[str]:
    return {f"{table} {chain}" for _, (table, chain) in _keys(_changed(_filled(before), _filled(after)))}


def _filled(observed: Observed) -> dict[tuple[str, str], list[str]]:
    """Tables and chains of others come into being empty when somebody looks at them."""
    return {key: rules for key, rules in observed.chains.items() if rules or key[1].startswith("cali-")}


def _check_sysctls(plan: _Plan, before: Observed, after: Observed) -> None:
    swap = str.maketrans("./", "/.")
    planned = {line.subject.translate(swap): line.after for line in plan.of("sysctl")}
    old, new = before.raw["sysctls"], after.raw["sysctls"]
    assert {key: new.get(key) for key in planned} == planned, after.name
    for key in new:
        name = key.rpartition("/")[2]
        # A new interface begins with the default's value; neigh/default is there in the first namespace alone.
        folder = "/".join(key.split("/")[:3])
        fresh = new.get(f"{folder}/default/{name}", new.get(f"{folder}/lo/{name}"))
        expected = old.get(key, fresh)
        if new[key] == expected or key in planned:
            continue
        # The kernel copies ip_forward to all interfaces there are, and to the default of those to come.
        assert name == "forwarding" and "net/ipv4/ip_forward" in planned, (
            f"{after.name}: {key} went from {expected} to {new[key]}, and the plan does not say so"
        )


def _files(observed: Observed) -> dict[str, str]:
    return {path: digest for path, digest in observed.raw["files"].items() if not _BEHIND.fullmatch(path)}
