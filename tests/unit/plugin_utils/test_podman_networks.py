# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of calico_node_podman_networks: what podman stores of them, and every refusal in whole."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import podman_networks

from tests.conftest import ROOT
from tests.unit.runtimes.netavark.podman import Podman, attachment


def test_a_network_with_a_name_alone_gets_defaults() -> None:
    assert podman_networks.read([{"name": "calico"}]) == {
        "calico": {
            "name": "calico",
            "id": hashlib.sha256(b"calico").hexdigest(),
            "driver": "calico",
            "ipv6_enabled": False,
            "internal": False,
            "dns_enabled": False,
            "options": {},
            "ipam_options": {"driver": "none"},
        }
    }


def test_all_options_reach_the_agent() -> None:
    entry = {
        "name": "back",
        "pool": ["one", "10.244.0.0/16"],
        "labels": {"tier": "back"},
        "mtu": 1400,
        "dns": "10.0.0.53",
        "dns_search": ["example.org"],
        "ipv6": True,
    }
    podman = Podman()
    answer = podman.setup(attachment(network=podman_networks.read([entry])["back"]))
    (request,) = podman.agent.asked
    assert (request.pools, request.labels, request.mtu, request.families) == (
        ("one", "10.244.0.0/16"),
        {"tier": "back"},
        1400,
        (4, 6),
    )
    assert (answer["dns_server_ips"], answer["dns_search_domains"]) == (["10.0.0.53"], ["example.org"])


def test_a_network_becomes_a_file_of_podman() -> None:
    networks = podman_networks.read([{"name": "calico"}])
    (network,) = podman_networks.files(networks)
    assert (network["path"], network["mode"], network["last"]) == ("/etc/containers/networks/calico.json", "0644", True)
    assert json.loads(network["content"]) == networks["calico"]


def test_the_example_of_the_page_is_what_the_role_takes() -> None:
    page = (ROOT / "docs" / "how-to" / "podman.md").read_text("utf-8")
    (example,) = re.findall(rf"```yaml\n({NAME}:.*?)```", page, re.DOTALL)
    found = podman_networks.read(yaml.safe_load(example)[NAME])
    assert found["back"]["options"] == {
        "dns": "10.0.0.53",
        "label.tier": "back",
        "mtu": "1400",
        "pool": "default-ipv4-ippool",
    }
    assert list(found) == ["calico", "back"]


NAME = "calico_node_podman_networks"
RULE = "Use 1 to 64 letters, digits, '_', '.' and '-', beginning with a letter or digit."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("calico", f"{NAME} calico is not a list. Write each network as - name: calico."),
        ([{"name": "a"}] * 65, f"{NAME} has 65 networks. Use at most 64."),
        (["calico"], f"{NAME}[0] calico is not a network. Write it as - name: calico."),
        ([{"name": "a", "labls": 1}], f"{NAME}[0] has no key labls. Did you mean labels?"),
        (
            [{"name": "a", "subnet": 1}],
            f"{NAME}[0] has no key subnet. A network has dns, dns_search, ipv6, labels, mtu, name or pool.",
        ),
        ([{"name": "a"}, {"name": "a"}], f"{NAME}[1].name a is the name of one before it. Choose another name."),
        (
            [{"name": "podman"}],
            f"{NAME}[0].name podman means something else to podman. Choose another name, such as calico.",
        ),
        ([{}], f"{NAME}[0] cannot be: name '' is not the name of a network. {RULE}"),
        ([{"name": "../x"}], f"{NAME}[0] cannot be: name '../x' is not the name of a network. {RULE}"),
        (
            [{"name": "a", "mtu": 9}],
            f"{NAME}[0] cannot be: options.mtu '9' is not possible. It is a number of bytes from 68 to 65535; 0, "
            "or left "
            "out, is that of the IP pool.",
        ),
        (
            [{"name": "a", "dns": 7}],
            f"{NAME}[0].dns 7 is neither a text nor a list of texts. Write it as dns: [10.0.0.53].",
        ),
        (
            [{"name": "a", "labels": "x"}],
            f"{NAME}[0].labels x is not a mapping. Write it as labels: {{app: web}}.",
        ),
    ],
)
def test_an_impossible_network_is_refused_with_its_reason(value: t.Any, text: str) -> None:
    with pytest.raises(FleetError) as caught:
        podman_networks.read(value)
    assert str(caught.value) == text
