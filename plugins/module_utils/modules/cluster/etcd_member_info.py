# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module etcd_member_info reads what a host has of etcd, and what its member says of the cluster."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import typing as t

from ...datastore.client import Credentials
from ...datastore.cluster import host, member
from ...datastore.cluster.member import ClusterError, MemberView
from ...datastore.cluster.messages import shown_identity
from ..module_call import ModuleCall


def credentials_of(params: t.Mapping[str, t.Any]) -> t.Optional[Credentials]:
    """Return the operator's user in a module's parameters, None without a password."""
    password = params["password"]
    return Credentials(params["username"] or "root", password) if password else None


def run(module: ModuleCall) -> t.NoReturn:
    """Read what a host has of etcd, and answer as the module etcd_member_info. It needs root's rights."""
    params = module.params
    if os.geteuid() != 0:
        module.fail_json(
            msg=f"etcd_member_info runs as user id {os.geteuid()}, and root alone can read the keys below "
            f"{host.SETTINGS}. Set ansible_become: true for this host."
        )
    try:
        found = host.observe()
        seen = _view(params) if found.running else MemberView(reason=f"{host.UNIT} does not run")
        silence = "" if seen.reason else _silence_of_gate(params["gate_url"])
    except (OSError, ValueError, ClusterError, subprocess.SubprocessError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, host=dataclasses.asdict(found), member=_plain(seen), gate={"reason": silence})


def _silence_of_gate(url: t.Optional[str]) -> str:
    """Return why the gate at `url` does not answer, "" if it does or there is no URL."""
    return member.with_member(url, None, member.silence) if url else ""


def _view(params: t.Mapping[str, t.Any]) -> MemberView:
    try:
        return member.with_member(params["url"], credentials_of(params), member.view)
    except ClusterError as error:
        return MemberView(reason=str(error))


def _plain(view: MemberView) -> dict[str, t.Any]:
    return {
        "reason": view.reason,
        "id": shown_identity(view.identity),
        "version": view.version,
        "leader": shown_identity(view.leader),
        "revision": view.revision,
        "db_size": view.db_size,
        "db_in_use": view.db_in_use,
        "auth": view.auth,
        "members": [
            {
                "id": shown_identity(one.member.identity),
                "name": one.member.name,
                "peer_urls": list(one.member.peer_urls),
                "client_urls": list(one.member.client_urls),
                "learner": one.member.learner,
                "answers": one.answers,
            }
            for one in view.members
        ],
        "alarms": [{"member": shown_identity(alarm.member), "kind": alarm.kind} for alarm in view.alarms],
    }
