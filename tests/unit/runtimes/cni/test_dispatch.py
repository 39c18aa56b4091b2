# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the agent's errors as CNI reports them, and of hostile input."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import protocol
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.runtimes.cni.fake_agent import FakeRuntime

CODES = {
    protocol.INVALID_PARAMS: 7,
    protocol.FORBIDDEN: 100,
    protocol.NOT_FOUND: 4,
    protocol.CONFLICT: 103,
    protocol.NO_ADDRESS: 11,
    protocol.TRY_AGAIN: 11,
    protocol.UNAVAILABLE: 11,
    protocol.TIMEOUT: 11,
    protocol.TOO_LARGE: 7,
    protocol.IN_THE_WAY: 102,
    protocol.NOT_WRITTEN: 5,
    protocol.KERNEL: 101,
    protocol.UNKNOWN_METHOD: 999,
    protocol.INTERNAL: 999,
}


@pytest.mark.parametrize("code", sorted(protocol.CODES))
def test_errors_of_the_agent(runtime: FakeRuntime, code: str) -> None:
    runtime.agent.fail["add"] = AgentError(code, "what, where, how to go on.")
    error = runtime.add(runtime.container()).error
    assert error == {"cniVersion": "1.1.0", "code": CODES[code], "msg": "what, where, how to go on.", "details": ""}


def test_a_delete_that_could_not_be_written_is_an_error(runtime: FakeRuntime) -> None:
    """A DEL that cannot be written to the disk fails with code 5, and its retry succeeds."""
    container = runtime.container()
    runtime.add(container)
    runtime.agent.fail["delete"] = AgentError(protocol.NOT_WRITTEN, "the disk is full.")
    assert runtime.delete(container).code == 5
    assert runtime.delete(container).nothing


def test_a_delete_that_comes_too_late_succeeds(runtime: FakeRuntime) -> None:
    runtime.agent.fail["delete"] = AgentError(protocol.NOT_FOUND, "no such workload.")
    assert runtime.delete(runtime.container()).nothing


def test_gc_goes_on_after_an_error(runtime: FakeRuntime) -> None:
    containers = [runtime.container() for _ in range(3)]
    for container in containers:
        runtime.add(container)
    runtime.agent.fail["delete"] = AgentError(protocol.KERNEL, "the kernel refused.")
    answer = runtime.collect()
    assert answer.code == 111
    assert answer.error["msg"] == "1 of 3 stale attachments were not removed"
    assert answer.error["details"] == f"pods.{containers[0].id}.eth0: the kernel refused."
    assert list(runtime.allocated().values()) == [f"pods.{containers[0].id}.eth0"]


def test_gc_frees_addresses_whose_workloads_did_not_come_back(runtime: FakeRuntime) -> None:
    """GC frees addresses of attachments that are not valid, also without their workloads, as after a reboot."""
    kept, gone = runtime.container(), runtime.container()
    stays = runtime.add(kept)
    runtime.add(gone)
    runtime.agent.workloads.clear()
    assert runtime.collect((kept, "eth0")).nothing
    assert list(runtime.allocated()) == [stays.address]


def test_a_del_after_a_reboot_frees_the_address(runtime: FakeRuntime) -> None:
    container = runtime.container()
    runtime.add(container)
    runtime.agent.workloads.clear()
    assert runtime.delete(container).nothing
    assert runtime.allocated() == {}


@pytest.mark.parametrize("moved", [True, False])
def test_an_add_without_a_result_leaves_a_new_workload_behind_only_if_it_was_there(
    runtime: FakeRuntime, moved: bool
) -> None:
    """An ADD that replaces a restarted container's workload and has no result deletes it; another does not."""
    container = runtime.container()
    assert runtime.add(container).status == 0
    if moved:
        container.netns = "/run/netns/after-the-restart"
        runtime.agent.namespaces[container.netns] = {}
    before = {"cniVersion": "0.2.0", "ip4": {"ip": "192.0.2.1/32"}}
    answer = runtime.add(container, cniVersion="0.2.0", prevResult=before)
    assert answer.error["msg"] == ("cniVersion 0.2.0 has room for one IPv4 address, and prevResult has one already")
    assert len(runtime.agent.workloads) == (0 if moved else 1)


def test_status_while_the_agent_has_no_state(runtime: FakeRuntime) -> None:
    runtime.agent.unable = ["no workload can be added to this node: it has no desired state yet."]
    answer = runtime.run("STATUS")
    assert answer.error == {
        "cniVersion": "1.1.0",
        "code": 50,
        "msg": "no container can be attached now",
        "details": "no workload can be added to this node: it has no desired state yet.",
    }


def test_an_error_in_the_code_is_no_traceback(runtime: FakeRuntime, caplog: pytest.LogCaptureFixture) -> None:
    runtime.agent.fail["add"] = KeyError("correct horse battery staple")
    answer = runtime.add(runtime.container())
    assert answer.error == {
        "cniVersion": "1.1.0",
        "code": 999,
        "msg": "the agent failed (KeyError): this is an error in its code",
        "details": "`journalctl -u calico-agent` says where.",
    }
    assert "CNI 'ADD' failed: KeyError at" in caplog.text
    assert "staple" not in caplog.text


@pytest.mark.parametrize(
    ("pod", "id", "name"),
    [
        ("web", "0123456789abcdef" * 4, "web.0123456789ab.eth0"),
        ("-my_web.", "0123456789abcdef" * 4, "my_web.0123456789ab.eth0"),
        ("", "0123456789abcdef" * 4, "0123456789abcdef" * 4 + ".eth0"),
        ("web", "not-random", "not-random.eth0"),
    ],
)
def test_names_of_workloads(runtime: FakeRuntime, pod: str, id: str, name: str) -> None:
    container = runtime.container()
    container.id = id
    runtime.add(container, args=f"IgnoreUnknown=1;K8S_POD_NAME={pod};K8S_POD_NAMESPACE=prod")
    (request,) = runtime.agent.asked
    assert (request.namespace, request.name) == ("prod", name)


def test_a_configuration_of_calico_is_taken(runtime: FakeRuntime) -> None:
    """`mtu` and the IPv4 pools of Calico's own configuration are used; its fields for Kubernetes have no effect."""
    calicos = {
        "nodename": "node1",
        "log_level": "info",
        "datastore_type": "etcdv3",
        "etcd_endpoints": "https://10.10.1.5:2379",
        "mtu": 1440,
        "ipam": {"type": "calico-ipam", "assign_ipv4": "true", "ipv4_pools": ["10.244.0.0/16"]},
        "policy": {"type": "k8s"},
        "container_settings": {"allow_ip_forwarding": False},
        "kubernetes": {"kubeconfig": "/etc/cni/net.d/calico-kubeconfig"},
    }
    runtime.add(runtime.container(), **calicos)
    (request,) = runtime.agent.asked
    assert (request.mtu, request.pools) == (1440, ("10.244.0.0/16",))


def test_long_values_are_cut_short(runtime: FakeRuntime) -> None:
    error = runtime.add(runtime.container(), network="n" * 100_000).error
    assert error["msg"] == f"name '{'n' * 77}...' is not the name of a network"


# --- requests with any fields and variables

_TEXT = st.text(max_size=20)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=8,
)
_FIELDS = (
    *("mtu", "ipam", "dns", "labels", "args", "runtimeConfig", "prevResult", "device_type"),
    "cni.dev/valid-attachments",
)
_CONFIGURATION = st.fixed_dictionaries(
    {"cniVersion": st.sampled_from(["0.2.0", "0.4.0", "1.1.0"]) | _JSON, "name": st.just("pods") | _JSON},
    optional={
        **dict.fromkeys(_FIELDS, _JSON),
        "ipam": _JSON | st.fixed_dictionaries({}, optional={"type": _JSON, "ipv4_pools": _JSON, "assign_ipv6": _JSON}),
        "runtimeConfig": _JSON
        | st.fixed_dictionaries({}, optional={"ips": _JSON, "mac": _JSON, "dns": _JSON, "labels": _JSON}),
        "args": st.fixed_dictionaries(
            {"cni": _JSON | st.fixed_dictionaries({}, optional={"ips": _JSON, "labels": _JSON})}
        ),
        "prevResult": st.fixed_dictionaries({}, optional=dict.fromkeys(("interfaces", "ips", "routes", "dns"), _JSON)),
    },
)
_VARIABLES = st.fixed_dictionaries(
    {"CNI_COMMAND": st.sampled_from(["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"]) | _TEXT},
    optional={
        "CNI_CONTAINERID": st.just("c1") | _TEXT,
        "CNI_IFNAME": st.just("eth0") | _TEXT,
        "CNI_NETNS": st.just("/run/netns/netns-1") | _TEXT,
        "CNI_ARGS": _TEXT | st.lists(_TEXT, max_size=3).map(lambda parts: ";".join(f"{part}=x" for part in parts)),
    },
)


@settings(max_examples=80, deadline=None)
@given(_VARIABLES, _CONFIGURATION.map(lambda document: json.dumps(document).encode()) | st.binary(max_size=60))
def test_any_input_is_answered_as_the_specification_says(variables: dict[str, str], stdin: bytes) -> None:
    runtime = FakeRuntime()
    runtime.container()
    answer = runtime.execute(variables, stdin)
    if answer.status:
        assert answer.code != 999, answer.told
        assert answer.error["cniVersion"] in ("0.2.0", "0.4.0", "1.1.0")
    elif answer.output:
        assert isinstance(answer.result, dict)
    else:
        assert variables["CNI_COMMAND"] in ("DEL", "CHECK", "GC", "STATUS")


def _json(value: t.Any) -> bytes:
    return json.dumps(value).encode()


def test_long_numbers_cost_nothing(runtime: FakeRuntime) -> None:
    stdin = _json(runtime.configuration())[:-1] + b', "mtu": ' + b"9" * 1_000_000 + b"}"
    assert runtime.run("ADD", runtime.container(), stdin=stdin).status in (0, 1)
