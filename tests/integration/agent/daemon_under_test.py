# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent as nodes run it: the engine from its bundle, in a process of its own, on this machine's kernel.

It has the variables that its unit sets, besides the tests' own.

def test_something(daemon):           # fixture of conftest.py: running, in a namespace that stands for a host
    daemon.add("web")
    daemon.kill()
    daemon.start()
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads.failpoints import VARIABLE
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import KernelRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import bundle
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import LocalIpam
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import AgentClient, NotRunning

from tests.conftest import ROOT
from tests.fakes.forged_engine import whole_engine
from tests.integration.host_under_test import HOST, HostKernel, host_under_test
from tests.pauses import pause
from tests.unit.agent import agent_unit
from tests.unit.agent.node_under_test import STATE
from tests.unit.dataplane.suites.drivers import underlay

#: Runs a program with time.time() ahead by the seconds in the file argv[1], which may change; argv[2:] is its own argv.
_OTHER_CLOCK = """
import runpy, sys, time
true, file = time.time, sys.argv[1]
def ahead():
    with open(file) as stream:
        return true() + float(stream.read())
time.time = ahead
del sys.argv[:2]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_PATIENCE = 120.0  # seconds of a wait for the agent; most take less than one unless the machine is busy


def install_engine(folder: pathlib.Path) -> pathlib.Path:
    """Install the engine below `folder`; return the path of its link `current`, which `python3 -I PATH agent` runs.

    Do nothing if it is there undamaged. Raise what `bundle.install` raises.
    """
    source = str(ROOT / "plugins" / "module_utils")
    bundle.install(whole_engine(), bundle.bundle_digest(source), str(folder))
    return folder / "current"


class Daemon:
    """The agent of a host; `folder` holds the host's files, and `kernel` is this process's access to its kernel.

    `datastore` is the path of its settings of the datastore, which `follow` writes. Programs in `programs`, a folder
    that is missing at first, replace the machine's.
    """

    def __init__(self, engine: pathlib.Path, folder: pathlib.Path, kernel: HostKernel) -> None:
        self.folder = folder
        self.kernel = kernel
        self.store = Store(str(folder / "lib"))
        self.socket = str(folder / "run" / "agent.sock")
        self.log = folder / "agent.log"
        self.process: t.Optional[subprocess.Popen[bytes]] = None
        self._engine = engine
        self.datastore = folder / "datastore.json"
        self.programs = folder / "programs"
        self._clock = folder / "clock"
        self._paths = folder / "paths.json"
        self._paths.write_text(
            json.dumps(
                {
                    "netns_folder": str(folder / "netns"),
                    "marker_folder": str(folder / "markers"),
                    "store": str(folder / "lib"),
                    "ipam": str(folder / "lib" / "ipam"),
                    "cni_deleted": str(folder / "lib" / "cni" / "deleted"),
                    "workloads": str(folder / "run" / "workloads"),
                    "agent_socket": self.socket,
                    "writer_lock": str(folder / "run" / "writer.lock"),
                    "lock": str(folder / "run" / "node.lock"),
                    "datastore": str(self.datastore),
                    "engine": str(engine.parent),
                    "bird_socket": str(folder / "run" / "bird.ctl"),
                    "lock_timeout": 0.2,
                }
            )
        )
        self.settings(cooldown=0.0)

    # ---- settings and desired state

    def settings(self, **settings: t.Any) -> None:
        """Replace the settings for the next start; metrics are off unless `metrics_port` is given.

        Those of earlier calls, and the constructor's `cooldown` of 0, do not stay.
        """
        (self.folder / "agent.json").write_text(json.dumps({"metrics_port": 0, **settings}))

    def follow(self, settings: DatastoreSettings) -> None:
        """Write the settings of the datastore; a running agent takes them within seconds."""
        new = self.datastore.with_suffix(".new")
        new.write_text(json.dumps(settings.to_dict()))
        new.replace(self.datastore)

    def desire(self, state: NodeState, complete: bool = True) -> None:
        self.store.save(Stored(state, complete=complete))

    def clock(self, ahead: float) -> None:
        """Set the agent's wall clock to so many seconds ahead of the machine's, from its next start on and later on."""
        new = self._clock.with_suffix(".new")
        new.write_text(str(ahead))
        new.replace(self._clock)

    # ---- the process

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self, fault: str = "", wait: bool = True) -> None:
        """Start the agent, and wait until it answers unless `wait` is False.

        `fault` names the failpoint at which it kills itself, "" for none. Raise AssertionError if it ends while waited
        for, or does not listen within two minutes. Raise AgentError if it listens and does not answer in that time.
        """
        netns = self.folder / "netns" / HOST
        command = [
            *("nsenter", f"--net={netns}", sys.executable, "-I"),
            *(("-c", _OTHER_CLOCK, str(self._clock)) if self._clock.exists() else ()),
            *(str(self._engine), "agent"),
            *("--paths", str(self._paths), "--settings", str(self.folder / "agent.json")),
        ]
        with self.log.open("ab") as log:
            environment = {**os.environ, **agent_unit.environment(), VARIABLE: fault}
            environment["PATH"] = f"{self.programs}:{environment.get('PATH', os.defpath)}"
            environment.pop("NOTIFY_SOCKET", None)
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        if wait:
            self.until(self.answers, "the agent answers")

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the agent ended: {self.log.read_text()}"
        try:
            self.call("version")
        except NotRunning:
            return False
        return True

    def kill(self) -> None:
        """Kill the agent with SIGKILL, and wait for its end; raise AssertionError if it was never started.

        Do nothing if it has ended. Raise subprocess.TimeoutExpired if it has not ended after two minutes.
        """
        assert self.process is not None
        self.process.kill()
        self.process.wait(_PATIENCE)

    def stop(self) -> int:
        """Stop the agent by SIGTERM, as systemd does; return its exit status, negative for a signal.

        If it has ended before, return the status of that end. Raise AssertionError if it was never started, and
        subprocess.TimeoutExpired if it runs on for two minutes.
        """
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(_PATIENCE)

    def wait_killed(self) -> None:
        assert self.process is not None
        assert self.process.wait(_PATIENCE) == -9, self.log.read_text()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    @staticmethod
    def until(holds: t.Callable[[], t.Any], what: str) -> None:
        began = time.monotonic()
        while not holds():
            assert time.monotonic() < began + _PATIENCE, f"not within {_PATIENCE:g} seconds: {what}"
            pause(began, least=0.01, most=0.1)

    # ---- calls

    def call(self, method: str, **params: t.Any) -> dict[str, t.Any]:
        with AgentClient(self.socket, _PATIENCE) as client:
            return client.call(method, **params)

    def netns(self, name: str) -> str:
        """Return the path of the namespace `name`, which is created if it is missing.

        Raise KernelError if it cannot be created.
        """
        if name not in self.kernel.netns_list():
            self.kernel.netns_add(name, "")
        return str(self.folder / "netns" / name)

    def add(self, name: str, **more: t.Any) -> dict[str, t.Any]:
        """Add a workload, and return the agent's description of it.

        The namespace `name` is created if it is missing: here, or by the agent if `netns_owned` is true. `more` are
        further parameters of workload.add; with `netns` the workload gets that namespace instead. Raise KernelError if
        a namespace cannot be created here, AgentError if the agent refuses, or its subclass NotRunning if no agent
        answers.
        """
        params = {"name": name, **({} if more.get("netns_owned") else {"netns": self.netns(name)}), **more}
        return t.cast("dict[str, t.Any]", self.call("workload.add", **params)["workload"])

    def delete(self, name: str) -> bool:
        return bool(self.call("workload.delete", id=f"default/{name}")["deleted"])

    def in_sync(self) -> None:
        """Wait until the agent is in sync; raise AssertionError after two minutes.

        Raise AgentError if it refuses the question or does not run.
        """
        self.until(lambda: self.call("status")["in_sync"], "the agent is in sync")

    def status_in_sync(self) -> dict[str, t.Any]:
        """Wait until the agent is in sync; return its status without `in_sync`, `last_resync` and `paths`.

        These change even if no request arrives, because the agent looks over the node and its paths now and then. Raise
        what `in_sync` raises.
        """
        self.in_sync()
        own = ("in_sync", "last_resync", "paths")
        return {name: value for name, value in self.call("status").items() if name not in own}

    def settled(self) -> None:
        """Wait until no deletion is under way; raise AssertionError after two minutes.

        Raise AgentError if the agent refuses the question or does not run.
        """
        self.until(lambda: self.call("status")["deleting"] == 0, "all links of deleted workloads are gone")

    # ---- state of the kernel, the disk and the process

    @property
    def routes(self) -> list[KernelRoute]:
        """The collection's IPv4 routes (protocol 179) in the host's kernel."""
        return self.kernel.routes(protocol=179)

    @property
    def destinations(self) -> set[str]:
        return {destination for destination, dummy in self.routes}

    @property
    def links(self) -> set[str]:
        return {link.name for link in self.kernel.links() if link.name.startswith("cali")}

    @property
    def records(self) -> set[str]:
        folder = self.folder / "run" / "workloads"
        return {str(path.relative_to(folder)) for path in folder.rglob("*.json")}

    def allocated(self) -> dict[str, str]:
        """Return {handle: address} of the allocations in the journal on the disk.

        Return {} if there is no journal. Of several addresses of a handle only one is returned. Raise IpamUnreadable if
        the journal cannot be read.
        """
        ipam = LocalIpam(str(self.folder / "lib" / "ipam"))
        ipam.load()
        return {allocation.handle: allocation.address for allocation in ipam.allocations()}

    def reaches(self, name: str, address: str) -> bool:
        """Return whether `address` answers a ping from inside the namespace `name` within 20 seconds.

        The namespace stays open until `kernel` leaves or deletes it: later calls use it even if another process has
        deleted or replaced it. Raise KernelError if there is none at the first call.
        """
        command = ["ping", "-n", "-c", "1", "-W", "20", address]
        return self.kernel.inside(name).run(command).code == 0

    def memory(self, field: str = "VmHWM") -> int:
        """Return a size in the agent's /proc/PID/status in KiB; VmHWM is its largest resident memory so far.

        Raise AssertionError if there is no such field or the agent was never started. If it has ended, raise
        AssertionError or FileNotFoundError.
        """
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
        raise AssertionError(field)

    def processor_seconds(self) -> float:
        """Return the seconds of processor time that the agent has used, in user and system mode.

        Raise AssertionError if it was never started, and FileNotFoundError if it has ended.
        """
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def daemon_under_test(
    engine: pathlib.Path, folder: pathlib.Path, state: t.Optional[NodeState] = STATE
) -> t.Iterator[Daemon]:
    """Yield an agent that is not started, on a host with this desired state, None for none.

    At the end the agent is killed, and the host's namespaces and its file system `folder`/run are removed. `engine` is
    the path that `install_engine` returns, and `folder` is for the host's files. Raise KernelError or
    subprocess.CalledProcessError if the namespace or the file system cannot be created, and FileExistsError if
    `folder`/run exists.
    """
    with host_under_test(folder, HostKernel) as kernel:
        underlay(kernel)
        run = folder / "run"  # a tmpfs, as /run is on a node: an add takes much longer if it writes to a disk
        run.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "run", str(run)], check=True)
        daemon = Daemon(engine, folder, kernel)
        if state is not None:
            daemon.desire(state)
        try:
            yield daemon
        finally:
            daemon.close()
            subprocess.run(["umount", "--lazy", str(run)], check=True)
