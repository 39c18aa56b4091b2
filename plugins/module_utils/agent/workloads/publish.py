# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish ports of an attached workload: claims of the host's ports, the record, the rules, in this order.

    publish     claims (sockets) ─► record ─► rules and the setting of the host end ─► answer
    withdraw    record ─► rules ─► claims released ─► the setting

A workload's record has its ports, so that the rules come back with it after a restart or a reboot. The claims end with
the agent, and its next start claims them again (recovery.py).
"""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
import typing as t

from ...base import published_port
from ...base.addresses import family_of
from ...base.published_port import InvalidPort, PublishedPort, is_any
from ...dataplane.drivers import workload as workload_driver
from ...policy.chains.settings import FAILSAFE_INBOUND
from ...sockets.port_claims import PortNotClaimed, WantedPort
from ...state.attachment import AttachedWorkload
from ...wire import protocol
from ...wire.protocol import AgentError
from ..log.transactions import transaction
from .context import PODMAN, WorkloadContext

_log = logging.getLogger("calico.workloads")

#: Errors of bind(2) that are the fault of the request, and what to do.
_NO_SUCH_ADDRESS = "is not an address of this host. Give one that `ip address` shows, or none."


async def publish(on: WorkloadContext, id: str, ports: t.Sequence[PublishedPort]) -> AttachedWorkload:
    """Publish exactly `ports` for a workload, and return it with the ports of the host that were chosen.

    Raise AgentError: `not_found` without the workload, `invalid_params` for ports that cannot be published, `conflict`
    for one that is taken, `not_written` or `kernel` if the disk or the kernel refuses. After an error the workload has
    no published ports.
    """
    async with transaction("publish", id), on.locks(id):
        workload = on.table.need(id)
        if tuple(sorted(workload.ports)) == tuple(sorted(ports)) and (id in on.claims or not ports):
            return workload
        _check(on, workload, ports)
        if workload.ports:
            workload = await _withdrawn(on, workload)
        if not ports:
            return workload
        numbers = _claimed(on, workload, [_wanted(workload, port) for port in ports])
        chosen = tuple(sorted(dataclasses.replace(port, host_port=number) for port, number in zip(ports, numbers)))
        try:
            # A port that was chosen must not collide either.
            _check(on, workload, chosen)
            return await _put_in_force(on, workload, chosen)
        except BaseException:
            on.claims.release(id)
            raise


async def _put_in_force(
    on: WorkloadContext, workload: AttachedWorkload, ports: tuple[PublishedPort, ...]
) -> AttachedWorkload:
    published = dataclasses.replace(workload, ports=ports)
    with on.persisted.writing("record"):
        on.persisted.records.save(published)
    on.table.replace(published)
    try:
        async with on.rwlock.shared():
            write = on.policy.ports_changed(workload.id)
            await on.in_kernel(workload_driver.set_route_localnet, on.table.endpoint(published))
            await on.policy.in_force(write, f"the ports of workload {workload.id}")
    except BaseException:
        await _withdrawn(on, published)
        raise
    return published


async def withdraw(on: WorkloadContext, id: str) -> bool:
    """Withdraw all published ports of a workload. Return False if it has none. Raise AgentError (not_written)."""
    async with transaction("withdraw", id), on.locks(id):
        workload = on.table.get(id)
        if workload is None or not workload.ports:
            return False
        await _withdrawn(on, workload)
    return True


async def _withdrawn(on: WorkloadContext, workload: AttachedWorkload) -> AttachedWorkload:
    """Withdraw the ports of a workload, and return it without them. Rules that the kernel keeps are removed later."""
    bare = dataclasses.replace(workload, ports=())
    with on.persisted.writing("record"):
        on.persisted.records.save(bare)
    on.table.replace(bare)
    await release(on, workload)
    try:
        await on.in_kernel(workload_driver.set_route_localnet, on.table.endpoint(bare))
    except AgentError as error:
        _log.warning("The setting of workload %s for its ports stays for now: %s", workload.id, error)
    return bare


async def release(on: WorkloadContext, workload: AttachedWorkload) -> None:
    """Remove the rules for a workload that no longer has ports in the table, then release its claims.

    What the kernel refuses is left to the reconciler.
    """
    if not workload.ports:
        return
    try:
        await on.policy.in_force(on.policy.ports_changed(workload.id), "the end of published ports")
    except AgentError as error:
        _log.warning("The rules for ports of workload %s stay for now: %s", workload.id, error)
    finally:
        on.policy.look_again()  # The workload's chain, to which no rule leads any more, goes by a pass.
        on.claims.release(workload.id)


def claim_again(on: WorkloadContext) -> list[str]:
    """Claim the ports of all attached workloads, after a start; return a text for each failure. Rules stay in force."""
    problems = []
    for workload in on.table:
        if workload.ports and workload.addresses:
            try:
                _claimed(on, workload, [_wanted(workload, port) for port in workload.ports])
            except AgentError as error:
                problems.append(f"Workload {workload.id}: {error.message}")
    return problems


def _check(on: WorkloadContext, workload: AttachedWorkload, ports: t.Sequence[PublishedPort]) -> None:
    try:
        published_port.check(ports, workload.addresses)
    except InvalidPort as error:
        raise AgentError(protocol.INVALID_PARAMS, str(error), {"field": "ports"}) from error
    state = on.persisted.state
    settings = state.policy.settings if state is not None and state.policy is not None else None
    failsafes = settings.failsafe_inbound if settings is not None else FAILSAFE_INBOUND
    reserved = {(one.protocol, one.port) for one in failsafes}
    for port in ports:
        owner = published_port.owner(port, reserved)
        if owner:
            raise AgentError(
                protocol.CONFLICT,
                f"port {port.host_port}/{port.protocol} of this host cannot be published: it is {owner}. Choose another"
                " one.",
                {"field": "ports"},
            )
        for other, present in on.table.publishers(port.protocol, port.host_port):
            if other.id != workload.id and published_port.collide(port, workload.addresses, present, other.addresses):
                raise AgentError(
                    protocol.CONFLICT,
                    f"port {port.host_port}/{port.protocol} of this host is taken by workload {other.id}. Choose"
                    " another one, or delete that workload.",
                    {"field": "ports"},
                )


def _wanted(workload: AttachedWorkload, port: PublishedPort) -> WantedPort:
    targets = {family_of(address): address for address in reversed(workload.addresses)}
    families = port.families(workload.addresses)
    held: tuple[int, ...] = ()
    if workload.runtime == PODMAN:
        held = families if port.host_address else (4,)
    return WantedPort(
        port.protocol,
        "" if is_any(port.host_address) else port.host_address,
        port.host_port,
        port.port,
        {family: targets[family] for family in families},
        held,
    )


def _claimed(on: WorkloadContext, workload: AttachedWorkload, wanted: t.Sequence[WantedPort]) -> list[int]:
    try:
        return on.claims.claim(workload.id, wanted)
    except PortNotClaimed as error:
        raise AgentError(protocol.CONFLICT, _reason(error), {"field": "ports"}) from error


def _reason(error: PortNotClaimed) -> str:
    port = f"port {error.wanted.host_port}/{error.wanted.protocol}"
    if error.number == errno.EADDRINUSE:
        owner = error.owner
        holder = f"{owner.name!r} (process {owner.pid})" if owner is not None else "another program"
        return f"{port} of this host is taken by {holder}. Choose another one, or stop that program."
    if error.number == errno.EADDRNOTAVAIL:
        return f"{error.wanted.host_address} {_NO_SUCH_ADDRESS}"
    if error.number == errno.EMFILE:
        return f"{port} cannot be published: this node has as many published ports as it may have. Delete a workload."
    return f"{port} of this host cannot be bound: {os.strerror(error.number)}."
