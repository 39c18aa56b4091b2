# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A harness for whole modules, from their arguments to their JSON, on any kernel."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible.module_utils import _internal
from ansible.module_utils.common import warnings as ansible_warnings
from ansible.module_utils.testing import patch_module_args
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import naming
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import attach
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import engine_module, registry
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes.node_request import NodeRequest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import LocalIpam
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.unconfirmed import Uptime
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import attachment
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import engine_call, module_answer


class Host:
    """A node: a kernel with an underlay, paths in a folder of the test, and a BIRD that accepts any configuration."""

    def __init__(self, folder, kernel, start="archive"):
        self.folder = folder
        #: How `run` starts a module: "archive", as Ansible's archive does, or "engine", as the engine on a node.
        self.start = start
        self.folder.mkdir(exist_ok=True)
        self.kernel = kernel
        self.kernel.link_add(NewLink("eth0", "bridge", 1500))
        self.kernel.link_set("eth0", up=True)
        self.kernel.address_add(InterfaceAddress("eth0", "10.10.1.11", 24))
        gateway = RouteAttributes(device="eth0", gateway="10.10.1.1")
        assert self.kernel.route_batch([RouteOperation("add", "0.0.0.0/0", gateway)]) == []
        bird = folder / "bird"
        bird.write_text("#!/bin/sh\nexit 0\n")
        bird.chmod(0o755)
        self.machine = machine.Machine(
            self.kernel,
            root=str(folder / "root"),
            store=str(folder / "calico"),
            lock=str(folder / "run" / "node.lock"),
            engine=str(folder / "engine"),
            bird_config=str(folder / "bird.cfg"),
            bird_socket=str(folder / "bird.ctl"),
            bird_program=str(bird),
            netstat=str(folder / "netstat"),
            watched=0.0,
            workloads=str(folder / "run" / "workloads"),
            ipam=str(folder / "calico" / "ipam"),
            cni_deleted=str(folder / "calico" / "cni" / "deleted"),
            agent_socket=str(folder / "run" / "agent.sock"),
            writer_lock=str(folder / "run" / "writer.lock"),
            boot_wait=0.0,
            sessions=lambda: self.sessions,
            uptime=lambda: self.uptime,
            start_detached=lambda command: self.detached.append(list(command)),
        )
        self.stdout = None
        #: The host's SSH sessions, the module's own first, for changes that wait for a confirmation.
        self.sessions = ()
        #: The boot's id and the seconds since the boot, for the same changes.
        self.uptime = Uptime("boot-1", 1000.0)
        self.detached = []

    def has_engine(self):
        """Install an empty engine, without which no change can wait for a confirmation."""
        engine = self.folder / "engine"
        (engine / "0123456789abcdef").mkdir(parents=True)
        (engine / "0123456789abcdef" / "__main__.py").touch()
        (engine / "current").symlink_to("0123456789abcdef")

    def using(self, agent):
        """Set `agent`, which finds the node's agent, and return the machine: a substitute for machine.here()."""
        self.machine.agent = agent
        return self.machine

    def attach(self, name, **wanted):
        """Attach a workload as an agent does between runs, in kernel, journal and record. Return it.

        `wanted` are keyword arguments of LocalIpam.assign. Raise AllocationError if no such address is free, and
        AttachError if the kernel cannot attach it; the journal then has its address all the same. The node must have a
        stored state.
        """
        here = self.machine
        state = Store(here.store).load().state
        ipam = LocalIpam(here.ipam)
        ipam.load()
        ipam.grant(state)
        given = ipam.assign(f"default/{name}", {}, **wanted)
        ipam.flush()
        ipam.close()
        made = AttachedWorkload(
            f"default/{name}",
            name,
            interface=naming.interface_name("default", name),
            netns=name,
            netns_owned=True,
            addresses=(given.address,),
            pool=given.pool,
        )
        now = attachment.with_workloads(state, [made], ipam.opened)
        attach.attach(self.kernel, now.workloads[-1])
        Endpoints(here.workloads).save(made)
        return made

    def run(self, module, check=False, diff=False, **params):
        """Run the imported `module` and return its JSON answer without `invocation`, also if it failed.

        `check` and `diff` are Ansible's modes, and `params` the module's parameters. Raise AssertionError if the answer
        has a key that is neither Ansible's own nor in RETURN. Parameters that are fields of a NodeRequest are packed
        into the `request` of the module node, as its action does.
        """
        name = module.__name__.rpartition(".")[2]
        if name == "node":
            fields = {field.name for field in dataclasses.fields(NodeRequest)} & params.keys()
            asked = NodeRequest(**{field: params.pop(field) for field in fields})
            params.setdefault("request", asked.pack())
        ran = self._by_engine(name, check, diff, params) if self.start == "engine" else None
        answer = self._by_archive(module, check, diff, params) if ran is None else ran
        answer.pop("invocation", None)
        undocumented = set(answer) - module_answer.OF_ANSIBLE - module_answer.DOCUMENTED[name]
        assert not undocumented, "the action would leave these out: describe them in RETURN"
        return answer

    def _by_engine(self, name, check, diff, params):
        """Return a module's answer by what both ends of engine_call do, without the connection between them.

        For invalid parameters, the answer has `failed` and `msg`.
        """
        arguments = engine_call.validated(registry.spec(name), f"{name}.py", params)
        if arguments.error:
            return {"failed": True, "msg": arguments.error}
        request = {"params": arguments.params, "check": check, "diff": diff, "traceback": False}
        answer = engine_module.answer_to(name, json.loads(json.dumps(request)))
        output = engine_call.read(f"\n{engine_module.STARTED}\n{engine_module.line_of(answer)}\n")
        return engine_call.scrubbed(json.loads(output.text), arguments.secrets)

    def _by_archive(self, module, check, diff, params):
        arguments = {**params, "_ansible_check_mode": check, "_ansible_diff": diff}
        self.stdout()  # earlier output is not part of the answer
        with pytest.MonkeyPatch.context() as patch, patch_module_args(arguments), pytest.raises(SystemExit):
            # Other tests of this process may have loaded Ansible's controller code, which prints warnings elsewhere.
            patch.setattr(_internal, "is_controller", False)
            # A module is a process of its own: its answer has no warnings of others.
            patch.setattr(ansible_warnings, "_global_warnings", {})
            module.main()
        answer = json.loads(self.stdout().out)
        if "warnings" in answer:
            answer["warnings"] = [entry["event"]["msg"] for entry in answer["warnings"]]
        return answer

    def needs(self, kind):
        """Skip the test if the kernel cannot make devices of this kind. The emulated machine's kernel can."""
        if kind not in self.kernel.kinds:
            pytest.skip(f"this kernel has no {kind}")

    def snapshot(self):
        """Return what a run could change: (the kernel's snapshot, {path in the test's folder: its bytes}).

        The lock files are left out. "modes" has those of the folders below the host's root.
        """
        root = self.folder / "root"
        modes = {str(path): path.stat().st_mode for path in root.rglob("*") if path.is_dir()}
        files = {
            str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()
        }
        for lock in ("run/node.lock", "run/writer.lock"):
            files.pop(lock, None)
        return self.kernel.snapshot(), {**files, "modes": modes}

    def four_times(self, module, **params):
        """Run the module in check mode, then for real, then both again, and return the answers of the first two runs.

        Raise AssertionError unless check mode changes nothing and tells what is then done, the second run changes
        something without a violation (see FakeKernel), and the last two find nothing to change.
        """
        before = self.snapshot()
        planned = self.run(module, check=True, diff=True, **params)
        assert self.snapshot() == before, "check mode changed something"
        assert planned["changed"] is True, planned
        done = self.run(module, diff=True, **params)
        assert done["changed"] is True, done
        assert done.get("diff") == planned.get("diff"), "check mode told something else than what was done"
        after = self.snapshot()
        assert after != before
        assert self.kernel.violations == []
        for check in (True, False):
            again = self.run(module, check=check, diff=True, **params)
            assert again["changed"] is False, again
            assert "diff" not in again or again["diff"] in ({}, {"prepared": ""}), again["diff"]
            assert self.snapshot() == after
        return planned, done
