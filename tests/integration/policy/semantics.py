# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The behaviour of Calico's policy on which its users rely, line by line (from the tests of Felix, release 3.21).

Line n is tested by real packets by `test_nn_...` here or in tests/integration/agent, or is in WITHOUT_TEST.
tests/unit/policy/test_semantics_are_tested.py checks that each line has its tests.
"""

from __future__ import annotations

import typing as t

LINES: t.Mapping[int, str] = {
    # Workloads
    1: "no policy, a profile that allows all: workloads reach each other",
    2: "neither policy nor profile: nothing from or to the workload",
    3: "a workload's interface that is not known: nothing",
    4: "a policy of type Ingress admits whom it names, and says nothing of egress",
    5: "a policy of type Egress says nothing of ingress",
    6: "rules for ingress alone and both types: no egress",
    7: "egress rules without the type Egress do not count",
    8: "egress rules with the type Egress count",
    9: "an ingress policy without rules admits nobody",
    10: "types that are not given follow from the rules",
    11: "policies by order, those without last, then by name; the first rule that matches decides",
    12: "what an earlier policy decides a later one does not change",
    13: "Pass goes on behind the tier's policies, Log with the next rule",
    14: "policies apply and none decides: denied, profiles are not asked",
    15: "another order, selector or type counts at once and disturbs no other flow",
    16: "several profiles in their order; the end denies; a missing one denies",
    17: "between two workloads of a host, egress of the one and ingress of the other",
    18: "established and related flows go on when a policy denies them from now on",
    19: "packets that connection tracking finds invalid are dropped, unless that is disabled",
    20: "an endpoint that is down is closed and has no route; up again it is open",
    21: "a source that is not the workload's is dropped, of either family",
    22: "workloads do not encapsulate, unless they may; they may be sent encapsulated packets",
    23: "workload to host: egress policy, then DefaultEndpointToHostAction; neighbour discovery passes",
    24: "the host reaches its own workloads, whatever policy says",
    # Selectors, sets, ports
    25: "a selector means all endpoints, remote ones too, and network sets; labels count at once, no flow is disturbed",
    26: "an address in two sets stays as long as one of them has it",
    27: "without the last set that is meant nobody is; with it again they are",
    28: "labels are inherited from profiles, an own one wins",
    29: "a named port is that of endpoints that have it, of its protocol; one of several; beside numbers",
    30: "named ports exclude the pairs of address and port; with a selector both have to hold",
    31: "any of a list, all of the fields, none of a negated list; more than 15 ports, several ranges",
    32: "ranges of one family say nothing of the other; ipVersion; families are not mixed",
    33: "protocols by name or number, and those without ports",
    # Hosts
    34: "a host endpoint without policy and profile: failsafes alone, and workloads as before",
    35: "each direction of a host endpoint has to be allowed",
    36: "a profile that allows all, and a policy that denies one direction",
    37: "only policies with applyOnForward are asked about what is forwarded; the wildcard's about workloads too",
    38: "preDNAT sees the port of before DNAT; the wildcard's is asked about workloads too",
    39: "doNotTrack needs both directions, leaves failsafes open, and denies before everything",
    40: "the wildcard endpoint is every other interface's, of later ones too",
    41: "encapsulation between the fleet's nodes passes host endpoints, that of others nowhere",
    42: "what the host sends by way of DNAT is judged by the interface by which it leaves",
    # NAT and routing
    43: "natOutgoing: a workload's packets to the outside have the node's address, those to pools their own",
    44: "floating addresses",
    45: "an address that goes to another workload does not take open connections along",
    46: "a host that forwards nothing forwards what policy allows, and nothing else",
    47: "rules of others stay, ours that nobody wants any more go",
    48: "a selector of 10,000 members takes a packet no longer than none",
    # Selectors, once more
    49: "with a selector and a notSelector, one owner of the address matches the first and not the second",
}

WITHOUT_TEST: t.Mapping[int, str] = {
    44: "This collection has no floating addresses: ipNATs of a WorkloadEndpoint are refused (resources/support.py).",
}

#: Lines that apply in part only, and the part that does not.
PARTLY: t.Mapping[int, str] = {
    20: "v3's endpoints have no administrative state; what is tested is an endpoint that is taken away and comes back.",
    43: "There is no filter by interface: natOutgoing holds for whatever leaves the pools.",
}
