# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The points of the CNI specification 1.1.0, one test each: docs/reference/cni.md has a table that names the tests."""

from __future__ import annotations

import json

import pytest

from tests.unit.runtimes.cni.runtime import BLOCK, Container, Runtime

VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
#: The result of a plugin before this one in a chain.
BEFORE = {
    "cniVersion": "1.1.0",
    "interfaces": [{"name": "br0", "mac": "02:00:00:00:0b:00"}, {"name": "net9", "sandbox": "/run/netns/other"}],
    "ips": [{"address": "192.0.2.7/24", "gateway": "192.0.2.1", "interface": 1}],
    "routes": [{"dst": "198.51.100.0/24", "gw": "192.0.2.1"}],
    "dns": {"nameservers": ["192.0.2.53"]},
    "example.org/theirs": {"kept": True},
}


# --- VERSION


def test_version(runtime: Runtime) -> None:
    assert runtime.run("VERSION", stdin=b'{"cniVersion": "1.0.0"}').result == {
        "cniVersion": "1.0.0",
        "supportedVersions": VERSIONS,
    }


# --- ADD


def test_add_makes_the_interface(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    assert container.addresses() == [added.address]
    assert runtime.allocated()[added.address] == f"pods.{container.id}.eth0"


def test_add_result(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    assert added.result == {
        "cniVersion": "1.1.0",
        "interfaces": [
            {"name": added.host_end, "mtu": 1450},
            {"name": "eth0", "mac": container.mac(), "mtu": 1450, "sandbox": container.netns},
        ],
        "ips": [{"address": f"{added.address}/32", "interface": 1}],
        "routes": [{"dst": "169.254.1.1/32", "scope": 253}, {"dst": "0.0.0.0/0", "gw": "169.254.1.1"}],
        "dns": {},
    }
    assert added.host_end.startswith("cali")
    assert len(added.host_end) == 15


@pytest.mark.parametrize("version", VERSIONS)
def test_add_result_of_each_version(runtime: Runtime, version: str) -> None:
    container = runtime.container()
    added = runtime.add(container, version=version)
    result = added.result
    assert result["cniVersion"] == version
    if version < "0.3.0":
        (address,) = container.addresses() or []
        routes = [{"dst": "0.0.0.0/0", "gw": "169.254.1.1"}]
        assert result == {"cniVersion": version, "ip4": {"ip": f"{address}/32", "routes": routes}, "dns": {}}
        return
    families = [entry.get("version") for entry in result["ips"]]
    assert families == (["4"] if version < "1.0.0" else [None])
    assert [("mtu" in entry) for entry in result["interfaces"]] == [version == "1.1.0"] * 2
    assert [("scope" in entry) for entry in result["routes"]] == [version == "1.1.0", False]


def test_add_onto_an_existing_interface_fails(runtime: Runtime) -> None:
    container = runtime.container()
    container.make_interface("eth0")
    before = runtime.allocated()
    assert runtime.add(container).code == 102
    assert container.addresses() == []
    assert runtime.allocated() == before


def test_add_that_fails_leaves_nothing(runtime: Runtime) -> None:
    container = runtime.container()
    container.make_interface("eth0")
    before = runtime.allocated()
    assert runtime.add(container).status == 1
    assert runtime.allocated() == before
    container.break_("interface")
    assert runtime.add(container).status == 0


def test_add_of_another_interface_is_another_attachment(runtime: Runtime) -> None:
    container = runtime.container()
    first, second = runtime.add(container), runtime.add(container, ifname="net1")
    assert first.address != second.address
    assert first.host_end != second.host_end
    assert container.addresses() == [first.address]
    assert container.addresses("net1") == [second.address]
    assert second.result["routes"] == [
        {"dst": "169.254.1.1/32", "scope": 253, "priority": 101},
        {"dst": "0.0.0.0/0", "gw": "169.254.1.1", "priority": 101},
    ]


def test_add_passes_on_what_was_before(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container, prevResult=BEFORE, dns={"nameservers": ["203.0.113.53"]})
    result = added.result
    assert {**result, "interfaces": [], "ips": [], "routes": []} == {
        **BEFORE,
        "interfaces": [],
        "ips": [],
        "routes": [],
    }
    assert result["interfaces"][:2] == BEFORE["interfaces"]
    assert [entry["name"] for entry in result["interfaces"][2:]] == [result["interfaces"][2]["name"], "eth0"]
    assert result["ips"] == [*BEFORE["ips"], {"address": f"{added.address}/32", "interface": 3}]
    assert result["routes"][0] == BEFORE["routes"][0]
    assert len(result["routes"]) == 3


def test_add_after_one_that_made_the_interface_fails(runtime: Runtime) -> None:
    container = runtime.container()
    before = {**BEFORE, "interfaces": [{"name": "eth0", "sandbox": container.netns}], "ips": []}
    assert runtime.add(container, prevResult=before).code == 4


def test_add_dns(runtime: Runtime) -> None:
    dns = {"nameservers": ["192.0.2.53"], "domain": "example.org", "search": ["example.org"], "options": ["ndots:1"]}
    assert runtime.add(runtime.container(), dns=dns).result["dns"] == dns


def test_add_dns_by_capability(runtime: Runtime) -> None:
    asked = {"servers": ["192.0.2.54"], "searches": ["example.com"], "options": []}
    added = runtime.add(runtime.container(), dns={"domain": "example.org"}, runtimeConfig={"dns": asked})
    assert added.result["dns"] == {"domain": "example.org", "nameservers": ["192.0.2.54"], "search": ["example.com"]}


@pytest.mark.parametrize("variable", ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"])
def test_add_names_what_is_missing(runtime: Runtime, variable: str) -> None:
    answer = runtime.add(runtime.container(), environment={variable: None})
    assert answer.code == 4
    assert answer.error["msg"] == f"required environment variable missing: {variable}"


def test_all_that_is_missing_is_named(runtime: Runtime) -> None:
    answer = runtime.run("ADD")
    assert answer.error["msg"] == "required environment variables missing: CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CNI_CONTAINERID", "../../etc"),
        ("CNI_CONTAINERID", "-x"),
        ("CNI_CONTAINERID", "a b"),
        ("CNI_CONTAINERID", "a" * 129),
        ("CNI_IFNAME", "a" * 16),
        ("CNI_IFNAME", "a/b"),
        ("CNI_IFNAME", ".."),
        ("CNI_IFNAME", "lo"),
        ("CNI_NETNS", "netns"),
        ("CNI_NETNS", "/run/netns/\x07"),
        ("CNI_ARGS", "IP"),
        ("CNI_ARGS", "IP=10.244.1.300"),
        ("CNI_ARGS", "MAC=nonsense"),
    ],
)
def test_add_refuses_bad_variables(runtime: Runtime, variable: str, value: str) -> None:
    answer = runtime.add(runtime.container(), environment={variable: value})
    assert answer.code == 4
    assert variable in answer.told


def test_add_without_the_namespace(runtime: Runtime) -> None:
    container = runtime.container()
    container.remove()
    before = runtime.allocated()
    answer = runtime.add(container)
    assert answer.code == 4
    assert container.netns in answer.told
    assert runtime.allocated() == before


def test_add_twice_is_the_same(runtime: Runtime) -> None:
    """A second ADD succeeds with the same result, for a runtime that lost the answer. CNI does not require this."""
    container = runtime.container()
    assert runtime.add(container).result == runtime.add(container).result


def test_add_after_a_lost_delete(runtime: Runtime) -> None:
    """ADD of a known id in another namespace replaces the attachment: podman sends one after a crash, without DEL."""
    container, again = runtime.container(), runtime.container()
    first = runtime.add(container)
    again.id = container.id
    second = runtime.add(again)
    assert again.addresses() == [second.address]
    assert list(runtime.allocated().values()).count(f"pods.{container.id}.eth0") == 1
    assert first.host_end == second.host_end


@pytest.mark.parametrize(
    "fields",
    [
        {"runtimeConfig": {"ips": ["10.244.1.40"]}},
        {"runtimeConfig": {"ips": ["10.244.1.40/24"]}},
        {"args": {"cni": {"ips": ["10.244.1.40"]}}},
        {"args": "IP=10.244.1.40"},
    ],
    ids=["capability", "with a prefix", "args", "CNI_ARGS"],
)
def test_add_with_an_address(runtime: Runtime, fields: dict) -> None:
    container = runtime.container()
    if isinstance(fields.get("args"), str):
        added = runtime.add(container, args=fields["args"])
    else:
        added = runtime.run("ADD", container, stdin=json.dumps({**runtime.configuration(), **fields}).encode())
    assert added.address == "10.244.1.40"


def test_args_win_over_cni_args(runtime: Runtime) -> None:
    """An address in the configuration's `args` wins over IP in CNI_ARGS, as CNI's CONVENTIONS.md requires."""
    stdin = json.dumps({**runtime.configuration(), "args": {"cni": {"ips": ["10.244.1.41"]}}}).encode()
    assert runtime.run("ADD", runtime.container(), args="IP=10.244.1.42", stdin=stdin).address == "10.244.1.41"


def test_add_with_an_address_that_is_taken(runtime: Runtime) -> None:
    runtime.add(runtime.container(), runtimeConfig={"ips": ["10.244.1.43"]})
    answer = runtime.add(runtime.container(), runtimeConfig={"ips": ["10.244.1.43"]})
    assert answer.code == 103
    assert "10.244.1.43" in answer.told


@pytest.mark.parametrize("by_capability", [True, False])
def test_add_with_a_mac(runtime: Runtime, by_capability: bool) -> None:
    container, mac = runtime.container(), "02:AB:00:00:00:01"
    fields = {"runtimeConfig": {"mac": mac}} if by_capability else {}
    added = runtime.add(container, args="" if by_capability else f"IgnoreUnknown=1;MAC={mac}", **fields)
    assert added.result["interfaces"][1]["mac"] == container.mac() == "02:ab:00:00:00:01"


def test_add_with_labels(runtime: Runtime) -> None:
    container = runtime.container()
    configuration = {
        **runtime.configuration(labels={"tier": "front", "env": "test"}),
        "args": {"cni": {"labels": [{"key": "env", "value": "prod"}]}},
    }
    runtime.run(
        "ADD", container, args="app=web;IgnoreUnknown=1;K8S_POD_NAME=w1", stdin=json.dumps(configuration).encode()
    )
    assert runtime.labels(container) == {"tier": "front", "env": "prod", "app": "web"}


@pytest.mark.parametrize("ignore", [True, False])
def test_ignore_unknown(runtime: Runtime, ignore: bool) -> None:
    answer = runtime.add(runtime.container(), args=f"IgnoreUnknown={int(ignore)};no label!=x")
    assert answer.status == (0 if ignore else 1)
    if not ignore:
        assert answer.code == 4


def test_add_without_a_free_address(runtime: Runtime) -> None:
    runtime.use_up()
    answer = runtime.add(runtime.container())
    assert answer.code == 11
    assert "run site.yml, which grants" in answer.told


# --- DEL


def test_del_removes_the_interface(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    assert runtime.delete(container, prevResult=added.result).nothing
    assert added.address not in runtime.allocated()


def test_del_again_succeeds(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    for _time in range(3):
        assert runtime.delete(container, prevResult=added.result).nothing


def test_del_of_the_unknown_succeeds(runtime: Runtime) -> None:
    assert runtime.delete(runtime.container()).nothing


@pytest.mark.parametrize("variable", [None, ""])
def test_del_without_a_namespace(runtime: Runtime, variable: str | None) -> None:
    container = runtime.container()
    added = runtime.add(container)
    container.remove()
    assert runtime.delete(container, environment={"CNI_NETNS": variable}).nothing
    assert added.address not in runtime.allocated()


def test_del_with_the_namespace_gone(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    container.remove()
    assert runtime.delete(container, prevResult=added.result).nothing
    assert added.address not in runtime.allocated()


@pytest.mark.parametrize("previous", [None, {}])
def test_del_without_prev_result(runtime: Runtime, previous: dict | None) -> None:
    container = runtime.container()
    added = runtime.add(container)
    assert runtime.delete(container, prevResult=previous).nothing
    assert added.address not in runtime.allocated()


def test_del_leaves_the_other_interface(runtime: Runtime) -> None:
    container = runtime.container()
    runtime.add(container)
    other = runtime.add(container, ifname="net1")
    assert runtime.delete(container).nothing
    assert other.address in runtime.allocated()
    assert container.addresses("net1") == [other.address]


def test_del_asks_for_no_more_than_it_needs(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    wrong = {"mtu": "large", "prevResult": 7, "runtimeConfig": {"ips": ["x"], "mac": 9}, "ipam": {"type": "dhcp"}}
    assert runtime.delete(container, args="nonsense", **wrong).nothing
    assert added.address not in runtime.allocated()


def test_del_by_a_longer_name_takes_nothing_else(runtime: Runtime) -> None:
    """A DEL of container `c` in network `a.b` frees no address of container `b.c` in network `a`."""
    container, other = runtime.container(), runtime.container()
    container.id = "b.c"
    added = runtime.add(container, network="a")
    other.id = "c"
    assert runtime.delete(other, network="a.b").nothing
    assert added.address in runtime.allocated()


# --- CHECK


def test_check_right_after_add(runtime: Runtime) -> None:
    container = runtime.container()
    assert runtime.check(container, runtime.add(container)).nothing


@pytest.mark.parametrize("what", ["interface", "address", "route", "host route"])
def test_check_finds_what_is_broken(runtime: Runtime, what: str) -> None:
    container = runtime.container()
    added = runtime.add(container)
    container.break_(what)
    answer = runtime.check(container, added)
    if runtime.repairs and answer.status == 0:
        assert container.addresses() == [added.address]
        return
    assert answer.code == 110
    assert answer.error["msg"] == f"eth0 of container {container.id} is not as it has to be"


def test_check_finds_a_lost_reservation(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    runtime.release(container)
    answer = runtime.check(container, added)
    assert answer.code == 110
    assert f"its address {added.address} is not allocated to it" in answer.told


def test_check_takes_what_later_plugins_changed(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    container.set_mac("02:cc:00:00:00:01")
    result = added.result
    result["interfaces"][1]["mac"] = "02:cc:00:00:00:01"
    result["interfaces"].append({"name": "ifb0"})
    result["ips"].append({"address": "192.0.2.9/32", "interface": 1})
    assert runtime.check(container, added, prevResult=result).nothing


def test_check_of_a_mac_that_was_asked_for(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container, runtimeConfig={"mac": "02:ab:00:00:00:02"})
    container.set_mac("02:cc:00:00:00:02")
    answer = runtime.check(container, added)
    assert (runtime.repairs and container.mac() == "02:ab:00:00:00:02") or answer.code == 110


def test_check_of_what_the_runtime_was_told(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    result = added.result
    result["ips"] = [{"address": "10.244.1.63/32", "interface": 1}]
    answer = runtime.check(container, added, prevResult=result)
    assert answer.code == 110
    assert answer.error["details"] == f"prevResult does not have its address {added.address} at eth0"


def test_check_without_prev_result(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    assert runtime.check(container, added, prevResult=None).code == 7


def test_check_of_the_unknown(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container)
    runtime.delete(container)
    answer = runtime.check(container, added)
    assert answer.code == 110
    assert answer.error["details"] == "the agent has no workload for it on network pods"


def test_check_came_with_0_4_0(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container, version="0.3.1")
    assert runtime.check(container, added, version="0.3.1").code == 1


# --- GC


def test_gc_removes_what_is_stale(runtime: Runtime) -> None:
    kept, gone = runtime.container(), runtime.container()
    stays, goes = runtime.add(kept), runtime.add(gone)
    other_interface = runtime.add(kept, ifname="net1")
    assert runtime.collect((kept, "eth0")).nothing
    allocated = runtime.allocated()
    assert stays.address in allocated
    assert goes.address not in allocated
    assert other_interface.address not in allocated


def test_gc_leaves_other_networks(runtime: Runtime) -> None:
    container = runtime.container()
    added = runtime.add(container, network="others")
    assert runtime.collect().nothing
    assert added.address in runtime.allocated()


@pytest.mark.parametrize(
    "attachments", [None, {}, "all", [{"containerID": "x"}], [["x", "eth0"]], [{"containerID": 1, "ifname": "e"}]]
)
def test_gc_without_a_proper_list_removes_nothing(runtime: Runtime, attachments: object) -> None:
    added = runtime.add(runtime.container())
    answer = runtime.run("GC", **{"cni.dev/valid-attachments": attachments})
    assert answer.code == 7
    assert "Nothing was removed." in answer.told
    assert added.address in runtime.allocated()


def test_gc_came_with_1_1_0(runtime: Runtime) -> None:
    assert runtime.collect(version="1.0.0").code == 1


# --- STATUS


def test_status(runtime: Runtime) -> None:
    assert runtime.run("STATUS").nothing


def test_status_without_addresses(runtime: Runtime) -> None:
    runtime.use_up()
    answer = runtime.run("STATUS")
    assert answer.code == 50
    assert answer.error["details"].endswith("Run site.yml, which grants more")


def test_status_without_bird(runtime: Runtime) -> None:
    runtime.bird(answers=False)
    answer = runtime.run("STATUS")
    assert answer.code == 51
    assert "BIRD does not answer" in answer.told


def test_status_came_with_1_1_0(runtime: Runtime) -> None:
    assert runtime.run("STATUS", version="1.0.0").code == 1


# --- errors, secrets, and addresses of the block


@pytest.mark.parametrize("stdin", [b"", b"{", b"[]", b"7", b"\xff\xfe\x00", b"[" * 100_000])
@pytest.mark.parametrize("command", ["ADD", "DEL", "CHECK", "GC", "STATUS"])
def test_stdin_that_is_no_json_object_is_error_6(runtime: Runtime, command: str, stdin: bytes) -> None:
    assert runtime.run(command, runtime.container(), stdin=stdin).code == 6


@pytest.mark.parametrize("version", ["1.2.0", "2.0.0", "0.0.9", "nonsense", 1.1, {}])
def test_versions_that_are_not_supported(runtime: Runtime, version: object) -> None:
    answer = runtime.add(runtime.container(), version=version)
    assert answer.code == 1
    assert answer.error["cniVersion"] == "1.1.0"
    assert answer.error["details"] == f"Use one of {', '.join(VERSIONS)} in the network configuration."


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_have_the_version_of_the_request(runtime: Runtime, version: str) -> None:
    assert (
        runtime.add(runtime.container(), version=version, environment={"CNI_IFNAME": None}).error["cniVersion"]
        == version
    )


@pytest.mark.parametrize("network", [None, "", "a/b", "../x", ".hidden", "a b", "é", 7, "n" * 65])
def test_names_of_networks(runtime: Runtime, network: object) -> None:
    answer = runtime.add(runtime.container(), network=network)
    assert answer.code == 7
    assert answer.error["msg"].startswith("name ")


@pytest.mark.parametrize("command", [None, "", "add", "UPDATE"])
def test_commands(runtime: Runtime, command: str | None) -> None:
    answer = runtime.run("ADD", runtime.container(), environment={"CNI_COMMAND": command})
    assert answer.code == 4
    assert "CNI_COMMAND" in answer.told


@pytest.mark.parametrize(
    ("fields", "code", "where"),
    [
        ({"mtu": 20}, 7, "mtu 20"),
        ({"mtu": "1500"}, 7, "mtu '1500'"),
        ({"mtu": True}, 7, "mtu true"),
        ({"ipam": "host-local"}, 7, "ipam"),
        ({"ipam": {"type": "host-local"}}, 2, "ipam.type 'host-local'"),
        ({"ipam": {"assign_ipv6": "yes"}}, 7, "ipam.assign_ipv6 'yes'"),
        ({"ipam": {"assign_ipv4": "false"}}, 7, "leave no address"),
        ({"ipam": {"ipv4_pools": "all"}}, 7, "ipam.ipv4_pools"),
        ({"ipam": {"ipv6_pools": [6]}}, 7, "ipam.ipv6_pools"),
        ({"device_type": "netkit"}, 2, "device_type 'netkit'"),
        ({"labels": {"no label!": ""}}, 7, "labels"),
        ({"labels": [{"key": "a"}]}, 7, "labels"),
        ({"runtimeConfig": 5}, 7, "runtimeConfig"),
        ({"runtimeConfig": {"ips": "10.244.1.9"}}, 7, "runtimeConfig.ips"),
        ({"runtimeConfig": {"ips": ["10.244.1.9", "10.244.1.10"]}}, 2, "runtimeConfig.ips"),
        ({"runtimeConfig": {"mac": "01:00:00:00:00:00"}}, 7, "runtimeConfig.mac"),
        ({"prevResult": []}, 7, "prevResult"),
        ({"prevResult": {"ips": 7}}, 7, "prevResult.ips"),
        ({"prevResult": {"ips": [{"interface": 3}]}}, 7, "prevResult.ips[0].interface 3"),
    ],
)
def test_fields_that_cannot_be(runtime: Runtime, fields: dict, code: int, where: str) -> None:
    before = runtime.allocated()
    answer = runtime.add(runtime.container(), **fields)
    assert answer.code == code
    assert where in answer.error["msg"]
    assert runtime.allocated() == before


def test_secrets_are_not_repeated(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    secret = "correct horse battery staple"
    container: Container = runtime.container()
    answers = [
        runtime.add(container, etcd_key=secret, mtu={"x": secret}, prevResult={"ips": [secret]}),
        runtime.add(container, ipam={"type": {"x": secret}}),
        runtime.add(container, labels=[secret]),
        runtime.run("ADD", container, stdin=b'{"name": "' + secret.encode()),
        runtime.add(container, password=secret),
    ]
    assert [answer.status for answer in answers] == [1, 1, 1, 1, 0]
    assert not any(secret.encode() in answer.output for answer in answers)
    assert secret not in caplog.text


def test_addresses_are_of_the_nodes_block(runtime: Runtime) -> None:
    assert runtime.add(runtime.container()).address.rpartition(".")[0] == BLOCK.rpartition(".")[0]
