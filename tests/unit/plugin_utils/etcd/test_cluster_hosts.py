# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The group's hosts, the addresses that may reach them, what they answer, and the table of their status."""

from __future__ import annotations

import copy
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import (
    allowed_clients,
    cluster_members,
    seen_hosts,
    status_table,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.cluster_members import EtcdHost

HOST = EtcdHost("etcd1", "10.0.0.1")
ANSWER: dict[str, t.Any] = {
    "host": {
        "installed": "3.4.23", "candidate": "3.4.23", "data": True, "running": True, "stale": False,
        "controller": "192.0.2.5",
    },
    "member": {
        "reason": "", "id": "8e9e05c52164694d", "version": "3.4.23", "leader": "8e9e05c52164694d", "revision": 12,
        "db_size": 3 << 20, "db_in_use": 1 << 20, "auth": "on",
        "members": [
            {"id": "8e9e05c52164694d", "name": "etcd1", "peer_urls": ["https://10.0.0.1:2380"],
             "client_urls": ["https://10.0.0.1:2379"], "learner": False, "answers": True},
        ],
        "alarms": [],
    },
    "gate": {"reason": ""},
}  # fmt: skip


def variables(**hosts: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"groups": {"calico_etcd": list(hosts), "calico_nodes": list(hosts)}, "hostvars": hosts}


def test_addresses_may_be_those_of_documents(tmp_path: pathlib.Path) -> None:
    """A Node in a file of calico_resource_files gives the member's address, as it gives the node's."""
    text = "kind: Node\nmetadata: {name: a}\nspec: {bgp: {ipv4Address: 10.10.1.11/24, ipv6Address: fd00::11/64}}\n"
    (tmp_path / "n.yml").write_text(text)
    own = {"calico_resource_files": ["n.yml", "missing.yml"]}
    given = {**variables(a=own, b={**own, "calico_node_address": "10.10.1.12/24"}), "inventory_dir": str(tmp_path)}
    assert [host.address for host in cluster_members.listed(given)] == ["10.10.1.11", "10.10.1.12"]
    assert cluster_members.host_addresses(given) == ["10.10.1.11", "fd00::11", "10.10.1.12"]
    assert cluster_members.node_addresses(given) == ["10.10.1.11", "10.10.1.12", "fd00::11"]


def test_addresses_are_those_of_nodes_unless_members_have_their_own() -> None:
    found = cluster_members.of(
        variables(
            a={"calico_node_address": "10.10.1.11/24"},
            b={"calico_node_address": "10.10.1.12/24", "calico_etcd_address": "10.9.0.2"},
            c={"calico_etcd_address": "fd00::3"},
        )
    )
    assert [(host.name, host.client_url, host.peer_url) for host in found] == [
        ("a", "https://10.10.1.11:2379", "https://10.10.1.11:2380"),
        ("b", "https://10.9.0.2:2379", "https://10.9.0.2:2380"),
        ("c", "https://[fd00::3]:2379", "https://[fd00::3]:2380"),
    ]


@pytest.mark.parametrize(
    ("task_vars", "said"),
    [
        (
            variables(),
            "group calico_etcd has no hosts. Put 1, 3 or 5 hosts into it: an even number tolerates no more failures "
            "than one "
            "host less.",
        ),
        (
            variables(a={}, b={}),
            "group calico_etcd has 2 hosts (a, b). Put 1, 3 or 5 hosts into it: an even number tolerates no more "
            "failures than "
            "one host less.",
        ),
        (
            variables(a={}),
            "calico_etcd_address of a is not set, and the host has no calico_node_address. Set it to the address at "
            "which the "
            "member of etcd listens, such as 10.10.1.11.",
        ),
        (
            variables(a={"calico_etcd_address": "etcd.example.org"}),
            "calico_etcd_address of a etcd.example.org is not an address. Write it like 10.10.1.11.",
        ),
        (
            variables(
                a={"calico_etcd_address": "10.0.0.1"},
                b={"calico_etcd_address": "10.0.0.1"},
                c={"calico_etcd_address": "10.0.0.3"},
            ),
            "calico_etcd_address of b 10.0.0.1 is the address of a, too. Give each member an address of its own.",
        ),
        (
            variables(**{"../a": {"calico_etcd_address": "10.0.0.1"}}),
            "group calico_etcd ../a is no name for a member of etcd. Use letters, digits, dots, hyphens and "
            "underscores.",
        ),
    ],
)
def test_an_invalid_cluster_group_is_refused(task_vars: dict[str, t.Any], said: str) -> None:
    with pytest.raises(FleetError) as caught:
        cluster_members.of(task_vars)
    assert str(caught.value) == said


def test_nodes_are_clients_by_both_ip_versions() -> None:
    found = cluster_members.node_addresses(
        variables(
            a={"calico_node_address": "10.10.1.11/24", "calico_node_address_ipv6": "fd00::1/64"},
            b={"calico_node_address": "10.10.1.2/24"},
            c={"calico_node_address": "rubbish"},
        )
    )
    assert found == ["10.10.1.2", "10.10.1.11", "fd00::1"]


def test_workloads_are_kept_from_all_addresses_of_a_host() -> None:
    """Member and node may have different addresses, IPv6 too. What cannot be read is left out."""
    found = cluster_members.host_addresses(
        variables(
            a={"calico_node_address": "10.10.1.11/24", "calico_node_address_ipv6": "FD00::1/64"},
            b={"calico_etcd_address": "192.0.2.8", "calico_node_address": "10.10.1.2/24"},
            c={"calico_etcd_address": "etcd.example.org"},
        )
    )
    assert found == ["10.10.1.11", "fd00::1", "192.0.2.8", "10.10.1.2"]
    assert cluster_members.host_addresses({"hostvars": {}}) == []


def test_clients_are_tokens_of_nftables() -> None:
    """A text that is no address never reaches the rules: neither one of the inventory nor one that a host answers."""
    given = allowed_clients.networks("calico_etcd_operator_addresses", ["192.0.2.5", "192.0.2.0/24", "fd00::5"])
    assert allowed_clients.by_version(given) == {"ipv4": ["192.0.2.0/24"], "ipv6": ["fd00::5"]}
    assert allowed_clients.answered(["192.0.2.5", "10.0.0.1 }; flush ruleset", "", "0.0.0.0/0"]) == (
        allowed_clients.networks("", ["192.0.2.5"])
    )
    with pytest.raises(FleetError) as caught:
        allowed_clients.networks("calico_etcd_operator_addresses", ["10.0.0.1 }; flush ruleset"])
    assert str(caught.value) == (
        "calico_etcd_operator_addresses 10.0.0.1 }; flush ruleset is neither an address nor a CIDR. Write it like "
        "192.0.2.5 or "
        "192.0.2.0/24."
    )


def test_an_answer_is_read() -> None:
    found = seen_hosts.read(HOST, ANSWER)
    assert found.answers and found.members[0].name == "etcd1" and found.db_in_use == 1 << 20


def changed(path: str, value: t.Any) -> dict[str, t.Any]:
    found = copy.deepcopy(ANSWER)
    part: t.Any = found
    *parents, last = path.split(".")
    for name in parents:
        part = part[int(name) if name.isdigit() else name]
    part[last] = value
    return found


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "it is None, not a table"),
        ({"host": {}, "member": {}}, "host.installed is missing"),
        ({"host": ANSWER["host"], "member": ANSWER["member"]}, "gate is missing"),
        (changed("gate.reason", "x" * 2001), f"gate.reason is {'x' * 77}..., not a text of at most 2000 characters"),
        (changed("member", []), "member is a list, not a table"),
        (changed("host.installed", "3.4; rm -rf /"), "host.installed is 3.4; rm -rf /, not a release of etcd"),
        (changed("host.data", "yes"), "host.data is yes, not true or false"),
        (changed("host.controller", ["x"]), "host.controller is a list, not a text of at most 2000 characters"),
        (changed("member.id", "\x1b[2J"), "member.id is '\\x1b[2J', not the identity of a member"),
        (
            changed("member.revision", True),
            "member.revision is True, not a whole number from 0 to 18446744073709551615",
        ),
        (changed("member.db_size", -1), "member.db_size is -1, not a whole number from 0 to 18446744073709551615"),
        (changed("member.auth", "off\n"), "member.auth is 'off\\n', not one of on, off, refused, unknown"),
        (changed("member.members", [{}] * 65), "member.members is a list of 65, not a list of at most 64"),
        (
            changed("member.members.0.peer_urls", [1]),
            "member.members[0].peer_urls[0] is 1, not a text of at most 2000 characters",
        ),
        (
            changed("member.members.0.peer_urls", ["x"] * 65),
            "member.members[0].peer_urls is a list of 65, not a list of at most 64",
        ),
        (changed("member.alarms", ["NOSPACE"]), "member.alarms[0] is NOSPACE, not a table"),
    ],
)
def test_a_hostile_answer_is_refused(answer: t.Any, said: str) -> None:
    with pytest.raises(Unreadable) as caught:
        seen_hosts.read(HOST, answer)
    assert str(caught.value) == said


def test_the_table_shows_members_and_what_is_wrong() -> None:
    good = seen_hosts.read(HOST, ANSWER)
    down = seen_hosts.SeenHost(EtcdHost("etcd2", "10.0.0.2"), installed="3.4.23", data=True)
    days = {"members/etcd1/server.pem": 200, "members/etcd2/server.pem": 12}
    found = status_table.problems([good, down], days)
    assert found == [
        "etcd2: calico-etcd.service does not run.",
        "members/etcd2/server.pem: its certificate ends in 12 days. Run playbooks/etcd.yml, which renews it.",
    ]
    assert [line.rstrip() for line in status_table.text([good, down], days, found, ["something."])] == [
        "MEMBER   ADDRESS    ETCD     ROLE     GATE   DATABASE      REVISION   CERTIFICATE",
        "etcd1    10.0.0.1   3.4.23   leader   ok     1.0/3.0 MiB   12         200 days",
        "etcd2    10.0.0.2   3.4.23   down !   -      -             -          12 days",
        "! etcd2: calico-etcd.service does not run.",
        "! members/etcd2/server.pem: its certificate ends in 12 days. Run playbooks/etcd.yml, which renews it.",
        "warning: something.",
        "cluster  1 of 2 members answer",
    ]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("member.auth", "off", "Authentication is off: run playbooks/etcd.yml, which switches it on."),
        ("member.auth", "refused", "The cluster refuses the operator's password: restore .calico.etcd/secrets.json."),
        (
            "member.alarms",
            [{"member": "8e9e05c52164694d", "kind": "CORRUPT"}],
            "etcd1: alarm CORRUPT. Run playbooks/etcd.yml -e clear_alarms=true.",
        ),
        (
            "member.members.0.peer_urls",
            ["https://10.0.0.9:2380"],
            "etcd1: is a member, and not in group calico_etcd. Run playbooks/etcd.yml, which removes it.",
        ),
        (
            "gate.reason",
            "Connection refused",
            "etcd1: its gate does not answer (Connection refused), so no node reaches this member. "
            "`systemctl status calico-etcd-gate` there says why.",
        ),
        ("member.members.0.learner", True, "etcd1: has no vote. Run playbooks/etcd.yml, which gives it one."),
    ],
)
def test_each_problem_has_its_remedy(path: str, value: t.Any, said: str) -> None:
    assert status_table.problems([seen_hosts.read(HOST, changed(path, value))], {}) == [said]


def test_the_status_says_that_no_member_answers() -> None:
    assert status_table.problems([seen_hosts.SeenHost(HOST)], {}) == [
        "etcd1: calico-etcd.service does not run.",
        "No member answers: start them with `systemctl start calico-etcd`, or run playbooks/etcd_restore.yml.",
    ]


def test_warnings_name_what_a_run_would_do() -> None:
    other = seen_hosts.read(EtcdHost("etcd2", "10.0.0.2"), changed("member.version", "3.5.16"))
    stale = seen_hosts.read(HOST, changed("host.stale", True))
    assert status_table.warnings([stale, other]) == [
        "members have etcd 3.4 and 3.5: bring all to one version.",
        "etcd1: files changed since the start. playbooks/etcd.yml restarts them one by one.",
        "etcd2: another etcd is installed than runs. playbooks/etcd.yml restarts them.",
    ]


def stored_states(**addresses: str) -> dict[str, t.Optional[NodeState]]:
    return {name: NodeState(name, address) for name, address in addresses.items()}


def test_a_node_with_a_member_gets_no_other_address() -> None:
    moved = variables(a={"calico_node_address": "10.10.1.11/24"}, b={"calico_node_address": "10.10.1.62/24"})
    with pytest.raises(FleetError) as caught:
        cluster_members.check_kept(moved, stored_states(a="10.10.1.11/24", b="10.10.1.12/24"))
    assert str(caught.value) == (
        "calico_node_address of b 10.10.1.62 is another one than 10.10.1.12, at which its member of etcd listens. A "
        "member keeps its address, so take these steps: 1. Write 10.10.1.12 again, take b out of group calico_etcd "
        "with another host in its place, and run playbooks/etcd.yml, then playbooks/site.yml. 2. Stop calico-etcd on "
        "b, and remove /var/lib/calico-etcd/member there. 3. Write 10.10.1.62, and run playbooks/etcd.yml, so that the "
        "gates let the new address in, then playbooks/site.yml. 4. Put b back into the group, and run both again. "
        "Nothing was changed."
    )


@pytest.mark.parametrize(
    ("own", "address"),
    [
        ({"calico_node_address": "10.10.1.12/16"}, "10.10.1.12/24"),
        ({"calico_node_address": "10.10.1.62/24", "calico_etcd_address": "10.9.0.2"}, "10.10.1.12/24"),
        ({"calico_node_address": "10.10.1.62/24"}, ""),
        ({"calico_etcd_address": "10.9.0.2"}, "10.10.1.12/24"),
    ],
)
def test_other_changes_of_a_host_with_a_member_are_free(own: dict[str, t.Any], address: str) -> None:
    """The member has an address of its own, or the node's stays the same."""
    cluster_members.check_kept(variables(b=own), stored_states(b=address))
    cluster_members.check_kept(variables(b=own), {"b": None})
    cluster_members.check_kept({"groups": {"calico_nodes": ["b"]}, "hostvars": {"b": own}}, stored_states(b=address))
