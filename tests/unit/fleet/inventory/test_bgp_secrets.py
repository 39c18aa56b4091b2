# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of calico_bgp_secrets and of references to it. No message contains a value."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.bgp_checks import bgp_secrets
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.inventory import read
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.kinds.bgp import (
    BGPPassword,
    SecretKeyRef,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

POOLS = [{"name": "pool", "cidr": "10.244.0.0/16", "ipipMode": "Always"}]


def hosts(*secrets: object) -> list[Host]:
    return [
        Host(
            f"node{number}",
            {
                "calico_ip_pools": POOLS,
                "calico_node_address": f"10.10.1.{10 + number}/24",
                **({} if given is None else {"calico_bgp_secrets": given}),
            },
        )
        for number, given in enumerate(secrets, 1)
    ]


def refusal(*secrets: object) -> str:
    with pytest.raises(FleetError) as caught:
        read(hosts(*secrets))
    return str(caught.value)


def test_an_inventory_with_secrets_is_read_and_keeps_none() -> None:
    given = {"tor-a": {"password": "hunter2", "old.one": "hunter1"}}
    assert dict(bgp_secrets.read(given)) == {"tor-a:password": "hunter2", "tor-a:old.one": "hunter1"}
    assert "hunter" not in repr(read(hosts(given, given)))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            ["hunter2"],
            "calico_bgp_secrets is not a dictionary. Write for example {tor-a: {password: ...}}.",
        ),
        (
            {"tor-a": "hunter2"},
            "calico_bgp_secrets.tor-a is not a dictionary of keys and their passwords. "
            "Write for example {tor-a: {password: ...}}, the password encrypted with ansible-vault.",
        ),
        (
            {"tor-a": {"password": 12345}},
            "calico_bgp_secrets.tor-a.password is not text. Write the password in quotes.",
        ),
        (
            {"tor-a": {"password": 'hunter"2'}},
            "calico_bgp_secrets.tor-a.password has a double quote or a control character, which BIRD cannot be told. "
            "Choose another one.",
        ),
        (
            {"tor-a": {"pass word": "hunter2"}},
            "calico_bgp_secrets.tor-a.pass word is not a key that a secret can have. "
            "Use letters, digits, '-', '_' and '.'.",
        ),
    ],
)
def test_an_invalid_secret_is_named_without_its_value(given: object, text: str) -> None:
    assert refusal(given) == text


def test_hosts_that_differ_are_not_compared_aloud() -> None:
    one, other = {"tor-a": {"password": "hunter1"}}, {"tor-a": {"password": "hunter2"}}
    remedy = "It is one value for the whole fleet: set it once, in group_vars/all."
    assert refusal(one, other) == (
        f"calico_bgp_secrets differs between hosts: node1 has one, node2 has another. {remedy}"
    )
    assert refusal(one, None) == (
        f"calico_bgp_secrets differs between hosts: node1 has one, node2 has nothing. {remedy}"
    )


def test_no_error_shows_a_secret_variable() -> None:
    """The secret variables are those that have passwords, and calico_bgp_mesh_password.

    A password may be written into that one by mistake.
    """
    secret = [variable.name for variable in variables.VARIABLES if variable.secret]
    assert secret == [
        "calico_bgp_mesh_password",
        "calico_bgp_secrets",
        "calico_etcd_password",
        "calico_etcd_node_secret",
    ]


LABEL = "calico_bgp_peers[0].password"


def reference(name: str, key: str, optional: bool = False) -> BGPPassword:
    return BGPPassword(SecretKeyRef(name, key, optional))


def test_a_reference_is_known_by_its_name_and_key() -> None:
    known = {"tor-a:password", "mesh:password"}
    assert bgp_secrets.referred(reference("tor-a", "password"), known, LABEL) == "tor-a:password"
    assert bgp_secrets.referred(None, known, LABEL) == ""
    assert bgp_secrets.referred(reference("tor-b", "password", optional=True), known, LABEL) == ""


@pytest.mark.parametrize(
    ("password", "known", "text"),
    [
        (
            reference("tor-b", "secret"),
            {"mesh:password"},
            "calico_bgp_peers[0].password.secretKeyRef tor-b:secret is not in calico_bgp_secrets. "
            "Add {tor-b: {secret: ...}} there, encrypted with ansible-vault. It has mesh:password.",
        ),
        (
            reference("tor-a", "pasword"),
            {"tor-a:password"},
            "calico_bgp_peers[0].password.secretKeyRef tor-a:pasword is not in calico_bgp_secrets. "
            "Did you mean tor-a:password?",
        ),
        (
            reference("tor-b", "password"),
            set(),
            "calico_bgp_peers[0].password.secretKeyRef tor-b:password is not in calico_bgp_secrets. "
            "Add {tor-b: {password: ...}} there, encrypted with ansible-vault.",
        ),
        (
            BGPPassword(),
            set(),
            "calico_bgp_peers[0].password does not say which secret. "
            "Write secretKeyRef: {name: tor-a, key: password} there.",
        ),
    ],
)
def test_a_reference_to_nothing(password: BGPPassword, known: set[str], text: str) -> None:
    with pytest.raises(FleetError) as caught:
        bgp_secrets.referred(password, known, LABEL)
    assert str(caught.value) == text
