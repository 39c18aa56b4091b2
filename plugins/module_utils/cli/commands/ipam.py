# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl ipam show|check|release`: the addresses of this node's blocks."""

from __future__ import annotations

import argparse
import sys
import typing as t

from ...base import terminal_text
from ...base.addresses import contains, parse_address
from ...node.ipam.local_ipam import probe_handle, tunnel_handle
from ...state.node_state import NodeState
from ...wire import settings
from .. import inventory_playbook
from ..errors import DONE, PROBLEMS, CommandError, UsageError
from ..fleet import fleet_view
from ..render import structured, tables
from ..sources import Data, Sources
from . import inventory_resources

if t.TYPE_CHECKING:
    from ..fleet.published_fleet import PublishedFleet

_HEADING = ("GROUPING", "CIDR", "IPS TOTAL", "IPS IN USE", "IPS RESERVED", "IPS FREE")
#: The playbook that asks all nodes of an inventory.
_CHECK = "ipam_check.yml"


def show(arguments: argparse.Namespace, sources: Sources) -> int:
    if arguments.inventory:
        if arguments.node or arguments.show_nodes:
            raise UsageError("--node and --show-nodes are for what the datastore has: leave out -i.")
        return _of_inventory(arguments)
    if arguments.show_configuration:
        return _configuration(arguments, sources)
    if arguments.ip:
        return _address(arguments, sources)
    view = fleet_view.ask(sources, arguments.node, by_run=not sources.is_node, says_so=False)
    if view.published is not None:
        return _of_fleet(arguments, sources, view.own, view.published)
    found = sources.ipam()
    if structured.written(arguments.output, found):
        return DONE
    ranges = {pool.name: pool.cidr for pool in sources.state().pools}
    sys.stdout.write(usage_table(found["usage"], ranges, blocks=arguments.show_blocks))
    spare = sum(1 for block in found["usage"] if block["spare"])
    opened = len(found["usage"]) - spare
    sys.stdout.write(
        f"Counts are of this node's own blocks, {opened} open and {spare} spare; a node knows only its own.\n"
    )
    return DONE


def _of_fleet(arguments: argparse.Namespace, sources: Sources, own: str, published: PublishedFleet) -> int:
    """Print the use of all nodes' blocks, or of those of one node, as far as published workloads tell it."""
    from ..fleet import fleet_ipam

    if own:
        state = sources.state()
        pools, reservations = {pool.name: pool.cidr for pool in state.pools}, state.ipam.reservations
    else:
        pools, reservations = dict(published.pools or {}), ()
    usage = fleet_ipam.FleetUsage(published, pools, reservations, arguments.node)
    if structured.written(
        arguments.output, {**usage.to_dict(), "allocations": list(fleet_ipam.allocations(published))}
    ):
        return DONE
    sys.stdout.write(usage.table(nodes=arguments.show_nodes, blocks=arguments.show_blocks))
    whose = f"node {arguments.node} has" if arguments.node else f"{_counted(len(usage.nodes), 'node')} have"
    unknown = "" if own else " Reservations are known on nodes alone."
    unknown += "" if own or published.pools else " This user of the datastore may not read pools."
    sys.stdout.write(
        f"Counts are of {_counted(usage.workloads, 'workload')} that {whose} published, without addresses of tunnels "
        f"and probe endpoints.{unknown}\n"
    )
    return DONE


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def usage_table(usage: t.Sequence[Data], ranges: t.Mapping[str, str], *, blocks: bool) -> str:
    """Return the table of `usage`, that of Sources.ipam, by pool, and by block if `blocks`. `ranges` is {pool: CIDR}.

    A row has the numbers of all, used, reserved and free addresses, the last three also in percent. A pool's numbers
    count this node's blocks only.
    """
    rows: list[tuple[str, ...]] = []
    pools = dict.fromkeys([*ranges, *(block["pool"] for block in usage)])
    for pool in pools:
        own = [block for block in usage if block["pool"] == pool]
        if own or pool in ranges:
            rows.append(_row("IP Pool", ranges.get(pool, ""), own))
        if blocks:
            rows += [_row("Block (spare)" if block["spare"] else "Block", block["cidr"], [block]) for block in own]
    return tables.boxed(_HEADING, rows)


def _row(grouping: str, cidr: str, blocks: t.Sequence[Data]) -> tuple[str, ...]:
    total = sum(block["size"] for block in blocks)
    parts = [sum(block[name] for block in blocks) for name in ("in_use", "reserved", "free")]
    return (grouping, cidr, str(total), *(f"{part} ({tables.percent(part, total)}%)" for part in parts))


def _of_inventory(arguments: argparse.Namespace) -> int:
    """Print what the inventory's plan says of blocks and addresses. What agents gave out is not known to it."""
    address = _checked(arguments.ip) if arguments.ip else ""
    found = inventory_resources.of_command(arguments).ipam
    if arguments.show_configuration:
        return _show_configuration(arguments, found["configuration"])
    if address:
        owner = next((block for block in found["usage"] if contains(block["cidr"], address)), None)
        unknown = f"{address} is not assigned\n"
        if owner:
            unknown = (
                f"{address} is not assigned by the inventory. It is in block {owner['cidr']} of {owner['node']}, whose "
                f"agent may have assigned it: run `calicoctl ipam show --ip {address}` there.\n"
            )
        return _show_address(arguments, address, found["allocations"], unknown)
    if structured.written(arguments.output, {key: found[key] for key in ("usage", "allocations")}):
        return DONE
    sys.stdout.write(usage_table(found["usage"], found["pools"], blocks=arguments.show_blocks))
    nodes = len({block["node"] for block in found["usage"]})
    sys.stdout.write(
        f"Counts are of the blocks of {nodes} node{'' if nodes == 1 else 's'}, and of addresses that the inventory "
        "assigns to tunnels, probe endpoints and workloads. Only the nodes know the addresses that their agents "
        "assigned.\n"
    )
    if not found["planned"]:
        lockfile = terminal_text.line(found["lockfile"])
        sys.stdout.write(f"{lockfile} does not exist yet: these are the blocks that a first run would grant.\n")
    return DONE


def _address(arguments: argparse.Namespace, sources: Sources) -> int:
    address = _checked(arguments.ip)
    unknown = f"{address} is not assigned\n"
    entries: list[Data] = []
    if sources.is_node:
        state = sources.state()
        entries = [*sources.ipam()["allocations"], *planned(state)]
        own = any(contains(block.cidr, address) for block in (*state.ipam.blocks, *state.ipam.spare_blocks))
        if own or any(entry["address"] == address for entry in entries):
            return _show_address(arguments, address, entries, unknown)
    view = fleet_view.ask(sources, arguments.node)
    if view.published is not None:
        from ..fleet import fleet_ipam

        entries = list(fleet_ipam.allocations(view.published))
        place = fleet_ipam.block_at(view.published, address)
        if place is not None:
            unknown = (
                f"{address} is not assigned to a workload that is published. It is in block {place[1]} of {place[0]}, "
                "which may use it for a tunnel or its probe endpoint: `calicoctl ipam show --ip` there knows.\n"
            )
    return _show_address(arguments, address, entries, unknown)


def _show_address(arguments: argparse.Namespace, address: str, entries: t.Iterable[Data], unknown: str) -> int:
    entry = next((entry for entry in entries if entry["address"] == address), None)
    if structured.written(arguments.output, entry):
        return DONE
    if entry is None:
        sys.stdout.write(unknown)
    else:
        attributes = [f"  {key}: {value}" for key, value in sorted(entry["attributes"].items())]
        lines = [
            f"IP {address} is in use",
            f"Handle ID: {entry['handle']}",
            *(["Active Owner Attributes:", *attributes] if attributes else ["No Active Owner attributes defined"]),
        ]
        sys.stdout.write(terminal_text.lines(lines))
    return DONE


def planned(state: NodeState) -> t.Iterator[Data]:
    """Yield {address, handle, attributes} for each address that the inventory's plan gives to this node.

    These are the addresses of its tunnels, of its probe endpoint and of its workloads. The handle of a workload is
    "namespace/name".
    """
    for kind, address in state.ipam.tunnels.items():
        handle = tunnel_handle(kind, state.node)
        yield _entry(address, handle, {"node": state.node, "type": f"{kind}TunnelAddress"})
    for pool, address in state.ipam.probes.items():
        handle = probe_handle(state.node, pool)
        yield _entry(address, handle, {"node": state.node, "type": "probeEndpointAddress", "pool": pool})
    for endpoint in state.workloads:
        name = f"{endpoint.namespace}/{endpoint.name}"
        for address in endpoint.addresses:
            yield _entry(address, name, {"node": state.node, "workload": name, "by": "inventory"})


def _entry(address: str, handle: str, attributes: t.Mapping[str, str]) -> Data:
    return {"address": address, "handle": handle, "attributes": dict(attributes)}


def _checked(text: str) -> str:
    address = parse_address(text)
    if address is None:
        raise UsageError(f"--ip {text} is not an IP address. Write it as 10.244.3.7.")
    return address.text


def _configuration(arguments: argparse.Namespace, sources: Sources) -> int:
    ipam = sources.state().ipam
    try:
        cooldown = settings.load(sources.paths.placed(settings.PATH)).settings.cooldown
    except settings.SettingsError as error:
        raise CommandError(str(error)) from error
    shown = {**configuration(len(ipam.blocks) + len(ipam.spare_blocks)), "IPCooldownSeconds": f"{cooldown:g}"}
    return _show_configuration(arguments, shown)


def _show_configuration(arguments: argparse.Namespace, shown: t.Mapping[str, str]) -> int:
    if not structured.written(arguments.output, shown):
        sys.stdout.write(tables.boxed(("PROPERTY", "VALUE"), shown.items()))
    return DONE


def configuration(blocks: int) -> dict[str, str]:
    """Return the settings of Calico's IPAM that no variable sets, for a node with at most `blocks` blocks.

    Only one node assigns from a block, and the plan grants blocks.
    """
    return {"StrictAffinity": "true", "AutoAllocateBlocks": "false", "MaxBlocksPerHost": str(blocks)}


def check(arguments: argparse.Namespace, sources: Sources) -> int:
    """Print the check of this node, with a datastore also of the fleet, or with -i of all nodes by asking them.

    With --node it is that of this node alone, or what another one has published.
    """
    if arguments.inventory:
        if arguments.node:
            raise UsageError("--node is for what the datastore has: leave out -i.")
        answer = inventory_playbook.ask(_CHECK, arguments.inventory, {}, arguments.vault_password_file)
        inventory_playbook.show(answer, arguments.output)
        return PROBLEMS if answer["answer"]["problems"] else DONE
    from ..fleet import fleet_holdings

    is_own = sources.is_node and (not arguments.node or arguments.node == sources.fleet_list().node)
    own = sources.ipam_check() if is_own else None
    alone = is_own and arguments.node
    fleet = None if alone else fleet_holdings.compare(sources, arguments.output == "text", arguments.node)
    parts = [part for part in (own, fleet.to_dict() if fleet is not None else None) if part is not None]
    problems = sum(part["problems"] for part in parts)
    found = {**parts[0], "problems": problems, "fleet": parts[1]} if len(parts) > 1 else parts[0]
    if not structured.written(arguments.output, found):
        sys.stdout.write(terminal_text.lines([line for part in parts for line in part["lines"]]))
    return PROBLEMS if problems else DONE


def release(arguments: argparse.Namespace, sources: Sources) -> int:
    """Let the agent release an address that nothing uses, and all others of the same owner; print that and return 0.

    Raise UsageError for no address, and CommandError if it is not assigned or the agent does not release it. There is
    no way without the agent: it is the only writer of allocations.
    """
    address = _checked(arguments.ip)
    if not sources.agent.ask("ipam.release", address=address)["released"]:
        raise CommandError(f"IP address {address} is not assigned")
    sys.stdout.write(f"Successfully released IP address {address}\n")
    return DONE
