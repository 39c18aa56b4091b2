# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A policy that the kernel refuses is set aside and reported; all others and the rest of the node are in force."""

from __future__ import annotations

import dataclasses

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import PolicyRule
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    IpSet,
    NodeState,
    TunnelDevice,
)

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.agent.policy.policed_daemon import BASE, CLOSED, OPEN, add, closed_for, open_for, policed, web
from tests.integration.policy.documents import Document, global_policy

_DEVICE = TunnelDevice("vxlan.calico", "vxlan", 1450, "10.10.1.11", None, "66:00:00:00:00:01", 4096, 4789)
#: The state of a node with a tunnel device, which needs rules that drop forged encapsulated packets.
TUNNELLED = dataclasses.replace(
    BASE, devices=(_DEVICE,), ipsets=(IpSet(firewall.ALL_HOSTS[4], "hash:net", ("10.10.1.11",)),)
)
_UDP = {"action": "Allow", "protocol": "UDP"}


def db(*ports: int) -> Document:
    return global_policy(
        "db", 'app == "db"', types=["Ingress"], ingress=[{**_UDP, "destination": {"ports": list(ports)}}]
    )


def with_bad_db(*documents: Document) -> NodeState:
    """Return a state in which iptables refuses the first ingress rule of `db`, which is added: its protocol is 300.

    `documents` are its policy; without a policy `db` among them nothing is refused. The node has a tunnel device.
    """
    state = policed(*documents, base=TUNNELLED)
    assert state.policy is not None
    policy_set = state.policy.policy_set
    policies = []
    for one in policy_set.policies:
        if one.name == "db":
            one = dataclasses.replace(one, ingress=(PolicyRule("Allow", protocol=300), *one.ingress))
        policies.append(one)
    changed = dataclasses.replace(policy_set, policies=tuple(policies))
    return dataclasses.replace(state, policy=dataclasses.replace(state.policy, policy_set=changed))


def bring(daemon: Daemon, state: NodeState) -> dict[str, object]:
    daemon.desire(state)
    return daemon.call("node.apply", removals=True)


def told(daemon: Daemon) -> list[str]:
    return [text for text in daemon.call("status")["problems"] if "GlobalNetworkPolicy db, ingress" in text]


def test_a_new_policy_that_is_refused_is_closed_and_all_others_apply(stopped_daemon: Daemon) -> None:
    daemon = stopped_daemon
    daemon.desire(with_bad_db(web(OPEN), db(OPEN)))
    daemon.start()
    add(daemon, "client"), add(daemon, "web"), add(daemon, "db")
    daemon.until(lambda: told(daemon), "the policy is refused")
    daemon.until(lambda: not closed_for(daemon, "client", "web", OPEN), "web's policy is in force")
    assert closed_for(daemon, "client", "web", CLOSED)
    assert closed_for(daemon, "client", "db", OPEN)
    # The refused policy does not delay the tunnel device, because the rules that it needs are in force.
    daemon.until(lambda: daemon.kernel.link("vxlan.calico"), "the tunnel device is there")
    # When the policy has been corrected, it is in force, and `status` lists no problem with it.
    bring(daemon, policed(web(OPEN), db(OPEN), base=TUNNELLED))
    daemon.in_sync()
    assert told(daemon) == []
    assert open_for(daemon, "client", "db", OPEN) and closed_for(daemon, "client", "db", CLOSED)


def test_a_changed_policy_that_is_refused_leaves_the_former_one_and_all_others_apply(stopped_daemon: Daemon) -> None:
    daemon = stopped_daemon
    daemon.desire(policed(web(OPEN), db(OPEN), base=TUNNELLED))
    daemon.start()
    daemon.in_sync()
    add(daemon, "client"), add(daemon, "web"), add(daemon, "db")
    daemon.until(lambda: not closed_for(daemon, "client", "db", OPEN), "it is open")
    bring(daemon, with_bad_db(web(CLOSED), db(CLOSED)))
    assert told(daemon)
    assert open_for(daemon, "client", "web", CLOSED) and closed_for(daemon, "client", "web", OPEN)
    assert open_for(daemon, "client", "db", OPEN) and closed_for(daemon, "client", "db", CLOSED)
    # A workload that is added while another policy is refused has its own policy in force.
    add(daemon, "second", labels={"app": "web"})
    daemon.until(lambda: not closed_for(daemon, "client", "second", CLOSED), "web's policy is in force for it")
    assert closed_for(daemon, "client", "second", OPEN)
