# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of flows while policy changes: each tests the line of semantics.py with its number.

As in the agent, the drivers write only the differences while packets pass.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicySettings

from tests.integration.policy.documents import (
    ALLOW,
    DENY,
    WORKLOADS,
    Document,
    global_policy,
    network_set,
    workload,
)
from tests.integration.policy.policed_node import (
    ELSEWHERE,
    OUTSIDE,
    W0,
    W0_V6,
    W1,
    W1_V6,
    W2,
    PolicedNode,
    Stream,
    back,
    icmp,
    ping,
    tcp,
    udp,
)

ONLY_W0 = 'name == "w0"'
THREE = (*WORKLOADS, workload(2))
DENY_ALL = global_policy("deny", types=["Ingress", "Egress"], ingress=[DENY], egress=[DENY])
FROM_OFFICE = global_policy("in", ONLY_W0, ingress=[{**ALLOW, "source": {"selector": 'net == "office"'}}])


def office(*nets: str, name: str = "office") -> Document:
    return network_set(name, *nets, net="office")


def some(count: int, verdicts: t.Sequence[int]) -> bool:
    """Return whether there are at least `count` verdicts, so that a stream without losses means something."""
    return len(verdicts) >= count


def test_15_a_changed_order_selector_or_type_counts_and_disturbs_no_flow(policed: PolicedNode) -> None:
    def policies(order: int, selector: str = ONLY_W0, types: t.Sequence[str] = ("Ingress",)) -> list[Document]:
        return [
            global_policy("allow", ONLY_W0, order=10, ingress=[ALLOW]),
            global_policy("deny", selector, order=order, types=list(types), ingress=[DENY], egress=[DENY]),
        ]

    policed.apply(*THREE, *policies(20))
    others = udp(W1, W2)
    policed.expect([udp(W1, W0)])
    with Stream(policed, others, fresh=True) as stream:
        for order, denied in ((5, True), (20, False), (5, True)):
            policed.apply(*THREE, *policies(order))
            flow = udp(W1, W0)
            policed.expect(*([[], [flow]] if denied else [[flow]]))
        policed.apply(*THREE, *policies(5, types=["Egress"]))
        policed.expect([udp(W1, W0)], denied=[udp(W0, W1)])
        policed.apply(*THREE, *policies(5, 'name == "w9"'))
        policed.expect([udp(W1, W0), udp(W0, W1)])
    assert some(10, stream.sent) and stream.lost() == []


def test_18_established_flows_go_on_after_a_deny(policed: PolicedNode) -> None:
    policed.apply(*WORKLOADS)
    flow = udp(W0, W1)
    policed.establish(flow)
    with Stream(policed, flow) as there, Stream(policed, back(flow)) as answers:
        policed.apply(*WORKLOADS, DENY_ALL)
        policed.expect(denied=[udp(W0, W1), udp(W1, W0), tcp(W0, W1)])
        policed.apply(*WORKLOADS)
        policed.apply(*WORKLOADS, DENY_ALL)
        policed.expect(denied=[udp(W0, W1)])
    assert some(10, there.sent) and there.lost() == [] and answers.lost() == []
    policed.node.forget_connections()
    policed.expect(denied=[flow, back(flow)])


@pytest.mark.parametrize("disabled", [False, True], ids=["dropped", "disabled"])
def test_19_invalid_packets_are_dropped_unless_the_check_is_disabled(policed: PolicedNode, disabled: bool) -> None:
    """Echo replies without a request are dropped, or pass with `drop_invalid=False`; a request passes in both cases."""
    policed.apply(*WORKLOADS, settings=PolicySettings(drop_invalid=not disabled))
    answers = [icmp(0, W0, W1), icmp(129, W0_V6, W1_V6)]
    policed.expect([ping(W1, W0), *(answers if disabled else [])], denied=[] if disabled else answers)


def test_20_a_removed_endpoint_is_closed_until_it_is_added_again(policed: PolicedNode) -> None:
    """A workload without its endpoint can neither send nor receive; with the endpoint again it can do both.

    Another workload's stream loses nothing. Calico v3's endpoints have no administrative state, so the endpoint is
    removed and added again. See also test_policy_workloads.
    """
    policed.apply(*THREE)
    with Stream(policed, udp(W1, W2), fresh=True) as others:
        for _again in range(2):
            policed.expect([udp(W1, W0), udp(W0, W1)])
            policed.apply(*THREE[1:])
            policed.expect(denied=[udp(W1, W0), udp(W0, W1), udp(W0, OUTSIDE)])
            policed.apply(*THREE)
    assert others.lost() == []
    policed.expect([udp(W1, W0), udp(W0, W1)])


def test_25_sets_hold_all_whom_selectors_mean_and_follow_their_labels(policed: PolicedNode) -> None:
    app = {**ALLOW, "source": {"selector": 'app == "app"'}}
    policy = global_policy("in", ONLY_W0, ingress=[app])

    def ends(**labels: str) -> tuple[Document, ...]:
        remote = workload(3, node="node2", app="app")
        remote["spec"]["ipNetworks"] = [f"{ELSEWHERE}/32"]
        return (
            workload(0),
            workload(1, **labels),
            workload(2, app="app"),
            remote,
            network_set("nets", "192.0.2.0/28", app="app"),
        )

    policed.apply(*ends(), policy)
    policed.expect([udp(W2, W0), udp(ELSEWHERE, W0), udp(OUTSIDE, W0)], denied=[udp(W1, W0), udp("192.0.2.16", W0)])
    flow = udp(W2, W0)
    policed.establish(flow)
    before = policed.written()
    with Stream(policed, flow) as established, Stream(policed, udp(W2, W0), fresh=True) as fresh:
        for _again in range(3):
            policed.apply(*ends(app="app"), policy)
            policed.expect([udp(W1, W0)])
            policed.apply(*ends(app="db"), policy)
            policed.expect([udp(W2, W0)], denied=[udp(W1, W0)])
    assert some(10, fresh.sent) and established.lost() == [] and fresh.lost() == []
    # A label changes members of IP sets; no rule is written.
    assert policed.written() == before


def test_26_what_two_sets_have_stays_when_one_of_them_goes(policed: PolicedNode) -> None:
    policed.apply(
        *WORKLOADS, FROM_OFFICE, office("192.0.2.0/28", "192.0.2.9/32"), office(f"{OUTSIDE}/32", name="other")
    )
    with Stream(policed, udp(OUTSIDE, W0), fresh=True) as stream:
        policed.apply(*WORKLOADS, FROM_OFFICE, office("192.0.2.0/28"), office(f"{OUTSIDE}/32", name="other"))
        policed.expect([udp("192.0.2.1", W0)])
        policed.apply(*WORKLOADS, FROM_OFFICE, office(f"{OUTSIDE}/32", name="other"))
        policed.expect([udp(OUTSIDE, W0)], denied=[udp("192.0.2.1", W0)])
        # The address is in a wider and in a narrower range, then in the wider one alone.
        policed.apply(*WORKLOADS, FROM_OFFICE, office("192.0.0.0/16"), office("192.0.2.8/31", name="other"))
        policed.apply(*WORKLOADS, FROM_OFFICE, office("192.0.0.0/16"))
        policed.expect([udp("192.0.77.1", W0)])
    assert some(10, stream.sent) and stream.lost() == []
    policed.apply(*WORKLOADS, FROM_OFFICE, office("198.51.100.0/24"))
    policed.expect([udp(ELSEWHERE, W0)], denied=[udp(OUTSIDE, W0)])


def test_27_a_selector_of_sets_matches_only_while_a_set_exists(policed: PolicedNode) -> None:
    for _again in range(2):
        policed.apply(*WORKLOADS, FROM_OFFICE, office("192.0.2.0/28"))
        policed.expect([udp(OUTSIDE, W0)], denied=[udp(ELSEWHERE, W0)])
        policed.apply(*WORKLOADS, FROM_OFFICE, office())
        policed.expect([udp(W0, W1)], denied=[udp(OUTSIDE, W0)])
        policed.apply(*WORKLOADS, FROM_OFFICE, office("0.0.0.0/0"))
        policed.expect([udp(OUTSIDE, W0), udp(ELSEWHERE, W0)])
        policed.apply(*WORKLOADS, FROM_OFFICE)
        policed.expect([udp(W0, W1)], denied=[udp(OUTSIDE, W0), udp(W1, W0)])
