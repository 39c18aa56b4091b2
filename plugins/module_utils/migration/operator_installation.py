# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of an Installation of Calico's operator that stands beside the IPPools which the operator made of it.

A pool that stands in both is one pool, and the document of the pool is taken: it is what the cluster has. The MTU of an
Installation depends on its pools, so it becomes that of a FelixConfiguration.
"""

from __future__ import annotations

import typing as t

from ..base.release import API_VERSION
from ..resources import api as resources
from ..resources import operator_pools, setting_fields
from ..resources.api import IPPool, ResourceError
from ..resources.errors import Refused
from .import_report import ImportReport, Remark

_MTU = "calico_underlay_mtu"
#: {field of a FelixConfiguration: the bytes that its tunnel adds}
_TUNNELS = {
    field.path.removeprefix("spec."): field.to_variable(1000) - 1000
    for field in setting_fields.FIELDS
    if field.variable == _MTU and field.kind == "FelixConfiguration"
}
_LARGEST = 65535  # bytes
Document = dict[str, t.Any]


class KeptInstallation(t.NamedTuple):
    """The spec to keep of an Installation, {} for none, and fields of the FelixConfiguration `default` to set."""

    spec: Document
    felix: Document


def beside_pools(
    spec: Document, pools: t.Sequence[IPPool], felix: t.Mapping[str, t.Any], remark: t.Callable[[str], Remark],
    report: ImportReport,
) -> KeptInstallation:  # fmt: skip
    """Return what is taken of an Installation beside the documents of `pools`, and report what differs.

    `felix` is the spec of the FelixConfiguration `default`. `remark` makes a remark of a text.
    """
    network = spec.get("calicoNetwork") or {}
    try:
        network = dict(operator_pools.mapping(network, "spec.calicoNetwork"))
        entries = operator_pools.entries(network.pop("ipPools", None))
    except Refused as refused:
        value = "" if refused.value is None else f"{refused.value!r} "
        report.for_a_person.append(remark(f"is left out: {refused.field} {value}{refused.rule}"))
        return KeptInstallation({}, {})
    asked, missing = _pools(entries, pools, remark, report)
    if missing:
        network["ipPools"] = missing
    changed = _mtu(network, [*pools, *asked], felix, remark, report)
    if not any(network.values()):
        if not changed:
            report.left_out.append(remark("says no more than its pools, which are taken as they are."))
        return KeptInstallation({}, changed)
    return KeptInstallation({**spec, "calicoNetwork": network}, changed)


def _pools(
    entries: t.Sequence[operator_pools.PoolEntry],
    pools: t.Sequence[IPPool],
    remark: t.Callable[[str], Remark],
    report: ImportReport,
) -> tuple[list[IPPool], list[Document]]:
    """Return the pools that an Installation asks for, and the entries, with names, of those that no document has."""
    asked: list[IPPool] = []
    missing: list[Document] = []
    for entry in entries:
        try:
            pool = t.cast(IPPool, resources.parse_flat("IPPool", dict(entry.entry)))
        except ResourceError as error:
            report.for_a_person.append(remark(f"asks for a pool that is left out: {error}"))
            continue
        asked.append(pool)
        same = next((one for one in pools if one.cidr == pool.cidr), None)
        same = same or next((one for one in pools if one.metadata.name == pool.metadata.name), None)
        if same is None:
            name = pool.metadata.name
            report.changed.append(remark(f"asks for the pool {name}, which no other document has."))
            missing.append(_of_installation(entry))
            continue
        different = _differences(pool, same)
        if different:
            text = f"asks for the pool {same.metadata.name} with {', '.join(different)}: the IPPool is taken as it is."
            report.for_a_person.append(remark(text))
    return asked, missing


def _of_installation(entry: operator_pools.PoolEntry) -> Document:
    """Return an entry as an Installation has it, with the name that depends on the entries beside it."""
    found = dict(entry.entry)
    if "disabled" in found:
        found["disableNewAllocations"] = found.pop("disabled")
    return found


def _differences(asked: IPPool, there: IPPool) -> list[str]:
    """Return each field that differs, with the value that the Installation has and that of the document."""
    one, other = asked.to_document()["spec"], there.to_document()["spec"]
    return [
        f"{field} {_shown(one.get(field))} (there {_shown(other.get(field))})"
        for field in sorted({*one, *other})
        if one.get(field) != other.get(field)
    ]


def _shown(value: t.Any) -> str:
    if isinstance(value, (list, tuple)):
        return "/".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)[:253]


def _mtu(
    network: Document,
    pools: t.Sequence[IPPool],
    felix: t.Mapping[str, t.Any],
    remark: t.Callable[[str], Remark],
    report: ImportReport,
) -> Document:
    """Return the fields of a FelixConfiguration for an MTU of `network`, which loses it. Without tunnels it stays."""
    mtu = network.get("mtu")
    field = max((one for pool in pools for one in _fields(pool)), key=lambda one: _TUNNELS[one], default="")
    if isinstance(mtu, bool) or not isinstance(mtu, int) or not mtu or not field:
        return {}
    del network["mtu"]
    if not 0 < mtu <= _LARGEST:
        report.for_a_person.append(remark(f"has the MTU {mtu}, which no device has: it is not taken."))
        return {}
    there = {one: felix[one] for one in _TUNNELS if felix.get(one)}
    if not there:
        report.changed.append(remark(f"has the MTU {mtu}, which is FelixConfiguration default's {field} now."))
        return {field: mtu}
    if {one + _TUNNELS[name] for name, one in there.items() if isinstance(one, int)} != {mtu + _TUNNELS[field]}:
        shown = ", ".join(f"{name} {_shown(one)}" for name, one in there.items())
        report.for_a_person.append(
            remark(f"has the MTU {mtu}, but FelixConfiguration default has {shown}, which is taken.")
        )
    return {}


def _fields(pool: IPPool) -> t.Iterator[str]:
    """Yield the field of a FelixConfiguration that has the MTU of a pool's tunnel."""
    if pool.ipipMode != "Never":
        yield "ipipMTU"
    if pool.vxlanMode != "Never":
        yield "vxlanMTUV6" if ":" in pool.cidr else "vxlanMTU"


def felix_document(spec: Document) -> Document:
    """Return a FelixConfiguration `default` with these fields."""
    return {"apiVersion": API_VERSION, "kind": "FelixConfiguration", "metadata": {"name": "default"}, "spec": spec}
