# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What packet filters of others do on a host: rules per iptables backend, a real Calico's, forwarding dropped."""

from __future__ import annotations

import re
import typing as t

from .files import Files

#: `"cali:` begins the comments of a real Calico; ours is told by the mark that the iptables driver writes.
_CALICO_COMMENT = re.compile(r'--comment "?cali:')
_NFT_CHAIN = re.compile(r"chain (\S+) \{\s*type filter hook forward [^}]*?policy drop;", re.DOTALL)
_NFT_TABLE = re.compile(r"^table (\S+ \S+) \{(.*?)^\}", re.DOTALL | re.MULTILINE)


def observe(files: Files, run: t.Callable[..., t.Any]) -> dict[str, t.Any]:
    """Counts and names, see `judge` for their use. Legacy tables are dumped only if there are any."""
    saved = {}
    if files.read("/proc/net/ip_tables_names").strip():
        saved["legacy"] = _lines(run, "iptables-legacy-save")
    saved["nft"] = _lines(run, "iptables-nft-save")
    facts: dict[str, t.Any] = {"rules": {}, "forward_drop": [], "chains_of": [], "calico_rules": {}}
    for backend, lines in saved.items():
        _read(backend, lines, facts)
    for table, chain in _native_drops(run):
        facts["forward_drop"].append(f"chain {chain} of nftables table {table}")
    return facts


def _lines(run: t.Callable[..., t.Any], program: str) -> list[str]:
    result = run([program], timeout=30.0)
    return str(result.output).splitlines() if result.code == 0 else []


def _read(backend: str, lines: t.Sequence[str], facts: dict[str, t.Any]) -> None:
    table = ""
    rules = 0
    for line in lines:
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":FORWARD DROP") and table == "filter":
            facts["forward_drop"].append(f"chain FORWARD of iptables table filter ({backend})")
        elif line.startswith(":DOCKER") and "docker" not in facts["chains_of"]:
            facts["chains_of"].append("docker")
        elif line.startswith(":ufw-") and "ufw" not in facts["chains_of"]:
            facts["chains_of"].append("ufw")
        elif line.startswith("-A"):
            rules += 1
            if "cali-" in line and _CALICO_COMMENT.search(line):
                facts["calico_rules"][table] = facts["calico_rules"].get(table, 0) + 1
    facts["rules"][backend] = rules


def _native_drops(run: t.Callable[..., t.Any]) -> t.Iterator[tuple[str, str]]:
    """(table, chain) of the base chains of nftables, other than iptables' own, that drop what is forwarded."""
    result = run(["nft", "list", "chains"], timeout=30.0)
    if result.code != 0:
        return
    for table, body in _NFT_TABLE.findall(result.output):
        for chain in _NFT_CHAIN.findall(body):
            if (table, chain) != ("ip filter", "FORWARD") and table.split()[0] in ("ip", "inet"):
                yield table, chain
