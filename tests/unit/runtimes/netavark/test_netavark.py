# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of netavark's plugin: what podman gets, and every refusal in whole."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.release import VERSION
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.netavark import options
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import protocol
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.runtimes.netavark.podman import CONTAINER, CREATED, NETNS, Podman, attachment

SENT = "podman sends it: ask it for something else, update podman and netavark, or report this."
ID_RULE = "It is 1 to 128 letters, digits, '_', '.' and '-', beginning with a letter or digit."
NAME_RULE = "Use 1 to 64 letters, digits, '_', '.' and '-', beginning with a letter or digit."


def test_info_gives_the_version_and_the_api_version() -> None:
    podman = Podman()
    assert podman.execute("info", b"") == (0, {"version": VERSION, "api_version": "1.0.0"})
    assert podman.observed == [("info", "ok")]


# --- setup and teardown


def test_setup_and_teardown() -> None:
    podman = Podman()
    mac = "02:00:00:00:00:01"
    assert podman.setup() == {
        "dns_search_domains": [],
        "dns_server_ips": [],
        "interfaces": {"eth0": {"mac_address": mac, "subnets": [{"ipnet": "10.244.1.0/32", "gateway": "169.254.1.1"}]}},
    }
    (request,) = podman.agent.asked
    assert (request.id, request.name, request.namespace) == (
        f"pods.{CONTAINER}.eth0",
        "web.e2cf780eccff.eth0",
        "default",
    )
    assert (request.network, request.container, request.netns, request.netns_owned) == ("pods", CONTAINER, NETNS, False)
    assert (request.families, request.pools, request.labels, request.mac, request.mtu) == ((), (), {}, None, None)
    assert podman.execute("teardown", attachment()) == (0, None)
    assert podman.agent.given == {}
    assert podman.execute("teardown", attachment()) == (0, None)  # again, as after a lost answer


def test_podmans_options_become_the_request_to_the_agent() -> None:
    podman = Podman()
    asked = attachment(
        network={"ipv6_enabled": True, "options": {"pool": "one,10.244.0.0/16", "mtu": "1400", "label.tier": "back"}},
        options={
            "interface_name": "net0",
            "static_ips": ["10.244.1.9", "fd00:10:244::9"],
            "static_mac": "02:00:00:00:00:AA",
            "options": {"app": "web", "tier": "front", "label.pool": "x", "mtu": "1300"},
        },
    )
    podman.setup(asked)
    (request,) = podman.agent.asked
    assert (request.peer_interface, request.address, request.address6) == ("net0", "10.244.1.9", "fd00:10:244::9")
    assert (request.mac, request.mtu, request.families) == ("02:00:00:00:00:aa", 1300, (4, 6))
    assert request.pools == ("one", "10.244.0.0/16")
    assert request.labels == {"app": "web", "tier": "front", "pool": "x"}


def test_name_servers_and_domains_are_passed_on() -> None:
    """The container's come before the network's options, and these before `network_dns_servers`."""
    podman = Podman()
    network: dict[str, t.Any] = {"network_dns_servers": ["10.0.0.53"], "options": {"dns_search": "a.example b.example"}}
    for own, servers, domains in (
        ({}, ["10.0.0.53"], ["a.example", "b.example"]),
        ({"dns": "10.0.0.54 fd00::0:53", "dns_search": "c.example"}, ["10.0.0.54", "fd00::53"], ["c.example"]),
    ):
        answer = podman.setup(attachment(network=network, options={"options": own}))
        assert (answer["dns_server_ips"], answer["dns_search_domains"]) == (servers, domains)


def test_an_address_that_reload_names_twice_is_one() -> None:
    podman = Podman()
    podman.setup(attachment(options={"static_ips": ["10.244.1.9", "10.244.1.9"]}))
    assert podman.agent.asked[0].address == "10.244.1.9"


def test_setup_again_is_the_same_and_in_another_namespace_replaces() -> None:
    podman = Podman()
    first = podman.setup()
    assert podman.setup() == first
    podman.agent.namespaces["/run/netns/netns-2"] = {}
    podman.setup(netns="/run/netns/netns-2")
    (workload,) = podman.agent.workloads.values()
    assert workload.netns == "/run/netns/netns-2" and podman.agent.namespaces[NETNS] == {}
    assert len(podman.agent.given) == 1


def test_a_path_that_leads_to_another_namespace_replaces() -> None:
    podman = Podman()
    podman.setup()
    podman.agent.fail["add"] = AgentError(protocol.CONFLICT, "another namespace.", {"field": "netns"})
    podman.setup()
    assert len(podman.agent.workloads) == 1


def test_a_setup_replaces_one_that_ends_meanwhile() -> None:
    """The agent still works for a podman that was killed when the next one sets the container up elsewhere."""
    podman = Podman()
    podman.setup()
    found = podman.agent.workloads
    podman.agent.namespaces["/run/netns/netns-2"] = {}

    def under_way(id: str) -> None:
        del podman.agent.__dict__["get"]  # the next question is answered as usual

    podman.agent.get = under_way  # type: ignore[method-assign]
    podman.setup(netns="/run/netns/netns-2")
    (workload,) = found.values()
    assert workload.netns == "/run/netns/netns-2" and podman.agent.namespaces[NETNS] == {}


def test_two_interfaces_are_two_workloads() -> None:
    podman = Podman()
    podman.setup()
    podman.setup(attachment(network={"name": "back"}, options={"interface_name": "eth1"}))
    assert sorted(podman.agent.workloads) == [f"back.{CONTAINER}.eth1", f"pods.{CONTAINER}.eth0"]
    podman.execute("teardown", attachment())
    assert sorted(podman.agent.workloads) == [f"back.{CONTAINER}.eth1"]


def test_teardown_asks_for_no_more_than_it_needs() -> None:
    """A network whose file was spoiled meanwhile, a published port or an address holds no container back."""
    podman = Podman()
    podman.setup()
    spoiled = attachment(
        network={"options": {"mut": "x"}, "subnets": 7}, options={"static_ips": "x"}, port_mappings=[{}]
    )
    assert podman.execute("teardown", spoiled, "no path") == (0, None)
    assert podman.agent.given == {}


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (attachment(container_id="../x"), f"container_id '../x' is not the id of a container. {ID_RULE}"),
        (attachment(container_id=7), f"container_id is 7, not a text of at most 4096 characters. {SENT}"),
        (attachment(container_id="c" * 129), f"container_id '{'c' * 77}...' is not the id of a container. {ID_RULE}"),
        (attachment(container_name=["x"]), f"container_name is a list, not a text of at most 4096 characters. {SENT}"),
        (attachment(network={"name": "../../x"}), f"network.name '../../x' is not the name of a network. {NAME_RULE}"),
        (attachment(network={"name": None}), f"network.name '' is not the name of a network. {NAME_RULE}"),
        ({**attachment(), "network": []}, f"network is a list, not a table. {SENT}"),
        ({**attachment(), "network_options": "x"}, f"network_options is x, not a table. {SENT}"),
        (
            attachment(options={"interface_name": "a/b"}),
            "network_options.interface_name 'a/b' cannot be the name of a device. Use 1 to 15 characters without white "
            "space, '/' and ':'.",
        ),
        (
            attachment(options={"interface_name": "lo"}),
            "network_options.interface_name is lo, the container's own loopback. Use another name, as eth0.",
        ),
        (
            attachment(options={"static_ips": "10.244.1.1"}),
            f"network_options.static_ips is 10.244.1.1, not a list of at most 256. {SENT}",
        ),
        (
            attachment(options={"static_ips": [1]}),
            f"network_options.static_ips[0] is 1, not a text of at most 4096 characters. {SENT}",
        ),
        (
            attachment(options={"static_ips": ["x"] * 257}),
            f"network_options.static_ips is a list of 257, not a list of at most 256. {SENT}",
        ),
        (
            attachment(options={"static_ips": ["10.244.1"]}),
            "network_options.static_ips: '10.244.1' is not an IP address. Write it as --ip 10.244.0.5 or --ip6 "
            "fd00:10:244::5.",
        ),
        (
            attachment(options={"static_ips": ["10.244.1.1", "10.244.1.2"]}),
            "network_options.static_ips asks for several IPv4 addresses. A container has one address of each IP "
            "version "
            "on a network: ask for one.",
        ),
        (
            attachment(options={"static_mac": "ff:ff:ff:ff:ff:ff"}),
            "network_options.static_mac 'ff:ff:ff:ff:ff:ff' is not the MAC address of one device. Write it as "
            "--mac-address 02:00:00:00:00:01.",
        ),
        (
            attachment(port_mappings=[{"container_port": 80, "host_port": 65536}]),
            "port_mappings[0].container_port: The port of the host 65536 is not a port. Use a number from 0 to 65535.",
        ),
        (
            attachment(port_mappings=[{"container_port": 80, "host_port": 80, "range": 100_000}]),
            "-p asks for more than 1024 ports. Publish fewer of them.",
        ),
        (
            attachment(port_mappings=[{"container_port": "80; drop", "host_port": 80}]),
            f"port_mappings[0].container_port is 80; drop, not a whole number from 0 to 9007199254740992. {SENT}",
        ),
        (
            attachment(port_mappings=[{"container_port": 80, "host_port": 80, "host_ip": "::ffff:10.0.0.1"}]),
            "port_mappings[0].container_port: '::ffff:10.0.0.1' is not an address of a host. Write one, or leave it out"
            " for all of them.",
        ),
        (
            attachment(port_mappings=[{"container_port": 80, "host_port": 80, "protocol": "icmp"}]),
            "port_mappings[0].container_port: The protocol 'icmp' has no ports to publish. Use tcp, udp or sctp.",
        ),
        (attachment(port_mappings=[8080]), f"port_mappings[0] is 8080, not a table. {SENT}"),
        (
            attachment(options={"options": {"app": "a\nb"}}),
            "a label in network_options.options is wrong: 'a\\nb' is not a label's value, as that of app. Use at "
            "most 63 "
            "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit; or nothing.",
        ),
        (
            attachment(options={"options": {"app": 7}}),
            f"network_options.options.app is 7, not a text of at most 4096 characters. {SENT}",
        ),
        (
            attachment(options={"options": {f"a{number}": "" for number in range(257)}}),
            f"network_options.options is a table of 257, not a table of at most 256. {SENT}",
        ),
        (
            attachment(options={"options": {"mtu": "9" * 30}}),
            f"network_options.options.mtu '{'9' * 30}' is not possible. It is a number of bytes from 68 to 65535; "
            "0, or "
            "left out, is that of the IP pool.",
        ),
        (
            attachment(options={"options": {"dns": "one"}}),
            "network_options.options.dns 'one' is not an IP address. Write name servers as 10.0.0.53,fd00::53.",
        ),
        (
            attachment(options={"options": {"dns": "10.0.0.1 " * 17}}),
            "network_options.options.dns has 17 entries. Use at most 16.",
        ),
        (
            attachment(options={"options": {"dns_search": "..x"}}),
            "network_options.options.dns_search '..x' is not a domain. Write search domains as "
            "example.org,example.com.",
        ),
        (attachment(network={"ipv6_enabled": "yes"}), f"network.ipv6_enabled is yes, not true or false. {SENT}"),
        (
            attachment(container_name="w" * 5000),
            f"container_name is {'w' * 77}..., not a text of at most 4096 characters. {SENT}",
        ),
        (attachment(port_mappings=[{"container_port": 80}]), f"port_mappings[0].host_port is missing. {SENT}"),
    ],
)
def test_setup_refuses_in_words(sent: dict[str, t.Any], text: str) -> None:
    podman = Podman()
    assert podman.refused("setup", sent) == text
    assert podman.observed == [("setup", "error")]


@pytest.mark.parametrize("netns", ["", "netns-1", "/run/a\nb", "/" + "x" * 4096])
def test_a_namespace_that_is_no_path(netns: str) -> None:
    named = repr(netns if len(netns) <= 80 else netns[:77] + "...")
    assert Podman().refused("setup", attachment(), netns) == (
        f"the namespace {named} is not an absolute path. netavark passes it, as /run/netns/NAME: call podman."
    )


@pytest.mark.parametrize(
    ("stdin", "text"),
    [
        (b"", "stdin is not JSON (line 1, column 1). podman sends one JSON object: call podman, not the plugin."),
        (b"\xff", "stdin is not JSON (its whole). podman sends one JSON object: call podman, not the plugin."),
        (b"[]", "stdin is not a JSON object. podman sends one JSON object: call podman, not the plugin."),
        (b"[" * 100_000, "stdin is not JSON (its whole). podman sends one JSON object: call podman, not the plugin."),
        (b'{"a":' + b"[" * 51 + b"]" * 51 + b"}", f"stdin has more than 50 levels. {SENT}"),
    ],
)
@pytest.mark.parametrize("command", ["create", "setup", "teardown"])
def test_stdin_that_is_no_request_is_refused(command: str, stdin: bytes, text: str) -> None:
    assert Podman().refused(command, stdin) == text


def test_an_unknown_command() -> None:
    text = "the command 'check' is not known. It is one of create, setup, teardown, info."
    assert Podman().refused("check", attachment()) == text


@pytest.mark.parametrize("code", sorted(protocol.CODES))
def test_refusals_of_the_agent_are_passed_on(code: str) -> None:
    podman = Podman()
    podman.agent.fail["add"] = AgentError(code, "what, where, how to go on.")
    assert podman.refused("setup", attachment()) == "what, where, how to go on."


def test_an_error_in_the_code_is_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    podman = Podman()
    podman.agent.fail["add"] = KeyError("correct horse battery staple")
    assert podman.refused("setup", attachment()) == (
        "the agent failed (KeyError): this is an error in its code. `journalctl -u calico-agent` says where."
    )
    assert "NETAVARK 'setup' failed: KeyError at" in caplog.text and "staple" not in caplog.text


# --- create


def test_create_leaves_addresses_and_names_to_the_agent() -> None:
    sent = {**CREATED, "options": {"mtu": "1450", "label.app": "web"}, "labels": {"x": "y"}, "unknown": [1]}
    assert Podman().execute("create", sent) == (
        0,
        {**sent, "dns_enabled": False, "ipam_options": {"driver": "none"}},
    )


def test_create_keeps_name_servers_where_podman_takes_them() -> None:
    sent = {**CREATED, "network_dns_servers": ["10.0.0.53", "fd00::53"]}
    _status, stored = Podman().execute("create", sent)
    assert stored == {
        **CREATED,
        "dns_enabled": False,
        "ipam_options": {"driver": "none"},
        "options": {"dns": "10.0.0.53,fd00::53"},
    }


SUBNETS = (
    "the network pods has a subnet, a gateway or an address range of its own. The agent gives addresses of the node's "
    "blocks: create the network without --subnet, --gateway and --ip-range. Choose pools with -o pool=NAME, or one "
    "container's address with podman run --ip."
)
KNOWN = "A network has the options dns, dns_search, mtu or pool. A label of all its containers is label.KEY=VALUE."


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"subnets": [{"subnet": "10.244.0.0/16"}]}, SUBNETS),
        (
            {"ipam_options": {"driver": "host-local"}},
            "the network pods has the IPAM driver 'host-local'. The agent gives the addresses: use --ipam-driver "
            "none, or "
            "leave it out.",
        ),
        (
            {"internal": True},
            "the network pods has --internal, which is not done here. Leave it out, and deny what leaves the "
            "network by "
            "policy (docs/how-to/policy.md).",
        ),
        (
            {"routes": [{"destination": "10.0.0.0/8"}]},
            "the network pods has --route, which is not done here. Leave it out: containers reach everything by one "
            "default route.",
        ),
        (
            {"network_interface": "br9"},
            "the network pods has --interface-name, which is not done here. Leave it out: there is no bridge, each "
            "container has a link of its own.",
        ),
        ({"options": {"app": "web"}}, f"the network has no option 'app'. {KNOWN}"),
        (
            {"options": {"pools": "x"}},
            "the network has no option 'pools'. Did you mean pool? A label of all its containers is label.KEY=VALUE.",
        ),
        (
            {"options": {"mtu": "x"}},
            "options.mtu 'x' is not possible. It is a number of bytes from 68 to 65535; 0, or left "
            "out, is that of the IP pool.",
        ),
        (
            {"network_dns_servers": ["x"]},
            "network_dns_servers 'x' is not an IP address. Write name servers as 10.0.0.53,fd00::53.",
        ),
        ({"name": "a/b"}, f"name 'a/b' is not the name of a network. {NAME_RULE}"),
    ],
)
def test_unsupported_network_fields_are_refused(fields: dict[str, t.Any], text: str) -> None:
    """Create refuses it, and so does setup, which gets networks whose files somebody wrote."""
    assert Podman().refused("create", {**CREATED, **fields}) == text
    attached = Podman().refused("setup", attachment(network=fields))
    where = text if text.startswith("the network") else f"network.{text}"
    assert attached == where


# --- requests from when the agent was down


def stored(sent: dict[str, t.Any]) -> bytes:
    return b"NETAVARK 1\nNETAVARK_COMMAND=teardown\nNETAVARK_NETNS=/x\n\n" + json.dumps(sent).encode() + b"\n"


def test_a_stored_teardown_is_completed_before_the_next_setup(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    podman = Podman(str(tmp_path))
    podman.setup()
    (tmp_path / "a.request").write_bytes(stored(attachment()))
    podman.setup(attachment(container_id="d" * 64))
    assert list(podman.agent.workloads) == [f"pods.{'d' * 64}.eth0"]
    assert caplog.messages == [f"The teardown of {CONTAINER}.eth0 on pods, from when the agent was down, is done"]
    assert list(tmp_path.iterdir()) == []


def test_a_setup_waits_for_the_older_teardown_of_its_own_container(tmp_path: pathlib.Path) -> None:
    podman = Podman(str(tmp_path))
    podman.setup()
    (tmp_path / "a.request").write_bytes(stored(attachment()))
    podman.agent.fail["delete"] = AgentError(protocol.NOT_WRITTEN, "the disk is full.")
    assert podman.refused("setup", attachment()) == (
        f"an older teardown of eth0 of container {CONTAINER} on network pods is not done yet: the disk is "
        "full. The agent "
        "tries it again before each setup and every 10 seconds: correct what it says, then try again."
    )
    podman.setup()
    assert list(tmp_path.iterdir()) == []


def test_a_stored_teardown_that_says_nothing_is_dropped(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    podman = Podman(str(tmp_path))
    path = tmp_path / "a.request"
    path.write_bytes(stored({}))
    podman.setup()
    assert caplog.messages == [
        f"{path}, a teardown from when the agent was down, says nothing and is dropped: network.name '' is "
        "not the name "
        f"of a network. {NAME_RULE}"
    ]


# --- requests with any fields

_TEXT = st.text(max_size=20)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=8,
)
_OPTIONS = _JSON | st.dictionaries(st.sampled_from([*options.KNOWN, "label.a", "app"]), _TEXT, max_size=4)
_NETWORK = st.fixed_dictionaries(
    {},
    optional={
        "name": _TEXT,
        **dict.fromkeys(("subnets", "internal", "routes", "network_interface", "network_dns_servers"), _JSON),
        "ipam_options": _JSON | st.fixed_dictionaries({"driver": _JSON}),
        "options": _OPTIONS,
        "ipv6_enabled": _JSON,
    },
)
_ATTACHED = st.fixed_dictionaries(
    {},
    optional={
        "interface_name": _TEXT | _JSON,
        "static_ips": _JSON | st.lists(_TEXT | st.just("10.244.1.7"), max_size=3),
        "static_mac": _JSON,
        "options": _OPTIONS,
    },
)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(["create", "setup", "teardown"]), _NETWORK, _ATTACHED, st.dictionaries(_TEXT, _JSON, max_size=3))
def test_any_request_gets_a_result_or_a_printable_error(
    command: str, network: dict[str, t.Any], attached: dict[str, t.Any], more: dict[str, t.Any]
) -> None:
    podman = Podman()
    sent = {**CREATED, **network, **more} if command == "create" else {**attachment(network, attached), **more}
    status, answer = podman.execute(command, sent)
    if status:
        assert list(answer) == ["error"] and "error in its code" not in answer["error"], answer
        assert answer["error"].isprintable() and len(answer["error"]) < 1000
    elif command == "create":
        assert answer["name"] == sent["name"] and answer["ipam_options"] == {"driver": "none"}
    else:
        assert command == "teardown" or list(answer["interfaces"]) == [sent["network_options"]["interface_name"]]
