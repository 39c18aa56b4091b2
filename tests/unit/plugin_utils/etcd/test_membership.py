# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps from the members that a cluster has to those that it shall have: every step, order and refusal."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import membership
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.cluster_members import EtcdHost
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.membership import (
    ClusterRequest,
    PlanRefused,
    plan,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.seen_hosts import (
    ListedMember,
    RaisedAlarm,
    SeenHost,
)

A, B, C, D = (EtcdHost(name, f"10.0.0.{number}") for number, name in enumerate("abcd", 1))
NOTHING = ClusterRequest()
IDENTITIES = {host.name: f"{number:x}" for number, host in enumerate((A, B, C, D), 1)}


def listed(*hosts: EtcdHost, learner: str = "", silent: str = "") -> tuple[ListedMember, ...]:
    return tuple(
        ListedMember(IDENTITIES[host.name], host.name, (host.peer_url,), host.name in learner, host.name not in silent)
        for host in hosts
    )


def member(host: EtcdHost, members: tuple[ListedMember, ...], version: str = "3.4.23", **more: t.Any) -> SeenHost:
    """Return a host whose member answers; the leader is a."""
    found: dict[str, t.Any] = {
        "installed": version, "candidate": version, "data": True, "running": True, "reason": "",
        "identity": IDENTITIES[host.name], "version": version, "leader": "1", "auth": "on", "members": members,
    }  # fmt: skip
    return SeenHost(host, **{**found, **more})


def bare(host: EtcdHost, candidate: str = "3.4.23", **more: t.Any) -> SeenHost:
    return SeenHost(host, candidate=candidate, **more)


def steps(hosts: t.Sequence[SeenHost], request: ClusterRequest = NOTHING) -> list[tuple[str, str, str]]:
    return [(step.kind, step.host, step.via) for step in plan(hosts, request).steps]


def refusal(hosts: t.Sequence[SeenHost], request: ClusterRequest = NOTHING) -> str:
    with pytest.raises(PlanRefused) as caught:
        plan(hosts, request)
    return str(caught.value)


def test_a_new_cluster_begins_with_one_member_and_grows() -> None:
    found = plan([bare(A), bare(B), bare(C)]).steps
    assert [(step.kind, step.host, step.via, step.text) for step in found] == [
        ("create", "a", "", "create the cluster with etcd 3.4.23"),
        ("add", "b", "a", "add with etcd 3.4.23"),
        ("add", "c", "a", "add with etcd 3.4.23"),
    ]
    assert [step.joined for step in found] == [
        "a=https://10.0.0.1:2380",
        "a=https://10.0.0.1:2380,b=https://10.0.0.2:2380",
        "a=https://10.0.0.1:2380,b=https://10.0.0.2:2380,c=https://10.0.0.3:2380",
    ]


def test_a_cluster_as_wanted_needs_no_step() -> None:
    members = listed(A, B, C)
    found = plan([member(host, members) for host in (A, B, C)])
    assert (found.steps, found.notices) == ((), ())


def test_a_new_cluster_has_one_version() -> None:
    assert refusal([bare(A), bare(B, "3.5.16"), bare(C)]) == (
        "A cluster begins with members of one version, and these hosts have different ones: a 3.4.23, b 3.5.16, c "
        "3.4.23. "
        "Choose hosts of one release of Debian. The cluster was not changed."
    )


def test_no_package_and_an_old_one_are_refused() -> None:
    assert refusal([bare(A, "")]) == (
        "a has no package etcd-server to install. Use Debian 12 or 13, and see that apt has its package lists (apt-get "
        "update). The cluster was not changed."
    )
    assert (
        refusal([bare(A, "3.3.25")])
        == "a has etcd 3.3.25, and 3.4 is the oldest that works. The cluster was not changed."
    )


def test_a_cluster_that_does_not_answer_is_not_made_anew() -> None:
    hosts = [bare(A, data=True), bare(B, data=True, reason="the cluster has no leader"), bare(C)]
    assert refusal(hosts) == (
        "No member of the cluster answers (a: calico-etcd.service does not run; b: the cluster has no leader). Start "
        "them with "
        "`systemctl start calico-etcd`, or restore the cluster from a snapshot with playbooks/etcd_restore.yml. "
        "The cluster was not "
        "changed."
    )


def test_members_whose_certificates_have_ended_get_new_ones() -> None:
    reason = "its certificate is refused: certificate has expired"
    hosts = [bare(host, installed="3.4.23", data=True, running=True, reason=reason) for host in (A, B, C)]
    found = plan(hosts).steps
    assert [(step.kind, step.host) for step in found] == [("restart", "a"), ("restart", "b"), ("restart", "c")]
    assert found[0].text == f"restart: {reason}"
    stopped = [hosts[0], hosts[1], bare(C, installed="3.4.23", data=True)]
    assert f"(a: {reason}; b: {reason}; c: calico-etcd.service does not run)" in refusal(stopped)


def test_a_host_without_data_is_replaced() -> None:
    """The dead identity goes before the new one comes, so that the cluster never counts both."""
    members = listed(A, B, C, silent="c")
    found = plan([member(A, members), member(B, members), bare(C)]).steps
    assert [(step.kind, step.host, step.via, step.identity) for step in found] == [
        ("remove", "c", "a", "3"), ("add", "c", "a", ""),
    ]  # fmt: skip
    assert found[0].text == "remove the member 3: its host has no data"
    assert found[1].joined == "a=https://10.0.0.1:2380,b=https://10.0.0.2:2380,c=https://10.0.0.3:2380"


def test_a_member_that_was_added_and_never_started_is_not_removed() -> None:
    members = (*listed(A, B), ListedMember("9", "", (C.peer_url,), True, False))
    assert steps([member(A, members), member(B, members), bare(C)]) == [("add", "c", "a")]


def test_a_dead_host_goes_first_and_a_living_one_last() -> None:
    dead = listed(A, B, C, silent="c")
    assert steps([member(A, dead), member(B, dead), bare(D)]) == [("remove", "c", "a"), ("add", "d", "a")]
    living = listed(A, B, C)
    found = plan([member(A, living), member(B, living), bare(D)]).steps
    assert [(step.kind, step.host) for step in found] == [("add", "d"), ("remove", "c")]
    assert found[1].text == "remove the member 3: it is not in group calico_etcd"
    assert plan([member(A, dead), member(B, dead), bare(D)]).steps[0].text == (
        "remove the member 3: it is not in group calico_etcd, and does not answer"
    )


def test_a_stopped_member_is_started_before_others_restart() -> None:
    members = listed(A, B, C, silent="c")
    hosts = [member(A, members, stale=True), member(B, members, stale=True), bare(C, installed="3.4.23", data=True)]
    found = plan(hosts).steps
    assert [(step.host, step.text) for step in found] == [
        ("c", "start it (calico-etcd.service does not run)"),
        ("b", "restart: its files changed"),
        ("a", "restart: its files changed"),
    ]


def test_a_learner_that_runs_gets_its_vote() -> None:
    members = listed(A, B, C, learner="c")
    assert steps([member(A, members), member(B, members), member(C, members)]) == [("promote", "c", "a")]


def test_data_of_a_member_that_was_removed_is_left_to_people() -> None:
    members = listed(A, B)
    assert refusal([member(A, members), member(B, members), bare(C, installed="3.4.23", data=True)]) == (
        "c has data of a member that the cluster does not have. Stop calico-etcd there, remove "
        "/var/lib/calico-etcd/member, "
        "and run the playbook again. The cluster was not changed."
    )


@pytest.mark.parametrize(("earlier", "new"), [("10.0.0.3", "10.0.0.33"), ("fd00::3", "fd00::33")])
def test_a_member_at_another_address_is_refused_with_the_order_of_steps(earlier: str, new: str) -> None:
    old, moved = EtcdHost("c", earlier), EtcdHost("c", new)
    members = listed(A, B, old, silent="c")
    answers = [member(A, members), member(B, members)]
    assert refusal([*answers, bare(moved, installed="3.4.23", data=True)]) == (
        f"c is a member of the cluster at {earlier}, and has the address {new} here. A member keeps its address, so "
        f"take these steps: 1. Write {earlier} again, take c out of group calico_etcd with another host in its place, "
        "and run playbooks/etcd.yml, then playbooks/site.yml. 2. Stop calico-etcd on c, and remove "
        f"/var/lib/calico-etcd/member there. 3. Write {new}, and run playbooks/etcd.yml, so that the gates let the new "
        "address in, then playbooks/site.yml. 4. Put c back into the group, and run both again. The cluster was not "
        "changed."
    )
    # A host without data, as after step 2, is another host with that name.
    assert [kind for kind, *dummy in steps([*answers, bare(moved, installed="3.4.23")])] == ["remove", "add"]


def test_an_older_member_joins_no_newer_cluster() -> None:
    members = listed(A, B, C, silent="c")
    hosts = [member(A, members, "3.5.16"), member(B, members, "3.5.16"), bare(C)]
    assert refusal(hosts) == (
        "c has etcd 3.4, and no such member can join a cluster of 3.5. Use a host whose Debian has etcd 3.5. The "
        "cluster "
        "was not changed."
    )


def test_a_newer_member_joins_for_an_upgrade() -> None:
    members = listed(A, B, C, silent="c")
    found = plan([member(A, members), member(B, members), bare(C, "3.5.16")])
    assert [step.kind for step in found.steps] == ["remove", "add"]
    assert found.notices == (
        "The cluster has members of etcd 3.4 and 3.5. That is meant for the time of an upgrade alone: bring all to one "
        "version.",
    )


def test_a_cluster_skips_no_release() -> None:
    members = listed(A, B, C, silent="c")
    assert refusal([member(A, members), member(B, members), bare(C, "3.6.1")]) == (
        "c would have etcd 3.6, and the cluster has 3.4. A cluster is upgraded by one minor release at a time. The "
        "cluster "
        "was not changed."
    )


def test_an_upgrade_restarts_the_leader_last() -> None:
    members = listed(A, B, C)
    hosts = [member(host, members, candidate="3.5.16") for host in (A, B, C)]
    assert steps(hosts) == []
    found = plan(hosts, ClusterRequest(upgrade=True)).steps
    assert [(step.host, step.text) for step in found] == [
        (name, "restart: etcd 3.4.23 becomes 3.5.16") for name in ("b", "c", "a")
    ]
    # The owner upgraded the package: the next run restarts the members without being asked.
    installed = [member(host, members, installed="3.5.16", candidate="3.5.16") for host in (A, B, C)]
    assert [step.host for step in plan(installed).steps] == ["b", "c", "a"]


def test_a_member_does_not_go_back() -> None:
    members = listed(A)
    assert refusal([member(A, members, "3.5.16", installed="3.4.23")]) == (
        "a has etcd 3.4 installed, and its member runs with 3.5. A member does not go back: install 3.5 again. The "
        "cluster "
        "was not changed."
    )


def test_a_wrong_root_password_is_refused() -> None:
    members = listed(A)
    assert refusal([member(A, members, auth="refused")]) == (
        "The cluster refuses the password of the user root. Restore .calico.etcd/secrets.json beside the inventory, or "
        "set "
        "calico_etcd_username and calico_etcd_password. The cluster was not changed."
    )


def test_authentication_that_is_off_is_switched_on_first() -> None:
    members = listed(A, B, silent="b")
    assert steps([member(A, members, auth="off"), bare(B)])[0] == ("secure", "a", "")


def test_members_of_two_clusters_are_refused() -> None:
    assert refusal([member(A, listed(A)), member(B, listed(B)), bare(C)]) == (
        "a and b are members of two clusters. Stop calico-etcd on the one whose keys are not needed, and remove "
        "/var/lib/calico-etcd/member there. The cluster was not changed."
    )


def test_alarms_are_named_and_ended_on_demand() -> None:
    members = listed(A, B, C)
    alarms = (RaisedAlarm("2", "NOSPACE"),)
    hosts = [member(host, members, alarms=alarms) for host in (A, B, C)]
    found = plan(hosts)
    assert found.steps == ()
    assert found.notices == (
        "The cluster has alarms: NOSPACE of b. With NOSPACE it takes no writes. Anybody whom the members let in can "
        "raise one. "
        "Add -e clear_alarms=true: it defragments the members and ends the alarms.",
    )
    assert steps(hosts, ClusterRequest(clear_alarms=True)) == [
        ("defragment", "b", ""), ("defragment", "c", ""), ("defragment", "a", ""), ("disarm", "a", ""),
    ]  # fmt: skip
    corrupt = [member(host, members, alarms=(RaisedAlarm("2", "CORRUPT"),)) for host in (A, B, C)]
    assert steps(corrupt, ClusterRequest(clear_alarms=True)) == [("disarm", "a", "")]


def test_a_revocation_restarts_and_defragments_the_members_that_answer() -> None:
    """A member that is away keeps nobody from it, and is named."""
    members = listed(A, B, C)
    hosts = [member(host, members, alarms=(RaisedAlarm("2", "NOSPACE"),)) for host in (A, B)]
    found = plan([*hosts, bare(C, installed="3.4.23", data=True)], ClusterRequest(only=membership.REVOKE))
    assert [(step.kind, step.host) for step in found.steps] == [
        ("restart", "b"), ("defragment", "b"), ("restart", "a"), ("defragment", "a"), ("disarm", "a"),
    ]  # fmt: skip
    assert (found.left_out, found.notices) == (
        ("c",),
        (
            "c is left out: its member does not answer (calico-etcd.service does not run), so it is neither restarted "
            "nor defragmented. A watch that the node has there may go on. Stop calico-etcd there, or run the playbook "
            "again when the member answers.",
        ),
    )


def test_an_operation_on_all_members_creates_no_cluster() -> None:
    """A revocation has begun with the list of certificates, and says so."""
    said = "No member of the cluster answers (a: calico-etcd.service does not run). Start them with"
    for only in (membership.RESTART, membership.DEFRAGMENT):
        assert refusal([bare(A)], ClusterRequest(only=only)) == (
            f"{said} `systemctl start calico-etcd`, or restore the cluster from a snapshot with "
            "playbooks/etcd_restore.yml. The cluster was not changed."
        )
    kept = (
        "The gates of hosts that are reached get the list of revoked certificates. The node's user and keys are kept."
    )
    reason = "its certificate is refused: certificate has expired"
    ended = bare(A, installed="3.4.23", data=True, running=True, reason=reason)
    assert refusal([ended], ClusterRequest(only=membership.REVOKE)).endswith(kept)
    other = member(B, listed(B))
    assert refusal([member(A, listed(A)), other], ClusterRequest(only=membership.REVOKE)).endswith(kept)
    refused = member(A, listed(A), auth="refused")
    assert refusal([refused], ClusterRequest(only=membership.REVOKE)).endswith(kept)


def test_one_thing_for_all_members_needs_all_members() -> None:
    members = listed(A, B, C)
    hosts = [member(host, members) for host in (A, B, C)]
    assert [step.host for step in plan(hosts, ClusterRequest(only=membership.DEFRAGMENT)).steps] == ["b", "c", "a"]
    assert refusal([*hosts[:2], bare(C, installed="3.4.23", data=True)], ClusterRequest(only=membership.RESTART)) == (
        "Members do not answer (c: calico-etcd.service does not run), and with one more that is stopped the cluster "
        "may have "
        "no quorum. Run playbooks/etcd.yml first. The cluster was not changed."
    )


def test_files_that_a_check_would_change_restart_the_member() -> None:
    members = listed(A, B, C)
    hosts = [member(host, members) for host in (A, B, C)]
    assert steps(hosts, ClusterRequest(changed=frozenset({"b"}))) == [("restart", "b", "")]


def test_the_only_member_cannot_be_replaced_by_itself() -> None:
    members = (*listed(A, learner="a"), ListedMember("9", "gone", ("https://10.0.0.9:2380",), False, False))
    assert refusal([member(A, members)]) == (
        "No other member than a answers and has a vote. Start them with `systemctl start calico-etcd`. The cluster "
        "was not changed."
    )
