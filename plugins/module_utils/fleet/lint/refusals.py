# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything of which no fleet can be made, not only the first: what is refused is taken out and the rest read again.

So every error is the compiler's own, and what follows from an earlier one is not told: it names something that was
taken out.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...state.errors import FleetError
from ..host import Host, origin
from ..inventory import inventory, node_address
from ..inventory.inventory import Inventory
from ..inventory.policy_sources import Document
from .finding import ERROR, Finding

#: Each costs another reading of the inventory.
MOST = 20
RULE = "refused"
#: What these say is right or wrong by what others say, which may have been taken out.
_OF_THE_REST = ("group ", "calico_bgp_node_to_node_mesh", "calico_bgp_enabled")

#: Of pools none of which can be used: a fleet has at least one (RFC 2544's range, which no network uses).
_STAND_IN = {"name": "stand-in", "cidr": "198.18.0.0/15", "vxlanMode": "Always"}

_ENTRY = re.compile(r"(calico_\w+)\[(\d+)\]")


def read(
    hosts: t.Sequence[Host], documents: t.Sequence[Document] = ()
) -> tuple[t.Optional[Inventory], tuple[FleetError, ...]]:
    """What the variables say, and what is wrong with them: the inventory counts where there is nothing."""
    left = _Rest(hosts)
    errors: list[FleetError] = []
    for _attempt in range(MOST):
        try:
            read_one = inventory.read(left.hosts, documents)
            return (None, tuple(errors)) if errors else (read_one, ())
        except FleetError as error:
            told = left.as_written(error)
            if not errors or not left.follows(told):
                errors.append(told)
            if not left.take_out(error.variable):
                break
    return None, tuple(errors)


def finding(error: FleetError) -> Finding:
    """An error as the rules' findings are."""
    bare = FleetError(error.variable, error.value, error.rule, "")
    return Finding(ERROR, RULE, error.variable, error.origin, str(bare).rstrip(), error.remedy)


class _Rest:
    """Hosts of which some of what they say has been taken out."""

    def __init__(self, hosts: t.Sequence[Host]) -> None:
        self._written = hosts
        self.hosts = list(hosts)
        self._gone: dict[tuple[str, str], list[int]] = {}  # (list, host or "") -> entries as they are written
        self._names: set[str] = set()  # of what was taken out
        self._variables: set[str] = set()
        self._whole: set[str] = set()  # variables that went as a whole

    def take_out(self, path: str) -> bool:
        """What an error is about; False where that is not known."""
        variable, dummy, owner = path.partition(" of ")
        entry = _ENTRY.match(variable)
        name = entry.group(1) if entry else variable.partition(".")[0]
        having = [host for host in self.hosts if name in host.variables and owner in ("", host.name)]
        if not having:
            return False
        self._variables.add(variable)
        if entry:
            index = int(entry.group(2))
            values = having[0].variables[name]
            if not isinstance(values, list) or index >= len(values):
                return False
            self._name(values[index])
            self._gone.setdefault((name, owner), []).append(self._index(name, owner, index))
            left = values[:index] + values[index + 1 :]
            self._replace(having, name, [_STAND_IN] if not left and name == "calico_ip_pools" else left)
        elif name in node_address.VARIABLES.values() and len(self.hosts) > len(having):
            self._names.update(host.name for host in having)
            self.hosts = [host for host in self.hosts if host not in having]
        else:
            self._whole.add(name)
            self._replace(having, name, None)
        return True

    def _name(self, entry: t.Any) -> None:
        if isinstance(entry, dict):
            named = (entry.get("name"), (entry.get("metadata") or {}).get("name"))
            self._names.update(str(one) for one in named if one)

    def _replace(self, having: t.Collection[Host], name: str, value: t.Any) -> None:
        """`value` None: the variable goes."""
        names = {host.name for host in having}
        for position, host in enumerate(self.hosts):
            if host.name in names:
                changed = {key: held for key, held in host.variables.items() if key != name}
                if value is not None:
                    changed[name] = value
                self.hosts[position] = dataclasses.replace(host, variables=changed)

    def follows(self, error: FleetError) -> bool:
        """Whether an error may only be there because of what was taken out."""
        if error.variable.startswith(_OF_THE_REST) or error.variable.partition(" of ")[0] in self._variables:
            return True
        if any(name in error.rule for name in self._whole):
            return True  # it looked for something there
        words = set(re.findall(r"[\w.-]*\w", f"{error.value} {error.rule}"))
        return bool(words & self._names)

    def as_written(self, error: FleetError) -> FleetError:
        """With the numbers that entries have in the inventory, and the place of that."""
        owner = error.variable.partition(" of ")[2]

        def number(found: re.Match[str]) -> str:
            name, index = found.group(1), int(found.group(2))
            return f"{name}[{self._index(name, owner if (name, owner) in self._gone else '', index)}]"

        variable = _ENTRY.sub(number, error.variable)
        rule, remedy = _ENTRY.sub(number, error.rule), _ENTRY.sub(number, error.remedy)
        place = error.origin if variable == error.variable else origin(variable, self._written)
        return FleetError(variable, error.value, rule, remedy, place)

    def _index(self, name: str, owner: str, index: int) -> int:
        for gone in sorted(self._gone.get((name, owner), ())):
            index += gone <= index
        return index
