# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors of an inventory that cannot become a fleet, not only the first one.

After each error the refused value is taken out and the rest is read again. So each error is the compiler's own. An
error that may follow from an earlier one is left out.
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
from .finding import ERROR, LintFinding

#: The most readings of the inventory. Each finds one error at most, so this is also the most errors that are reported.
MOST = 20
RULE = "refused"
#: Beginnings of FleetError.variable. An error there that is not the first is left out, because it may follow from what
#: was taken out. An invalid value of these variables themselves is left out then as well.
_OF_THE_REST = ("group ", "calico_bgp_node_to_node_mesh", "calico_bgp_enabled")

#: The pool that replaces the last one that is taken out, because a fleet has at least one. Its range is reserved for
#: benchmarks (RFC 2544), so no other range of an inventory should overlap it.
_STAND_IN = {"name": "stand-in", "cidr": "198.18.0.0/15", "vxlanMode": "Always"}

_ENTRY = re.compile(r"(calico_\w+)\[(\d+)\]")


def read(
    hosts: t.Sequence[Host], documents: t.Sequence[Document] = ()
) -> tuple[t.Optional[Inventory], tuple[FleetError, ...]]:
    """Return the inventory and (), or None and the errors of `hosts` and `documents`, at most 20.

    Errors that may follow from an earlier one are left out, as `_Rest.follows` decides. `documents` are policy
    resources from files. The search ends at an error that is not about the value of a variable, such as one in a file
    or a missing variable.
    """
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


def finding(error: FleetError) -> LintFinding:
    """Return `error` as a finding of the rule `refused` with severity error."""
    bare = FleetError(error.variable, error.value, error.rule, "")
    return LintFinding(ERROR, RULE, error.variable, error.origin, str(bare).rstrip(), error.remedy)


class _Rest:
    """The hosts of an inventory without the values that were taken out."""

    def __init__(self, hosts: t.Sequence[Host]) -> None:
        self._written = hosts
        self.hosts = list(hosts)
        self._gone: dict[tuple[str, str], list[int]] = {}  # (list, host or ""): indexes in the inventory, as written
        self._names: set[str] = set()  # names of resources and hosts that were taken out
        self._variables: set[str] = set()
        self._whole: set[str] = set()  # variables that were taken out as a whole

    def take_out(self, path: str) -> bool:
        """Take out the value that an error names by `path`; return False if the hosts do not have it.

        The value is an entry of a list or a whole variable. If the last pool is taken out, a stand-in takes its place.
        If a host's address is invalid, the host itself is taken out, unless it is the only one.
        """
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
            if not isinstance(values, (list, tuple)) or index >= len(values):
                return False
            self._name(values[index])
            self._gone.setdefault((name, owner), []).append(self._index(name, owner, index))
            left = [*values[:index], *values[index + 1 :]]
            self._replace(having, name, [_STAND_IN] if not left and name == "calico_ip_pools" else left)
        elif name in node_address.VARIABLES.values() and len(self.hosts) > len(having):
            self._names.update(host.name for host in having)
            self.hosts = [host for host in self.hosts if host not in having]
        else:
            self._whole.add(name)
            self._replace(having, name, None)
        return True

    def _name(self, entry: t.Any) -> None:
        if isinstance(entry, t.Mapping):
            metadata = entry.get("metadata")
            named = (entry.get("name"), metadata.get("name") if isinstance(metadata, t.Mapping) else None)
            self._names.update(str(one) for one in named if one)

    def _replace(self, having: t.Collection[Host], name: str, value: t.Any) -> None:
        """Set variable `name` of the hosts `having` to `value`, or remove it if `value` is None."""
        names = {host.name for host in having}
        for position, host in enumerate(self.hosts):
            if host.name in names:
                changed = {key: held for key, held in host.variables.items() if key != name}
                if value is not None:
                    changed[name] = value
                self.hosts[position] = dataclasses.replace(host, variables=changed)

    def follows(self, error: FleetError) -> bool:
        """Return whether `error` may be there only because this search has taken wrong entries out of the inventory.

        That is so if it names a variable, resource or host that was taken out, the variable also of another host. Any
        error about a group, the mesh or calico_bgp_enabled counts as such, also if it has another cause.
        """
        if error.variable.startswith(_OF_THE_REST) or error.variable.partition(" of ")[0] in self._variables:
            return True
        if any(name in error.rule for name in self._whole):
            return True  # The rule names a variable that was taken out as a whole: it may have had the missing value.
        words = set(re.findall(r"[\w.-]*\w", f"{error.value} {error.rule}"))
        return bool(words & self._names)

    def as_written(self, error: FleetError) -> FleetError:
        """Return `error` with the indexes that entries have in the inventory as it is written, and their file and line.

        `error` has the indexes in the lists that are left.
        """
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
