# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps from the members that an etcd cluster has to those that it shall have.

A pure function: what the hosts answered goes in, ordered steps or a refusal come out. Each step leaves a healthy
cluster, so a run may end after any of them, and the next one continues. A new member is a learner, without a vote,
until it has the leader's log: a host that fails to join costs the cluster nothing.
"""

from __future__ import annotations

import dataclasses
import typing as t

from . import seen_hosts
from .cluster_members import EtcdHost, steps_to_move
from .seen_hosts import ListedMember, SeenHost

CREATE, ADD, PROMOTE, REMOVE, RESTART, SECURE, DEFRAGMENT, DISARM = (
    "create", "add", "promote", "remove", "restart", "secure", "defragment", "disarm",
)  # fmt: skip
#: What a run may do to all members one by one, and nothing else.
REVOKE = "revoke"
ALONE = (RESTART, DEFRAGMENT, REVOKE)
_OLDEST = (3, 4)
_SECRETS_REMEDY = (
    "Restore .calico.etcd/secrets.json beside the inventory, or set calico_etcd_username and calico_etcd_password."
)
_UNCHANGED = "The cluster was not changed."
_KEPT = "The gates of hosts that are reached get the list of revoked certificates. The node's user and keys are kept."
#: How the reasons of datastore/transport.py begin if a member cannot be asked because of a certificate.
_CERTIFICATE_REASONS = ("its certificate is refused", "TLS failed")


class PlanRefused(Exception):
    """A plan that cannot be made. Its text says why and how to go on."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One change. `via` is the host by whose member it is made; `joined` the initial cluster of a new member."""

    kind: str
    host: str
    text: str
    via: str = ""
    identity: str = ""
    peer_url: str = ""
    joined: str = ""


@dataclasses.dataclass(frozen=True)
class ClusterPlan:
    """The steps in order, what people should know besides, and the hosts that a revocation does not reach in whole."""

    steps: tuple[Step, ...]
    notices: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ClusterRequest:
    """What a run is asked for. `changed` names hosts whose files a run in check mode would change.

    `operators_left` are operators whose users the run deletes: their watches end when members are restarted.

    `only` is RESTART or DEFRAGMENT for a run that does this to all members and nothing else. REVOKE does both, to
    members that answer: a node that is shut out keeps no watch, and its space goes back to the disks.
    """

    upgrade: bool = False
    clear_alarms: bool = False
    only: str = ""
    changed: frozenset[str] = frozenset()
    operators_left: tuple[str, ...] = ()


def plan(hosts: t.Sequence[SeenHost], request: ClusterRequest = ClusterRequest()) -> ClusterPlan:
    """Return the steps to a cluster whose members are `hosts`. Raise PlanRefused."""
    # A revocation installs nothing, and a host that is away has no version.
    futures = {} if request.only == REVOKE else {seen.name: _future(seen, request) for seen in hosts}
    answering = [seen for seen in hosts if seen.answers]
    if not answering and request.only:
        raise PlanRefused(_no_member(hosts, request))
    if not answering:
        return _created(hosts, futures)
    _check_one_cluster(answering, request)
    for seen in answering:
        if seen.auth == "refused":
            raise PlanRefused(
                f"The cluster refuses the password of the user root. {_SECRETS_REMEDY} {_state_after(request)}"
            )
    change = _Change(hosts, answering, futures, request, seen_hosts.agreed(answering))
    return change.of_all(request.only) if request.only else change.planned()


def minor(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version, (0, 0) for a text that is none."""
    parts = version.split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit() else (0, 0)


def shown_minor(version: tuple[int, int]) -> str:
    """Return (3, 4) as "3.4"."""
    return f"{version[0]}.{version[1]}"


def _future(seen: SeenHost, request: ClusterRequest) -> str:
    """Return the version that a host has after the run."""
    found = seen.candidate if request.upgrade or not seen.installed else seen.installed
    found = found or seen.installed
    if not found:
        raise PlanRefused(
            f"{seen.name} has no package etcd-server to install. Use Debian 12 or 13, and see that apt has its package "
            f"lists (apt-get update). {_UNCHANGED}"
        )
    if minor(found) < _OLDEST:
        raise PlanRefused(f"{seen.name} has etcd {found}, and 3.4 is the oldest that works. {_UNCHANGED}")
    return found


def _created(hosts: t.Sequence[SeenHost], futures: t.Mapping[str, str]) -> ClusterPlan:
    """Return the steps to a new cluster. Raise PlanRefused if a host has data, or the versions differ."""
    with_data = [seen for seen in hosts if seen.data]
    if with_data and all(seen.running for seen in with_data) and any(map(_is_of_certificates, with_data)):
        # Their certificates have ended, and this run brings new ones.
        return ClusterPlan(tuple(Step(RESTART, seen.name, f"restart: {seen.reason}") for seen in with_data))
    if with_data:
        raise PlanRefused(_no_member(with_data))
    versions = {minor(version) for version in futures.values()}
    if len(versions) > 1:
        different = ", ".join(f"{name} {version}" for name, version in futures.items())
        raise PlanRefused(
            f"A cluster begins with members of one version, and these hosts have different ones: {different}. Choose "
            f"hosts of "
            f"one release of Debian. {_UNCHANGED}"
        )
    first, *others = hosts
    listed = [(first.name, first.host.peer_url)]
    text = f"create the cluster with etcd {futures[first.name]}"
    steps = [Step(CREATE, first.name, text, peer_url=first.host.peer_url, joined=_joined(listed))]
    for seen in others:
        listed.append((seen.name, seen.host.peer_url))
        steps.append(_added(seen.host, futures[seen.name], first.name, listed))
    return ClusterPlan(tuple(steps))


def _no_member(hosts: t.Iterable[SeenHost], request: ClusterRequest = ClusterRequest()) -> str:
    """Return the refusal of a plan for a cluster without a quorum, or with no member at all."""
    reasons = "; ".join(f"{seen.name}: {seen.reason}" for seen in hosts)
    return (
        f"No member of the cluster answers ({reasons}). Start them with `systemctl start calico-etcd`, or restore the "
        f"cluster from a snapshot with playbooks/etcd_restore.yml. {_state_after(request)}"
    )


def _left_out(seen: SeenHost) -> str:
    """Return the notice that names a host which a revocation leaves out, what is not done there, and the remedy."""
    if seen.reached:
        return (
            f"{seen.name} is left out: its member does not answer ({seen.reason}), so it is neither restarted nor "
            "defragmented. A watch that the node has there may go on. Stop calico-etcd there, or run the playbook "
            "again when the member answers."
        )
    return (
        f"{seen.name} is left out ({seen.reason}): its gate does not get the list of revoked certificates, and its "
        "member is neither restarted nor defragmented. A watch that the node has there may go on. Run the playbook "
        "again when the host is back."
    )


def _state_after(request: ClusterRequest) -> str:
    """Return what a refused run has done: a revocation begins with the list of revoked certificates."""
    return _KEPT if request.only == REVOKE else _UNCHANGED


def _is_of_certificates(seen: SeenHost) -> bool:
    return seen.reason.startswith(_CERTIFICATE_REASONS)


def _added(host: EtcdHost, version: str, via: str, listed: t.Sequence[tuple[str, str]]) -> Step:
    return Step(ADD, host.name, f"add with etcd {version}", via, peer_url=host.peer_url, joined=_joined(listed))


def _joined(listed: t.Iterable[tuple[str, str]]) -> str:
    return ",".join(f"{name}={url}" for name, url in listed)


def _check_one_cluster(answering: t.Sequence[SeenHost], request: ClusterRequest) -> None:
    first = answering[0]
    for seen in answering[1:]:
        if not {one.identity for one in seen.members} & {one.identity for one in first.members}:
            raise PlanRefused(
                f"{first.name} and {seen.name} are members of two clusters. Stop calico-etcd on the one whose keys are "
                f"not needed, and remove /var/lib/calico-etcd/member there. {_state_after(request)}"
            )


class _Change:
    """The change of a cluster that answers."""

    def __init__(
        self,
        hosts: t.Sequence[SeenHost],
        answering: t.Sequence[SeenHost],
        futures: t.Mapping[str, str],
        request: ClusterRequest,
        agreed: t.Sequence[SeenHost],
    ) -> None:
        """Make the change of `hosts`. Those in `answering` answer, and those in `agreed` list the same members.

        Raise PlanRefused if those are not more than half of the hosts that answer, and members may come or go.
        """
        self._hosts, self._answering, self._futures, self._request = hosts, answering, futures, request
        others = [seen.name for seen in answering if seen not in agreed]
        if not request.only and len(agreed) * 2 <= len(answering):
            names = " and ".join(seen.name for seen in answering)
            raise PlanRefused(
                f"{names} list different members, and no list is that of most. Run the playbook again. If that does "
                f"not help, look at these hosts. {_state_after(request)}"
            )
        self._listed = agreed[0].members
        self._members = list(self._listed)
        self._via = [seen.name for seen in answering if not self._is_learner(seen)]
        self._version = min(minor(seen.version) for seen in answering)
        self._steps: list[Step] = []
        self._notices = [
            f"{name} lists other members than most hosts do. Its list is left out: look at that host."
            for name in others
        ]

    def planned(self) -> ClusterPlan:
        """Return the steps in an order that never loses the quorum. Raise PlanRefused."""
        if any(seen.auth == "off" for seen in self._answering):
            self._steps.append(Step(SECURE, self._any(), "switch authentication on"))
        self._alarms()
        self._incomplete()
        unwanted = [one for one in self._members if self._host_of(one) is None]
        self._remove([one for one in unwanted if not one.answers])
        self._replace()
        self._start()
        self._add()
        self._remove([one for one in unwanted if one.answers])
        self._restart()
        self._mixed()
        return ClusterPlan(tuple(self._steps), tuple(self._notices))

    def of_all(self, kind: str) -> ClusterPlan:
        """Return a step of this kind for each member. Raise PlanRefused if a member does not answer."""
        if kind == REVOKE:
            return self._of_revocation()
        silent = [seen for seen in self._hosts if not seen.answers]
        if silent:
            reasons = "; ".join(f"{seen.name}: {seen.reason}" for seen in silent)
            raise PlanRefused(
                f"Members do not answer ({reasons}), and with one more that is stopped the cluster may have no quorum. "
                f"Run "
                f"playbooks/etcd.yml first. {_UNCHANGED}"
            )
        text = {RESTART: "restart", DEFRAGMENT: "defragment its database"}[kind]
        steps = tuple(Step(kind, seen.name, text) for seen in self._leader_last(self._hosts))
        return ClusterPlan(steps, tuple(self._notices))

    def _of_revocation(self) -> ClusterPlan:
        """Return the restart and the defragmentation of each member that answers, and the end of NOSPACE."""
        for seen in self._leader_last(self._answering):
            self._steps.append(Step(RESTART, seen.name, "restart, which ends open watches"))
            self._steps.append(Step(DEFRAGMENT, seen.name, "defragment its database"))
        if any(alarm.kind == "NOSPACE" for seen in self._answering for alarm in seen.alarms):
            self._steps.append(Step(DISARM, self._any(), "end the alarms"))
        left_out = [seen for seen in self._hosts if not seen.answers]
        notices = (*self._notices, *map(_left_out, left_out))
        return ClusterPlan(tuple(self._steps), notices, tuple(seen.name for seen in left_out))

    def _alarms(self) -> None:
        names = {one.identity: one.name for one in self._members}
        alarms = sorted({alarm for seen in self._answering for alarm in seen.alarms})
        if not alarms:
            return
        listed = ", ".join(f"{alarm.kind} of {names.get(alarm.member) or alarm.member}" for alarm in alarms)
        if not self._request.clear_alarms:
            self._notices.append(
                f"The cluster has alarms: {listed}. With NOSPACE it takes no writes. Anybody whom the members let in "
                f"can "
                "raise one. Add -e clear_alarms=true: it defragments the members and ends the alarms."
            )
            return
        if any(alarm.kind == "NOSPACE" for alarm in alarms):
            self._steps += [
                Step(DEFRAGMENT, seen.name, "defragment its database") for seen in self._leader_last(self._answering)
            ]
        self._steps.append(Step(DISARM, self._any(), f"end the alarms: {listed}"))

    def _incomplete(self) -> None:
        """Continue where an earlier run ended: a learner that runs gets its vote."""
        for seen in self._answering:
            if self._is_learner(seen):
                via = self._any(seen.name)
                self._steps.append(Step(PROMOTE, seen.name, "give it a vote", via, peer_url=seen.host.peer_url))

    def _replace(self) -> None:
        """Remove the member of a host that has lost its data, and add the host anew."""
        for seen in self._hosts:
            member = self._member_of(seen.host)
            if member is None or seen.data or seen.answers:
                continue
            self._check_joins(seen)
            if member.name:
                self._remove([member], "its host has no data")
            else:
                self._members.remove(member)  # added by an earlier run, and not started yet
            self._join(seen)

    def _start(self) -> None:
        for seen in self._hosts:
            if seen.data and not seen.answers and self._member_of(seen.host) is not None:
                self._check_restarts(seen, minor(seen.version) if seen.version else self._version)
                self._steps.append(Step(RESTART, seen.name, f"start it ({seen.reason})"))

    def _add(self) -> None:
        for seen in self._hosts:
            if self._member_of(seen.host) is not None:
                continue
            listed = next((one for one in self._listed if one.name == seen.name and one.peer_urls), None)
            if seen.data and listed is not None:
                earlier = listed.peer_urls[0].partition("://")[2].rpartition(":")[0].strip("[]")
                raise PlanRefused(
                    f"{seen.name} is a member of the cluster at {earlier}, and has the address {seen.host.address} "
                    "here. "
                    f"{steps_to_move(seen.name, earlier, seen.host.address)} {_UNCHANGED}"
                )
            if seen.data:
                raise PlanRefused(
                    f"{seen.name} has data of a member that the cluster does not have. Stop calico-etcd there, remove "
                    f"/var/lib/calico-etcd/member, and run the playbook again. {_UNCHANGED}"
                )
            self._check_joins(seen)
            self._join(seen)

    def _restart(self) -> None:
        for seen in self._leader_last(self._answering):
            future, why = self._futures[seen.name], ""
            if future != seen.version:
                self._check_restarts(seen, minor(seen.version))
                why = f"etcd {seen.version} becomes {future}"
            elif seen.stale or seen.name in self._request.changed:
                why = "its files changed"
            elif self._request.operators_left:
                why = f"it ends watches of {', '.join(self._request.operators_left)}"
            if why:
                self._steps.append(Step(RESTART, seen.name, f"restart: {why}"))

    def _mixed(self) -> None:
        versions = sorted({minor(self._futures[seen.name]) for seen in self._hosts})
        if len(versions) > 1:
            shown = " and ".join(map(shown_minor, versions))
            self._notices.append(
                f"The cluster has members of etcd {shown}. That is meant for the time of an upgrade alone: bring all "
                f"to one "
                "version."
            )

    def _check_joins(self, seen: SeenHost) -> None:
        """Raise PlanRefused if a host's version cannot join the cluster."""
        own = minor(self._futures[seen.name])
        if own < self._version:
            raise PlanRefused(
                f"{seen.name} has etcd {shown_minor(own)}, and no such member can join a cluster of "
                f"{shown_minor(self._version)}. Use a host whose Debian has etcd {shown_minor(self._version)}. "
                f"{_UNCHANGED}"
            )
        self._check_step(seen.name, self._version, own)

    def _check_restarts(self, seen: SeenHost, running: tuple[int, int]) -> None:
        """Raise PlanRefused if a member cannot go on with the version that its host has."""
        own = minor(self._futures[seen.name])
        if own < running:
            raise PlanRefused(
                f"{seen.name} has etcd {shown_minor(own)} installed, and its member runs with {shown_minor(running)}. "
                f"A "
                f"member does not go back: install {shown_minor(running)} again. {_UNCHANGED}"
            )
        self._check_step(seen.name, self._version, own)

    @staticmethod
    def _check_step(name: str, running: tuple[int, int], own: tuple[int, int]) -> None:
        if own[0] != running[0] or own[1] > running[1] + 1:
            raise PlanRefused(
                f"{name} would have etcd {shown_minor(own)}, and the cluster has {shown_minor(running)}. A cluster is "
                f"upgraded by one minor release at a time. {_UNCHANGED}"
            )

    def _join(self, seen: SeenHost) -> None:
        listed = [(one.name or seen.name, one.peer_urls[0]) for one in self._members if one.peer_urls]
        listed.append((seen.name, seen.host.peer_url))
        self._steps.append(_added(seen.host, self._futures[seen.name], self._any(seen.name), listed))
        self._members.append(ListedMember("", seen.name, (seen.host.peer_url,), False, True))

    def _remove(self, members: t.Iterable[ListedMember], why: str = "") -> None:
        for one in members:
            reason = why or f"it is not in group calico_etcd{'' if one.answers else ', and does not answer'}"
            name = one.name or one.identity
            text = f"remove the member {one.identity}: {reason}"
            self._steps.append(Step(REMOVE, name, text, self._any(name), one.identity))
            self._members.remove(one)

    def _member_of(self, host: EtcdHost) -> t.Optional[ListedMember]:
        return next((one for one in self._members if host.peer_url in one.peer_urls), None)

    def _host_of(self, member: ListedMember) -> t.Optional[SeenHost]:
        return next((seen for seen in self._hosts if seen.host.peer_url in member.peer_urls), None)

    def _is_learner(self, seen: SeenHost) -> bool:
        member = self._member_of(seen.host)
        return member is not None and member.learner

    def _any(self, but: str = "") -> str:
        """Return a host whose member has a vote and answers, and is not `but`. Raise PlanRefused without one."""
        found = next((name for name in self._via if name != but), "")
        if not found:
            raise PlanRefused(
                f"No other member than {but} answers and has a vote. Start them with `systemctl start calico-etcd`. "
                f"{_UNCHANGED}"
            )
        return found

    def _leader_last(self, hosts: t.Iterable[SeenHost]) -> list[SeenHost]:
        """Return hosts with the leader's at the end, so that clients wait for one election alone."""
        return sorted(hosts, key=lambda seen: seen.identity == seen.leader)
