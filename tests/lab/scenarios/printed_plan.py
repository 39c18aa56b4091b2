# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that `--check --diff` prints, compared with what a run then changes on the hosts.

`read` parses the printed plan. `check` compares it with two `Observed`, which are independent of plans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.lab.measure.checks import PROBE_INTERFACE, PROBE_NETNS
from tests.lab.measure.observed import Observed

_HEAD = re.compile(r"^(node\d+)  (\d+) changes? +plan [0-9a-f]+$")
_PHASE = re.compile(r"^(node\d+)  (prepare|links|flip|retire) +(\d+) changes?$")
_LINE = re.compile(r"^  ([+~!=-]) (\w+) +(\S.*)$")

#: Files that a plan does not name. Some go with others: the engine is a folder with a link to it, the state is also
#: kept as a generation, and an enabled unit is a link. Hosts write other ones for themselves while they run.
_BEHIND = re.compile(
    r"/usr/local/lib/calico/([0-9a-f]+/.*|manifests/.*|start)"
    r"|/var/lib/calico/generations/\d+\.json"
    r"|/etc/systemd/system/multi-user\.target\.wants/calico-(agent|bird|firewall|node-state)\.service"
    r"|/etc/systemd/system/bird\.service"
    r"|/run/calico/.*"
    r"|/var/lib/calico/ipam/.*"
)


class Line(NamedTuple):
    """One line of a plan; `before` and `after` are as printed, `after` without a note; "" where there is none."""

    action: str
    kind: str
    subject: str
    before: str
    after: str


def read(output: str) -> dict[str, list[Line]]:
    """Return {node: lines} of the whole plans in `output`; assert that each heading has the number of its changes."""
    return {node: lines for (node, phase), lines in _read(output).items() if not phase}


def read_phases(output: str) -> dict[str, dict[str, list[Line]]]:
    """Return {phase: {node: lines}} of a change of mode, with the assertion of `read`."""
    found: dict[str, dict[str, list[Line]]] = {}
    for (node, phase), lines in _read(output).items():
        if phase:
            found.setdefault(phase, {})[node] = lines
    return found


def _read(output: str) -> dict[tuple[str, str], list[Line]]:
    """Return {(node, phase): lines}; the phase is "" for a whole plan. Assert that headings have the right numbers."""
    found: dict[tuple[str, str], list[Line]] = {}
    counts: dict[tuple[str, str], int] = {}
    key: tuple[str, str] | None = None
    for line in output.splitlines():
        whole, phase = _HEAD.match(line), _PHASE.match(line)
        if whole or phase:
            node, name, count = (whole[1], "", whole[2]) if whole else phase.groups() if phase else ("", "", "0")
            key = (node, name)
            found[key], counts[key] = [], int(count)
            continue
        match = _LINE.match(line)
        if not match:
            key = None  # the lines up to the next heading are texts of files, not changes
        elif key:
            found[key].append(_line(*match.groups()))
    shown = {key: sum(line.action != "=" for line in lines) for key, lines in found.items()}
    assert shown == counts, (counts, found)
    return found


def _line(action: str, kind: str, rest: str) -> Line:
    subject, _, text = rest.partition("  ")
    before, arrow, after = text.strip().partition("  ->  ")
    if not arrow:
        before, after = (before, "") if action == "-" else ("", before)
    return Line(action, kind, subject, before, re.split(r" {4,}", after)[0])  # a note follows after 4 spaces


class _Plan:
    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = [line for line in lines if line.action in "+~-"]

    def of(self, *kinds: str) -> list[Line]:
        return [line for line in self.lines if line.kind in kinds]

    def subjects(self, *kinds: str) -> set[tuple[str, str]]:
        return {(line.action, line.subject) for line in self.of(*kinds)}


def check(lines: Iterable[Line], before: Observed, after: Observed, files: bool = True) -> None:
    """Assert that the plan names the differences of two observations of a host, and no others.

    Compared are routes, rules, devices, addresses, neighbours, forwarding entries, IP sets, iptables, workloads,
    sysctls, units and files. Rules are those by a mark or for probes; neighbours and forwarding entries are those of
    vxlan.calico. Sysctls that the kernel changes along with planned ones need not be named. Files of _BEHIND are
    ignored. `files` False: packages were installed as well, so the changed files need only include the planned ones.
    """
    plan = _Plan(lines)
    name = after.name
    _same(name, "routes", _planned_routes(plan, False), _changed(_routes(before), _routes(after)))
    _same(name, "routes of probes", _planned_routes(plan, True), _changed(_probe_routes(before), _probe_routes(after)))
    _same(name, "rules", plan.subjects("rule"), _keys(_changed(_rules(before), _rules(after))))
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
        {(line.action, _namespace(line)) for line in plan.of("workload") if line.action in "+-"},
        _keys(_changed(dict.fromkeys(before.raw["namespaces"], ""), dict.fromkeys(after.raw["namespaces"], ""))),
    )
    _same(name, "routes of workloads", _rerouted(plan), _routes_inside(before, after))
    _check_sysctls(plan, before, after)
    _same(name, "units", _planned_units(plan), _units(before, after))
    written = _keys(_changed(_files(before), _files(after)))
    planned = plan.subjects("file", "bird")
    if files:
        _same(name, "files", planned, written)
    else:
        assert planned <= written, (name, planned - written)


def _same(name: str, what: str, planned: set[Any], actual: set[Any]) -> None:
    missing, unsaid = sorted(planned - actual), sorted(actual - planned)
    assert planned == actual, f"{name}, {what}: planned and not done {missing}, done and not planned {unsaid}"


def _changed(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> set[tuple[Any, ...]]:
    """Return {(action, key, value)} of the differences; the value is the new one, or the old one for a removed key.

    The action is "+", "-" or "~".
    """
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


def _keys(changed: set[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    return {(action, key) for action, key, _ in changed}


def _word(line: Line, label: str) -> str:
    words = (line.after or line.before).split()
    return words[words.index(label) + 1]


# --- These functions check routes and rules -------------------------------------------------------------------------


_PROBES = " table 179"


def _planned_routes(plan: _Plan, probes: bool) -> set[tuple[str, str, str]]:
    return {
        (line.action, line.subject, (line.after or line.before).replace(_PROBES, ""))
        for line in plan.of("route")
        if (_PROBES in line.after + line.before) is probes
    }


def _probe_routes(observed: Observed) -> dict[str, str]:
    """Return the routes of the table for probes as {destination: text}."""
    found = {}
    for route in observed.raw["tables"]:
        if str(route.get("table")) == "179":
            words = [
                "via",
                route["gateway"],
                "dev",
                route["dev"],
                *(flag for flag in route["flags"] if flag == "onlink"),
            ]
            found[route["dst"]] = " ".join(words)
    return found


def _rules(observed: Observed) -> dict[str, str]:
    """Return {priority: mark and interface} of the rules by a mark, or for the probe endpoint; others are ignored."""
    return {
        str(rule["priority"]): f"{rule.get('fwmark', '')} {rule.get('iif', '')}"
        for rule in observed.raw["rules"]
        if "fwmark" in rule or rule.get("iif") == PROBE_INTERFACE
    }


def _routes(observed: Observed) -> dict[str, str]:
    """Return {destination with its length, or "default": text as in a plan} of the main table."""
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


# --- These functions check devices, their addresses and neighbours, routes inside namespaces ------------------------


def _namespace(line: Line) -> str:
    """Return the network namespace of the workload, or probe endpoint, that a line of a plan is about."""
    return PROBE_NETNS if line.subject == PROBE_INTERFACE else line.subject.partition("/")[2]


def _check_links(plan: _Plan, before: Observed, after: Observed) -> None:
    planned = plan.subjects("device")
    for line in plan.of("workload"):
        end = re.search(r"host end (cali\w+)|probe endpoint", line.after or line.before)
        if end and line.action in "+-":
            planned.add((line.action, end.group(1) or PROBE_INTERFACE))
    changing = {
        _namespace(line)
        for line in plan.of("workload")
        if line.action == "~" and any(part.startswith("mtu ") for part in line.after.split("  "))
    }
    ends = {workload["interface"] for workload in after.workloads if workload["name"] in changing}
    ends |= {PROBE_INTERFACE} if PROBE_NETNS in changing else set()
    planned |= {("~", end) for end in ends}
    _same(after.name, "devices", planned, _keys(_changed(_links(before), _links(after))))


def _links(observed: Observed) -> dict[str, str]:
    """Return {name of a link: a text with its MTU, its MAC address and whether it is up}.

    tunl0 is created and deleted only by loading and unloading its module, so it is left out unless it is up.
    """
    return {
        name: f"{link['mtu']} {link.get('address')} {'UP' in link['flags']}"
        for name, link in observed.links.items()
        if name != "tunl0" or "UP" in link["flags"]
    }


def _addresses(observed: Observed, links: Mapping[str, dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Return the observed addresses on tunnels and on devices in `links` as {(address, device): ""}.

    `links` are those of the other observation: a plan does not name the addresses of other devices that come or go.
    """
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


def _rerouted(plan: _Plan) -> set[str]:
    """Return the names of the workloads whose routes inside their namespaces change, by the plan."""
    return {
        _namespace(line)
        for line in plan.of("workload")
        if line.action == "~" and any(part.startswith(("default ", "169.254.1.1 ")) for part in line.after.split("  "))
    }


def _routes_inside(before: Observed, after: Observed) -> set[str]:
    old, new = before.raw["namespaces"], after.raw["namespaces"]
    return {name for name in old.keys() & new.keys() if old[name]["routes"] != new[name]["routes"]}


# --- the host -------------------------------------------------------------------------------------------------------


def _chains(before: Observed, after: Observed) -> set[str]:
    return {subject for _, subject in _keys(_changed(_filled(before), _filled(after)))}


def _filled(observed: Observed) -> dict[str, list[str]]:
    """Return {"table chain": rules} of all chains that have rules or belong to the collection.

    The key of an IPv6 chain ends in " (IPv6)". Other empty chains are left out, because they appear as soon as a
    program lists their table.
    """
    return {
        f"{table} {chain}{family}": rules
        for chains, family in ((observed.chains, ""), (observed.chains6, " (IPv6)"))
        for (table, chain), rules in chains.items()
        if rules or chain.startswith("cali-")
    }


def _check_sysctls(plan: _Plan, before: Observed, after: Observed) -> None:
    swap = str.maketrans("./", "/.")
    planned = {line.subject.translate(swap): line.after for line in plan.of("sysctl")}
    old, new = before.raw["sysctls"], after.raw["sysctls"]
    assert {key: new.get(key) for key in planned} == planned, after.name
    for key in new:
        name = key.rpartition("/")[2]
        # A new interface begins with the default's value; neigh/default exists in the first namespace only.
        folder = "/".join(key.split("/")[:3])
        fresh = new.get(f"{folder}/default/{name}", new.get(f"{folder}/lo/{name}"))
        expected = old.get(key, fresh)
        if new[key] == expected or key in planned:
            continue
        # The kernel copies ip_forward to all present interfaces, and to the default for new ones.
        assert name == "forwarding" and "net/ipv4/ip_forward" in planned, (
            f"{after.name}: {key} went from {expected} to {new[key]}, and the plan does not say so"
        )


def _planned_units(plan: _Plan) -> set[tuple[str, str, bool]]:
    """Return {(unit, a key of _ASPECTS such as "enabled", True if the unit becomes so, False if it no longer is)}."""
    found = set()
    for line in plan.of("unit"):
        old, new = (set(text.split(", ")) & _ASPECTS.keys() for text in (line.before, line.after))
        found |= {(line.subject, word, True) for word in new - old} | {
            (line.subject, word, False) for word in old - new
        }
    return found


_ASPECTS = {
    "enabled": ("UnitFileState", {"enabled"}),
    "started": ("ActiveState", {"active", "activating", "reloading"}),
    "masked": ("LoadState", {"masked"}),
}


def _units(before: Observed, after: Observed) -> set[tuple[str, str, bool]]:
    found = set()
    for unit, now in after.raw["units"].items():
        for word, (key, values) in _ASPECTS.items():
            old, new = before.raw["units"][unit].get(key) in values, now.get(key) in values
            if old != new:
                found.add((unit, word, new))
    return found


def _files(observed: Observed) -> dict[str, str]:
    return {path: digest for path, digest in observed.raw["files"].items() if not _BEHIND.fullmatch(path)}
