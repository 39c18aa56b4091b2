# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fields of a BGPPeer beyond Calico v3, written beside Calico's in an inventory's lists of peers.

A document that Calico must read as well has them as annotations, such as `baremetal.host-routing/holdTime: 90s`. The
annotation of a field that is no text has its value in JSON. Reading a field raises Refused for an invalid value.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import typing as t

from ..base.addresses import parse_cidr_or_address
from ..base.document_limits import read_json
from ..resources.durations import parse_duration
from ..resources.errors import Refused
from ..resources.fields import Fields, Integer, field, read_fields, types_of, write_fields
from .bird_state import Bfd

#: The least and greatest hold time in seconds. RFC 4271, section 4.2: a hold time has two octets, and is at least 3
#: unless it is 0, which is not accepted here.
HOLD_TIME = (3, 65535)
#: The least and greatest keepalive time in seconds.
KEEPALIVE_TIME = (1, 65535)
#: The least and greatest connect retry time in seconds. RFC 4271 recommends 120; sessions have 5 if none is given.
CONNECT_RETRY_TIME = (1, 65535)
#: The least and greatest graceful restart time and long-lived stale time in seconds. A restart time has 12 bits (RFC
#: 4724, section 3), a long-lived stale time 24 bits (RFC 9494, section 3).
RESTART_TIME = (0, 4095)
STALE_TIME = (0, 16777215)

Document = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Seconds:
    """The field type of a time in whole seconds: a number, or text as Calico writes it (90s, 1m30s).

    It is read as a number of seconds from `minimum` to `maximum`, and written as text ("90s").
    """

    minimum: int
    maximum: int

    def read(self, value: t.Any) -> int:
        seconds: t.Any = parse_duration(value) if isinstance(value, str) else value
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not number or not abs(seconds) < math.inf:
            raise Refused(value, "is not a length of time.", "Write a number and a unit, as 90s.")
        if seconds != int(seconds):
            raise Refused(value, "is not a whole number of seconds.", "BGP counts these times in seconds.")
        if not self.minimum <= seconds <= self.maximum:
            raise Refused(value, "is out of range.", f"Choose {self.minimum} to {self.maximum} seconds.")
        return int(seconds)

    def write(self, value: t.Any) -> t.Any:
        return f"{value}s"

    def schema(self) -> Document:
        return {"type": ["string", "integer"]}


@dataclasses.dataclass(frozen=True)
class _BfdFields:
    """The fields of a mapping `bfd`. `minRx` and `minTx` are intervals in milliseconds."""

    minRx: int = field(Integer(10, 60000, Bfd.min_rx), Bfd.min_rx)
    minTx: int = field(Integer(10, 60000, Bfd.min_tx), Bfd.min_tx)
    multiplier: int = field(Integer(2, 255, Bfd.multiplier), Bfd.multiplier)


class BfdSwitch:
    """The field type of `bfd`: true (default intervals), false (read as None), or a mapping of the intervals."""

    def read(self, value: t.Any) -> t.Optional[Bfd]:
        if isinstance(value, bool):
            return Bfd() if value else None
        if not isinstance(value, t.Mapping):
            raise Refused(
                value,
                "is neither true, false nor a mapping.",
                "Write true, or the intervals in milliseconds: {minRx: 300, minTx: 300, multiplier: 3}.",
            )
        read = read_fields(_BfdFields, value)
        return Bfd(read.minRx, read.minTx, read.multiplier)

    def write(self, value: t.Any) -> t.Any:
        return {"minRx": value.min_rx, "minTx": value.min_tx, "multiplier": value.multiplier}

    def schema(self) -> Document:
        return {"anyOf": [{"type": "boolean"}, Fields(_BfdFields).schema()]}


class SourceAddress:
    """The field type of an address of the node, with its prefix length if the peer is on its subnet."""

    def read(self, value: t.Any) -> str:
        cidr = parse_cidr_or_address(value) if isinstance(value, str) else None
        if cidr is None:
            raise Refused(
                value,
                "is neither UseNodeIP, None nor an address of the node.",
                "Write for example 10.20.1.11/24: the prefix length says which peers need no router.",
            )
        return str(value)

    def write(self, value: t.Any) -> t.Any:
        return value

    def schema(self) -> Document:
        return {"type": "string"}


@dataclasses.dataclass(frozen=True)
class PeerExtensions:
    """The extensions of one BGPPeer. Times are in seconds; None is the default of all sessions (`connectRetryTime`: 5).

    `listenPort` None or 0 means the node's own listening port, `bfd` None no BFD, `sourceAddress` "" the BGPPeer's own.
    """

    holdTime: t.Optional[int] = field(Seconds(*HOLD_TIME))
    keepaliveTime: t.Optional[int] = field(Seconds(*KEEPALIVE_TIME))
    connectRetryTime: t.Optional[int] = field(Seconds(*CONNECT_RETRY_TIME))
    longLivedStaleTime: t.Optional[int] = field(Seconds(*STALE_TIME))
    listenPort: t.Optional[int] = field(Integer(0, 65535))
    bfd: t.Optional[Bfd] = field(BfdSwitch())
    sourceAddress: str = field(SourceAddress(), "")

    @property
    def source(self) -> str:
        """The source address without its prefix length, "" if none is given."""
        return self.sourceAddress.partition("/")[0]


NAMES = tuple(types_of(PeerExtensions))
#: An extension that is a field of Calico's by now, and in all documents stands in their spec.
KEEPALIVE = "keepaliveTime"
#: The beginning of the names of annotations that stand for these fields.
ANNOTATION = "baremetal.host-routing/"


def split(entry: t.Mapping[str, t.Any]) -> tuple[dict[str, t.Any], PeerExtensions]:
    """Return (`entry` without the extensions, these), for a BGPPeer written flat or as a document with a `spec`.

    A sourceAddress that is not written as an address is one of Calico's fields, and stays. Raise Refused if an
    extension has an invalid value. Calico's fields are not checked.
    """
    spec = entry.get("spec")
    if isinstance(spec, t.Mapping):
        theirs, ours = _divide(spec)
        return {**entry, "spec": theirs}, read_fields(PeerExtensions, ours)
    theirs, ours = _divide(entry)
    return theirs, read_fields(PeerExtensions, ours)


def as_annotations(extensions: PeerExtensions) -> dict[str, str]:
    """Return the annotations of a document for a peer with these extensions."""
    return {
        f"{ANNOTATION}{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in write_fields(extensions).items()
        if name != KEEPALIVE
    }


def without_annotations(document: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a BGPPeer's document with the fields that its annotations stand for, in place of these.

    Raise Refused, with the path, for a field that an annotation cannot stand for, and for one that is no annotation,
    because Calico would refuse it.
    """
    metadata, spec = document.get("metadata"), document.get("spec")
    own = _divide(spec)[1] if isinstance(spec, t.Mapping) else {}
    for name in own.keys() - {KEEPALIVE}:
        remedy = f"Write it as the annotation {ANNOTATION}{name}, with a text or JSON in quotes."
        raise Refused(None, "is not a field of Calico's.", remedy, f"spec.{name}")
    given = metadata.get("annotations") if isinstance(metadata, t.Mapping) else None
    found: dict[str, t.Any] = {}
    for name, text in given.items() if isinstance(given, t.Mapping) else ():
        if isinstance(name, str) and name.startswith(ANNOTATION):
            found[name] = _annotated(name, text)
    if not found or not isinstance(given, t.Mapping) or not isinstance(metadata, t.Mapping):
        return dict(document)
    rest = {name: text for name, text in given.items() if name not in found}
    fields = {name[len(ANNOTATION) :]: value for name, value in found.items()}
    return {
        **document,
        "metadata": {**metadata, "annotations": rest},
        "spec": {**spec, **fields} if isinstance(spec, t.Mapping) else spec,
    }


def _annotated(name: str, text: t.Any) -> t.Any:
    """Return the value of the field that an annotation stands for. Raise Refused, with the path, if it is none."""
    path = "metadata.annotations"
    known = types_of(PeerExtensions).get(name[len(ANNOTATION) :])
    if known is None or name == f"{ANNOTATION}{KEEPALIVE}" or not isinstance(text, str):
        names = ", ".join(f"{ANNOTATION}{one}" for one in NAMES if one != KEEPALIVE)
        raise Refused(name, "does not stand for a field of a BGPPeer.", f"There are {names}, with texts.", path)
    try:
        value = text if isinstance(known, (Seconds, SourceAddress)) else read_json(text)
        known.read(value)
    except (ValueError, RecursionError):
        raise Refused(f"{name}: {text}", "is not JSON.", 'Write for example "true" or "1179".', path) from None
    except Refused as refused:
        raise Refused(f"{name}: {text}", refused.rule, refused.remedy, path) from None
    return value


def _divide(fields: t.Mapping[str, t.Any]) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    ours = {name: fields[name] for name in NAMES if name in fields}
    source = ours.get("sourceAddress")
    if source is None or not isinstance(source, str) or not re.search(r"[.:]", source):
        ours.pop("sourceAddress", None)  # no address (UseNodeIP, None or an invalid value): Calico's rules decide
    return {name: value for name, value in fields.items() if name not in ours}, ours
