# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module etcd_operation changes the etcd cluster by one of its members, or waits until it is healthy."""

from __future__ import annotations

import typing as t

from ...datastore.client import Credentials
from ...datastore.cluster import member, operations
from ...datastore.cluster.member import ClusterError, MemberCalls
from ...datastore.gateway import EtcdError
from ...datastore.transport import TransportError
from ..module_call import ModuleCall
from .etcd_member_info import credentials_of


def run(module: ModuleCall) -> t.NoReturn:
    """Change the cluster, and answer as the module etcd_operation."""
    params = module.params

    async def work(calls: MemberCalls) -> dict[str, t.Any]:
        return await _done(calls, params, credentials_of(params), module.check_mode)

    try:
        answer = member.with_member(params["url"], credentials_of(params), work)
    except (EtcdError, TransportError) as error:
        module.fail_json(msg=f"The member at {params['url']} refuses to {_said(params)}: {error}")
    except (ClusterError, ValueError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**answer)


async def _done(
    calls: MemberCalls, params: t.Mapping[str, t.Any], credentials: t.Optional[Credentials], check: bool
) -> dict[str, t.Any]:
    """Do the operation unless in check mode, and return the answer."""
    operation, seconds = params["operation"], float(params["timeout"])
    if operation == "add":
        return {"changed": await operations.add(calls, params["peer_url"], seconds, check)}
    if operation == "promote":
        return {"changed": await operations.promote(calls, params["peer_url"], seconds, check)}
    if operation == "remove":
        return {"changed": await operations.remove(calls, int(params["member_id"], 16), seconds, check)}
    if operation == "revoke":
        changed, count = await operations.revoke(calls, params["user"], check)
        return {"changed": changed, "deleted_keys": count}
    if operation == "disarm":
        return {"changed": await operations.disarm(calls, check)}
    if operation == "secure":
        if credentials is None:
            raise ClusterError("A password is needed to switch authentication on. playbooks/etcd.yml makes one.")
        return {"changed": await operations.secure(calls, credentials, check)}
    if operation == "wait":
        if not check:
            await operations.wait(calls, seconds, params["votes"])
        return {"changed": False}
    before = (await calls.status()).size
    if check:
        return {"changed": True, "size": before}
    if operation == "snapshot":
        return {"changed": True, "size": await operations.snapshot(calls, params["path"])}
    await operations.defragment(calls, seconds)
    return {"changed": True, "size": (await calls.status()).size}


def _said(params: t.Mapping[str, t.Any]) -> str:
    """Return an operation with its object, as words."""
    of = {"add": "peer_url", "promote": "peer_url", "remove": "member_id", "revoke": "user"}
    name = params["operation"]
    return f"{name} {params[of[name]]}" if name in of else str(name)
