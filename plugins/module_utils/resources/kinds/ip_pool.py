# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""IPPool: a range of addresses for workloads, and how packets between its addresses cross the underlay."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import selectors
from ...base.addresses import Cidr, family_of, parse_cidr
from ..errors import Refused, ResourceError
from ..fields import FLAG, Document, Integer, Items, OneOf, SelectorText, Text, field
from ..resource import Resource

_MODES = ("Always", "CrossSubnet", "Never")
USES = ("Workload", "Tunnel")

#: Encapsulation, in the operator's words -> ipipMode, vxlanMode.
ENCAPSULATIONS: dict[str, tuple[str, str]] = {
    "IPIP": ("Always", "Never"),
    "IPIPCrossSubnet": ("CrossSubnet", "Never"),
    "VXLAN": ("Never", "Always"),
    "VXLANCrossSubnet": ("Never", "CrossSubnet"),
    "None": ("Never", "Never"),
}
_ENCAPSULATION = OneOf(tuple(ENCAPSULATIONS))
_ENCAPSULATION_OF = {modes: name for name, modes in ENCAPSULATIONS.items()}

#: IP version -> default, least and greatest prefix length of a block.
BLOCK_SIZES = {4: (26, 20, 32), 6: (122, 116, 128)}

_LINK_LOCAL = {4: t.cast(Cidr, parse_cidr("169.254.0.0/16")), 6: t.cast(Cidr, parse_cidr("fe80::/10"))}


@dataclasses.dataclass(frozen=True)
class IPPool(Resource):
    """An IP pool with every default filled in. `blockSize` is the prefix length of its blocks.

    `checked` raises Refused for a cidr that is invalid or overlaps the link-local range. Unless the pool is disabled,
    it also refuses one smaller than a block, and an IPv4 one in the writing of IPv6. It always refuses a blockSize out
    of range (BLOCK_SIZES), both encapsulations at once, and IPIP for IPv6.
    """

    KIND: t.ClassVar[str] = "IPPool"

    cidr: str = field(Text(), "")
    blockSize: int = field(Integer(), 0)
    ipipMode: str = field(OneOf(_MODES, "Never"), "Never")
    vxlanMode: str = field(OneOf(_MODES, "Never"), "Never")
    natOutgoing: bool = field(FLAG, False)
    nodeSelector: str = field(SelectorText("all()"), "all()")
    namespaceSelector: str = field(SelectorText(), "")
    disabled: bool = field(FLAG, False)
    disableBGPExport: bool = field(FLAG, False)
    allowedUses: tuple[str, ...] = field(Items(OneOf(USES)), USES)
    assignmentMode: str = field(OneOf(("Automatic", "Manual"), "Automatic"), "Automatic")

    @property
    def version(self) -> int:
        return family_of(self.cidr)

    @property
    def selector(self) -> selectors.Selector:
        """The selector of the nodes that take blocks from the pool."""
        return selectors.parse(self.nodeSelector)

    @property
    def encapsulation(self) -> str:
        """The encapsulation in the operator's words: IPIP, IPIPCrossSubnet, VXLAN, VXLANCrossSubnet or "None"."""
        return _ENCAPSULATION_OF[self.ipipMode, self.vxlanMode]

    def with_encapsulation(self, encapsulation: str) -> IPPool:
        """Return a copy of this pool with another encapsulation, a key of ENCAPSULATIONS.

        Raises ResourceError if it is not one, or is IPIP or IPIPCrossSubnet for an IPv6 pool.
        """
        try:
            ipip, vxlan = ENCAPSULATIONS[_ENCAPSULATION.read(encapsulation)]
            changed = dataclasses.replace(self, ipipMode=ipip, vxlanMode=vxlan)
            _check_modes(changed, self.version)
            return changed
        except Refused as refused:
            raise ResourceError(
                self.KIND, self.name, "encapsulation", encapsulation, refused.rule, refused.remedy
            ) from None

    @classmethod
    def readable(cls, spec: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
        return without_replaced(spec)

    def checked(self) -> IPPool:
        cidr = _checked_cidr(self.cidr)
        _check_modes(self, cidr.version)
        default, least, greatest = BLOCK_SIZES[cidr.version]
        block_size = self.blockSize or default
        if not least <= block_size <= greatest:
            raise Refused(
                block_size,
                f"is out of range. A block of an IPv{cidr.version} pool is between /{least} and /{greatest}.",
                f"Choose a length in between, or leave it out for /{default}.",
                "blockSize",
            )
        # A disabled pool hands out no addresses, so it may be smaller than a block.
        if not self.disabled and cidr.length > block_size:
            sizes = (
                f"a blockSize from {cidr.length} to {greatest}" if cidr.length < greatest else f"blockSize {greatest}"
            )
            raise Refused(
                self.cidr, f"is smaller than one block (/{block_size}).", f"Choose a larger range, or {sizes}.", "cidr"
            )
        # An IPv4 range in the writing of IPv6 (::ffff:10.0.0.0/104): Calico compares the length as written (104) with
        # that of an IPv4 block, so the pool is never large enough.
        if not self.disabled and cidr.length_written > cidr.length:
            raise Refused(self.cidr, "is an IPv4 range in the writing of IPv6.", f"Write {cidr}.", "cidr")
        return dataclasses.replace(self, cidr=str(cidr), blockSize=block_size, allowedUses=self.allowedUses or USES)


def _checked_cidr(text: str) -> Cidr:
    remedy = "Write it as address/prefix length, for example 10.244.0.0/16."
    if not text:
        raise Refused(None, "is missing.", "Write the pool's range, for example 10.244.0.0/16.", "cidr")
    cidr = parse_cidr(text)
    if not cidr:
        raise Refused(text, "is not a range of addresses.", remedy, "cidr")
    if not cidr.strict:
        raise Refused(
            text, "has address bits beyond its prefix length.", f"The range around it is {cidr}: write that.", "cidr"
        )
    if cidr.overlaps(_LINK_LOCAL[cidr.version]):
        raise Refused(
            text,
            f"overlaps the link-local range {_LINK_LOCAL[cidr.version]}.",
            "Choose a range that is routed, for example 10.244.0.0/16.",
            "cidr",
        )
    return cidr


def _check_modes(pool: IPPool, version: int) -> None:
    if pool.ipipMode != "Never" and pool.vxlanMode != "Never":
        raise Refused(
            pool.vxlanMode,
            f"cannot stand together with ipipMode {pool.ipipMode}.",
            "Set one of them to Never.",
            "vxlanMode",
        )
    if version == 6 and pool.ipipMode != "Never":
        raise Refused(
            pool.ipipMode,
            "is not possible for an IPv6 pool: IPIP carries IPv4 only.",
            "Leave it out for direct routing, or set vxlanMode instead.",
            "ipipMode",
        )


#: Fields of Calico's first API that are refused if they are set -> the fields that replaced them.
REPLACED = {"ipip": "ipipMode", "nat-outgoing": "natOutgoing"}


def without_replaced(spec: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    """Return `spec` without the fields of the first API (REPLACED). Raises Refused if one is neither null nor false."""
    for name, successor in REPLACED.items():
        if name in spec and spec[name] is not None and spec[name] is not False:
            raise Refused(None, "is a field of an older API.", f"Set {successor} instead.", name)
    return {key: value for key, value in spec.items() if key not in REPLACED}


#: Fields that only the flat form of an IPPool has.
FLAT_FIELDS = ("encapsulation",)


def from_operator(flat: t.Mapping[str, t.Any]) -> Document:
    """Return a flat pool with the operator's fields translated to IPPool's.

    `encapsulation: IPIP` becomes ipipMode and vxlanMode, `natOutgoing: Enabled` becomes true and Disabled false. Raises
    Refused for an encapsulation that is unknown or stands beside ipipMode or vxlanMode, unless these are null.
    """
    pool = dict(flat)
    word = pool.pop("encapsulation", None)
    if word is not None:
        try:
            modes = ENCAPSULATIONS[_ENCAPSULATION.read(word)]
        except Refused as refused:
            raise refused.inside("encapsulation")
        for name, mode in zip(("ipipMode", "vxlanMode"), modes):
            if pool.get(name) is not None:
                raise Refused(
                    word, f"stands beside {name}, which says it as well.", "Keep one of them.", "encapsulation"
                )
            pool[name] = mode
    if isinstance(pool.get("natOutgoing"), str) and pool["natOutgoing"] in ("Enabled", "Disabled"):
        pool["natOutgoing"] = pool["natOutgoing"] == "Enabled"
    return pool
