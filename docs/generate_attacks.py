# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the table of attacks of docs/explanation/security.md. With --check it only fails if the table is out of date.

The table is made of the docstrings of the tests in tests/integration/attacks: what is tried, and the fields Gain,
Precedent, Closed and Result. A test without one of them is an error.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "security.md"
TESTS = ROOT / "tests" / "integration" / "attacks"
MARKER = "<!-- Below: written by `make docs` from the docstrings of tests/integration/attacks. -->\n"
sys.path.insert(0, str(ROOT / "docs"))

from generate_variables import cell, written  # noqa: E402

#: Attacker -> name of a test file, without test_ and .py -> what is attacked. The page has them in this order.
SECTIONS: dict[str, dict[str, str]] = {
    "Root on another node": {
        "another_node": "Reports of a node to a run",
        "another_node_alone": "Reports of one node about the whole fleet",
        "another_node_addresses": "Reports of one node about addresses of hosts",
        "another_node_probes": "Probes of paths between other nodes",
        "another_node_fuzz": "Reports with random errors",
        "another_node_answers": "Facts and other results that Ansible reads",
        "another_node_cluster": "Answers to playbooks of etcd, to a rollback and to commit-confirm",
        "another_node_terminal": "The operator's terminal",
        "another_node_bgp": "Routes that it announces by BGP",
        "another_node_text": "Texts that reach ipset, iptables, BIRD and systemd",
        "another_node_documents": "Workloads in the datastore",
        "another_node_views": "Lists of the fleet from the datastore",
        "another_node_heartbeats": "Heartbeats in the datastore",
        "another_node_gate": "Etcd behind gates",
        "another_node_connections": "Ports of a member's host",
        "another_node_gate_load": "Time and memory of gates",
        "another_node_etcd": "Etcd without gates",
        "another_node_live": "Live policy",
        "another_node_worst": "The members' memory and all their readers",
    },
    "An operator of live policy": {
        "operator": "Keys, rights and files",
        "operator_documents": "Documents and changes, on purpose or by a slip",
    },
    "A member of the etcd cluster": {
        "etcd_member": "Readers of the datastore",
        "etcd_member_restored": "What etcd had earlier",
    },
    "A workload": {
        "workload_gate": "Connections to gates without a certificate",
        "workload_packets": "Packets with forged sources, encapsulated packets and neighbours",
        "workload_conntrack": "Connections that the node tracks",
        "workload_devices": "Settings of the host's devices",
        "workload_bgp": "BGP and BFD sessions",
        "workload_etcd": "Members of etcd",
        "workload_namespace": "Network namespaces",
        "workload_cni_fuzz": "Parameters of the CNI plugin",
        "workload_prev_result": "Results of earlier CNI plugins",
        "workload_netavark_fuzz": "Parameters of podman's plugin",
    },
    "A host on the underlay": {
        "neighbour_packets": "Packets to workloads",
        "neighbour_devices": "Tunnel devices",
        "neighbour_host_endpoints": "Ports of a host with a HostEndpoint",
    },
    "A member of the group calico": {
        "reader": "The agent's API",
        "reader_fuzz": "The agent's API, with random requests",
    },
    "Nobody, but a clock is wrong": {"wrong_clock": "Clocks an hour off, and certificates that are not valid"},
    "A local user": {
        "local_user": "Sockets, files and metrics",
        "local_user_engine": "The engine's files",
        "local_user_units": "Boot and units",
        "local_user_ports": "Published ports at ::1",
        "local_user_etcd": "Ports of a member of etcd",
    },
    "A user of Docker": {
        "docker_user": "The Docker driver",
        "docker_user_labels": "Names and labels of containers",
        "docker_user_etcd": "Members of etcd",
    },
    "A hostile document": {
        "hostile_document": "Readers of documents",
        "hostile_lockfile": "Lockfiles",
        "hostile_calico": "Documents and settings of a Calico",
        "hostile_names": "Completion of shells",
    },
}
_FIELDS = ("Gain", "Precedent", "Closed", "Result")
_FIELD = re.compile(rf"^({'|'.join(_FIELDS)}): ", re.MULTILINE)
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


class Attack(t.NamedTuple):
    """One test, `test` in the file named `file`. All other fields are from its docstring.

    `summary` is what is tried, and `gain` what it would have given. `precedent` names the kind of weakness (CWE) or
    known vulnerabilities of that kind. `closed` is the release since which it fails, `result` what comes of it here.
    """

    file: str
    test: str
    summary: str
    gain: str
    precedent: str
    closed: str
    result: str


def attacks(folder: pathlib.Path = TESTS) -> t.Iterator[Attack]:
    """Yield the attacks of all test files, sorted by file name.

    Raise ValueError for a docstring without a first line or without one of _FIELDS.
    """
    for path in sorted(folder.rglob("test_*.py"), key=lambda path: path.name):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield _attack(path.name, node)


def _attack(file: str, node: ast.FunctionDef) -> Attack:
    summary, *rest = _FIELD.split(ast.get_docstring(node) or "")
    fields = {name: _sentence(text) for name, text in zip(rest[::2], rest[1::2])}
    missing = [name for name in _FIELDS if not fields.get(name)]
    if not summary.strip() or missing:
        raise ValueError(f"{file}: the docstring of {node.name} lacks {', '.join(missing) or 'a first line'}")
    if not _RELEASE.fullmatch(fields["Closed"]):
        raise ValueError(f"{file}: Closed in the docstring of {node.name} is {fields['Closed']}, not a release.")
    first = summary.strip().splitlines()[0]
    return Attack(file, node.name, first, *(fields[name] for name in _FIELDS))


def _sentence(text: str) -> str:
    """Return the text on one line, with a capital letter first."""
    joined = " ".join(text.split())
    return joined[:1].upper() + joined[1:]


def table() -> str:
    """Return the tables in Markdown: a section for each attacker, and in it one for each file of SECTIONS.

    Raise ValueError if a test file is not in SECTIONS, or as `attacks` does.
    """
    found: dict[str, list[Attack]] = {}
    for one in attacks():
        found.setdefault(one.file[len("test_") : -len(".py")], []).append(one)
    unknown = sorted(set(found) - {file for files in SECTIONS.values() for file in files})
    if unknown:
        raise ValueError(f"no section is known for {', '.join(unknown)}: see SECTIONS")
    lines: list[str] = []
    for attacker, files in SECTIONS.items():
        lines += ["", f"### Tests: {attacker[0].lower()}{attacker[1:]}"]
        for file, title in files.items():
            lines += ["", f"#### {title}", "", "| attack | gain | precedent | closed in | result |"]
            lines.append("|---|---|---|---|---|")
            lines += [
                f"| {cell(one.summary)} `{one.test}` | {cell(one.gain)} | {cell(one.precedent)} | {one.closed} | "
                f"{cell(one.result)} |"
                for one in found.get(file, [])
            ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the whole page: the present text up to MARKER (all of it without one), MARKER and the table.

    Raise the errors of `table`.
    """
    return PAGE.read_text("utf-8").partition(MARKER)[0] + MARKER + table()


if __name__ == "__main__":
    sys.exit(written(PAGE, page()))
