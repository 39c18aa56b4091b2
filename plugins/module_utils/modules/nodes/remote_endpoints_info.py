# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module remote_endpoints_info reads the workloads that a node reports, and those that it knows of others."""

from __future__ import annotations

import typing as t

from ...node import machine
from ...node.store.remote_endpoints import (
    KnownEndpoints,
    RemoteUnreadable,
)
from ...node.store.remote_endpoints import known as on_disk
from ...node.store.stored_file import StoreError
from ...node.write import endpoint_sync
from ...state.plain_data import to_plain
from ...state.remote_endpoints import (
    Collected,
    RemoteEndpoints,
)
from ..error_report import errors_reported
from ..module_call import ModuleCall


def known(remote: RemoteEndpoints) -> dict[str, t.Any]:
    return {
        node: {"collected": told.when, "endpoints": len(told.endpoints), "digest": told.digest}
        for node, told in remote.nodes.items()
    }


def run(module: ModuleCall) -> t.NoReturn:
    """Read a node's own workloads and those of others that it knows; answer as the module remote_endpoints_info."""
    here = machine.here()
    kept = KnownEndpoints()
    with errors_reported(module, here, StoreError):
        node, endpoints, problems = endpoint_sync.own(here)
    try:
        kept = on_disk(here.store)
    except RemoteUnreadable as error:
        problems = [*problems, str(error)]
    if kept.left_out:
        problems = [*problems, kept.problem(here.store)]
    for problem in problems:
        module.warn(problem)
    module.exit_json(
        changed=False,
        node=node,
        endpoints=to_plain(endpoints),
        digest=Collected("", endpoints).digest,
        known=known(kept.remote),
    )
