# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NetworkSet and GlobalNetworkSet: addresses that belong to no endpoint, with labels for selectors.

Source: https://docs.tigera.io/calico/latest/reference/resources/networkset
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import parse_cidr_or_address
from ...base.naming import NAMESPACE_LABEL
from ..errors import Refused
from ..fields import Items, Text, field
from ..resource import NamespacedResource, Resource

_NETS = Items(
    Text(
        lambda text: parse_cidr_or_address(text) is not None,
        "is not a range of addresses.",
        "Write it as address/prefix length, for example 10.1.0.0/16, or as one address.",
    )
)

S = t.TypeVar("S", bound="_NetworkSet")


@dataclasses.dataclass(frozen=True)
class _NetworkSet(Resource):
    """The base of both kinds of sets. `nets` are ranges as written, with or without address bits beyond the prefix.

    `checked` drops empty ones. `checked_metadata` raises Refused for the label projectcalico.org/namespace.
    """

    nets: tuple[str, ...] = field(_NETS, ())

    def checked(self: S) -> S:
        # Calico accepts an empty entry, which holds no address.
        return dataclasses.replace(self, nets=tuple(net for net in self.nets if net))

    def checked_metadata(self: S) -> S:
        if NAMESPACE_LABEL in self.labels:
            raise Refused(
                NAMESPACE_LABEL,
                "is a label that Calico gives by itself.",
                "Remove it: a NetworkSet has it from its namespace.",
                "labels",
            )
        return self


@dataclasses.dataclass(frozen=True)
class GlobalNetworkSet(_NetworkSet):
    """A set of addresses for policies of all namespaces."""

    KIND: t.ClassVar[str] = "GlobalNetworkSet"


@dataclasses.dataclass(frozen=True)
class NetworkSet(_NetworkSet, NamespacedResource):
    """A set of addresses in a namespace."""

    KIND: t.ClassVar[str] = "NetworkSet"
