# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories that break the rules about an inventory as it is written, and similar ones that do not."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import WrittenResource
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.without_effect import (
    WithoutEffect,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.written_inventory import (
    LABEL,
    OCTAL,
    SIXTIES,
    ClearSecret,
    LikeFolder,
    OddNumber,
    RepeatedKey,
    UnknownGroupKey,
    UnknownVariable,
    VariableFile,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from tests.unit.fleet.lint.networks import Case

TWO = {"node1": "10.10.1.11/24", "node2": "10.10.1.12/24"}
RR = {"rr1": "10.10.1.2/24"}
GROUPS = {"all": ["node1", "node2"], "calico_nodes": ["node1", "node2"], "rack_a": ["node1"]}
PLACES = {"calico_rrs": "hosts.yml:5", "calico-node": "hosts.yml:9", "node1": "hosts.yml:3", "rr1": "hosts.yml:7"}


def case(rule: str, odd: t.Mapping[str, t.Any], texts: list[str], good: t.Mapping[str, t.Any], **both: t.Any) -> Case:
    """Return a case with the arguments of WrittenInventory in `odd` and `good`; `both` are those of `network`."""
    rest: dict[str, t.Any] = {"nodes": TWO, **both}
    whole = [f"{text} [{rule}]" for text in texts]
    return Case(rule, {**rest, "written": odd}, whole, {**rest, "written": good})


WRITTEN_CASES = [
    case(
        "group-name",
        {"groups": {**GROUPS, "calico_rrs": ["rr1"], "calico-node": ["node1", "n3"]}, "places": PLACES},
        [
            "hosts.yml:5: error: group calico_rrs is no group of this collection, and rr1 is not in calico_rr: a run "
            "leaves them out there. Did you mean calico_rr? Rename the group to calico_rr, or make it a child of "
            "calico_rr.",
            "hosts.yml:9: error: group calico-node is no group of this collection, and n3 is not in calico_nodes: a "
            "run leaves them out there. Did you mean calico_nodes? Rename the group to calico_nodes, or make it a "
            "child of calico_nodes.",
        ],
        {"groups": {**GROUPS, "calico_node": ["node1"], "calico": ["node1", "rr1"], "calico_rr": []}},
    ),
    case(
        "group-name",
        {"groups": {**GROUPS, "calico_reflectors": ["rr1", "rr2"]}},
        [
            "error: group calico_reflectors is no group of this collection, and rr1 and rr2 are not in calico_rr: a "
            "run leaves them out there. Did you mean calico_rr? Rename the group to calico_rr, or make it a child of "
            "calico_rr."
        ],
        {"groups": {**GROUPS, "calico_reflectors": []}},
    ),
    case(
        "two-places",
        {"groups": {**GROUPS, "rack_b": ["node2", "node1"], "zone1": ["node1"]}, "places": PLACES},
        [
            "hosts.yml:3: warning: host node1 is in the groups rack_a and rack_b: where both set a variable, rack_b "
            "decides. Remove it from one of them."
        ],
        {"groups": {**GROUPS, "rack_a_top": ["node1"], "rack_b": ["node2"], "racks": ["node1"], "row1": ["node1"]}},
    ),
    case(
        "reflector-with-workloads",
        {"places": PLACES},
        [
            "hosts.yml:7: warning: group calico_rr has rr1, which is in calico_nodes, too, and has blocks and "
            "workloads. rr2 is in calico_rr alone. Remove rr1 from one of the groups, or name this rule in "
            "calico_lint_ignore if it is meant."
        ],
        {},
        nodes={**TWO, **RR},
        reflectors={**RR, "rr2": "10.10.1.3/24"},
    )._replace(good={"nodes": {**TWO, **RR}, "reflectors": RR, "written": {}}),
    case(
        "key-twice",
        {"repeated_keys": (RepeatedKey("calico_node_labels", 3, "host_vars/node1.yml:7"),)},
        [
            "host_vars/node1.yml:7: error: key calico_node_labels is also on line 3, in the same mapping: only the "
            "last one is used. Remove one of them, or write both contents under one."
        ],
        {},
    ),
    case(
        "variables-of-nobody",
        {
            "groups": GROUPS,
            "variable_files": (
                VariableFile("group_vars", "rack-a", "group_vars/rack-a.yml"),
                VariableFile("host_vars", "node11", "host_vars/node11.yml"),
                VariableFile("host_vars", "rack_a", "host_vars/rack_a"),
                VariableFile("group_vars", "node1", "group_vars/node1.yml"),
                VariableFile("group_vars", "spine", "group_vars/spine.yml"),
            ),
        },
        [
            "group_vars/rack-a.yml: warning: group_vars/rack-a is for a group that the inventory does not have: "
            "nothing reads it. Did you mean rack_a? Rename the file, or remove it.",
            "host_vars/node11.yml: warning: host_vars/node11 is for a host that the inventory does not have: nothing "
            "reads it. Did you mean node1? Rename the file, or remove it.",
            "host_vars/rack_a: warning: host_vars/rack_a is for a host that the inventory does not have: nothing "
            "reads it. rack_a is a group: move it to group_vars.",
            "group_vars/node1.yml: warning: group_vars/node1 is for a group that the inventory does not have: nothing "
            "reads it. node1 is a host: move it to host_vars.",
            "group_vars/spine.yml: warning: group_vars/spine is for a group that the inventory does not have: nothing "
            "reads it. Rename the file to what it is for, or remove it.",
        ],
        {
            "groups": GROUPS,
            "variable_files": (
                VariableFile("group_vars", "rack_a", "group_vars/rack_a.yml"),
                VariableFile("group_vars", "all", "group_vars/all"),
                VariableFile("host_vars", "node1", "host_vars/node1.yml"),
                VariableFile("host_vars", "localhost", "host_vars/localhost.yml"),
            ),
        },
    ),
    case(
        "variables-of-nobody",
        {
            "groups": GROUPS,
            "variable_files": (
                VariableFile("host_vars", "node1.yml.bak", "host_vars/node1.yml.bak", ".bak"),
                VariableFile("group_vars", "all.conf", "group_vars/all.conf", ".conf"),
                VariableFile("host_vars", "node1.yml", "host_vars/node1.yml"),
            ),
            "like_folders": (LikeFolder("Host_vars", "host_vars", "prod/Host_vars"),),
        },
        [
            "prod/Host_vars: warning: Host_vars is a folder that Ansible does not read. Did you mean host_vars? Rename "
            "the folder, or remove it.",
            "host_vars/node1.yml.bak: warning: host_vars/node1.yml.bak has the ending .bak, with which Ansible does "
            "not read it. Rename the file to node1.yml, or remove it.",
            "group_vars/all.conf: warning: group_vars/all.conf has the ending .conf, with which Ansible does not read "
            "it. Rename the file to all.yml, or remove it.",
            "host_vars/node1.yml: warning: host_vars/node1.yml is for a host that the inventory does not have: nothing "
            "reads it. Did you mean node1? Rename the file, or remove it.",
        ],
        {
            "groups": {**GROUPS, "all": ["node1", "node1.com", "node1.yml"]},
            "variable_files": (
                VariableFile("host_vars", "node1.com", "host_vars/node1.com", ".com"),
                VariableFile("host_vars", "node1.yml", "host_vars/node1.yml"),
            ),
        },
    ),
    case(
        "number-not-as-written",
        {
            "odd_numbers": (
                OddNumber("calico_bgp_as_number", "064512", 26954, OCTAL, "all.yml:3"),
                OddNumber("calico_policies[0].ingress[0].destination.ports[0]", "20:30", 1230, SIXTIES, "all.yml:9"),
                OddNumber("calico_node_labels.release", "1.10", 1.1, LABEL, "hosts.yml:4"),
            )
        },
        [
            "all.yml:3: error: calico_bgp_as_number 064512 is 26954 to YAML: a number that begins with 0 is octal. "
            "Write it without the 0, or in quotes if it is a text.",
            "all.yml:9: error: calico_policies[0].ingress[0].destination.ports[0] 20:30 is 1230 to YAML: a number with "
            "colons counts in sixties. Write it in quotes, or as the number that is meant.",
            "hosts.yml:4: error: calico_node_labels.release 1.10 is 1.1 to YAML: selectors compare the label with this "
            "text. Write the value in quotes.",
        ],
        {},
    ),
    case(
        "group-key",
        {
            "group_keys": (
                UnknownGroupKey("calico_nodes", "calico_underlay_mtu", "hosts.yml:5"),
                UnknownGroupKey("rack_a", "host", "hosts.yml:9"),
            )
        },
        [
            "hosts.yml:5: error: key calico_underlay_mtu of group calico_nodes is none of hosts, vars and children: "
            "Ansible leaves it out. Move it below vars, hosts or children of the group.",
            "hosts.yml:9: error: key host of group rack_a is none of hosts, vars and children: Ansible leaves it out. "
            "Did you mean hosts?",
        ],
        {},
    ),
    case(
        "document-without-effect",
        {
            "without_effect": (
                WithoutEffect(WrittenResource("ClusterInformation default", "ci.yml", lambda path: 3), "is state."),
            )
        },
        [
            "ci.yml:3: warning: ClusterInformation default is state. Remove it if it is not needed; "
            "docs/how-to/resource-files.md says what takes its place."
        ],
        {},
    ),
    case(
        "secret-in-clear-text",
        {"clear_secrets": (ClearSecret("calico_bgp_secrets.tor.password", "group_vars/all.yml:4"),)},
        [
            "group_vars/all.yml:4: warning: calico_bgp_secrets.tor.password is a password in clear text, for everybody "
            "who can read this file and its history. Encrypt it: ansible-vault encrypt_string, or ansible-vault "
            "encrypt for the whole file; then change it."
        ],
        {},
    ),
    case(
        "variable-misspelt",
        {"unknown": (UnknownVariable("calico_node_agnt", "calico_node_agent", "all.yml:2"),)},
        [
            "all.yml:2: error: calico_node_agnt is not a variable of this collection: nothing reads it. Did you mean "
            "calico_node_agent?"
        ],
        {"unknown": (UnknownVariable("calico_version", "", "all.yml:2"),)},
    ),
    case(
        "variable-unknown",
        {"unknown": (UnknownVariable("calico_version", "", "all.yml:2"),)},
        [
            "all.yml:2: warning: calico_version is not a variable of this collection: nothing here reads it. Remove "
            "it; docs/reference/variables.md has the names. If another program reads it, name this rule in "
            "calico_lint_ignore."
        ],
        {"unknown": (UnknownVariable("calico_node_agnt", "calico_node_agent", "all.yml:2"),)},
    ),
    case(
        "role-variable",
        {"role_errors": (FleetError("calico_node_agent of node1", "maybe", "is wrong.", "Mend it.", "all.yml:1"),)},
        ["all.yml:1: error: calico_node_agent of node1 maybe is wrong. Mend it."],
        {},
    ),
    case(
        "label-is-boolean",
        {},
        [
            "warning: calico_node_labels.spare of node1 true is a boolean to YAML, as yes, no, on and off without "
            "quotes are: selectors compare it with the text true. Write the value in quotes.",
            "warning: calico_workloads[0].labels.web false is a boolean to YAML, as yes, no, on and off without quotes "
            "are: selectors compare it with the text false. Write the value in quotes.",
            "warning: calico_node_workloads[0].labels.db of node1 true is a boolean to YAML, as yes, no, on and off "
            "without quotes are: selectors compare it with the text true. Write the value in quotes.",
        ],
        {},
        workloads=[{"name": "w", "node": "node1", "labels": {"web": False, "a": "no"}}],
        own={
            "node1": {
                "calico_node_labels": {"spare": True, "rack": "a"},
                "calico_node_workloads": [{"name": "d", "labels": {"db": True}}],
            }
        },
    )._replace(
        good={
            "nodes": TWO,
            "written": {},
            "own": {"node1": {"calico_node_labels": {"spare": "true", "one": 1}}},
        }
    ),
]
