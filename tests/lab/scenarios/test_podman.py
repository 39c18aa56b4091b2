# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""podman on real hosts: Debian 12's by CNI, Debian 13's by netavark's plugin, with what their users do.

node2 and node4 have Debian 13. All tests share one fleet and leave no container.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.lab import containers
from tests.lab.handle import BaseLab
from tests.pauses import pause

from .conftest import LAB, ROOT, Fleet, new_lab

NODES = ("node1", "node2", "node3", "node4")
NODE = "node2"
IMAGE = "docker.io/library/nginx"
STORED = "/var/lib/calico/cni/deleted"


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-podman", podman=True) as lab:
        yield lab


@pytest.fixture(scope="module")
def fleet(lab: BaseLab) -> Fleet:
    fleet = Fleet(lab)
    fleet.site().check()
    return fleet


@pytest.fixture(autouse=True)
def leaves_nothing(lab: BaseLab, fleet: Fleet) -> Iterator[None]:
    """Remove NODE's containers after a test. Then no workload of theirs is left, and the addresses agree."""
    yield
    if lab.exec(NODE, ["test", "-e", "/usr/local/bin/calicoctl"], check=False).returncode == 0:
        are_clean(lab, NODE)


def are_clean(lab: BaseLab, *nodes: str) -> None:
    for node in nodes:
        # podman itself fails once to remove a container whose conmon was killed.
        lab.exec(node, "podman rm -f -a -t 0 || podman rm -f -a -t 0")
        assert [name for name in containers.workload_addresses(lab, node) if "." in name] == []
        done = lab.exec(node, ["calicoctl", "ipam", "check"], check=False)
        assert done.returncode == 0 and "found 0 problems" in done.stdout, (node, done.stdout, done.stderr)


def podman(lab: BaseLab, *words: str, node: str = NODE) -> str:
    answer: str = lab.exec(node, ["podman", *words]).stdout.strip()
    return answer


def refused(lab: BaseLab, *words: str) -> str:
    """Return the last line of what podman says; AssertionError if it succeeds."""
    done = lab.exec(NODE, ["podman", *words], check=False)
    assert done.returncode != 0, done.stdout
    answer: str = done.stderr.strip().splitlines()[-1]
    return answer


def shown(lab: BaseLab, name: str, network: str = "calico") -> Mapping[str, Any]:
    [found] = lab.json(NODE, ["podman", "inspect", name])
    answer: Mapping[str, Any] = found["NetworkSettings"]["Networks"][network]
    return answer


def workload(lab: BaseLab, name: str, interface: str = "eth0") -> Mapping[str, Any]:
    """Return the workload of a container, as calicoctl lists it; ValueError unless there is exactly one."""
    listed = json.loads(lab.exec(NODE, ["calicoctl", "workload", "list", "-o", "json"]).stdout)["workloads"]
    [found] = [
        entry for entry in listed if entry["name"].startswith(f"{name}.") and entry["peer_interface"] == interface
    ]
    answer: Mapping[str, Any] = found
    return answer


def wait(what: str, condition: Callable[[], bool], seconds: float = 90) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, f"{what}: not within {seconds:g} s"
        pause(began, least=0.1)


def test_containers_of_both_debians_reach_each_other(lab: BaseLab) -> None:
    boxes = [containers.run(lab, node, f"box-{node}") for node in NODES]
    assert not any(box.own_netns for box in boxes)
    for one, other in itertools.permutations(boxes, 2):
        assert containers.ping(lab, one, other.address), (one, other)
    are_clean(lab, *NODES)


def test_inspect_shows_what_the_container_has(lab: BaseLab) -> None:
    box = containers.run(lab, NODE, "w1", network="calico:app=web,tier=front,pool=default-ipv4-ippool")
    found, attached = shown(lab, "w1"), workload(lab, "w1")
    [link] = lab.json(NODE, ["ip", "-n", box.netns, "-j", "link", "show", "dev", "eth0"])
    assert (found["IPAddress"], found["IPPrefixLen"], found["Gateway"]) == (box.address, 32, "169.254.1.1")
    assert found["MacAddress"] == link["address"] and link["mtu"] == 1450
    assert (attached["addresses"], attached["labels"]) == ([box.address], {"app": "web", "tier": "front"})
    assert box.address in podman(lab, "exec", "w1", "/bin/cat", "/etc/hosts")


def test_a_container_gets_its_requested_address_mac_and_interface(lab: BaseLab) -> None:
    """--ip, --mac-address and interface_name are met, and hold when the network is reloaded."""
    free = containers.run(lab, NODE, "other")
    asked = str(free.address).rpartition(".")[0] + "." + str(int(free.address.rpartition(".")[2]) + 7)
    options = ("--ip", asked, "--mac-address", "02:00:00:00:00:77")
    podman(lab, "run", "-d", "--name", "w1", "--network", "calico:interface_name=net0", *options, *containers.REST)
    for again in (False, True):
        if again:
            podman(lab, "network", "reload", "w1")
        box = containers.inspect(lab, NODE, "w1", "net0")
        assert (box.address, shown(lab, "w1")["MacAddress"]) == (asked, "02:00:00:00:00:77")
        assert containers.ping(lab, box, free.address)
    assert refused(lab, "run", "-d", "--network", "calico", "--ip", asked, *containers.REST) == (
        f'Error: netavark: plugin "calico" failed: exit code 1, message: {taken(asked, workload(lab, "w1", "net0"))}'
    )


def taken(address: str, holder: Mapping[str, Any]) -> str:
    return f"{address} belongs to {holder['id']}. Ask for another address, or for none to get a free one."


@pytest.mark.parametrize("node", ["node1", NODE])
def test_a_container_keeps_its_address_when_it_restarts(lab: BaseLab, node: str) -> None:
    """So does one that takes its place under its name; another one has another address meanwhile."""
    before = containers.run(lab, node, "w1")
    podman(lab, "restart", "-t", "0", "w1", node=node)
    assert containers.inspect(lab, node, "w1").address == before.address
    podman(lab, "stop", "-t", "0", "w1", node=node)
    other = containers.run(lab, node, "other")
    podman(lab, "start", "w1", node=node)
    assert containers.inspect(lab, node, "w1").address == before.address != other.address
    podman(lab, "rm", "-f", "-t", "0", "w1", node=node)
    box = containers.run(lab, node, "w1")
    assert box.address == before.address and containers.ping(lab, box, other.address)
    are_clean(lab, node)


def test_stop_start_restart_reload(lab: BaseLab) -> None:
    before = containers.run(lab, NODE, "w1")
    podman(lab, "network", "reload", "w1")
    assert containers.inspect(lab, NODE, "w1").address == before.address
    podman(lab, "stop", "-t", "0", "w1")
    assert not [name for name in containers.workload_addresses(lab, NODE) if name.startswith("w1.")]
    podman(lab, "start", "w1")
    podman(lab, "restart", "-t", "0", "w1")
    box = containers.inspect(lab, NODE, "w1")
    assert workload(lab, "w1")["addresses"] == [box.address] == [shown(lab, "w1")["IPAddress"]]
    podman(lab, "system", "renumber")
    podman(lab, "run", "-d", "--rm", "--name", "short", "--network", "calico", *containers.REST[:-1], "0.2")
    wait("the container has ended", lambda: not any("short." in n for n in containers.workload_addresses(lab, NODE)))
    assert containers.ping(lab, box, "10.10.1.11")


def test_a_network_beside_a_bridge_of_debian_12(lab: BaseLab) -> None:
    """The bridge's default route is used, as the page says, and the container's address is reached by other hosts."""
    names = ("--network", "podman:interface_name=eth0", "--network", "calico:interface_name=eth1")
    podman(lab, "run", "-d", "--name", "w1", *names, *containers.REST, node="node1")
    box = containers.inspect(lab, "node1", "w1", "eth1")
    routes = lab.json("node1", ["ip", "-n", box.netns, "-j", "route", "show", "default"])
    assert [(route["dev"], route.get("metric", 0)) for route in routes] == [("eth0", 0), ("eth1", 101)]
    assert containers.ping(lab, box, "10.10.2.11")
    lab.exec("node3", ["ping", "-c", "2", "-W", "5", box.address])
    are_clean(lab, "node1")


def test_two_networks_of_one_container(lab: BaseLab) -> None:
    """A second network leaves the default route alone; connecting and disconnecting it, too. Its options hold."""
    options = ("-o", "mtu=1400", "-o", "label.tier=back", "-o", "dns_search=example.org", "--dns", "10.0.0.53")
    podman(lab, "network", "create", "-d", "calico", *options, "back")
    # podman gives eth0 and eth1 in no fixed order to networks without interface_name.
    second_network = ("--network", "back:interface_name=eth1,app=x")
    box = containers.run(lab, NODE, "w1", *second_network, network="calico:interface_name=eth0")
    other = containers.run(lab, "node1", "there")
    for again in (False, True):
        if again:
            podman(lab, "network", "disconnect", "back", "w1")
            assert containers.ping(lab, box, other.address)
            podman(lab, "network", "connect", "back", "w1")
        routes = podman(lab, "exec", "w1", "/bin/ip", "route").splitlines()
        assert [line.split() for line in routes if line.startswith("default")] == [
            "default via 169.254.1.1 dev eth0".split(),
            "default via 169.254.1.1 dev eth1 metric 101".split(),
        ]
        second = workload(lab, "w1", "eth1")
        assert second["labels"] == ({"tier": "back"} if again else {"tier": "back", "app": "x"})
        assert (second["mtu"], second["network"]) == (1400, "back")
        for address in (box.address, second["addresses"][0]):
            assert containers.ping(lab, other, address)
        # The file is written when the container starts.
        assert podman(lab, "exec", "w1", "/bin/cat", "/etc/resolv.conf").splitlines()[:2] == [
            "search example.org",
            "nameserver 10.0.0.53",
        ]
    containers.remove(lab, box)
    containers.remove(lab, other)
    podman(lab, "network", "rm", "back")


@pytest.mark.parametrize("also_the_container", [False, True])
def test_conmon_is_killed(lab: BaseLab, also_the_container: bool) -> None:
    """A container whose conmon was killed is removed without a trace, and another one of its name starts."""
    before = containers.run(lab, NODE, "w1")
    [found] = lab.json(NODE, ["podman", "inspect", "w1"])
    pids = [found["State"]["ConmonPid"], *([found["State"]["Pid"]] if also_the_container else [])]
    lab.exec(NODE, ["kill", "-9", *map(str, pids)])
    lab.exec(NODE, "podman rm -f -t 0 w1 || podman rm -f -t 0 w1")
    box = containers.run(lab, NODE, "w1")
    assert containers.ping(lab, box, "10.10.1.11")
    assert box.address == before.address  # it is kept for a container of that name


@pytest.mark.parametrize("command", ["network prune -f", "system prune -f"])
@pytest.mark.parametrize("node", ["node1", NODE])
def test_networks_that_podman_prunes_come_back(lab: BaseLab, node: str, command: str) -> None:
    """Debian 12's podman deletes the network of CNI, and Debian 13's its own; the node restores either."""
    assert "calico" in podman(lab, *command.split(), node=node)
    wait("the network is there", lambda: not lab.exec(node, "podman network exists calico", check=False).returncode)
    box = containers.run(lab, node, "w1")
    assert containers.ping(lab, box, "10.10.1.11" if node == NODE else "10.10.1.12")
    are_clean(lab, node)


@pytest.mark.soak  # the timer runs once a minute
def test_files_are_restored_where_no_folder_can_be_watched(lab: BaseLab, fleet: Fleet) -> None:
    """Where the unit that watches cannot start, a run succeeds and warns, and the timer restores what is missing.

    On a host without free inotify instances it cannot. All hosts of the lab share root's instances, so another failure
    stands for that one here.
    """
    files = ["/etc/cni/net.d/10-calico.conflist", "/opt/cni/bin/calico", "/etc/sysctl.d/zz-calico.conf"]
    sentence = "calico-files.path does not run, so that calico-files.timer restores missing files, within a minute."
    before = lab.exec("node1", ["sha256sum", *files]).stdout
    drop_in = "/etc/systemd/system/calico-files.path.d"
    lab.exec("node1", f"mkdir {drop_in}; printf '[Path]\\nPathChanged=\\n' > {drop_in}/x.conf")
    lab.exec("node1", "systemctl daemon-reload; systemctl stop calico-files.path calico-files.timer")
    run = fleet.site().check()
    assert sentence in " ".join(run.output.split()), run.output
    lab.exec("node1", ["rm", *files])
    status = " ".join(fleet.play("status.yml").output.split())
    assert sentence in status
    assert f"{files[0]} (missing)" in status or not lab.exec("node1", ["ls", files[0]], check=False).returncode
    wait("they are restored", lambda: lab.exec("node1", ["sha256sum", *files], check=False).stdout == before, 150)
    lab.exec("node1", f"rm -r {drop_in}; systemctl daemon-reload; systemctl start calico-files.service")
    active = ["systemctl", "is-active", "calico-files.path"]
    wait("folders are watched", lambda: not lab.exec("node1", active, check=False).returncode, 150)


def test_the_agent_is_down(lab: BaseLab) -> None:
    """No container starts, in words; one that is removed is completed by the agent's start."""
    gone, kept = (containers.run(lab, NODE, name) for name in ("gone", "kept"))
    lab.exec(NODE, ["systemctl", "stop", "calico-agent"])
    assert refused(lab, "run", "-d", "--name", "w2", "--network", "calico", *containers.REST) == (
        'Error: netavark: plugin "calico" failed: exit code 1, message: calico-agent does not answer on '
        "/run/calico/agent.sock. Start it with systemctl start calico-agent; journalctl -u calico-agent says why it "
        "stopped. Then try again."
    )
    containers.remove(lab, gone)
    assert len(lab.exec(NODE, ["ls", STORED]).stdout.split()) == 1
    assert containers.ping(lab, kept, "10.10.1.11")
    lab.exec(NODE, ["systemctl", "start", "calico-agent"])
    assert lab.exec(NODE, ["ls", STORED]).stdout == ""
    assert gone.address not in containers.workload_addresses(lab, NODE).values()
    assert containers.ping(lab, kept, "10.10.1.11")


def test_networks_that_cannot_be_are_refused_in_words(lab: BaseLab) -> None:
    assert refused(lab, "network", "create", "-d", "calico", "-o", "mut=1400", "bad") == (
        "Error: plugin /usr/local/libexec/netavark/calico failed: netavark: the network has no option 'mut'. A network "
        "has the options dns, dns_search, mtu or pool. A label of all its containers is label.KEY=VALUE."
    )
    assert "create the network without --subnet, --gateway and --ip-range." in refused(
        lab, "network", "create", "-d", "calico", "--subnet", "10.9.0.0/16", "bad"
    )


def test_a_rootless_user_is_refused_with_a_remedy(lab: BaseLab) -> None:
    """A user's namespaces have root inside, and the plugin says what to do."""
    plugin = "/usr/local/libexec/netavark/calico setup /x"
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "-Ur", "sh", "-c"]
    done = lab.exec(NODE, [*user, f"echo '{{}}' | {plugin}"], check=False)
    assert (done.returncode, json.loads(done.stdout)) == (
        1,
        {
            "error": "calico-agent cannot be reached from this user namespace: a container of a user other than "
            "root has no "
            "interface on the host. Start it as root: sudo podman run ..."
        },
    )


def test_a_container_costs_less_than_on_a_bridge(lab: BaseLab, record_property: Callable[[str, object], None]) -> None:
    """Netavark's setup and teardown by the plugin take at most 0.4 of the time that its bridge driver takes."""
    lab.put(NODE, str(ROOT / "tests" / "lab" / "measure" / "netavark_times.py"), "/root/netavark_times.py")
    medians = json.loads(lab.exec(NODE, ["python3", "/root/netavark_times.py", "20"]).stdout)
    record_property("netavark", medians)
    assert medians["calico"] <= 0.4 * medians["bridge"], medians


def test_labels_decide_in_policy(lab: BaseLab, fleet: Fleet) -> None:
    policy = {
        "kind": "GlobalNetworkPolicy",
        "name": "db",
        "selector": "app == 'db'",
        "types": ["Ingress"],
        "ingress": [{"action": "Allow", "source": {"selector": "app == 'web'"}}],
    }
    database = containers.run(lab, NODE, "db", network="calico:app=db")
    web = containers.run(lab, NODE, "web", network="calico:app=web")
    guest = containers.run(lab, NODE, "guest")
    fleet.site("-e", json.dumps({"calico_policies": [policy]})).check()
    assert containers.ping(lab, web, database.address)
    assert not containers.ping(lab, guest, database.address)
    late = containers.run(lab, NODE, "late", network="calico:app=web")
    assert containers.ping(lab, late, database.address)


def blocks_of_the_page(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / "how-to" / "podman.md").read_text(), re.DOTALL)


def test_the_page_prints_what_works(lab: BaseLab) -> None:
    """All commands of docs/how-to/podman.md run in their order, with a root folder in place of an image."""
    commands, [unit] = blocks_of_the_page("sh"), blocks_of_the_page("ini")
    assert len(commands) >= 5
    folder = "/etc/containers/systemd"
    # The lab's hosts have no cgroups for podman.
    extra = "[Container]\nPodmanArgs=--cgroups=disabled\n"
    unit = unit.replace(f"Image={IMAGE}", "Rootfs=/srv/box\nExec=/bin/sleep 100000")
    lab.exec(NODE, f"mkdir -p {folder}/web.container.d; cat > {folder}/web.container << 'END'\n{unit}\nEND")
    lab.exec(NODE, f"printf '{extra}' > {folder}/web.container.d/lab.conf")
    for block in commands:
        lab.exec(NODE, f"set -e\nPATH=$PATH:/srv/box/bin\n{block.replace(IMAGE, ' '.join(containers.REST))}")
    lab.exec(NODE, f"rm -r {folder}; systemctl daemon-reload")
    assert list(containers.workload_addresses(lab, NODE)) == ["web-2"]


def test_a_unit_of_quadlet_has_its_labels(lab: BaseLab) -> None:
    folder = "/etc/containers/systemd"
    lab.exec(
        NODE,
        f"mkdir -p {folder}; printf '[Container]\nContainerName=q\nRootfs=/srv/box\nExec=/bin/sleep 1000\n"
        f"Network=calico:app=web\nPodmanArgs=--cgroups=disabled\n' > {folder}/q.container; systemctl daemon-reload",
    )
    lab.exec(NODE, ["systemctl", "start", "q"])
    assert workload(lab, "q")["labels"] == {"app": "web"}
    lab.exec(NODE, f"systemctl stop q; rm -r {folder}; systemctl daemon-reload")


def test_a_namespace_that_calicoctl_attached(lab: BaseLab) -> None:
    box = containers.run_in_namespace(lab, NODE, "job")
    assert box.own_netns and containers.ping(lab, box, "10.10.2.12")
    containers.remove(lab, box)


def test_a_container_of_before_a_reboot_starts_again(lab: BaseLab) -> None:
    before = containers.run(lab, NODE, "w1", network="calico:app=web")
    lab.reboot(NODE)
    wait("the agent answers", lambda: not lab.exec(NODE, ["calicoctl", "status"], check=False).returncode, 60)
    other = containers.run(lab, NODE, "w2")
    podman(lab, "start", "w1")
    box = containers.inspect(lab, NODE, "w1")
    assert (box.address, workload(lab, "w1")["labels"]) == (before.address, {"app": "web"})
    assert box.address != other.address and containers.ping(lab, box, other.address)


def test_teardown_names_containers_and_leaves_nothing(lab: BaseLab, fleet: Fleet) -> None:
    """While containers run, no node is changed. With force they lose their network, and can be removed at once."""
    are_clean(lab, *NODES)
    boxes = [containers.run(lab, node, "web") for node in ("node1", NODE)]
    podman(lab, "network", "create", "-d", "calico", "own")
    refused = fleet.play("teardown.yml", "-e", "confirm=true")
    said = " ".join(refused.output.split())
    assert (
        refused.code == 2 and "1 container runs in networks of this node, which would go: web (podman, network" in said
    )
    assert "or add -e force=true, which takes their network away. Nothing was changed." in said
    assert {entry["changed"] for entry in refused.recap().values()} == {0}
    assert containers.ping(lab, boxes[0], boxes[1].address)
    fleet.play("teardown.yml", "-e", "confirm=true", "-e", "force=true").check()
    for node in NODES:
        began = time.monotonic()
        lab.exec(node, "podman rm -f -a -t 0")
        assert time.monotonic() - began < 60
        assert podman(lab, "network", "ls", "--format", "{{.Name}}", node=node).split() == ["podman"]
        assert lab.exec(node, LEFT).stdout.split() == []
    fleet.play("teardown.yml", "-e", "confirm=true").unchanged()


#: Lists what a teardown should have removed, one path per line. Debian's BIRD stays masked, and the group stays.
LEFT = """find / -xdev \\( -path /proc -o -path /sys -o -path /root -o -path /var/log -o -path /tmp \\) -prune \\
    -o -iname '*calico*' -print | grep -v '^/var/lib/containers/'
ls -d /opt/cni /etc/systemd/networkd.conf.d /usr/local/libexec/netavark 2> /dev/null; true
"""
