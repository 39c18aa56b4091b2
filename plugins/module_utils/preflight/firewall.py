# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packet filters on a host: rules by iptables backend, rules of a real Calico, and drops of forwarded packets.

ip6tables is read for drops only: iptables shows whose rules there are, and in which backend.
"""

from __future__ import annotations

import re
import typing as t

from .files import Files

#: Comments of a real Calico's rules begin with `cali:`; our iptables driver marks its rules otherwise.
_CALICO_COMMENT = re.compile(r'--comment "?cali:')
_NFT_CHAIN = re.compile(r"chain (\S+) \{\s*type filter hook forward [^}]*?policy drop;", re.DOTALL)
_NFT_TABLE = re.compile(r"^table (\S+ \S+) \{(.*?)^\}", re.DOTALL | re.MULTILINE)

#: (table, chain) in nftables of the chain FORWARD of iptables and ip6tables, which their own programs read.
_IPTABLES = (("ip filter", "FORWARD"), ("ip6 filter", "FORWARD"))
#: The families of tables through which packets of each IP version pass.
_NFT_FAMILIES = {"ipv4": ("ip", "inet"), "ipv6": ("ip6", "inet")}


def observe(files: Files, run: t.Callable[..., t.Any]) -> dict[str, t.Any]:
    """Return facts about the packet filters, for `judge`. Legacy tables are dumped only if there are any.

    For IPv4: `rules`: {"nft" and, if there are legacy tables, "legacy": number of rules}; `chains_of`: a list of
    "docker" and "ufw", if they have chains, and "firewalld", if it has its table; `calico_rules`: {table: number of
    rules of a real Calico}. For both: `forward_drop`: {"ipv4", "ipv6": descriptions of the chains that drop forwarded
    packets by default}. `run` is called as Kernel.run. A program that fails, is missing, or takes more than 30 seconds
    counts as without rules.
    """
    facts: dict[str, t.Any] = {"rules": {}, "chains_of": [], "calico_rules": {}, "forward_drop": {}}
    chains = run(["nft", "list", "chains"], timeout=30.0)
    native = list(_native_drops(chains))
    if chains.code == 0 and "inet firewalld" in dict(_NFT_TABLE.findall(chains.output)):
        facts["chains_of"].append("firewalld")
    for family, program, names in (
        ("ipv4", "iptables", "/proc/net/ip_tables_names"),
        ("ipv6", "ip6tables", "/proc/net/ip6_tables_names"),
    ):
        saved = {}
        if files.read(names).strip():
            saved["legacy"] = _lines(run, f"{program}-legacy-save")
        saved["nft"] = _lines(run, f"{program}-nft-save")
        drops = [
            f"chain FORWARD of {program} table filter ({backend})"
            for backend, lines in saved.items()
            if _drops_forwarded(lines)
        ]
        drops += [
            f"chain {chain} of nftables table {table}"
            for table, chain in native
            if table.split()[0] in _NFT_FAMILIES[family]
        ]
        facts["forward_drop"][family] = drops
        if family == "ipv4":
            for backend, lines in saved.items():
                _read(backend, lines, facts)
    return facts


def _lines(run: t.Callable[..., t.Any], program: str) -> list[str]:
    result = run([program], timeout=30.0)
    return str(result.output).splitlines() if result.code == 0 else []


def _drops_forwarded(lines: t.Sequence[str]) -> bool:
    table = ""
    for line in lines:
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":FORWARD DROP") and table == "filter":
            return True
    return False


def _read(backend: str, lines: t.Sequence[str], facts: dict[str, t.Any]) -> None:
    table = ""
    rules = 0
    for line in lines:
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":DOCKER") and "docker" not in facts["chains_of"]:
            facts["chains_of"].append("docker")
        elif line.startswith(":ufw-") and "ufw" not in facts["chains_of"]:
            facts["chains_of"].append("ufw")
        elif line.startswith("-A"):
            rules += 1
            if "cali-" in line and _CALICO_COMMENT.search(line):
                facts["calico_rules"][table] = facts["calico_rules"].get(table, 0) + 1
    facts["rules"][backend] = rules


def _native_drops(result: t.Any) -> t.Iterator[tuple[str, str]]:
    """Yield (table, chain) of nftables base chains that drop forwarded packets by default, without iptables' own.

    `result` is what `nft list chains` answered. `table` is its family and name, such as "inet filter".
    """
    if result.code != 0:
        return
    for table, body in _NFT_TABLE.findall(result.output):
        for chain in _NFT_CHAIN.findall(body):
            if (table, chain) not in _IPTABLES:
                yield table, chain
