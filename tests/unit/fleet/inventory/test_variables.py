# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the variables that a user may set: their bounds, texts that count as values, defaults and typing errors."""

from __future__ import annotations

import importlib.util
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

DOCS = pathlib.Path(__file__).resolve().parents[4] / "docs"


def refusal(name: str, value: t.Any, where: str = "") -> str:
    """Return the error for a value of a variable, "" if it is accepted. `where` is the node, "" for the fleet."""
    try:
        variables.check(name, value, where)
    except FleetError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("name", "least", "greatest"),
    [
        ("calico_bgp_as_number", 1, 2**32 - 1),  # RFC 6793; RFC 7607 forbids 0
        ("calico_node_bgp_as_number", 1, 2**32 - 1),
        ("calico_bgp_listen_port", 1, 2**16 - 1),
        ("calico_node_bgp_listen_port", 1, 2**16 - 1),
        ("calico_bgp_graceful_restart_time", 1, 2**12 - 1),  # RFC 4724: 12 bits
        ("calico_bgp_mesh_max_restart_time", 1, 2**12 - 1),
        ("calico_bgp_hold_time", 3, 2**16 - 1),  # RFC 4271: 16 bits, and not 1 or 2
        ("calico_bgp_keepalive_time", 1, 2**16 - 1),
        ("calico_bgp_long_lived_stale_time", 1, 2**24 - 1),  # RFC 9494: 24 bits
        ("calico_vxlan_vni", 1, 2**24 - 1),  # RFC 7348: 24 bits
        ("calico_vxlan_port", 1, 2**16 - 1),
        ("calico_underlay_mtu", 1280, 2**16 - 1),  # RFC 8200: the least MTU of a link with IPv6
        ("calico_policy_log_group", 0, 2**16 - 1),  # NFLOG: 16 bits
        ("calico_iptables_mark_mask", 1, 2**32 - 1),  # a mark of the kernel: 32 bits
        ("calico_spare_blocks", 0, 64),
    ],
)
def test_a_number_has_the_bounds_of_its_field(name: str, least: int, greatest: int) -> None:
    """A number is accepted from the least to the greatest value of the field that it fills, and not beyond them."""
    assert [variables.check(name, value) for value in (least, greatest)] == [least, greatest]
    for value in (least - 1, greatest + 1):
        assert refusal(name, value) == f"{name} {value} is out of range. Choose a number from {least} to {greatest}."


@pytest.mark.parametrize(("entry", "shown"), [(None, "null"), ({"a": 1}, "{a: 1}"), (["a"], "[a]"), (7, "7")])
def test_the_entries_of_a_list_of_names_are_texts(entry: t.Any, shown: str) -> None:
    """Each list of names or paths refuses an entry that is not a text; the error names the entry and the node."""
    names = [one.name for one in variables.VARIABLES if one.of_texts]
    assert sorted(names) == [
        "calico_etcd_endpoints",
        "calico_lint_ignore",
        "calico_policy_files",
        "calico_pools_known_to_routers",
        "calico_release_blocks",
        "calico_resource_files",
        "calico_staged_policies",
        "calico_unprobed_pools",
        "calico_workload_profiles",
    ]
    for name in names:
        said = refusal(name, ["a", entry], "node1")
        assert said.startswith(f"{name}[1] of node1 {shown} is not a text. Write for example [")


def test_every_number_has_bounds() -> None:
    """Each variable of type int has a least and a greatest value."""
    numbers = [one for one in variables.VARIABLES if one.type == "int"]
    assert [one.name for one in numbers if one.minimum is None or one.maximum is None] == []


def test_the_page_of_variables_says_what_the_compiler_uses() -> None:
    """docs/reference/variables.md has the defaults, bounds and choices of the code; `make docs` writes the page."""
    spec = importlib.util.spec_from_file_location("generate_variables", DOCS / "generate_variables.py")
    assert spec and spec.loader
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.page() == (DOCS / "reference" / "variables.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("calico_bgp_as_number", "64513", 64513),
        ("calico_bgp_as_number", " 64513 ", 64513),
        ("calico_spare_blocks", "0", 0),
        ("calico_bgp_enabled", "true", True),
        ("calico_bgp_enabled", "Yes", True),
        ("calico_bgp_enabled", "FALSE", False),
        ("calico_bgp_enabled", "no", False),
        ("calico_rr_cluster_id", "7", "7"),
    ],
)
def test_a_text_that_fits_is_converted(name: str, text: str, value: t.Any) -> None:
    """A template gives texts: whole numbers, and true, false, yes or no, are read as what they say.

    A variable that is a text keeps "7" as it is.
    """
    found = variables.check(name, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("calico_bgp_as_number", True, "true is not a whole number. Write for example 64512, which is the default."),
        ("calico_bgp_as_number", "1.5", "1.5 is not a whole number. Write for example 64512, which is the default."),
        ("calico_bgp_enabled", 1, "1 is not true or false. Write for example true, which is the default."),
        ("calico_bgp_enabled", "on", "on is not true or false. Write for example true, which is the default."),
        ("calico_bgp_node_to_node_mesh", 1, "1 is not true or false. Remove it to get the default."),
        ("calico_bgp_bind_mode", "All", "All is not known. Choose one of None, NodeIP."),
    ],
)
def test_a_wrong_type_or_choice_is_refused_with_a_remedy(name: str, value: t.Any, message: str) -> None:
    """A value of another type is refused with an example, the default, or the choices; a boolean is no number."""
    assert refusal(name, value) == f"{name} {message}"
    assert refusal(name, value, "node1") == f"{name} of node1 {message}"


def test_a_wrong_secret_is_not_shown() -> None:
    """An error about a variable with passwords does not show its value; one about another variable does."""
    message = refusal("calico_bgp_secrets", "hunter2")
    assert message.startswith("calico_bgp_secrets is not a dictionary. Write for example")
    assert "hunter2" not in message
    assert "hunter2" in refusal("calico_bgp_peers", "hunter2")


def test_a_misspelt_variable_is_noticed() -> None:
    """A name that is nearly a variable's is reported; the variables of others and those that exist are not."""
    names = [
        "calico_ip_pool",
        "calico_ip_pools",
        "calico_policies_rack_a",
        "calico_version",
        "ansible_host",
        "calico_bgp_as_numbr",
    ]
    assert list(variables.misspelt(names)) == [
        ("calico_bgp_as_numbr", "calico_bgp_as_number"),
        ("calico_ip_pool", "calico_ip_pools"),
    ]
