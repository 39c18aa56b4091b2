# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables calico_etcd_*: what is accepted, and the whole text of each refusal."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import datastore_inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.datastore_inventory import (
    DatastoreVariables,
    Operator,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

SECRET = "0123456789abcdef" * 4


def read(**given: t.Any) -> DatastoreVariables:
    values = {f"calico_etcd_{name}": value for name, value in given.items()}
    return datastore_inventory.read(
        lambda name: variables.check(name, values[name]) if name in values else variables.BY_NAME[name].default
    )


def test_a_fleet_that_says_nothing() -> None:
    assert read() == DatastoreVariables()


def test_all_etcd_variables_are_read_and_secrets_are_not_shown() -> None:
    urls = ["https://10.10.1.11:2379", "https://[fd00::1]:2379/", "https://etcd-3.example.com"]
    found = read(
        endpoints=urls, ca="ca.pem", cert="c.pem", key="k.pem", username="ops", password="pw-0815", node_secret=SECRET,
        progress_interval=5,
    )  # fmt: skip
    assert found.endpoints == ("https://10.10.1.11:2379", "https://[fd00::1]:2379", "https://etcd-3.example.com")
    assert (found.username, found.password, found.node_secret, found.progress) == ("ops", "pw-0815", SECRET, 5)
    assert SECRET not in repr(found) and "pw-0815" not in repr(found)
    assert read(endpoints=[]).endpoints == ()


URL = "is not a URL of the form https://HOST:PORT. Write for example https://10.10.1.11:2379."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"endpoints": ["http://10.10.1.11:2379"]}, f"calico_etcd_endpoints[0] http://10.10.1.11:2379 {URL}"),
        ({"endpoints": ["https://10.10.1.11:0"]}, f"calico_etcd_endpoints[0] https://10.10.1.11:0 {URL}"),
        ({"endpoints": ["https://a:65536"]}, f"calico_etcd_endpoints[0] https://a:65536 {URL}"),
        ({"endpoints": ["https://a/v3"]}, f"calico_etcd_endpoints[0] https://a/v3 {URL}"),
        ({"endpoints": ["https://a\n"]}, f"calico_etcd_endpoints[0] https://a\n {URL}"),
        ({"endpoints": ["https://a", "10.10.1.12"]}, f"calico_etcd_endpoints[1] 10.10.1.12 {URL}"),
        (
            {"endpoints": ["https://root:pw-0815@10.10.1.11"]},
            "calico_etcd_endpoints[0] has a user in it. Users stand in calico_etcd_username and calico_etcd_password; "
            "write https://HOST:PORT.",
        ),
        (
            {"endpoints": ["https://a", "https://a/"]},
            "calico_etcd_endpoints[1] https://a/ stands there twice. Name each member once.",
        ),
        (
            {"endpoints": [f"https://a{number}" for number in range(17)]},
            "calico_etcd_endpoints has 17 entries. Name at most 16 members; 3 or 5 are usual.",
        ),
        ({"ca": ""}, "calico_etcd_ca '' is not the path of a file. Write one, or remove it to get the default."),
        (
            {"cert": "c"},
            "calico_etcd_cert is set without calico_etcd_key. Set calico_etcd_key, too, or remove calico_etcd_cert.",
        ),
        (
            {"key": "k"},
            "calico_etcd_key is set without calico_etcd_cert. Set calico_etcd_cert, too, or remove calico_etcd_key.",
        ),
        (
            {"username": "ops"},
            "calico_etcd_username is set without calico_etcd_password. Set calico_etcd_password, too, or remove "
            "calico_etcd_username.",
        ),
        (
            {"username": "", "password": "x"},
            "calico_etcd_username '' is not a text of 1 to 256 characters. Correct it.",
        ),
        ({"password": "pw-0815" * 40}, "calico_etcd_password is not a text of 1 to 256 characters. Correct it."),
        ({"password": 815}, "calico_etcd_password is not text. Remove it to get the default."),
        (
            {"node_secret": SECRET[:30]},
            "calico_etcd_node_secret is not a text of 32 to 256 hex digits, two for each byte. Make one with `openssl "
            "rand -hex 32`, and encrypt it with ansible-vault.",
        ),
        (
            {"node_secret": SECRET[:-1]},
            "calico_etcd_node_secret is not a text of 32 to 256 hex digits, two for each byte. Make one with `openssl "
            "rand -hex 32`, and encrypt it with ansible-vault.",
        ),
        (
            {"progress_interval": 4000},
            "calico_etcd_progress_interval 4000 is out of range. Choose a number from 0 to 3600.",
        ),
    ],
)
def test_an_invalid_etcd_variable_is_refused_without_secrets(given: dict[str, t.Any], said: str) -> None:
    with pytest.raises(FleetError) as refusal:
        read(**given)
    assert str(refusal.value) == said
    assert "pw-0815" not in said and SECRET[:30] not in said


def test_a_variable_of_the_role_is_no_misspelling() -> None:
    assert list(variables.misspelt(["calico_etcd_ca_cert", "calico_etcd_ca_key", "calico_etcd_endpoint"])) == [
        ("calico_etcd_endpoint", "calico_etcd_endpoints")
    ]


def test_operators_are_read_in_order_of_names() -> None:
    given = [
        {"name": "berta", "rotation": 3},
        {"name": "ada.l", "addresses": ["192.0.2.5", "198.51.100.7/24", "fd00::5"]},
    ]
    assert datastore_inventory.operators(given) == (
        Operator("ada.l", ("192.0.2.5/32", "198.51.100.0/24", "fd00::5/128")),
        Operator("berta", (), 3),
    )
    assert datastore_inventory.operators([]) == ()


LIKE = "Write for example [{name: ada, addresses: [192.0.2.5]}]."
NAME = "is not a name. Write at most 64 letters, digits, '-', '_' and '.', a letter or digit first and last."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("ada", f"calico_etcd_operators ada is not a list. {LIKE}"),
        (["ada"], f"calico_etcd_operators[0] ada is not a dictionary. {LIKE}"),
        ([{"name": "a", "address": 1}], f"calico_etcd_operators[0].address is not a field of an operator. {LIKE}"),
        ([{}], f"calico_etcd_operators[0].name {NAME}"),
        ([{"name": "a/b"}], f"calico_etcd_operators[0].name a/b {NAME}"),
        ([{"name": "a."}], f"calico_etcd_operators[0].name a. {NAME}"),
        ([{"name": "x" * 65}], f"calico_etcd_operators[0].name {'x' * 65} {NAME}"),
        (
            [{"name": "a"}, {"name": "a"}],
            "calico_etcd_operators[1].name a stands there twice. Name each operator once.",
        ),
        (
            [{"name": "node1"}],
            "calico_etcd_operators[0].name node1 is the name of a node. Give the operator another name.",
        ),
        *(
            (
                [{"name": name}],
                f"calico_etcd_operators[0].name {name} is the user of etcd that runs use. Give the operator another "
                "name.",
            )
            for name in ("root", "boss")
        ),
        (
            [{"name": "a", "rotation": True}],
            "calico_etcd_operators[0].rotation true is not a number from 0 on. Write for example 1.",
        ),
        (
            [{"name": "a", "rotation": -1}],
            "calico_etcd_operators[0].rotation -1 is not a number from 0 on. Write for example 1.",
        ),
        (
            [{"name": "a", "addresses": "192.0.2.5"}],
            f"calico_etcd_operators[0].addresses 192.0.2.5 is not a list. {LIKE}",
        ),
        (
            [{"name": "a", "addresses": ["192.0.2.5", "192.0.2.256"]}],
            "calico_etcd_operators[0].addresses[1] 192.0.2.256 is neither an address nor a CIDR. Write it like "
            "192.0.2.5 or 192.0.2.0/24.",
        ),
        (
            [{"name": "a", "addresses": ["192.0.2.5"] * 257}],
            "calico_etcd_operators[0].addresses has 257 entries. Name at most 256 addresses and CIDRs.",
        ),
        (
            [{"name": f"a{number}"} for number in range(65)],
            "calico_etcd_operators has 65 entries. Name at most 64 operators.",
        ),
    ],
)
def test_operators_that_are_refused(given: t.Any, said: str) -> None:
    with pytest.raises(FleetError) as error:
        datastore_inventory.operators(given, {"node1"}, "boss")
    assert str(error.value) == said
