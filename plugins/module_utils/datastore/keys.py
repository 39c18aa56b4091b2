# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of the datastore, the ranges of keys that users may read and write, and how large their values may be.

    /host-routing/v1/answers/<node>/<id>            its answer to a change     written by that node's agent
    /host-routing/v1/blocks/<node>                  the blocks of a node       written by a run of Ansible
    /host-routing/v1/changes/open                   a change that is tried     written by operators
    /host-routing/v1/documents/<plural>/<name>      a live document            written by operators
    /host-routing/v1/endpoints/<node>/<interface>   a workload of a node       written by that node's agent
    /host-routing/v1/endpoints/<node>/@complete     all of them are there      written by that node's agent
    /host-routing/v1/heartbeats/<node>/agent        how that node does         written by that node's agent
    /host-routing/v1/heartbeats/<node>/policy       its live documents         written by that node's agent
    /host-routing/v1/history/<user>/<id>            a change that was made     written by that operator
    /host-routing/v1/inventory/<plural>/<name>      the inventory's document   written by a run of Ansible
    /host-routing/v1/nodes/<node>                   a node of the inventory    written by a run of Ansible
    /host-routing/v1/pools/<pool>                   an IP pool                 written by a run of Ansible
    /host-routing/v1/settings/fleet                 settings of live policy    written by a run of Ansible

The name of a document of a kind with namespaces is <namespace>/<name>.

Agents watch one range, WATCHED: blocks, the open change, documents and endpoints. Heartbeats change every few seconds
and lie outside of it. The prefixes of a node and of an operator end in a slash, so that the rights of node1 do not
include those of node10.

Functions that make a key or prefix raise InvalidKey for a name that no node, operator, interface, document or pool can
have.
"""

from __future__ import annotations

import re
import typing as t

ROOT = "/host-routing/v1/"
ANSWERS = f"{ROOT}answers/"
BLOCKS = f"{ROOT}blocks/"
CHANGES = f"{ROOT}changes/"
DOCUMENTS = f"{ROOT}documents/"
ENDPOINTS = f"{ROOT}endpoints/"
HEARTBEATS = f"{ROOT}heartbeats/"
HISTORY = f"{ROOT}history/"
INVENTORY = f"{ROOT}inventory/"
NODES = f"{ROOT}nodes/"
POOLS = f"{ROOT}pools/"
SETTINGS = f"{ROOT}settings/"

#: The key of the one change that is tried, or asked about, at a time.
OPEN_CHANGE = f"{CHANGES}open"
#: The key of what a run says about live policy.
FLEET_SETTINGS = f"{SETTINGS}fleet"

#: The kinds of live documents, with the word that their keys have: Calico's resource names in the plural.
LIVE_KINDS: t.Mapping[str, str] = {
    "GlobalNetworkPolicy": "globalnetworkpolicies",
    "GlobalNetworkSet": "globalnetworksets",
    "NetworkPolicy": "networkpolicies",
    "NetworkSet": "networksets",
    "StagedGlobalNetworkPolicy": "stagedglobalnetworkpolicies",
    "StagedNetworkPolicy": "stagednetworkpolicies",
    "Tier": "tiers",
}
_NAMESPACED = frozenset({"NetworkPolicy", "NetworkSet", "StagedNetworkPolicy"})
_KIND_OF = {plural: kind for kind, plural in LIVE_KINDS.items()}

#: The most bytes of a live document, and of one of the inventory.
DOCUMENT_BYTES = 256 << 10
#: The most live documents, and the most bytes of all of them.
MOST_DOCUMENTS, DOCUMENTS_BYTES = 10_000, 64 << 20
#: The most documents of a change that is one transaction, and the most bytes of the open change.
CHANGE_DOCUMENTS, CHANGE_BYTES = 100, 512 << 10
#: The most bytes of a change in the history, the most changes there, and the most bytes of all of them.
HISTORY_BYTES, MOST_HISTORY, ALL_HISTORY_BYTES = 1 << 20, 1_000, 64 << 20
#: The most bytes of the settings of live policy.
SETTINGS_BYTES = 256 << 10
#: The most bytes of a node's answer to a change, and the most answers of a node.
ANSWER_BYTES, MOST_ANSWERS = 32 << 10, 8
#: The most bytes of the document of a workload: 64 labels of the longest kind take 24 KB.
ENDPOINT_BYTES = 64 << 10
#: The most bytes of a heartbeat. The longest one that an agent writes has about 7,000.
HEARTBEAT_BYTES = 8 << 10
#: The most bytes of what a node says of its live documents.
POLICY_HEARTBEAT_BYTES = 4 << 10
#: The most bytes of the document that says that all workloads are there. An agent writes two.
COMPLETE_BYTES = 64

#: The most characters of a part of a key: a DNS name has at most 253.
_PART_LIMIT = 253
_PART = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_INTERFACE = re.compile(r"[a-zA-Z0-9_.-]{1,15}", re.ASCII)
_AGENT, _POLICY, _COMPLETE = "agent", "policy", "@complete"


class InvalidKey(ValueError):
    """A part of a key, such as the name of a node, that would make another key than the one that is meant."""


class KeyRange(t.NamedTuple):
    """The range of keys from `start` to `end`, without `end` itself. etcd compares keys by their bytes."""

    start: str
    end: str

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        return self.start.encode() <= key.encode("utf-8", "surrogateescape") < self.end.encode()


class EndpointKey(t.NamedTuple):
    """The parts of the key of a workload: its node, and the host end of its interface."""

    node: str
    interface: str


class AnswerKey(t.NamedTuple):
    """The parts of the key of an answer: its node, and the id of the change that it is about."""

    node: str
    change: str


class HistoryKey(t.NamedTuple):
    """The parts of the key of a change in the history: the operator who made it, and its id."""

    user: str
    change: str


class DocumentKey(t.NamedTuple):
    """The parts of the key of a live document: a kind of LIVE_KINDS, its namespace, "" for none, and its name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def under(prefix: str) -> KeyRange:
    """Return the range of all keys that begin with `prefix`, which ends in a slash."""
    return KeyRange(prefix, f"{prefix[:-1]}0")  # '0' follows '/' in ASCII


#: What agents list and watch.
WATCHED = KeyRange(BLOCKS, under(ENDPOINTS).end)
EVERYTHING = under(ROOT)


def endpoints_of(node: str) -> str:
    """Return the prefix of a node's workloads."""
    return f"{ENDPOINTS}{_part(node)}/"


def heartbeats_of(node: str) -> str:
    """Return the prefix of a node's heartbeats."""
    return f"{HEARTBEATS}{_part(node)}/"


def answers_of(node: str) -> str:
    """Return the prefix of a node's answers."""
    return f"{ANSWERS}{_part(node)}/"


def history_of(user: str) -> str:
    """Return the prefix of the changes that an operator made."""
    return f"{HISTORY}{_part(user)}/"


def prefixes_of_node(node: str) -> tuple[str, ...]:
    """Return the prefixes of all keys that a node writes."""
    return endpoints_of(node), heartbeats_of(node), answers_of(node)


def of_node(node: str) -> tuple[KeyRange, ...]:
    """Return the ranges of all keys that a node writes."""
    return tuple(map(under, prefixes_of_node(node)))


def endpoint_key(node: str, interface: str) -> str:
    """Return the key of a workload by the host end of its interface."""
    if not _is_interface(interface):
        raise InvalidKey(f"{interface!r} is not the name of an interface")
    return f"{endpoints_of(node)}{interface}"


def complete_key(node: str) -> str:
    """Return the key that says that all workloads of a node are published."""
    return f"{endpoints_of(node)}{_COMPLETE}"


def heartbeat_key(node: str) -> str:
    return f"{heartbeats_of(node)}{_AGENT}"


def policy_heartbeat_key(node: str) -> str:
    return f"{heartbeats_of(node)}{_POLICY}"


def answer_key(node: str, change: str) -> str:
    """Return the key of a node's answer to the change with this id."""
    return f"{answers_of(node)}{_part(change)}"


def history_key(user: str, change: str) -> str:
    """Return the key of the change with this id that an operator made."""
    return f"{history_of(user)}{_part(change)}"


def document_key(key: DocumentKey) -> str:
    """Return the key of a live document. Raise InvalidKey also for a kind that is not live."""
    return f"{DOCUMENTS}{_path(key)}"


def inventory_key(key: DocumentKey) -> str:
    """Return the key of a document of the inventory. Raise InvalidKey also for a kind that is not live."""
    return f"{INVENTORY}{_path(key)}"


def _path(key: DocumentKey) -> str:
    plural = LIVE_KINDS.get(key.kind)
    if plural is None or bool(key.namespace) is not (key.kind in _NAMESPACED):
        raise InvalidKey(f"{key} cannot be a live document")
    parts = [key.namespace, key.name] if key.namespace else [key.name]
    return f"{plural}/{'/'.join(map(_part, parts))}"


def blocks_key(node: str) -> str:
    return f"{BLOCKS}{_part(node)}"


def node_key(node: str) -> str:
    return f"{NODES}{_part(node)}"


def pool_key(pool: str) -> str:
    return f"{POOLS}{_part(pool)}"


def parse_endpoint_key(key: str) -> t.Optional[EndpointKey]:
    """Return the parts of the key of a workload, or None for any other key."""
    if not key.startswith(ENDPOINTS):
        return None
    node, slash, interface = key[len(ENDPOINTS) :].partition("/")
    if not slash or not _is_part(node) or not _is_interface(interface):
        return None
    return EndpointKey(node, interface)


def share_of(key: str) -> t.Optional[str]:
    """Return the prefix of the keys that are bounded together with this one, whatever the rest of it is.

    Those are the workloads of a node, or all live documents. Return None for other keys.
    """
    if key.startswith(DOCUMENTS):
        return DOCUMENTS
    node, slash, dummy = key[len(ENDPOINTS) :].partition("/")
    return f"{ENDPOINTS}{node}/" if slash and key.startswith(ENDPOINTS) and _is_part(node) else None


def name_in(prefix: str) -> str:
    """Return the name in one of the prefixes of a node, whatever it is, "" for the prefix of all nodes."""
    root = next(one for one in (ENDPOINTS, HEARTBEATS, ANSWERS) if prefix.startswith(one))
    return prefix[len(root) : -1]


def between(outer: KeyRange, inner: t.Iterable[KeyRange]) -> list[KeyRange]:
    """Return the parts of a range that lie in none of the ranges `inner`, in order; those do not overlap."""
    found = []
    start = outer.start
    for one in sorted(inner, key=lambda keys: keys.start.encode("utf-8", "surrogateescape")):
        if start != one.start:
            found.append(KeyRange(start, one.start))
        start = one.end
    return [*found, KeyRange(start, outer.end)]


def parse_complete_key(key: str) -> t.Optional[str]:
    """Return the node of a key of `complete_key`, or None for any other key."""
    node, dummy, rest = key[len(ENDPOINTS) :].partition("/")
    return node if key.startswith(ENDPOINTS) and rest == _COMPLETE and _is_part(node) else None


def parse_blocks_key(key: str) -> t.Optional[str]:
    """Return the node of the key of a node's blocks, or None for any other key."""
    node = key[len(BLOCKS) :]
    return node if key.startswith(BLOCKS) and _is_part(node) else None


def _heartbeat_node(key: str, last: str) -> t.Optional[str]:
    node, dummy, rest = key[len(HEARTBEATS) :].partition("/")
    return node if key.startswith(HEARTBEATS) and rest == last and _is_part(node) else None


def parse_heartbeat_key(key: str) -> t.Optional[str]:
    """Return the node of the key of a heartbeat, or None for any other key."""
    return _heartbeat_node(key, _AGENT)


def parse_policy_heartbeat_key(key: str) -> t.Optional[str]:
    """Return the node of a key of `policy_heartbeat_key`, or None for any other key."""
    return _heartbeat_node(key, _POLICY)


def parse_document_key(key: str) -> t.Optional[DocumentKey]:
    """Return the parts of the key of a live document, or None for any other key."""
    return _parsed(key[len(DOCUMENTS) :]) if key.startswith(DOCUMENTS) else None


def parse_inventory_key(key: str) -> t.Optional[DocumentKey]:
    """Return the parts of the key of a document of the inventory, or None for any other key."""
    return _parsed(key[len(INVENTORY) :]) if key.startswith(INVENTORY) else None


def parse_answer_key(key: str) -> t.Optional[AnswerKey]:
    """Return the parts of the key of an answer, or None for any other key."""
    parts = _two_parts(key, ANSWERS)
    return AnswerKey(*parts) if parts else None


def parse_history_key(key: str) -> t.Optional[HistoryKey]:
    """Return the parts of the key of a change in the history, or None for any other key."""
    parts = _two_parts(key, HISTORY)
    return HistoryKey(*parts) if parts else None


def _two_parts(key: str, prefix: str) -> t.Optional[tuple[str, str]]:
    first, dummy, second = key[len(prefix) :].partition("/")
    return (first, second) if key.startswith(prefix) and _is_part(first) and _is_part(second) else None


def _parsed(path: str) -> t.Optional[DocumentKey]:
    plural, *parts = path.split("/")
    kind = _KIND_OF.get(plural)
    if kind is None or len(parts) != 1 + (kind in _NAMESPACED) or not all(map(_is_part, parts)):
        return None
    return DocumentKey(kind, parts[0] if len(parts) > 1 else "", parts[-1])


def most_bytes(key: str) -> t.Optional[int]:
    """Return the most bytes of the value of a key that a node's agent writes, None for any other key."""
    if parse_endpoint_key(key) is not None:
        return ENDPOINT_BYTES
    if parse_complete_key(key) is not None:
        return COMPLETE_BYTES
    if parse_policy_heartbeat_key(key) is not None:
        return POLICY_HEARTBEAT_BYTES
    if parse_answer_key(key) is not None:
        return ANSWER_BYTES
    return HEARTBEAT_BYTES if parse_heartbeat_key(key) is not None else None


def is_node(text: str) -> bool:
    return _is_part(text)


def _is_part(text: str) -> bool:
    return len(text) <= _PART_LIMIT and _PART.fullmatch(text) is not None


def _is_interface(text: str) -> bool:
    return _INTERFACE.fullmatch(text) is not None and text not in (".", "..")


def _part(text: str) -> str:
    if not _is_part(text):
        raise InvalidKey(f"{text!r} cannot be a part of a key: letters, digits, '-', '_' and '.', at most 253")
    return text
