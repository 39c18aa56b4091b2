# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of documents that a real Calico has and that mean nothing here. Each is named, and none is dropped silently."""

from __future__ import annotations

import typing as t

from ....state.errors import FleetError
from ...host import WrittenResource

_STATE = "is what Calico's own nodes and servers write down."
#: {kind that is left out: what is said about it}
KINDS = {
    "ClusterInformation": _STATE,
    "CalicoNodeStatus": _STATE,
    "BlockAffinity": "says which node has a block, which the lockfile does here.",
    "IPAMBlock": "says which addresses are in use, which nodes know here.",
    "IPAMHandle": "says which addresses are in use, which nodes know here.",
    "IPAMConfig": "is Calico's own form of IPAMConfiguration.",
    "KubeControllersConfiguration": "is for Kubernetes, which is not here.",
}
#: {(kind, field): values that say what holds here in any case}; false, 0 and empty values say nothing either.
_HOLDS = {
    ("IPAMConfiguration", "strictAffinity"): (True,),
    ("IPAMConfiguration", "autoAllocateBlocks"): (True,),
    ("BGPConfiguration", "serviceLoadBalancerAggregation"): ("Enabled",),
    ("FelixConfiguration", "chainInsertMode"): ("Insert",),
    ("FelixConfiguration", "floatingIPs"): ("Disabled",),
    ("FelixConfiguration", "iptablesMangleAllowAction"): ("Accept",),
    ("FelixConfiguration", "workloadSourceSpoofing"): ("Disabled",),
}
#: {(kind, field): values that mean something although they are false}
_MEANS = {("IPAMConfiguration", "strictAffinity"): (False,)}
#: Fields of a FelixConfiguration that must not be lost, with what is lost.
_REFUSED = {
    "wireguardEnabled": "Nothing here encrypts what nodes send each other.",
    "wireguardEnabledV6": "Nothing here encrypts what nodes send each other.",
}


class WithoutEffect(t.NamedTuple):
    """A document, or fields of one, without effect. `what` is the rest of a sentence about it."""

    written: WrittenResource
    what: str

    @property
    def place(self) -> str:
        """The file and line."""
        return self.written.place()


def named(written: WrittenResource, paths: t.Sequence[str]) -> WithoutEffect:
    """Return that the fields at `paths`, at least one, have no effect; the line is that of the first."""
    names = f"{', '.join(paths[:-1])} and {paths[-1]}" if len(paths) > 1 else paths[0]
    return WithoutEffect(written._replace(field=paths[0]), f"has {names}, which no variable here means.")


def fields(
    kind: str, content: t.Mapping[str, t.Any], used: t.Container[str], written: WrittenResource
) -> t.Optional[WithoutEffect]:
    """Return that fields of a valid document of settings have no effect, None if all have; `used` are those that have.

    A Node has the addresses and keys of its tunnels and what it is called elsewhere: these follow from other things,
    and are not named. Raise FleetError for a field whose loss would weaken the network.
    """
    spec = content.get("spec")
    if kind == "Node" or not isinstance(spec, t.Mapping):
        return None
    paths = []
    for name, value in spec.items():
        if kind == "FelixConfiguration" and value is True and name in _REFUSED:
            line = written.line(f"spec.{name}")
            raise FleetError(
                f"{written.who}: spec.{name}",
                "true",
                f"is not supported. {_REFUSED[name]}",
                "Remove it, and encrypt what has to be secret yourself.",
                f"{written.file}:{line}" if line else written.file,
            )
        says_nothing = (not value and value not in _MEANS.get((kind, name), ())) or value in _HOLDS.get(
            (kind, name), ()
        )
        if f"spec.{name}" not in used and not says_nothing:
            paths.append(f"spec.{name}")
    return named(written, paths) if paths else None
