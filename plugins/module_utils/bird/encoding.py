# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The encoder of bird.cfg and of commands to BIRD's socket; bgp/passwords.py encodes passwords.

The templates of bird.cfg write values as they are. So every field of bgp.bird_state.Bird, and of the values in it, has
a kind here, such as a number, an address, a symbol, a text in double quotes (where BIRD knows no escapes), or one of a
few words. `checked` refuses a value that is not of its field's kind, and a field without a kind.
"""

from __future__ import annotations

import functools
import operator
import re
import typing as t

from ..base.not_encodable import NotEncodable
from ..bgp import bird_state, filter_rules

CONFIGURATION = "bird.cfg"
COMMAND = "BIRD's control socket"

_LONGEST_COMMAND = 4000  # bytes; BIRD reads a command into a buffer of 4096

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_ADDRESS4 = rf"(?:{_OCTET}\.){{3}}{_OCTET}"
_ADDRESS = rf"(?:{_ADDRESS4}|[0-9A-Fa-f]{{0,4}}(?::[0-9A-Fa-f]{{0,4}}){{2,7}}(?::{_ADDRESS4})?)"
_SCOPE = r"(?:%[A-Za-z0-9_.-]{1,15})?"
_SECRET = r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}"
# A character that a quoted text may have. It may not have double quotes, line breaks and control characters.
# Embeddings, overrides and isolates of the direction of writing, and halves of surrogate pairs, are refused as well.
_IN_TEXT = '[^"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]'


class _Kind(t.NamedTuple):
    """A kind of text. `all` matches any number of such texts, a line feed after each; `allowed` describes them."""

    name: str
    all: re.Pattern[str]
    allowed: str


def _kind(name: str, form: str, allowed: str) -> _Kind:
    return _Kind(name, re.compile(f"(?:(?:{form})\n)*"), f"Allowed is {allowed}")


def _one_of(*words: str) -> _Kind:
    allowed = f"one of {', '.join(word for word in words if word)}{'' if all(words) else ', or nothing'}"
    return _kind("a setting", "|".join(map(re.escape, words)), allowed)


_address = _kind("an address", _ADDRESS + _SCOPE, "an IPv4 or IPv6 address")
_no_or_address = _kind("an address", f"(?:{_ADDRESS}{_SCOPE})?", "an IPv4 or IPv6 address, or nothing")
_router_id = _kind("a router id", _ADDRESS4, "an IPv4 address")
_prefix = _kind("a prefix", f"{_ADDRESS}/[0-9]{{1,3}}", "a prefix of IPv4 or IPv6 (10.0.0.0/26)")
_no_or_prefix = _kind("a prefix", f"(?:{_ADDRESS}/[0-9]{{1,3}})?", "a prefix of IPv4 or IPv6 (10.0.0.0/26), or nothing")
_symbol = _kind("a symbol", r"[A-Za-z_][A-Za-z0-9_]{0,63}", "up to 64 letters, digits and _")
_quoted_symbol = _kind("a symbol", r"'[A-Za-z0-9_.:-]{1,64}'", "up to 64 letters, digits and _.:- in single quotes")
_secret = _kind("a secret's name", f"(?:{_SECRET})?", "letters, digits and _.:-")
_text = _kind(
    "a text", f"{_IN_TEXT}{{0,255}}", "up to 255 characters that are no double quote and no control character"
)
_device = _one_of("", "tunl0", "vxlan.calico", "vxlan-v6.calico")
_folder = _kind(
    "a folder",
    r"(?:(?:/(?!\.\.?[/\n])[A-Za-z0-9._\[\]-]{1,255}){1,32})?",
    "an absolute path in letters, digits and ._-, without '..', or nothing",
)
# A name of a BGPFilter: the template compares such a name, and does not write it into bird.cfg.
_name = _kind("a name", r"[^\n]{0,1000}", "a name in one line")


class _Number(t.NamedTuple):
    allowed: str = "Allowed is a number"


class _Flag(t.NamedTuple):
    allowed: str = "Allowed is true or false"


class _Several(t.NamedTuple):
    """A list of values of the kind `of`, or of the class `of`, whose fields are in KINDS."""

    of: t.Any


class _Made(t.NamedTuple):
    """A value of the class `of`, whose fields are in KINDS, or None."""

    of: type


_number, _flag = _Number(), _Flag()
_numbers = _Several(_number)

#: {class of values: {field: kind}}. None is accepted for every field.
KINDS: t.Mapping[type, t.Mapping[str, t.Any]] = {
    bird_state.Bird: {
        "router_id": _router_id,
        "address": _no_or_address,
        "as_number": _number,
        "subnet": _no_or_prefix,
        "listen_port": _number,
        "blocks": _Several(_prefix),
        "pools": _Several(bird_state.BirdPool),
        "peers": _Several(bird_state.BirdPeer),
        "cluster_id": _router_id,
        "workload_node": _flag,
        "log_severity": _one_of("Debug", "Info", "Warning", "Error", "Fatal", "None"),
        "graceful_restart_time": _number,
        "hold_time": _number,
        "keepalive_time": _number,
        "long_lived_stale_time": _number,
        "address6": _no_or_address,
        "subnet6": _no_or_prefix,
        "secrets": _Several(_secret),
        "backups": _Several(bird_state.BackupRoute),
        "backup_pools": _Several(bird_state.BirdPool),
        "backups_lead": _flag,
        "routers_alone": _Several(_prefix),
        "vteps6": _Several(bird_state.Vtep6),
        "filters": _Several(filter_rules.FilterFunction),
        "communities": _Several(bird_state.Communities),
        "ignored_interfaces": _Several(_text),
        "strict_bind": _flag,
        "include_dir": _folder,
        "merge_paths": _flag,
    },
    bird_state.BirdPeer: {
        "name": _symbol,
        "address": _address,
        "as_number": _number,
        "kind": _one_of("mesh", "client", "reflector", "node", "external"),
        "passive": _flag,
        "node": _text,
        "multihop": _flag,
        "family": _number,
        "port": _number,
        "local_port": _number,
        "local_as": _number,
        "source_address": _no_or_address,
        "cluster_id": _router_id,
        "password": _secret,
        "ttl_security": _number,
        "hold_time": _number,
        "keepalive_time": _number,
        "connect_retry_time": _number,
        "graceful_restart_time": _number,
        "long_lived_stale_time": _number,
        "bfd": _Made(bird_state.Bfd),
        "next_hop": _one_of("auto", "self", "keep"),
        "allow_local_as": _number,
        "reachable_by": _no_or_address,
        "filters": _Several(_name),
    },
    bird_state.Bfd: {"min_rx": _number, "min_tx": _number, "multiplier": _number},
    bird_state.BirdPool: {
        "cidr": _prefix,
        "device": _device,
        "cross_subnet": _flag,
        "mtu": _number,
        "export": _flag,
        "block_size": _number,
    },
    bird_state.BackupRoute: {"destination": _prefix, "next_hop": _address},
    bird_state.Communities: {"cidr": _prefix, "standard": _Several(_numbers), "large": _Several(_numbers)},
    bird_state.Vtep6: {"next_hop": _address, "gateway": _address},
    filter_rules.FilterFunction: {
        "filter": _name,
        "direction": _one_of("import", "export"),
        "family": _number,
        "symbol": _quoted_symbol,
        "rules": _Several(filter_rules.FilterRule),
        "by_peer_type": _flag,
    },
    filter_rules.FilterRule: {
        "accept": _flag,
        "net": _no_or_prefix,
        "operator": _one_of("", "In", "NotIn", "Equal", "NotEqual"),
        "lengths": _numbers,
        "from_peers": _flag,
        "interface": _text,
        "peer_type": _one_of("", "iBGP", "eBGP"),
        "community": _numbers,
        "as_path": _numbers,
        "local_pref": _number,
        "unset_local_pref": _flag,
        "operations": _Several(filter_rules.FilterOperation),
    },
    filter_rules.FilterOperation: {
        "kind": _one_of("community", "large_community", "as_path", "local_pref"),
        "numbers": _numbers,
    },
}

_Row = t.Mapping[str, t.Any]


def checked(bird: _Row) -> _Row:
    """Return `bird`, a Bird as NodeState.to_dict has it, unchanged if every value is of its field's kind.

    Raises NotEncodable for a value that is not, and for an unknown field, also in the values inside of `bird`. A field
    that is None or absent is accepted, and any empty value in place of a list or of `bfd`.
    """
    _check_rows(bird_state.Bird, [bird], "bird")
    return bird


def _check_rows(made_of: type, rows: t.Sequence[_Row], where: str) -> None:
    """Check values of the class `made_of`, one field of all rows at once because there may be thousands of rows.

    `where` is their place in a Bird, for the text of the error.
    """
    kinds = KINDS[made_of]
    try:
        columns = list(zip(*map(operator.itemgetter(*kinds), rows)))
    except KeyError:  # A row lacks a field, which counts as None; the templates report a missing field that they need.
        columns = [tuple([row.get(name) for row in rows]) for name in kinds]
        _refuse_unknown(made_of, rows)
    if max(map(len, rows)) > len(kinds):
        _refuse_unknown(made_of, rows)
    for (name, kind), values in zip(kinds.items(), columns):
        if values.count(None) < len(values):
            _check(kind, values, f"{where}.{name}")


def _refuse_unknown(made_of: type, rows: t.Sequence[_Row]) -> None:
    for name in sorted(set().union(*rows).difference(KINDS[made_of])):
        raise NotEncodable(CONFIGURATION, "a field", name, f"{made_of.__name__} has no field of this name")


def _check(kind: t.Any, values: t.Sequence[t.Any], where: str) -> None:
    if isinstance(kind, _Kind):
        if not set(map(type, values)) <= {str, type(None)}:
            bad = next(value for value in values if value is not None and not isinstance(value, str))
            raise NotEncodable(CONFIGURATION, where, bad, kind.allowed)
        _check_texts(kind, set(values), where)
    elif isinstance(kind, (_Number, _Flag)):
        wanted = int if isinstance(kind, _Number) else bool
        if not set(map(type, values)) <= {wanted, type(None)}:
            right = {wanted, type(None)}  # exact types: a bool is an int, but no number
            bad = next(value for value in values if type(value) not in right)
            raise NotEncodable(CONFIGURATION, where, bad, kind.allowed)
    elif isinstance(kind, (_Several, _Made)):
        given = [value for value in values if value]
        if not given:
            return
        lists = given if isinstance(kind, _Several) else [given]
        if not set(map(type, lists)) <= {list, tuple}:
            raise NotEncodable(CONFIGURATION, where, lists[0], "Allowed is a list")
        _check(kind.of, [value for one in lists for value in one], where)
    else:
        if not all(issubclass(one, t.Mapping) for one in set(map(type, values))):
            raise NotEncodable(CONFIGURATION, where, values[0], "Allowed is a mapping")
        if values:
            _check_rows(kind, values, where)


def _check_texts(kind: _Kind, values: set[t.Any], where: str) -> None:
    values.discard(None)
    text = "\n".join([*values, ""])
    if not values or (text.count("\n") == len(values) and kind.all.fullmatch(text)):
        return
    bad = next(value for value in sorted(values) if "\n" in value or not kind.all.fullmatch(f"{value}\n"))
    raise NotEncodable(CONFIGURATION, f"{where} ({kind.name})", bad, kind.allowed)


_COMMAND = re.compile(r"[ -~]*")


def command(text: str) -> bytes:
    """Return `text` as a line for BIRD's socket, with its line feed.

    Raises NotEncodable unless it is at most 4000 printable ASCII characters.
    """
    if not _COMMAND.fullmatch(text) or len(text) > _LONGEST_COMMAND:
        allowed = f"Allowed is one line of up to {_LONGEST_COMMAND} printable ASCII characters"
        raise NotEncodable(COMMAND, "a command", text, allowed)
    return text.encode("ascii") + b"\n"


@functools.lru_cache(maxsize=64)
def quoted(text: str) -> str:
    """Return `text` in double quotes, for a command. Raises NotEncodable unless it is printable ASCII without these."""
    if '"' in text or not _COMMAND.fullmatch(text):
        raise NotEncodable(COMMAND, "a text", text, "Allowed are printable ASCII characters without double quotes")
    return f'"{text}"'
