# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of the etcd cluster: a row for each member, then problems and warnings."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import tables

from . import seen_hosts
from .membership import minor, shown_minor
from .seen_hosts import SeenHost

HEADING = ("MEMBER", "ADDRESS", "ETCD", "ROLE", "GATE", "DATABASE", "REVISION", "CERTIFICATE")
#: A certificate that ends sooner is a problem: runs renew it when a third of its validity is left.
_SOON = 30
_MIB = 1 << 20


def text(
    hosts: t.Sequence[SeenHost], days: t.Mapping[str, int], found: t.Sequence[str], warned: t.Sequence[str]
) -> list[str]:
    """Return the table, a line for each problem and warning, and one for the cluster."""
    rows = [_row(seen, days) for seen in hosts]
    lines = tables.columns(HEADING, rows).splitlines()
    lines += [f"! {problem}" for problem in found]
    lines += [f"warning: {warning}" for warning in warned]
    answering = sum(seen.answers for seen in hosts)
    return [*lines, f"cluster  {answering} of {len(hosts)} members answer"]


def problems(hosts: t.Sequence[SeenHost], days: t.Mapping[str, int]) -> list[str]:
    """Return sentences about what is wrong, [] for nothing. `days` are what certificates have left, by file."""
    found = [f"{seen.name}: {seen.reason}." for seen in hosts if not seen.answers]
    answering = [seen for seen in hosts if seen.answers]
    if not answering:
        remedy = "start them with `systemctl start calico-etcd`, or run playbooks/etcd_restore.yml."
        return [*found, f"No member answers: {remedy}"]
    found += [
        f"{seen.name}: its gate does not answer ({seen.gate_reason}), so no node reaches this member. "
        "`systemctl status calico-etcd-gate` there says why."
        for seen in answering
        if seen.gate_reason
    ]
    if any(seen.auth == "off" for seen in answering):
        found.append("Authentication is off: run playbooks/etcd.yml, which switches it on.")
    if any(seen.auth == "refused" for seen in answering):
        found.append("The cluster refuses the operator's password: restore .calico.etcd/secrets.json.")
    names = {one.identity: one.name or one.identity for seen in answering for one in seen.members}
    for alarm in sorted({alarm for seen in answering for alarm in seen.alarms}):
        name = names.get(alarm.member, alarm.member)
        found.append(f"{name}: alarm {alarm.kind}. Run playbooks/etcd.yml -e clear_alarms=true.")
    urls = {seen.host.peer_url for seen in hosts}
    same = seen_hosts.agreed(answering)
    found += [
        f"{seen.name}: lists other members than {same[0].name}. If that stays so, look at both hosts."
        for seen in answering
        if seen not in same
    ]
    for one in same[0].members:
        if not urls & set(one.peer_urls):
            found.append(
                f"{one.name or one.identity}: is a member, and not in group calico_etcd. Run playbooks/etcd.yml, which "
                "removes it."
            )
        elif one.learner:
            found.append(f"{one.name or one.identity}: has no vote. Run playbooks/etcd.yml, which gives it one.")
    for name, left in sorted(days.items()):
        if left < _SOON:
            found.append(f"{name}: its certificate ends in {left} days. Run playbooks/etcd.yml, which renews it.")
    return found


def warnings(hosts: t.Sequence[SeenHost]) -> list[str]:
    """Return sentences about what is not wrong and needs attention."""
    versions = sorted({minor(seen.version) for seen in hosts if seen.answers})
    found = []
    if len(versions) > 1:
        listed = " and ".join(map(shown_minor, versions))
        found.append(f"members have etcd {listed}: bring all to one version.")
    waiting = [seen.name for seen in hosts if seen.answers and seen.stale]
    if waiting:
        listed = ", ".join(waiting)
        found.append(f"{listed}: files changed since the start. playbooks/etcd.yml restarts them one by one.")
    upgraded = [seen.name for seen in hosts if seen.answers and seen.installed and seen.installed != seen.version]
    if upgraded:
        found.append(f"{', '.join(upgraded)}: another etcd is installed than runs. playbooks/etcd.yml restarts them.")
    return found


def _row(seen: SeenHost, days: t.Mapping[str, int]) -> tuple[str, ...]:
    left = days.get(f"members/{seen.name}/server.pem")
    until = f"{left} days" if left is not None else "-"
    if not seen.answers:
        return seen.name, seen.host.address, seen.installed or "-", "down !", "-", "-", "-", until
    own = next((one for one in seen.members if one.identity == seen.identity), None)
    role = "leader" if seen.identity == seen.leader else "learner" if own is not None and own.learner else "follower"
    size = f"{seen.db_in_use / _MIB:.1f}/{seen.db_size / _MIB:.1f} MiB"
    gate = "down !" if seen.gate_reason else "ok"
    return seen.name, seen.host.address, seen.version, role, gate, size, str(seen.revision), until
