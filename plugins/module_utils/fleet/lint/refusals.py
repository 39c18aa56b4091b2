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
from ..inventory import inventory, node_address, node_inventory
from ..inventory.inventory import Inventory
from ..inventory.policy_sources import Document
from .finding import ERROR, LintFinding

#: The most readings of the inventory. Each finds one error, except that addresses are judged for all hosts at once.
MOST = 100
RULE = "refused"
#: Beginnings of FleetError.variable. An error there that is not the first is left out, because it may follow from what
#: was taken out. An invalid value of these variables themselves is left out then as well.
_OF_THE_REST = ("group ", "calico_bgp_node_to_node_mesh", "calico_bgp_enabled")

#: The pool that replaces the last one that is taken out, because a fleet has at least one. Its range is reserved for
#: benchmarks (RFC 2544), so no other range of an inventory should overlap it.
_STAND_IN = {"name": "stand-in", "cidr": "198.18.0.0/15", "vxlanMode": "Always"}
#: The address of the last host if its own is missing or invalid. Its range is reserved for documentation (RFC 5737).
_STAND_IN_ADDRESS = "203.0.113.1/24"
_ADDRESSES = tuple(node_address.VARIABLES.values())

#: The variables that name files with documents.
_FILES = ("calico_policy_files", "calico_resource_files")

#: The remedy of an error about a misspelt variable.
_MEANT = re.compile(r"Did you mean (calico_\w+)\?")
_WORD = re.compile(r"[\w.-]*\w")
_ENTRY = re.compile(r"(calico_\w+)\[(\d+)\]")
#: An entry in a sentence, its fields, and the host whose list it is in.
_ENTRY_OF = re.compile(r"(calico_\w+)\[(\d+)\](?:((?:\.\w+|\[\d+\])*) of ([\w.-]*\w))?")


class RefusalSearch(t.NamedTuple):
    """The result of `read`.

    `errors` are those of the inventory, in the order of discovery. `inventory` was read from `hosts`, which are those
    of the inventory without the values that the errors refuse. It is None if they cannot be read even so, or if no host
    has an address of its own. `complete` is False if the search ended before all errors were found.
    """

    inventory: t.Optional[Inventory]
    errors: tuple[FleetError, ...]
    hosts: t.Sequence[Host]
    complete: bool
    left: _Rest

    def as_written(self, found: LintFinding) -> t.Optional[LintFinding]:
        """Return a finding with the indexes of entries as written, None if it may follow from what is taken out."""
        if not self.errors:
            return found
        error = self.left.as_written(FleetError(found.variable, None, found.what, found.remedy, found.origin))
        if self.left.follows(error):
            return None
        return dataclasses.replace(
            found, variable=error.variable, what=error.rule, remedy=error.remedy, origin=error.origin
        )


def read(
    hosts: t.Sequence[Host], documents: t.Sequence[Document] = (), known: t.Sequence[FleetError] = ()
) -> RefusalSearch:
    """Return the errors of `hosts` and `documents`, and the inventory that is left without what they refuse.

    Errors that may follow from an earlier one are left out, as `_Rest.follows` decides. `known` are errors of variables
    or files that `hosts` and `documents` lack for that reason. The search ends at an error about a value that cannot be
    taken out, and after MOST readings.
    """
    left = _Rest(hosts, documents)
    errors = list(known)
    for error in known:
        left.lacks(error)
    for _attempt in range(MOST):
        try:
            found = inventory.read_variables(left.hosts, left.documents)
            return RefusalSearch(None if left.stands_in else found, tuple(errors), left.hosts, True, left)
        except FleetError as error:
            told = left.as_written(error)
            if not errors or not left.follows(told):
                errors.append(told)
            if error.variable.startswith(_ADDRESSES):
                errors += left.addresses_without(error.variable)
            if not left.take_out(error):
                return RefusalSearch(None, tuple(errors), left.hosts, True, left)
    return RefusalSearch(None, tuple(errors), left.hosts, False, left)


def finding(error: FleetError) -> LintFinding:
    """Return `error` as a finding of the rule `refused` with severity error."""
    bare = FleetError(error.variable, error.value, error.rule, "")
    return LintFinding(ERROR, RULE, error.variable, error.origin, str(bare).rstrip(), error.remedy)


class _Rest:
    """The hosts and documents that are left, and whether the only host's address is a stand-in (`stands_in`)."""

    def __init__(self, hosts: t.Sequence[Host], documents: t.Sequence[Document] = ()) -> None:
        self._written = hosts
        self.hosts = list(hosts)
        self.documents = list(documents)
        self.stands_in = False
        self._gone: dict[tuple[str, str], list[int]] = {}  # (list, host or ""): indexes in the inventory, as written
        self._names: set[str] = set()  # names of resources and hosts that were taken out
        self._variables: set[tuple[str, str]] = set()  # (variable, host or "")
        self._whole: set[str] = set()  # variables that were taken out as a whole
        self._lacks_files = False

    def lacks(self, error: FleetError) -> None:
        """Note that the hosts lack a variable, or the documents those of a file, because of `error`."""
        path, dummy, owner = error.variable.partition(" of ")
        name = re.split(r"[.\[]", path)[0]
        if name in _FILES or not name.startswith("calico_"):
            self._lacks_files = True
        elif name in _ADDRESSES and owner:
            self._without(owner)
        else:
            self._variables.add((name, owner))
            self._whole.add(name)

    def addresses_without(self, variable: str) -> list[FleetError]:
        """Take out all hosts with an address that is missing or invalid by itself, and return the errors about them.

        The host that the error of `variable` names already stays. This saves one reading for each host.
        """
        errors = []
        for host in list(self.hosts):
            if variable.partition(" of ")[2] == host.name:
                continue
            try:
                node_inventory.read([host])
            except FleetError as error:
                if error.variable.startswith(_ADDRESSES):
                    error.origin = error.origin or origin(error.variable, [host])
                    errors.append(error)
                    self._without(host.name)
        return errors

    def _without(self, name: str) -> None:
        """Take out the host, or if it is the only one, give it an address that stands in for its own."""
        self._names.add(name)
        if len(self.hosts) > 1:
            self.hosts = [host for host in self.hosts if host.name != name]
        else:
            self.stands_in = True
            having = list(self.hosts)
            self._replace(having, node_address.VARIABLES[6], None)
            self._replace(having, node_address.VARIABLES[4], _STAND_IN_ADDRESS)

    def take_out(self, error: FleetError) -> bool:
        """Take out the value that an error refuses; return False if neither the hosts nor the documents have it.

        The value is an entry of a list, a whole variable, a document, or a host without a valid address or name. A
        stand-in takes the place of the last pool.
        """
        variable, dummy, owner = error.variable.partition(" of ")
        entry = _ENTRY.match(variable)
        name = entry.group(1) if entry else variable.partition(".")[0]
        if name in _ADDRESSES and any(host.name == owner for host in self.hosts):
            self._variables.add((variable, owner))
            again = self.stands_in
            self._without(owner)
            return not again
        if name.startswith("host ") and len(self.hosts) > 1:
            self._without(error.variable[len("host ") :])
            return True
        having = [host for host in self.hosts if name in host.variables and owner in ("", host.name)]
        if name == "calico_ip_pools" and not having and name not in self._whole:
            self._whole.add(name)
            self._replace(self.hosts, name, [_STAND_IN])
            return True
        if not having:
            return self._take_out_document(error.origin)
        self._variables.add((self.as_written(error).variable.partition(" of ")[0], owner))
        if entry:
            index = int(entry.group(2))
            values = having[0].variables[name]
            if not isinstance(values, (list, tuple)) or index >= len(values):
                return False
            self._name(values[index])
            self._gone.setdefault((name, owner), []).append(self._index(name, owner, index))
            left = [*values[:index], *values[index + 1 :]]
            self._replace(having, name, [_STAND_IN] if not left and name == "calico_ip_pools" else left)
        else:
            meant = _MEANT.fullmatch(error.remedy)
            for host in having if meant else ():
                # The value counts under the name that it was meant for: that variable is not missing.
                self._replace([host], str(meant and meant.group(1)), host.variables[name])
            self._whole.add(name)
            self._replace(having, name, None)
        return True

    def _take_out_document(self, place: str) -> bool:
        """Take out the document at `place`, or the whole file if that has no line; return False if there is none."""
        file, dummy, line = place.rpartition(":")
        of_file = [one for one in self.documents if one.file == (file if line.isdecimal() else place)]
        if line.isdecimal():
            of_file = [one for one in of_file if (one.line("") or 1) <= int(line)][-1:]
        for document in of_file:
            self._name(document.content)
        self.documents = [one for one in self.documents if not any(one is gone for gone in of_file)]
        return bool(of_file)

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

        That is so if it names a variable, resource or host that was taken out. Any error about a group, the mesh or
        calico_bgp_enabled counts as such, and with an unread file any about something missing.
        """
        variable, dummy, owner = error.variable.partition(" of ")
        if error.variable.startswith(_OF_THE_REST) or {(variable, owner), (variable, "")} & self._variables:
            return True
        if self._lacks_files and "does not exist" in error.rule:
            return True  # A file that could not be read may define it.
        if any(name in error.rule for name in self._whole):
            return True  # The rule names a variable that was taken out as a whole: it may have had the missing value.
        words = {word for word in _WORD.findall(error.rule) if len(word) > 2}  # "a" and "is" are hardly names there
        return bool(words.union(_WORD.findall(str(error.value))) & self._names)

    def as_written(self, error: FleetError) -> FleetError:
        """Return `error` with the indexes and places that entries have as written, not in the lists that are left."""
        owner = error.variable.partition(" of ")[2]

        def number(found: re.Match[str]) -> str:
            name, index, fields, of = found.group(1), int(found.group(2)), found.group(3), found.group(4)
            here = of or owner
            end = f"{fields} of {of}" if of else ""
            return f"{name}[{self._index(name, here if (name, here) in self._gone else '', index)}]{end}"

        variable = _ENTRY_OF.sub(number, error.variable)
        rule, remedy = _ENTRY_OF.sub(number, error.rule), _ENTRY_OF.sub(number, error.remedy)
        place = error.origin if variable == error.variable else origin(variable, self._written)
        return FleetError(variable, error.value, rule, remedy, place)

    def _index(self, name: str, owner: str, index: int) -> int:
        for gone in sorted(self._gone.get((name, owner), ())):
            index += gone <= index
        return index
