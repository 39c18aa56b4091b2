# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The encoder of `ipset restore`'s input: of each name, type and member that is part of a line.

ipset reads lines into a buffer of 1024 bytes and takes the rest of a longer one for the next line, where `save -file`
writes any file. It splits lines at white space, looks up names in DNS, and expands ranges. So only a numeric address or
CIDR is accepted as a member, with the further parts that the set's type has.
"""

from __future__ import annotations

import itertools
import re
import socket
import typing as t

from ...base.addresses import HALVES, family_of
from ...base.not_encodable import NotEncodable

PROTOCOL = "ipset restore"

_NAME = re.compile(r"cali[46][0t][A-Za-z0-9_.:=~-]{0,25}", re.ASCII)
_TYPE = re.compile(r"(?:hash|bitmap|list):[a-z]{2,5}(?:,[a-z]{2,5}){0,2}", re.ASCII)
# A member without its options, as `ipset save` prints it and `del` accepts it.
_SAVED = re.compile(r"[A-Za-z0-9:][A-Za-z0-9_.:,/@%\[\]-]{0,99}", re.ASCII)

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_ADDRESS = rf"(?:{_OCTET}\.){{3}}{_OCTET}"
_NUMBER = r"(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]|0)"
_PORT = rf"[a-z][a-z0-9-]{{0,14}}:{_NUMBER}"
_INTERFACE = r"[A-Za-z0-9_.][A-Za-z0-9_.@~=-]{0,14}"
_SUFFIXES = {"hash:ip,port": f",{_PORT}", "hash:net,iface": f",{_INTERFACE}"}


class _Form(t.NamedTuple):
    """The form of members of a type of set.

    `all` matches any number of IPv4 members in canonical form, apart from host bits, one a line. `suffix` matches what
    follows an address, `suffixes` any number of these, one a line; it is None if nothing may follow. `lengths` says
    whether a prefix length shorter than an address is allowed. `allowed` describes the form for people.
    """

    all: re.Pattern[str]
    suffix: re.Pattern[str]
    suffixes: t.Optional[re.Pattern[str]]
    lengths: bool
    allowed: str


def _form(suffix: str, lengths: bool, allowed: str) -> _Form:
    canonical = rf"{_ADDRESS}{'(?:/(?:[12][0-9]|3[01]|[1-9]))?' if lengths else ''}{suffix}\n"
    suffixes = re.compile(rf"(?:{suffix}\n)*", re.ASCII) if suffix else None
    return _Form(re.compile(f"(?:{canonical})*", re.ASCII), re.compile(suffix, re.ASCII), suffixes, lengths, allowed)


_FORMS: t.Mapping[str, _Form] = {
    "hash:ip": _form("", False, "an address"),
    "hash:net": _form("", True, "an address or CIDR"),
    "hash:ip,port": _form(_SUFFIXES["hash:ip,port"], False, "an address, a protocol and a port (10.0.0.1,tcp:80)"),
    "hash:net,iface": _form(
        _SUFFIXES["hash:net,iface"], True, "an address or CIDR and an interface's name (10.0.0.1,cali1)"
    ),
}


class Members(t.NamedTuple):
    """The texts that were wanted as members of a set.

    `good` are valid, in the canonical form of `ipset save`. `refused` are the others in order, which are left out.
    """

    good: frozenset[str]
    refused: tuple[str, ...] = ()


def name(value: str) -> str:
    """Return `value`, the name of a set of ours, unchanged. Raise NotEncodable if it is no such name."""
    if not _NAME.fullmatch(value):
        allowed = "Allowed are 31 letters, digits and _.:=~- , the first cali40 or cali60"
        raise NotEncodable(PROTOCOL, "a set's name", value, allowed)
    return value


def type_of(value: str) -> str:
    """Return `value`, a set's type such as `hash:net,iface`, unchanged. Raise NotEncodable if it has another form."""
    if value not in _FORMS and not _TYPE.fullmatch(value):
        raise NotEncodable(PROTOCOL, "a set's type", value, f"Allowed is one of {', '.join(_FORMS)}")
    return value


def members(kind: str, ipv6: bool, values: t.Collection[str], known: frozenset[str] = frozenset()) -> Members:
    """Return which of `values` can be members of a set of type `kind`, in canonical form, and which cannot.

    The canonical form has no host bits and no prefix length of a single address. In a set of networks alone (hash:net)
    two halves take the place of `0.0.0.0/0` or `::/0`; any other member of length 0 is refused, and so are members of
    another IP version than `ipv6` says. `known` are canonical members of the same set that this function returned
    before: these are not checked again. Raise NotEncodable if members of this type have no form here.
    """
    form = _FORMS.get(kind)
    if form is None:
        raise NotEncodable(PROTOCOL, "a set's type", kind, f"Allowed is one of {', '.join(_FORMS)}")
    good = known.intersection(values) if known else known
    left: t.Collection[str] = [value for value in values if value not in good] if good else values
    if _are_canonical(form, left, ipv6):
        return Members(good.union(left) if good else frozenset(left))
    found: set[str] = set(good)
    refused: list[str] = []
    for value in left:
        if value in HALVES and form.lengths and form.suffixes is None:
            halves = HALVES[value]
            if (family_of(value) == 6) == ipv6:
                found.update(halves)
                continue
        member = _canonical(form, value, ipv6)
        if member is None:
            refused.append(value)
        else:
            found.add(member)
    return Members(frozenset(found), tuple(refused))


def refusal(kind: str, ipv6: bool, value: str) -> NotEncodable:
    """Return, not raise, the error for a value that cannot be a member of a set of type `kind`, a key of _FORMS."""
    version = 6 if ipv6 else 4
    return NotEncodable(PROTOCOL, f"a member of a {kind}", value, f"Allowed is {_FORMS[kind].allowed} of IPv{version}")


def saved(value: str) -> str:
    """Return a member that `ipset save` printed, without its options (`nomatch`), for the command `del`.

    Raise NotEncodable if the rest is not 1 to 100 letters, digits and _.:,/@%[]- , the first a letter, digit or colon.
    """
    first = value.partition(" ")[0]
    if not _SAVED.fullmatch(first):
        raise NotEncodable(PROTOCOL, "a member", value, "Allowed are 100 letters, digits and _.:,/@%[]-")
    return first


def _are_canonical(form: _Form, values: t.Collection[str], ipv6: bool) -> bool:
    """Return whether all values are members in canonical form, decided for all at once; False may be wrong."""
    text = "\n".join([*values, ""])
    if text.count("\n") != len(values):
        return False
    if "/" in text:
        return not ipv6 and form.all.fullmatch(text) is not None and not any(map(_has_host_bits, values))
    addresses = list(values)
    if form.suffixes is not None:
        parts = [value.partition(",") for value in addresses]
        addresses = [address for address, _comma, _rest in parts]
        if not form.suffixes.fullmatch("".join([f",{rest}\n" for _address, _comma, rest in parts])):
            return False
    family = itertools.repeat(socket.AF_INET6 if ipv6 else socket.AF_INET)
    try:
        return list(map(socket.inet_ntop, family, map(socket.inet_pton, family, addresses))) == addresses
    except (OSError, ValueError):
        return False


def _canonical(form: _Form, value: str, ipv6: bool) -> t.Optional[str]:
    """Return the member in its canonical form, or None if it cannot be a member."""
    network, comma, rest = value.partition(",")
    if not form.suffix.fullmatch(comma + rest):
        return None
    address, slash, length = network.partition("/")
    family, bits = (socket.AF_INET6, 128) if ipv6 else (socket.AF_INET, 32)
    try:
        packed = socket.inet_pton(family, address)
    except (OSError, ValueError):  # ValueError is for a NUL and for half of a surrogate pair.
        return None
    if slash:
        if not length.isascii() or not length.isdecimal() or len(length) > 3 or not 0 < int(length) <= bits:
            return None
        if int(length) == bits:
            slash = length = ""
        elif not form.lengths:
            return None
        else:
            number = int.from_bytes(packed, "big") >> (bits - int(length)) << (bits - int(length))
            packed, length = number.to_bytes(len(packed), "big"), str(int(length))
    return socket.inet_ntop(family, packed) + slash + length + comma + rest


def _has_host_bits(value: str) -> bool:
    """Return whether an IPv4 member has bits set behind its prefix, if it has one, which the kernel would clear."""
    address, slash, rest = value.partition("/")
    if not slash:
        return False
    length = int(rest.partition(",")[0])
    return bool(int.from_bytes(socket.inet_aton(address), "big") & (0xFFFFFFFF >> length))
