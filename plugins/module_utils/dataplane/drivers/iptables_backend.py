# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two kernel parts behind iptables, nft and legacy: the choice of the one to write, and the content of both.

Packets pass through both. We write the one that the host's `iptables` writes, unless the other one has clearly more
rules of others: then the host's packet filter lives there, and its administrators would not see our rules elsewhere.
(Calico compares the numbers only, and so takes legacy on a clean host, where both are 0.) Our rules in the other
backend, left from before a switch, are read too; they are found superfluous and removed. While `iptables` and
`ip6tables` write different backends, each IP version has the one of its program.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import iptables_encoding as encoding
from ...base.not_encodable import NotEncodable
from ...state.node_state import IptablesTable
from ..change import ObserveError
from ..kernel.port import ChangedChain, Completed, Kernel
from .iptables_saved import Chains, Saved, TablePlace, parse

FAMILIES: t.Mapping[int, str] = {4: "iptables", 6: "ip6tables"}

#: The programs whose files decide which backend is read and written.
PROGRAMS = tuple(f"{name}{verb}" for name in FAMILIES.values() for verb in ("", "-save", "-restore"))

_HAS_IPV6 = "net/ipv6/conf/all/disable_ipv6"

#: The least number of rules of others in the backend that `iptables` does not write, if it is to count as the host's
#: own. It must also have more of them than the other backend. Calico has the same number.
CLEARLY = 10

#: Number of attempts to read the host's own backend: iptables-nft-save fails if another process writes meanwhile.
_ATTEMPTS = 3

_FEW = 8  # chains of a table that are read one by one; each takes a process
_NO_CHAIN = "No chain/target/match by that name"

_OTHER = {"nft": "legacy", "legacy": "nft"}

#: The backend of tables whose IP versions have different ones.
BOTH = "nft and legacy"


@dataclasses.dataclass(frozen=True)
class Observed:
    """The content of the tables.

    `programs` maps IP versions to the programs that are to write them. `backend` is the backend of these programs (nft
    or legacy), "" if iptables is not installed or fails, and `BOTH` if the IP versions have different ones. `families`
    are the IP versions of the kernel.
    """

    programs: t.Mapping[int, str] = dataclasses.field(default_factory=lambda: FAMILIES)
    tables: t.Mapping[TablePlace, Chains] = dataclasses.field(default_factory=dict)
    backend: str = ""
    families: tuple[int, ...] = tuple(FAMILIES)

    def table(self, name: str, family: int = 4) -> Chains:
        """Return {chain: rules} of a table of IP version 4 or 6 in the backend to write; {} if it does not exist."""
        return self.tables.get(TablePlace(self.programs[family], name), {})

    def only(self, name: str, family: int = 4) -> Observed:
        """Return a copy that has only this table of IP version 4 or 6, of all backends."""
        tables = {
            place: chains
            for place, chains in self.tables.items()
            if place.table == name and place.program.startswith(FAMILIES[family])
        }
        return dataclasses.replace(self, tables=tables)


def default(kernel: Kernel, program: str = "iptables") -> str:
    """Return the backend that the host's `program` writes, nft or legacy; "" if it is not installed or fails."""
    done = kernel.run([program, "-V"])
    return _written_by(done) if done.code == 0 else ""


def _written_by(version: Completed) -> str:
    """Return the backend that the `iptables` with this output of `iptables -V` writes."""
    return "nft" if "nf_tables" in version.output else "legacy"


def observe(kernel: Kernel, desired: t.Sequence[IptablesTable]) -> Observed:
    """Return the tables of both IP versions and both backends, or of only one backend if `iptables -V` fails.

    What cannot be read is left out if it is neither the backend to write nor that of the host's `iptables`, if no table
    of its IP version is desired, or if `iptables-save` or `ip6tables-save` is not installed. Raise ObserveError if a
    desired table cannot be read for another reason, or has rules that iptables cannot read.
    """
    families = tuple(FAMILIES) if kernel.sysctl_read(_HAS_IPV6) is not None else (4,)
    desired = [table for table in desired if table.family in families]
    used = default(kernel)
    backends = {4: used, 6: (default(kernel, FAMILIES[6]) or used) if used and 6 in families else used}
    mixed = backends[4] != backends[6]
    failed: dict[str, Completed] = {}
    saved = {name: _read(kernel, name, family, desired) for family, name in FAMILIES.items()}
    if used:
        for family, name in FAMILIES.items():
            program = f"{name}-{_OTHER[backends[family]]}"
            done = kernel.run([f"{program}-save"])
            if done.code == 0:
                saved[program] = parse(done.output)
            else:
                failed[program] = done
    tables = {
        TablePlace(program, name): chains for program, found in saved.items() for name, chains in found.tables.items()
    }
    programs, other = dict(FAMILIES), _OTHER.get(used, "")
    if other and not mixed and _foreign(saved, f"-{other}") >= max(CLEARLY, _foreign(saved, "") + 1):
        programs = {family: f"{name}-{other}" for family, name in FAMILIES.items()}
    for table in desired:
        if programs[table.family] in failed:
            raise _unreadable(programs[table.family], failed[programs[table.family]])
        words = saved[programs[table.family]].incompatible.get(table.name)
        if words is not None:
            raise ObserveError(
                f"Table {table.name} of iptables has rules that this host's iptables cannot read: {words}."
                " Something writes it with `nft` directly."
                " Move those rules to a table of their own, then run again."
            )
    written = BOTH if mixed else used if programs == FAMILIES else other
    return Observed(programs, tables, written, families)


def refreshed(kernel: Kernel, observed: Observed, changed: t.Collection[ChangedChain]) -> t.Optional[Observed]:
    """Return `observed`, tables of the backend nft, with what the `changed` chains hold now; other chains stay.

    A table with many of them is read whole. Return None if one of them cannot be read.
    """
    chains: dict[tuple[int, str], set[str]] = {}
    for one in changed:
        if one.version in observed.families:
            chains.setdefault((one.version, one.table), set()).add(one.chain)
    tables = dict(observed.tables)
    for (version, table), names in chains.items():
        place = TablePlace(observed.programs[version], table)
        found = _with_chains(kernel, place, tables[place], names) if place in tables else None
        if found is None:
            done = kernel.run([f"{place.program}-save", "-t", table])
            saved = parse(done.output)
            if done.code != 0 or saved.incompatible:
                return None
            found = saved.tables.get(table)
        if found is None:
            tables.pop(place, None)
        else:
            tables[place] = found
    return dataclasses.replace(observed, tables=tables)


def _with_chains(kernel: Kernel, place: TablePlace, known: Chains, names: t.Collection[str]) -> t.Optional[Chains]:
    """Return `known` with the present rules of these chains, None if the table is to be read whole."""
    if len(names) > _FEW:
        return None
    chains = dict(known)
    for name in names:
        try:
            encoding.check_chain(name, ours=False)
        except NotEncodable:  # It is "" for all chains, or could pass for an option of the program.
            return None
        done = kernel.run([place.program, "-t", place.table, "-S", name])
        if done.code == 0:
            rules = [line for line in done.output.splitlines() if line.startswith("-A ")]
            chains[name] = parse("\n".join([f"*{place.table}", f":{name} -", *rules])).tables[place.table][name]
        elif _NO_CHAIN in done.errors:
            chains.pop(name, None)
        else:
            return None
    return chains


def _read(kernel: Kernel, program: str, family: int, desired: t.Sequence[IptablesTable]) -> Saved:
    for _attempt in range(_ATTEMPTS):
        done = kernel.run([f"{program}-save"])
        if done.code == 0:
            return parse(done.output)
        if done.code == 127:
            break
    # A program that is not installed (127) is reported when changes are applied. A failure matters only if tables of
    # this IP version are desired.
    if done.code == 127 or not any(table.family == family for table in desired):
        return Saved({}, {})
    raise _unreadable(program, done)


def _unreadable(program: str, done: Completed) -> ObserveError:
    """Return the error for `program`, whose PROGRAM-save ended as `done` says though its table is desired."""
    return ObserveError(
        f"The {program} rules cannot be read ({program}-save): {done.first_line}."
        " See that the kernel has nf_tables or iptables (Debian: linux-image-amd64), then run again."
    )


def _foreign(saved: t.Mapping[str, Saved], suffix: str) -> int:
    """Return the number of rules of others, of both IP versions, in the backend of this suffix, if `saved` has it.

    The suffix is "-nft" or "-legacy", or "" for the backend of the host's `iptables`.
    """
    return sum(
        not rule.hash
        for name in FAMILIES.values()
        for chains in saved.get(name + suffix, Saved({}, {})).tables.values()
        for rules in chains.values()
        for rule in rules
    )


class Backends(t.NamedTuple):
    """The state of both backends.

    `used` is the one that the host's `iptables` writes, nft or legacy. `version` is the program's, "" if it prints
    none. `rules` is a mapping from backend to its number of IPv4 rules, None if it cannot be read.
    """

    used: str
    version: str
    rules: t.Mapping[str, t.Optional[int]]


def backends(kernel: Kernel) -> t.Optional[Backends]:
    """Return the state of both backends, or None if iptables is not installed or fails."""
    done = kernel.run(["iptables", "-V"])
    if done.code != 0:
        return None
    rules: dict[str, t.Optional[int]] = {}
    for name in ("nft", "legacy"):
        saved = kernel.run([f"iptables-{name}-save"])
        rules[name] = None
        if saved.code == 0:
            rules[name] = sum(line.startswith("-A ") for line in saved.output.splitlines())
    words = done.output.split()
    return Backends(_written_by(done), words[1].lstrip("v") if len(words) > 1 else "", rules)
