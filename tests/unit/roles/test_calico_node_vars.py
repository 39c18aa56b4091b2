# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and units that the role's variables define for the node module."""

from __future__ import annotations

import configparser
import json

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.baremetal.host_routing.plugins.lookup import podman_files
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import hardening
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import tunnel
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import registry
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight import judge
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.settings import AgentSettings

from tests.conftest import ROOT

ROLE = ROOT / "roles" / "calico_node"
PORTMAP = {"type": "portmap", "snat": True, "capabilities": {"portMappings": True}}


def made(name, **variables):
    loader = DataLoader()
    role = {
        **loader.load_from_file(str(ROLE / "defaults" / "main.yml"), trusted_as_template=True),
        **loader.load_from_file(str(ROLE / "vars" / "main.yml"), trusted_as_template=True),
        "groups": {"calico_nodes": ["node1"], "calico_rr": ["rr1"]},
        "inventory_hostname": "node1",
        "ansible_run_tags": ["all"],
        **variables,
    }
    # Ansible finds no lookup of a collection that Python has imported already: it is called here.
    query = "query('baremetal.host_routing.podman_files', calico_node_podman_networks)"
    assert query in role["calico_node_podman_files"]
    role["calico_node_podman_files"] = trust_as_template(role["calico_node_podman_files"].replace(query, "written"))
    role["written"] = podman_files.LookupModule().run(role["calico_node_podman_networks"])
    return Templar(loader, variables=role).template(role[name])


def files(**variables):
    return {entry["path"]: entry for entry in made("calico_node_files", **variables)}


def agent_unit(**variables):
    (unit,) = [unit for unit in made("calico_node_units", **variables) if unit["name"] == "calico-agent.service"]
    return unit["enabled"], unit["started"]


def test_every_file_of_the_role_is_there_and_says_no_more_than_the_module_takes():
    known = set(registry.spec("node").argument_spec["files"]["options"])
    for entry in files(calico_node_agent=True, calico_node_cni=True).values():
        assert set(entry) <= known
        assert ("src" in entry) != ("content" in entry)
        assert "src" not in entry or (ROLE / "files" / entry["src"]).is_file()


def test_the_sysctl_file_hardens_all_our_devices():
    found = files()["/etc/sysctl.d/zz-calico.conf"]["content"].splitlines()
    settings = dict(line.split(" = ") for line in found if line and not line.startswith("#"))
    devices = ("cali*", *tunnel.NAMES)
    assert settings == {
        "-net/ipv4/conf/cali*/rp_filter": "1",
        **{
            f"-{hardening.key(setting, device)}": "0"
            for device in devices
            for setting in hardening.SETTINGS
            if (device, setting) != ("cali*", "ipv4/route_localnet")  # published ports need it
        },
    }
    routing = files(calico_workload_source_spoofing=True)["/etc/sysctl.d/zz-calico.conf"]["content"]
    assert "-net/ipv4/conf/cali*/rp_filter = 0" in routing.splitlines()


def test_settings_are_those_that_the_agent_knows():
    found = json.loads(files(calico_node_agent_metrics_port="9191")["/etc/calico/agent.json"]["content"])
    assert AgentSettings.from_dict(found) == AgentSettings(metrics_port=9191)
    found = json.loads(files(calico_node_agent_log_level="debug")["/etc/calico/agent.json"]["content"])
    assert AgentSettings.from_dict(found) == AgentSettings(log_level="debug")
    found = json.loads(files(calico_node_sticky_seconds="0")["/etc/calico/agent.json"]["content"])
    assert AgentSettings.from_dict(found) == AgentSettings(sticky=0)


@pytest.mark.parametrize(
    ("variables", "runs", "cni"),
    [
        ({}, True, True),
        ({"calico_node_agent": True, "calico_node_cni": False}, True, False),
        ({"calico_node_agent": "yes", "calico_node_cni": "yes"}, True, True),
        ({"calico_node_agent": False, "calico_node_cni": True}, False, False),
        ({"calico_node_agent": True, "calico_node_cni": True, "inventory_hostname": "rr1"}, False, False),
    ],
)
def test_variables_decide_on_the_agent_and_the_cni_plugin(variables, runs, cni):
    assert agent_unit(**variables) == (runs, runs)
    found = files(**variables)
    assert ("/opt/cni/bin/calico" in found, "/etc/cni/net.d/10-calico.conflist" in found) == (cni, cni)
    assert "/etc/systemd/system/calico-agent.service" in found  # without its file a unit could not be disabled


@pytest.mark.parametrize(
    ("variables", "listens"),
    [
        ({"calico_node_observed": {"preflight": {"docker": True}}}, True),
        ({"calico_node_observed": {"preflight": {"docker": False}}}, False),
        ({"calico_node_observed": {"preflight": {"docker": True}}, "calico_node_agent": False}, False),
        ({"calico_node_observed": {}}, False),  # a node that an older engine described
        ({}, False),
    ],
)
def test_dockers_driver_listens_where_docker_is(variables, listens):
    (unit,) = [unit for unit in made("calico_node_units", **variables) if unit["name"] == "calico-docker.socket"]
    assert (unit["enabled"], unit["started"]) == (listens, listens)
    # Without its file a unit could not be disabled.
    assert {"/etc/systemd/system/calico-docker.socket", "/etc/systemd/system/calico-docker.service"} <= {*files()}


@pytest.mark.parametrize(
    ("preflight", "labels", "variables", "reads"),
    [
        ({"docker": True}, [], {}, True),
        ({"docker": False, "packages": {"podman": "4.3"}}, [], {}, False),  # its plugin says the names itself
        ({"docker": False, "packages": {"podman": "4.3"}}, ["x.org/"], {}, True),
        ({"docker": False, "packages": {"podman": None}}, ["x.org/"], {}, False),
        ({"docker": False, "packages": {}}, ["x.org/"], {}, False),
        ({}, ["x.org/"], {}, False),
        ({"docker": True}, ["x.org/"], {"calico_node_agent": False}, False),
        ({"docker": True}, ["x.org/"], {"inventory_hostname": "rr1"}, False),
    ],
)
def test_names_and_labels_are_read_where_a_runtime_is(preflight, labels, variables, reads):
    given = {"calico_node_observed": {"preflight": preflight}, "calico_node_runtime_labels": labels, **variables}
    (unit,) = [unit for unit in made("calico_node_units", **given) if unit["name"] == "calico-runtimes.service"]
    assert (unit["enabled"], unit["started"]) == (reads, reads)
    settings = json.loads(files(**given)["/etc/calico/agent.json"]["content"])
    assert AgentSettings.from_dict(settings).runtime_labels == tuple(labels)


def test_the_reporter_has_no_right_but_to_tell_the_agent():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(ROLE / "files" / "systemd" / "calico-runtimes.service")
    service = unit["Service"]
    assert service["CapabilityBoundingSet"] == "" and service["RestrictAddressFamilies"] == "AF_UNIX"
    assert service["InaccessiblePaths"] == "-/run/calico" and service["ProtectSystem"] == "strict"
    assert service["PrivateNetwork"] == service["NoNewPrivileges"] == "yes"
    assert not {"ReadWritePaths", "StateDirectory", "RuntimeDirectory", "AmbientCapabilities"} & set(service)


def test_dockers_driver_is_there_before_docker_and_roots_alone():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(ROLE / "files" / "systemd" / "calico-docker.socket")
    assert unit["Unit"]["Before"] == "docker.service" and unit["Install"]["WantedBy"] == "sockets.target"
    assert unit["Socket"]["SocketMode"] == "0600" and unit["Socket"]["DirectoryMode"] == "0700"
    assert unit["Socket"]["ListenStream"] == "/run/docker/plugins/calico.sock"
    unit.read(ROLE / "files" / "systemd" / "calico-docker.service")
    assert unit["Service"]["CapabilityBoundingSet"] == "" and unit["Service"]["RestrictAddressFamilies"] == "AF_UNIX"


def test_the_network_of_the_plugin_is_the_last_file():
    found = files(calico_node_agent=True, calico_node_cni=True, calico_node_cni_conf_dir="/etc/cni/other")
    *others, (path, network) = found.items()
    assert path == "/etc/cni/other/10-calico.conflist"
    assert network["last"] is True and not any(entry.get("last") for dummy, entry in others)
    assert json.loads(network["content"]) == {
        "cniVersion": "1.0.0",
        "cniVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"],
        "name": "calico",
        "plugins": [{"type": "calico", "capabilities": {"ips": True, "mac": True}}],
    }


def test_with_chained_plugins_a_version_is_asked_for_that_all_know():
    variables = {"calico_node_agent": True, "calico_node_cni": True, "calico_node_cni_chained_plugins": [PORTMAP]}
    content = json.loads(files(**variables)["/etc/cni/net.d/10-calico.conflist"]["content"])
    assert "cniVersions" not in content
    assert content["plugins"][1] == PORTMAP


def with_plugins(plugins):
    return {"calico_node_observed": {"preflight": {"podman": {"plugins": plugins, "networks": {}}}}}


@pytest.mark.parametrize(
    ("variables", "gets"),
    [
        ({}, False),
        (with_plugins(False), False),
        (with_plugins(True), True),
        ({**with_plugins(True), "calico_node_runtimes": ["cni"]}, False),
        ({**with_plugins(True), "calico_node_runtimes": []}, False),
        ({**with_plugins(False), "calico_node_runtimes": ["podman"]}, True),
        ({**with_plugins(True), "calico_node_podman_networks": []}, False),
        ({**with_plugins(True), "calico_node_agent": False}, False),
        ({**with_plugins(True), "inventory_hostname": "rr1"}, False),
    ],
)
def test_variables_decide_on_podman_networks(variables, gets):
    found = files(**variables)
    network = "/etc/containers/networks/calico.json"
    assert ("/usr/local/libexec/netavark/calico" in found, network in found) == (gets, gets)
    runtimes = variables.get("calico_node_runtimes", ["auto"])
    is_node = variables.get("calico_node_agent", True) and "inventory_hostname" not in variables
    assert ("/opt/cni/bin/calico" in found) is bool(is_node and {"auto", "cni"} & set(runtimes))


def test_networks_of_podman_are_written_last_and_removed_first():
    found = files(**with_plugins(True), calico_node_podman_networks=[{"name": "calico"}, {"name": "back", "mtu": 1400}])
    last = [path for path, entry in found.items() if entry.get("last")]
    assert last == [
        "/etc/cni/net.d/10-calico.conflist",
        "/etc/containers/networks/calico.json",
        "/etc/containers/networks/back.json",
    ]
    assert list(found)[-2:] == last[1:]
    stored = json.loads(found["/etc/containers/networks/back.json"]["content"])
    assert stored["options"] == {"mtu": "1400"}


def test_the_agents_unit_lets_it_do_its_work():
    """The sandbox of the agent's unit permits the agent's work, and its runtime directory survives a stop."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(ROLE / "files" / "systemd" / "calico-agent.service")
    service = unit["Service"]
    assert service["Type"] == "notify" and service["Restart"] == "always" and service["KillMode"] == "process"
    assert service["RuntimeDirectoryPreserve"] == "yes" and service["RuntimeDirectory"] == "calico calico-runtimes"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert "ProtectKernelTunables" not in service  # the agent writes /proc/sys/net
    assert "PrivateNetwork" not in service and "MountFlags" not in service
    assert service["RestrictNamespaces"].split() == ["net", "mnt"]
    assert service["ExecStart"].endswith("agent --mounts /proc/1/ns/mnt")
    assert {"CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE"} <= set(
        service["CapabilityBoundingSet"].split()
    )


def test_the_preflight_knows_the_name_of_the_networks_file():
    assert f"/etc/cni/net.d/{judge.CNI_NETWORK}" in files(calico_node_agent=True, calico_node_cni=True)


@pytest.mark.parametrize(
    ("tags", "plans", "installs"),
    [
        (["all"], False, True),
        (["config"], False, False),
        (["preflight"], True, False),
        (["packages"], True, True),
        (["report"], True, False),
        (["packages", "report"], True, True),
        (["packages", "config"], False, True),
        (["others"], False, True),
        (["others", "report"], True, False),
    ],
)
def test_tags_decide_whether_a_run_plans_and_installs(tags, plans, installs):
    """Without the tag config, a run plans. A tag of a play around the role limits nothing."""
    assert made("calico_node_plan_only", ansible_run_tags=tags) is plans
    assert made("calico_node_installs", ansible_run_tags=tags) is installs
    assert made("calico_node_installs", ansible_run_tags=tags, calico_node_install_packages=False) is False
