# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CNI command CHECK: `prevResult` and the agent's record compared with the kernel.

The agent compares interfaces, addresses, routes, the host's route and the reservation in IPAM, with the drivers that
made them. A MAC address counts only if it was requested: `tuning`, later in the chain, may have changed it.
"""

from __future__ import annotations

import typing as t

from ...state.attachment import AttachedWorkload
from ...wire.plugin_errors import CHECK_FAILED, INVALID_CONFIGURATION, CniError
from ..attachment import Attachment, find
from . import result, versions
from .configuration import Configuration, Document
from .port import CniBackend


async def check(agent: CniBackend, attachment: Attachment, configuration: Configuration) -> None:
    """Compare an attachment with the desired state and with `prevResult`.

    Raise CniError with what is wrong, or if `prevResult` is missing or malformed, and AgentError if the agent cannot
    compare.
    """
    previous = configuration.previous
    if previous is None:
        raise CniError(
            INVALID_CONFIGURATION,
            "prevResult is missing",
            "CHECK compares it with what is there: the runtime sends the result of ADD.",
        )
    previous = result.checked(previous)
    workload = find(agent, attachment)
    if workload is None:
        raise _failed(attachment, [f"the agent has no workload for it on network {attachment.network}"])
    problems = list(_differences(workload, attachment, previous, configuration.version))
    problems += await agent.check(workload.id)
    if problems:
        raise _failed(attachment, problems)


def _differences(
    workload: AttachedWorkload, attachment: Attachment, previous: Document, version: str
) -> t.Iterator[str]:
    """Yield in words what `previous`, the runtime's result of ADD, lacks of the workload's interfaces and addresses.

    Another network namespace than the attachment's is a difference too. Results before version 0.3.0 have no
    interfaces: only the network namespace is compared then.
    """
    if workload.netns != attachment.netns:
        yield f"it was attached in {workload.netns}, and CNI_NETNS is {attachment.netns}"
    if not versions.with_interfaces(version):
        return
    if not result.has_host_end(previous, workload.interface):
        yield f"prevResult does not have its interface on the host, {workload.interface}"
    index = result.interface_index(previous, attachment.ifname, attachment.netns)
    if index is None:
        yield f"prevResult does not have its interface {attachment.ifname} in {attachment.netns}"
        return
    reported = result.addresses_at(previous, index)
    for address in workload.addresses:
        if address not in reported:
            yield f"prevResult does not have its address {address} at {attachment.ifname}"


def _failed(attachment: Attachment, problems: t.Sequence[str]) -> CniError:
    return CniError(
        CHECK_FAILED,
        f"{attachment.ifname} of container {attachment.container} is not as it has to be",
        "; ".join(problems),
    )
