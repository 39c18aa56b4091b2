# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with podman on its CNI backend and the agent, in network, mount and pid namespaces that end with its process.

Without systemd as PID 1, podman 4.3 needs several things: no hierarchy of cgroup version 2 beside version 1, limits
that root may set here, storage without overlays, and a /run and a /var/lib/cni for each node.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Block,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    Sysctl,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import AgentClient, NotRunning

from tests.integration.agent.cni.shim import Shim

PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
BANDWIDTH = {"type": "bandwidth", "ingressRate": 8_000_000, "ingressBurst": 8_000_000}
PATIENCE = 60.0

_CONTAINERS = """[containers]
cgroups = "disabled"
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
log_driver = "k8s-file"
keyring = false
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
tmp_dir = "{folder}/podman"
[network]
network_backend = "cni"
network_config_dir = "{folder}/net.d"
cni_plugin_dirs = ["{folder}/bin", "/usr/lib/cni"]
"""
_STORAGE = """[storage]
driver = "vfs"
graphroot = "{folder}/graph"
runroot = "{folder}/runroot"
"""
#: The script that a node's first process runs: it mounts the node's folders, and then becomes _INIT.
_BEGIN = """
mount -t tmpfs calico-test /run
mkdir -p /run/netns /run/lock /var/lib/cni
mount -t tmpfs calico-test /var/lib/cni
mkdir -p /etc/containers
mount --bind "$3" /etc/containers
umount /sys/fs/cgroup/unified 2> /dev/null
touch "$1"
exec /usr/bin/python3 -I -c "$2"
"""
#: Process 1 of the node, which reaps orphans: podman waits until conmon, which has no other parent then, is reaped.
_INIT = """
import os, signal
signal.signal(signal.SIGCHLD, lambda *_: None)
while True:
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        signal.pause()
"""


def container_root(folder: pathlib.Path) -> pathlib.Path:
    """Create the root folder `folder`/root for containers, with busybox and a page for httpd, and return its path.

    Raise FileNotFoundError if the machine has no /bin/busybox, and FileExistsError if one of its folders exists.
    """
    root = folder / "root"
    for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin")
    for name in ("sh", "sleep", "ping", "ip", "cat", "nc", "wget", "httpd"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "tmp" / "page").write_text("the page\n")
    return root


class PodmanNode:
    """A node with podman, the address 10.10.1.<index> and the block 10.244.<index>.0/26.

    A new one is booted, without a running agent and without a cable (see `joined`, which also gives it the address).
    AssertionError is raised if that takes more than 60 seconds. `folder` holds its files. `engine` is the path that
    `install_engine` returns, `root` that of `container_root`.
    """

    def __init__(self, folder: pathlib.Path, engine: pathlib.Path, root: pathlib.Path, index: int) -> None:
        self.index = index
        self.folder = folder
        self.address = f"10.10.1.{index}"
        self.block = f"10.244.{index}.0/26"
        self._engine = engine
        self.root = root
        self._agent: t.Optional[subprocess.Popen[bytes]] = None
        for name in ("etc", "net.d", "bin", "run", "podman"):
            (folder / name).mkdir(parents=True)
        (folder / "etc" / "containers.conf").write_text(_CONTAINERS.format(folder=folder))
        (folder / "etc" / "storage.conf").write_text(_STORAGE.format(folder=folder))
        self.shim = Shim(folder / "bin", str(folder / "run" / "agent.sock"))
        self.network("pods")
        self._boot()

    def _boot(self) -> None:
        (self.folder / "ready").unlink(missing_ok=True)
        self._holder = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--propagation", "private"),
                *("--pid", "--mount-proc", "--fork", "--kill-child", "--"),
                *("sh", "-c", _BEGIN, "init", str(self.folder / "ready"), _INIT, str(self.folder / "etc")),
            ],
            stderr=subprocess.DEVNULL,  # unshare reports there that its child was killed
        )
        self.until((self.folder / "ready").exists, "the node's namespaces")
        children = pathlib.Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        self.pid = int(children.read_text())

    def power_cut(self) -> None:
        """Cut the node's power and switch it on again.

        Only files that a node has on its disk are left. The node has no cable then, and no agent runs. Raise
        AssertionError if it is not up again within 60 seconds. Raise subprocess.TimeoutExpired if its processes run on
        for 60 seconds.
        """
        self.close()
        for name in ("run", "runroot", "podman"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for name in ("run", "podman"):
            (self.folder / name).mkdir()
        self._boot()

    @staticmethod
    def until(holds: t.Callable[[], t.Any], what: str) -> t.Any:
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = holds()
            if answer:
                return answer
            assert time.monotonic() < deadline, f"not within {PATIENCE:g} seconds: {what}"
            time.sleep(0.02)

    # ---- networks and desired state

    def network(self, name: str, *chained: dict[str, t.Any], before: t.Sequence[dict[str, t.Any]] = ()) -> None:
        plugins = [*before, {"type": "calico", "capabilities": {"ips": True, "mac": True}}, *chained]
        conflist = {"cniVersion": "1.0.0", "name": name, "plugins": plugins}
        (self.folder / "net.d" / f"{name}.conflist").write_text(json.dumps(conflist))

    def desire(self, others: t.Sequence[PodmanNode]) -> None:
        """Store the node's state, with static routes to the others' blocks as in a fleet without BGP.

        An agent reads it when it starts. Raise atomic_file.FileError if it cannot be written.
        """
        state = NodeState(
            node=f"node{self.index}",
            address=f"{self.address}/24",
            pools=(Pool("default-pool", "10.244.0.0/16", 26, "None", workload_mtu=1450),),
            ipam=NodeIpam(1, (Block(self.block, "default-pool"),)),
            routes=(
                Route(self.block, "blackhole"),
                *(Route(other.block, device="eth0", gateway=other.address) for other in others),
            ),
            sysctls=(Sysctl("net/ipv4/ip_forward", "1"),),
        )
        Store(str(self.folder / "lib")).save(Stored(state, complete=True))

    # ---- the agent

    def start(self) -> None:
        names = ("store", "ipam", "workloads", "agent_socket", "writer_lock", "lock", "marker_folder", "bird_socket")
        places = (
            "lib",
            "lib/ipam",
            "run/workloads",
            "run/agent.sock",
            "run/writer.lock",
            "run/lock",
            "run/ns",
            "run/bird",
        )
        given = {name: str(self.folder / place) for name, place in zip(names, places)}
        given["engine"], given["cni_deleted"] = str(self._engine.parent), str(self.shim.deleted)
        (self.folder / "paths.json").write_text(json.dumps(given))
        (self.folder / "agent.json").write_text(json.dumps({"metrics_port": 0, "cooldown": 0}))
        command = [sys.executable, "-I", str(self._engine), "agent"]
        command += ["--paths", str(self.folder / "paths.json"), "--settings", str(self.folder / "agent.json")]
        # The agent's pid in the node's pid namespace, which differs from nsenter's pid.
        command = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(self.folder / "run" / "pid"), *command]
        with (self.folder / "agent.log").open("ab") as log:
            self._agent = subprocess.Popen(self.inside(*command), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.until(self._answers, "the agent answers")

    def _answers(self) -> bool:
        assert self._agent is not None
        assert self._agent.poll() is None, (self.folder / "agent.log").read_text()
        try:
            self.call("version")
        except NotRunning:
            return False
        return True

    def kill_agent(self) -> None:
        """Kill the agent with SIGKILL, and wait for its end; raise AssertionError if it does not run.

        After a power cut, raise FileNotFoundError if it was not started again. Raise subprocess.TimeoutExpired if it
        has not ended after 60 seconds.
        """
        assert self._agent is not None
        self.run("kill", "-9", (self.folder / "run" / "pid").read_text().strip())
        self._agent.wait(PATIENCE)

    def call(self, method: str, **params: t.Any) -> dict[str, t.Any]:
        with AgentClient(str(self.folder / "run" / "agent.sock"), PATIENCE) as client:
            return client.call(method, **params)

    @property
    def workloads(self) -> list[dict[str, t.Any]]:
        return t.cast("list[dict[str, t.Any]]", self.call("workload.list")["workloads"])

    @property
    def allocated(self) -> set[str]:
        return {allocation["address"] for allocation in self.call("ipam.show")["allocations"]}

    # ---- the host

    def inside(self, *command: str) -> list[str]:
        return ["nsenter", f"--target={self.pid}", "--net", "--mount", "--pid", "--", *command]

    def run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            self.inside(*command),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout if check else done.stdout + done.stderr

    def podman(self, *arguments: str, check: bool = True) -> str:
        return self.run("podman", *arguments, check=check).strip()

    def start_container(self, name: str, *options: str, network: str = "pods") -> str:
        """Start a container that sleeps for 1,000 seconds; return its IPv4 address. Raise AssertionError on failure.

        `options` are further ones of `podman run`, and the address is that in `network`. Raise
        subprocess.TimeoutExpired if one command of podman takes more than 60 seconds.
        """
        command = ("run", "-d", "--name", name, "--cap-add", "NET_RAW", "--network", network, *options)
        self.podman(*command, "--rootfs", f"{self.root}:O", "/bin/sleep", "1000")
        return self.address_of(name, network)

    def address_of(self, name: str, network: str = "pods") -> str:
        found = json.loads(self.podman("inspect", name))[0]["NetworkSettings"]["Networks"][network]
        return t.cast(str, found["IPAddress"])

    def reaches(self, name: str, address: str) -> bool:
        return "1 packets received" in self.podman(
            "exec", name, "/bin/ping", "-c", "1", "-W", "3", address, check=False
        )

    @property
    def links(self) -> set[str]:
        return {
            link["ifname"] for link in json.loads(self.run("ip", "-json", "link")) if link["ifname"].startswith("cali")
        }

    def close(self) -> None:
        """Kill the node's process 1, and with it all its processes and namespaces; wait for their end.

        An agent that was started has ended then, too. Raise subprocess.TimeoutExpired if either wait takes 60 seconds.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._holder.wait(PATIENCE)
        if self._agent is not None:
            self._agent.wait(PATIENCE)


def joined(one: PodmanNode, other: PodmanNode) -> None:
    """Connect two nodes by a cable; each is the other's default gateway.

    A cable to a node that was killed is removed: the kernel does that some time after the node's end. Raise
    subprocess.CalledProcessError or AssertionError if a command fails.
    """
    for node in (one, other):
        node.run("ip", "link", "delete", "eth0", check=False)
    # nsenter without --pid, so that `ip` finds the other node's process by its pid
    add = ("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(other.pid))
    subprocess.run(["nsenter", f"--net=/proc/{one.pid}/ns/net", *add], check=True)
    for node, gateway in ((one, other), (other, one)):
        node.run("ip", "link", "set", "lo", "up")
        node.run("ip", "address", "add", f"{node.address}/24", "dev", "eth0")
        node.run("ip", "link", "set", "eth0", "up")
        node.run("ip", "route", "add", "default", "via", gateway.address)
