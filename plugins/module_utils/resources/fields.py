# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Types of resource fields, and the reading of mappings into dataclasses of such fields.

A field is declared once, as `cidr: str = field(NETWORK)`; reading, writing and the JSON schema follow from that.
Readers accept values as YAML or JSON gives them, return plain values and raise Refused. As in Calico, a null counts as
an absent field.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
import typing as t
from collections import abc

from ..base import addresses, selectors
from .durations import parse_duration
from .errors import Refused

Document = dict[str, t.Any]

_TYPE = "resource field type"
_NAME_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#: An RFC 1123 subdomain in lower case, of any length, as Kubernetes names its objects.
SUBDOMAIN = re.compile(rf"{_NAME_LABEL}(\.{_NAME_LABEL})*", re.ASCII)
_LABEL = re.compile(_NAME_LABEL, re.ASCII)
_DEVICE = re.compile(r"[a-zA-Z0-9_.-]{1,15}", re.ASCII)
NAME_RULE = "is not a name of lower case letters, digits, '-' and '.'."
NAME_REMEDY = "Begin and end it, and each part between dots, with a letter or digit."


class Type(t.Protocol):
    """The type of one field: it reads the field from a document, writes it back and describes it.

    `read` returns the plain value or raises Refused; `write` returns what `read` would read as the same value; `schema`
    returns JSON Schema.
    """

    def read(self, value: t.Any) -> t.Any: ...

    def write(self, value: t.Any) -> t.Any: ...

    def schema(self) -> Document: ...


def field(type_: Type, default: t.Any = None) -> t.Any:
    """Return a dataclass field that documents may set, of the field type `type_`; `default` is its value if not set.

    A default that is a class is called for each instance, and then the field does not count in the hash.
    """
    # pylint: disable=invalid-field-call  # it is called within dataclasses, through this function
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata={_TYPE: type_}, hash=False)
    return dataclasses.field(default=default, metadata={_TYPE: type_})


class _Plain:
    def write(self, value: t.Any) -> t.Any:
        return value


def _text(value: t.Any) -> str:
    if not isinstance(value, str):
        raise Refused(value, "is not a text.", "Write it in quotes.")
    # Subclasses (Ansible marks its texts) must not leak into what is stored.
    return str.__str__(value)


@dataclasses.dataclass(frozen=True)
class Text(_Plain):
    """Any text. With `check`, an empty text means that the field is not set; any other text must pass the check."""

    check: t.Optional[t.Callable[[str], bool]] = None
    rule: str = ""
    remedy: str = ""

    def read(self, value: t.Any) -> str:
        text = _text(value)
        if text and self.check and not self.check(text):
            raise Refused(text, self.rule, self.remedy)
        return text

    def schema(self) -> Document:
        return {"type": "string"}


@dataclasses.dataclass(frozen=True)
class Filled(Text):
    """A text, such as an entry of a list, that is refused if it is empty or does not pass `check`."""

    def read(self, value: t.Any) -> str:
        text = _text(value)
        if not text or (self.check and not self.check(text)):
            raise Refused(text, self.rule, self.remedy)
        return text


@dataclasses.dataclass(frozen=True)
class OneOf(_Plain):
    """One of `words`. An empty text is read as `default`; it is refused if that is None and "" is not in `words`.

    `others` are pairs of a word in lower case that other programs use, and the word here that means the same.
    """

    words: tuple[str, ...]
    default: t.Optional[str] = None
    others: tuple[tuple[str, str], ...] = ()

    def read(self, value: t.Any) -> str:
        text = _text(value)
        if not text and self.default is not None:
            return self.default
        if text not in self.words:
            near = [word for word in self.words if word.lower() == text.lower()]
            near = near or [word for other, word in self.others if other == text.lower()] or nearest(text, self.words)
            remedy = f"Did you mean {near[0]}?" if near else "Choose one of these."
            raise Refused(text, f"is not one of {', '.join(self.words)}.", remedy)
        return text

    def schema(self) -> Document:
        return {"type": "string", "enum": list(self.words)}


class Flag(_Plain):
    """A field that is true or false."""

    def read(self, value: t.Any) -> bool:
        if not isinstance(value, bool):
            raise Refused(value, "is not true or false.", "Write true or false, without quotes.")
        return value

    def schema(self) -> Document:
        return {"type": "boolean"}


@dataclasses.dataclass(frozen=True)
class Integer(_Plain):
    """A whole number from `minimum` to `maximum`; others are refused. 0, if it is among them, is read as `default`."""

    minimum: int = -(2**63)
    maximum: int = 2**63 - 1
    default: int = 0

    def read(self, value: t.Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Refused(value, "is not a whole number.", "Write digits only, without quotes.")
        if not self.minimum <= value <= self.maximum:
            raise Refused(value, "is out of range.", f"Choose a number from {self.minimum} to {self.maximum}.")
        return int.__int__(value) or self.default

    def schema(self) -> Document:
        limits = {"minimum": self.minimum, "maximum": self.maximum}
        return {"type": "integer", **{key: limit for key, limit in limits.items() if abs(limit) < 2**62}}


class Number:
    """A finite number, read as a float. It is written as an integer if it is whole and between -2**53 and 2**53."""

    def read(self, value: t.Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Refused(
                value,
                "is a text." if isinstance(value, str) else "is not a number.",
                "Write a number, without quotes.",
            )
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise Refused(value, "is not a finite number.", "Choose one that 64 bits of floating point can hold.")
        return number

    def write(self, value: float) -> t.Any:
        return int(value) if value.is_integer() and abs(value) < 2**53 else value

    def schema(self) -> Document:
        return {"type": "number"}


_AS_NUMBER = re.compile(r"\d{1,20}", re.ASCII)
_AS_DOTTED = re.compile(r"(\d{1,20})\.(\d{1,20})", re.ASCII)


class ASNumber(_Plain):
    """An AS number of 32 bits, read as an integer. Text is accepted, also in asdot notation (65000.1, RFC 5396)."""

    def read(self, value: t.Any) -> int:
        number = self._number(value)
        if number is None:
            raise Refused(
                value,
                "is not an AS number.",
                "Write a number from 0 to 4294967295, or two from 0 to 65535 with a dot between, in quotes.",
            )
        return number

    @staticmethod
    def _number(value: t.Any) -> t.Optional[int]:
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return int.__int__(value) if 0 <= value < 2**32 else None
        if not isinstance(value, str):
            return None
        if _AS_NUMBER.fullmatch(value):
            return int(value) if int(value) < 2**32 else None
        dotted = _AS_DOTTED.fullmatch(value)
        if not dotted:
            return None
        high, low = int(dotted.group(1)), int(dotted.group(2))
        return high << 16 | low if max(high, low) < 2**16 else None

    def schema(self) -> Document:
        return {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 2**32 - 1},
                {"type": "string", "pattern": r"^\d+(\.\d+)?$"},
            ]
        }


@dataclasses.dataclass(frozen=True)
class SelectorText(_Plain):
    """A selector, kept as written. An empty text is read as `default`."""

    default: str = ""

    def read(self, value: t.Any) -> str:
        text = _text(value)
        if not text:
            return self.default
        try:
            selectors.parse(text)
        except selectors.SelectorError as error:
            raise Refused(
                text,
                f"is not a selector: at column {error.position + 1}, expected {error.expected}.",
                "Write for example rack == 'a' && !has(spare).",
            ) from None
        return text

    def schema(self) -> Document:
        return {"type": "string"}


@dataclasses.dataclass(frozen=True)
class Items:
    """A list of values of the type `item`, read as a tuple.

    A null in it counts as {} for an `item` of type Fields, else as "".
    """

    item: Type

    def read(self, value: t.Any) -> tuple[t.Any, ...]:
        if isinstance(value, (str, bytes)) or not isinstance(value, abc.Sequence):
            raise Refused(value, "is not a list.", "Write its entries one a line, each behind a dash.")
        items = []
        for index, entry in enumerate(value):
            try:
                items.append(self.item.read(self._of_null() if entry is None else entry))
            except Refused as refused:
                raise refused.inside(index)
        return tuple(items)

    def _of_null(self) -> t.Any:
        return {} if isinstance(self.item, Fields) else ""

    def write(self, value: t.Any) -> t.Any:
        return [self.item.write(entry) for entry in value]

    def schema(self) -> Document:
        return {"type": "array", "items": self.item.schema()}


T = t.TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Fields(t.Generic[T]):
    """A mapping, read as the dataclass `of`, whose method `checked`, if any, may replace or refuse the result."""

    of: t.Callable[..., T]

    def read(self, value: t.Any) -> T:
        made = read_fields(self.of, value)
        checked = getattr(made, "checked", None)
        return checked() if checked else made

    def write(self, value: T) -> t.Any:
        return write_fields(value)

    def schema(self) -> Document:
        return schema_of(self.of)


_TYPES: dict[t.Any, dict[str, Type]] = {}


def types_of(cls: t.Callable[..., t.Any]) -> dict[str, Type]:
    """Return the fields of a dataclass that documents may set, as {name: type}. The caller must not change the dict."""
    types = _TYPES.get(cls)
    if types is None:
        entries = dataclasses.fields(t.cast(t.Any, cls))
        types = _TYPES[cls] = {entry.name: entry.metadata[_TYPE] for entry in entries if _TYPE in entry.metadata}
    return types


def read_fields(cls: t.Callable[..., T], value: t.Any, **others: t.Any) -> T:
    """Return a `cls` with the fields that `value` and `others` set, and defaults for the rest.

    A null in `value` counts as absent. `value` is as in a document, `others` are values already read. Raises Refused if
    `value` is no mapping, has an unknown key, or has a value that its field does not accept.
    """
    if not isinstance(value, abc.Mapping):
        raise Refused(value, "is not a mapping.", "Write its fields one a line, each with a colon.")
    types = types_of(cls)
    values: dict[str, t.Any] = {}
    for key, entry in value.items():
        type_ = types.get(key)
        if type_ is None:
            raise unknown(key, types)
        if entry is not None:
            try:
                values[key] = type_.read(entry)
            except Refused as refused:
                raise refused.inside(key)
    return cls(**values, **others)


def write_fields(made: t.Any) -> Document:
    """Return the fields of `made` that documents may set, as a mapping that `read_fields` reads as the same values.

    Fields that are None, "" or {} are left out. So is an empty list or a dataclass that equals the field's fixed
    default; a default that is a class counts as none.
    """
    document: Document = {}
    for name, type_ in types_of(type(made)).items():
        value = getattr(made, name)
        if not _is_unset(value, getattr(type(made), name, None)):
            document[name] = type_.write(value)
    return document


def _is_unset(value: t.Any, default: t.Any) -> bool:
    # An empty list, and any dataclass, counts as unset only if it is the default: elsewhere empty and absent differ.
    if value == () or dataclasses.is_dataclass(value):
        return bool(value == default)
    return value is None or value in ("", {})


def schema_of(cls: t.Callable[..., t.Any]) -> Document:
    properties = {name: type_.schema() for name, type_ in types_of(cls).items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def nearest(word: str, known: t.Iterable[str]) -> list[str]:
    """Return a list with the one word of `known` that is most similar to `word`, or an empty one if none is similar.

    Upper and lower case count as equal.
    """
    by_lower = {entry.lower(): entry for entry in known}
    found = difflib.get_close_matches(word.lower(), list(by_lower), n=1)
    return [by_lower[entry] for entry in found]


def unknown(key: t.Any, known: t.Collection[str], what: str = "is not a field here.") -> Refused:
    near = nearest(str(key), known)
    remedy = f"Did you mean {near[0]}?" if near else f"The fields here are {', '.join(known)}."
    return Refused(None, what, remedy, field=str(key))


# --- texts with a form ----------------------------------------------------------------------------------------------


def _is_name(text: str) -> bool:
    return bool(SUBDOMAIN.fullmatch(text))


def is_label(text: str) -> bool:
    """Return whether `text` is an RFC 1123 label in lower case, a name without dots; its length is not checked."""
    return bool(_LABEL.fullmatch(text))


def _is_device(text: str) -> bool:
    return text == "*" or bool(_DEVICE.fullmatch(text))


def _is_network(text: str) -> bool:
    cidr = addresses.parse_cidr_or_address(text)
    return bool(cidr and cidr.strict)


def _is_range(text: str) -> bool:
    cidr = addresses.parse_cidr(text)
    return bool(cidr and cidr.strict)


def _is_version(version: int, text: str) -> bool:
    cidr = addresses.parse_cidr_or_address(text)
    if cidr and cidr.version != version:
        # ::ffff:10.0.0.1/64 is an IPv4 address in an IPv6 range.
        address = addresses.parse_address(text.partition("/")[0])
        return bool(address and address.version == version)
    return cidr is not None


def _is_address(text: str, version: int = 0) -> bool:
    """Return whether `text` is an address of IP `version`, 0 for any."""
    address = addresses.parse_address(text)
    return address is not None and version in (0, address.version)


def _is_mac(text: str) -> bool:
    """Return whether `text` is 6, 8 or 20 octets: pairs of hex digits between ":" or "-", or fours between dots."""
    separator, width = (".", 4) if text[4:5] == "." else (text[2:3], 2)
    if (separator, width) not in ((":", 2), ("-", 2), (".", 4)):
        return False
    groups = text.split(separator)
    digits = re.compile(f"[0-9a-fA-F]{{{width}}}")
    return len(groups) * width // 2 in (6, 8, 20) and all(digits.fullmatch(group) for group in groups)


NAME = Text(_is_name, NAME_RULE, NAME_REMEDY)
NAME_LIMIT = 253
#: A name that is no longer than that of a resource can be.
BOUNDED_NAME = Text(
    lambda text: _is_name(text) and len(text) <= NAME_LIMIT,
    f"is not a name of at most {NAME_LIMIT} lower case letters, digits, '-' and '.'.",
    NAME_REMEDY,
)
FILLED_NAME = Filled(_is_name, NAME_RULE, NAME_REMEDY)
#: A range without address bits beyond its prefix, or one address.
NETWORK = Text(
    _is_network,
    "is not a range of addresses.",
    "Write it as address/prefix length, without address bits beyond the prefix, for example 10.1.0.0/16.",
)
#: A range with its prefix length, an entry of a list.
FILLED_RANGE = Filled(
    _is_range,
    NETWORK.rule,
    "Write it as address/prefix length, without address bits beyond the prefix, for example 10.1.0.0/16 or "
    "10.1.2.3/32.",
)
#: The name of a device, or "*" for all of them.
INTERFACE = Text(
    _is_device, "is not the name of an interface.", "Use at most 15 letters, digits, '-', '_' and '.', or a single '*'."
)
NODE_IPV4 = Text(
    functools.partial(_is_version, 4), "is not an IPv4 address.", "Write it with its prefix length, as 10.0.0.1/24."
)
NODE_IPV6 = Text(
    functools.partial(_is_version, 6), "is not an IPv6 address.", "Write it with its prefix length, as fd00::1/64."
)
IPV4 = Text(functools.partial(_is_address, version=4), "is not an IPv4 address.", "Write it as 10.0.0.1.")
IPV6 = Text(functools.partial(_is_address, version=6), "is not an IPv6 address.", "Write it as fd00::1.")
ADDRESS = Text(_is_address, "is not an address.", "Write it as 10.0.0.1 or fd00::1.")
FILLED_ADDRESS = Filled(_is_address, ADDRESS.rule, ADDRESS.remedy)
MAC = Text(_is_mac, "is not a MAC address.", "Write it as 66:aa:bb:cc:dd:ee.")
#: As in Calico, an empty text is no length of time: leave the field out instead.
DURATION = Filled(
    lambda text: parse_duration(text) is not None, "is not a length of time.", "Write a number and a unit, as 120s."
)
TEXT = Text()
FLAG = Flag()
NUMBER = Number()
AS_NUMBER = ASNumber()
