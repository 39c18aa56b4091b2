# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers of answers of `node_info`. Whether a node may claim its blocks is up to `ipam.rebuild`."""

from __future__ import annotations

import functools
import typing as t

from ...base import addresses, typed_json
from ...base.typed_json import Unreadable, shown
from ...bgp.bird_state import Bird, BirdPool
from ...ipam.allocation_plan import ENCAPSULATIONS, TUNNEL_KINDS
from ...state.answers import limits
from ...state.answers.endpoints import single_address
from ...state.answers.left_out import LeftOut
from ...state.fleet_list import FleetMember, bare
from ...state.node_state import NodeState, Pool
from ...state.phase import Phase

#: Devices that a pool may have in a stored state, by IP version: those in fleet.fleet.TUNNEL_DEVICE, or none.
_DEVICES = {4: ("", "tunl0", "vxlan.calico"), 6: ("", "vxlan-v6.calico")}
#: The kinds of sessions in bgp.bird_state.BirdPeer.
_KINDS = ("mesh", "client", "reflector", "node", "external")
_LONGEST_CIDR, _LONGEST_NAME = 43, 253  # characters: of an IPv6 address with /128, and of a name in DNS
_MTUS = range(68, 65536)  # bytes: from the minimum of RFC 791 to the largest calico_underlay_mtu

_HELD = typed_json.open_table(
    {
        "preflight": typed_json.open_table(
            {
                "addresses": typed_json.by_name(
                    typed_json.items(typed_json.text(_LONGEST_CIDR), limits.HELD), limits.HELD
                )
            }
        )
    }
)
_PASSWORDS = typed_json.items(typed_json.text(), limits.PASSWORDS)
_GENERATIONS = typed_json.items(
    typed_json.open_table(
        {
            "n": typed_json.whole(),
            "when": typed_json.text(64),
            "who": typed_json.text(512),
            "plan": typed_json.text(64),
            "phase": typed_json.text(64),
        }
    ),
    limits.GENERATIONS,
)


def state(host: str, result: t.Any) -> t.Optional[NodeState]:
    """Return the stored state in a `node_info` result, without its policy; None if the node has no state.

    It is also None if `result` is no mapping. Reading the policy of a large fleet would take a second per node. Raise
    Unreadable if the state is invalid, and its subclass Foreign if it is that of another node than `host`.
    """
    data = result.get("state") if isinstance(result, t.Mapping) else None
    if data is None or data == {}:
        return None
    if not isinstance(data, t.Mapping):
        raise Unreadable("", f"{shown(data)}, not a stored state")
    return stored_state(host, data)


def stored_state(host: str, data: t.Mapping[str, t.Any]) -> NodeState:
    """Return the state in `data` without its policy. Raise Unreadable if invalid, Foreign if it is another node's."""
    phase = data.get("phase", Phase.CONVERGE)
    if isinstance(phase, str) and phase not in list(Phase):
        raise Unreadable("phase", f"{shown(phase)}, no phase")
    try:
        found = NodeState.from_dict({name: value for name, value in data.items() if name != "policy"})
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        raise Unreadable("", _words(error)) from error
    if found.node != host:
        raise Foreign(shown(found.node))
    _check(found)
    return found


def held_addresses(result: t.Any) -> frozenset[str]:
    """Return the IPv4 addresses on a host's interfaces in a `node_info` result, without prefix lengths.

    The result is empty if the host was not asked for them, or its answer cannot be read.
    """
    try:
        found = _HELD(result)["preflight"]["addresses"]
    except Unreadable:
        return frozenset()
    return frozenset(bare(cidr) for cidrs in found.values() for cidr in cidrs)


def _words(error: BaseException) -> str:
    """Return what is wrong with a state, on one line. It may contain text from the node, without control characters."""
    return shown(str(error)) if isinstance(error, ValueError) else "not made of what a state is made of"


def _check(found: NodeState) -> None:
    """Raise Unreadable if the state has values, or so many of them, that the compiler cannot compute with it."""
    if isinstance(found.underlay_mtu, bool) or found.underlay_mtu not in _MTUS:
        raise Unreadable("underlay_mtu", f"{shown(found.underlay_mtu)}, no MTU")
    names = [pool.name for pool in found.pools]
    if len(found.pools) > limits.POOLS or len(set(names)) < len(names):
        raise Unreadable("pools", f"more than {limits.POOLS}, or two of one name")
    for pool in found.pools:
        _check_pool(pool)
    if isinstance(found.ipam.generation, bool) or not 0 <= found.ipam.generation <= 2**53:
        raise Unreadable("ipam.generation", f"{shown(found.ipam.generation)}, no count")
    if len(found.ipam.blocks) + len(found.ipam.spare_blocks) > limits.BLOCKS:
        raise Unreadable("ipam.blocks", f"more than {limits.BLOCKS}")
    if not TUNNEL_KINDS.keys() >= found.ipam.tunnels.keys():
        raise Unreadable("ipam.tunnels", "of a kind that there is not")
    for kind, text in found.ipam.tunnels.items():
        if addresses.family_of(text) != TUNNEL_KINDS[kind]:
            raise Unreadable(f"ipam.tunnels {kind}", f"{shown(text)}, no IPv{TUNNEL_KINDS[kind]} address")
    if len(found.ipam.probes) > limits.POOLS:
        raise Unreadable("ipam.probes", f"more than {limits.POOLS}")
    _check_probes(found.nodes)
    if found.bird is not None:
        _check_bird(found.bird)
        _check_blocks("bird_routes", [route.destination for route in found.bird_routes])
        _check_addresses("bird_routes next_hop", {route.next_hop for route in found.bird_routes})
        _check_names("bird_routes node", {route.node for route in found.bird_routes})
    _check_blocks("routes", [route.destination for route in found.routes if route.gateway])


def _check_probes(members: t.Iterable[FleetMember]) -> None:
    """Raise Unreadable if a node of the state's list has probe endpoints at what is no address, or at too many."""
    addresses: set[str] = set()
    for member in members:
        if len(member.probes) > limits.POOLS:
            raise Unreadable("nodes probes", f"more than {limits.POOLS}")
        addresses.update(member.probes)
    if "" in addresses:
        raise Unreadable("nodes probes", "'', no single address")
    _check_addresses("nodes probes", addresses)


def _check_pool(pool: Pool) -> None:
    cidr = addresses.parse_cidr(pool.cidr)
    if cidr is None or not cidr.strict or len(pool.name) > 253:
        raise Unreadable("pools", f"{shown(pool.cidr)}, no pool")
    ipip_over_6 = cidr.version == 6 and pool.encapsulation.startswith("IPIP")
    if pool.encapsulation not in ENCAPSULATIONS or ipip_over_6:
        raise Unreadable(f"pools {shown(pool.name)} encapsulation", f"{shown(pool.encapsulation)}, none that there is")


def _check_bird(bird: Bird) -> None:
    for pool in bird.pools:
        _check_bird_pool(pool)
    for place, subnet in (("bird.subnet", bird.subnet), ("bird.subnet6", bird.subnet6)):
        if subnet and not _is_block(subnet):
            raise Unreadable(place, f"{shown(subnet)}, no subnet")
    _check_addresses("bird.address", (bird.address, bird.address6))
    _check_blocks("bird.blocks", bird.blocks)
    _check_blocks("bird.backups", [route.destination for route in bird.backups])
    _check_addresses("bird.backups next_hop", {route.next_hop for route in bird.backups})
    if len(bird.peers) > limits.PEERS:
        raise Unreadable("bird.peers", f"more than {limits.PEERS}")
    for peer in bird.peers:
        if peer.kind not in _KINDS:
            raise Unreadable("bird.peers kind", f"{shown(peer.kind)}, none that there is")
        if not _is_address(peer.address):
            raise Unreadable("bird.peers address", f"{shown(peer.address)}, no single address")
        if peer.source_address and not _is_address(peer.source_address):
            raise Unreadable("bird.peers source_address", f"{shown(peer.source_address)}, no single address")
    _check_names("bird.peers node", {peer.node for peer in bird.peers})


def _check_bird_pool(pool: BirdPool) -> None:
    """Raise Unreadable if the pool's CIDR is invalid, or its device and cross_subnet are no encapsulation of it."""
    cidr = addresses.parse_cidr(pool.cidr)
    if cidr is None or not cidr.strict:
        raise Unreadable("bird.pools", f"{shown(pool.cidr)}, no pool")
    if pool.device not in _DEVICES[cidr.version]:
        raise Unreadable("bird.pools device", f"{shown(pool.device)}, no tunnel of an IPv{cidr.version} pool's")
    if pool.cross_subnet and not pool.device:
        raise Unreadable("bird.pools cross_subnet", "true, and the pool has no tunnel")


def _check_blocks(place: str, cidrs: t.Sequence[str]) -> None:
    """Raise Unreadable if these are more than typed_json.ENTRIES, or one is not a CIDR in its canonical form."""
    if len(cidrs) > typed_json.ENTRIES:
        raise Unreadable(place, f"more than {typed_json.ENTRIES}")
    for cidr in cidrs:
        if len(cidr) > _LONGEST_CIDR or not _is_block(cidr):
            raise Unreadable(place, f"{shown(cidr)}, no block")


def _check_addresses(place: str, texts: t.Iterable[str]) -> None:
    """Raise Unreadable if one of these is neither "" nor a single address."""
    for text in texts:
        if text and not _is_address(text):
            raise Unreadable(place, f"{shown(text)}, no single address")


def _check_names(place: str, names: t.Iterable[str]) -> None:
    """Raise Unreadable if a name of a host, which errors show, is longer than 253 characters or not printable."""
    for name in names:
        if len(name) > _LONGEST_NAME or not name.isprintable():
            raise Unreadable(place, f"{shown(name)}, no name of a host")


# The nodes of a fleet have the same blocks and addresses in their states, so each text is parsed once.
@functools.lru_cache(maxsize=typed_json.ENTRIES)
def _is_block(text: str) -> bool:
    cidr = addresses.parse_cidr(text)
    return cidr is not None and str(cidr) == text


@functools.lru_cache(maxsize=limits.PEERS)
def _is_address(text: str) -> bool:
    return single_address(text) is not None


class Foreign(Unreadable):
    """The error that a host has the state of another node. `node` is its name as text for people."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__("node", f"{node}, another one")


class Journal(t.NamedTuple):
    """The addresses that a node's agent assigned, and the blocks (CIDRs) that it opened for them."""

    allocated: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()


def journal(host: str, result: t.Any) -> tuple[Journal, tuple[LeftOut, ...]]:
    """Return the journal in a `node_info` result, and the parts of it that are left out as invalid.

    One that is no table is left out as a whole, and so is a list in it that is none or too long. Of other lists, only
    entries that are no text, no address or no CIDR in its canonical form are left out. It does not raise an error.
    """
    data = result.get("ipam") if isinstance(result, t.Mapping) else None
    if data is None:
        return Journal(), ()
    if not isinstance(data, t.Mapping):
        return Journal(), (LeftOut(host, "its journal of addresses", f"it is {shown(data)}."),)
    left_out: list[LeftOut] = []
    allocated = _texts(host, "allocated", data.get("allocated", ()), limits.ALLOCATED, left_out)
    opened = _texts(host, "opened", data.get("opened", ()), limits.BLOCKS, left_out)
    good = []
    for text in allocated:
        if single_address(text) is not None:
            good.append(text)
        else:
            left_out.append(LeftOut(host, f"address {shown(text)} of its journal", "it is no single address."))
    blocks = []
    for text in opened:
        cidr = addresses.parse_cidr(text)
        if cidr is not None and str(cidr) == text:
            blocks.append(text)
        else:
            left_out.append(LeftOut(host, f"block {shown(text)} of its journal", "it is no block."))
    return Journal(tuple(good), tuple(blocks)), tuple(left_out)


def _texts(host: str, name: str, data: t.Any, most: int, left_out: list[LeftOut]) -> list[str]:
    if not isinstance(data, (list, tuple, t.Mapping)) or len(data) > most:
        left_out.append(LeftOut(host, f"the part {name} of its journal", f"it is not a list of at most {most}."))
        return []
    found = []
    for entry in data:
        if isinstance(entry, str):
            found.append(str.__str__(entry))
        else:
            left_out.append(LeftOut(host, f"an entry of {name} in its journal", f"it is {shown(entry)}, not a text."))
    return found


def changed_passwords(result: t.Any) -> tuple[str, ...]:
    """Return the names of the passwords that differ from the inventory's, () if the answer has no valid list."""
    found = result.get("passwords_changed") if isinstance(result, t.Mapping) else None
    try:
        return tuple(_PASSWORDS(found or ()))
    except Unreadable:
        return ()


def generations(result: t.Any) -> list[dict[str, t.Any]]:
    """Return the generations in a `node_info` result, sorted by n: dicts of n (a number), when, who, plan and phase.

    The list is empty if the result has none. Raise Unreadable if it is invalid, or if `result` is no mapping.
    """
    if not isinstance(result, t.Mapping):
        raise Unreadable("", f"{shown(result)}, not a table")
    try:
        found: list[dict[str, t.Any]] = _GENERATIONS(result.get("generations", ()))
    except Unreadable as error:
        raise error.inside("generations") from None
    return sorted(found, key=lambda entry: t.cast(int, entry["n"]))
