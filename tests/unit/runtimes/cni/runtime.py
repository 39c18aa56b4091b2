# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container runtime as far as it concerns CNI: it executes the plugin, reads containers and damages them.

The conformance suite uses only these classes. `test_conformance.py` runs it in memory, and tests/integration/agent
through the shim on a real agent.
"""

from __future__ import annotations

import abc
import json
import typing as t

NETWORK = "pods"
#: The node's only block, in the fakes and the integration tests.
BLOCK = "10.244.1.0/26"


class Answer(t.NamedTuple):
    status: int
    output: bytes

    @property
    def result(self) -> dict[str, t.Any]:
        """The parsed output of an execution that succeeded.

        AssertionError if the execution failed, and ValueError if the output is no JSON.
        """
        assert self.status == 0, self.output
        return json.loads(self.output)

    @property
    def nothing(self) -> bool:
        assert self.status == 0, self.output
        return self.output == b""

    @property
    def error(self) -> dict[str, t.Any]:
        assert self.status == 1, self.output
        error = json.loads(self.output)
        assert sorted(error) == ["cniVersion", "code", "details", "msg"]
        return error

    @property
    def code(self) -> int:
        return self.error["code"]

    @property
    def told(self) -> str:
        return f"{self.error['msg']}; {self.error['details']}"

    @property
    def address(self) -> str:
        return self.result["ips"][-1]["address"].partition("/")[0]

    @property
    def host_end(self) -> str:
        return next(entry["name"] for entry in self.result["interfaces"] if not entry.get("sandbox"))


class Container(abc.ABC):
    """A network namespace with a container's id."""

    id: str
    netns: str

    @abc.abstractmethod
    def addresses(self, ifname: str = "eth0") -> list[str] | None:
        """Return the IPv4 addresses of an interface without prefix lengths, or None if there is no such interface."""

    @abc.abstractmethod
    def make_interface(self, ifname: str) -> None:
        """Make an interface that belongs to no network."""

    @abc.abstractmethod
    def remove(self) -> None:
        """Remove the network namespace."""

    @abc.abstractmethod
    def set_mac(self, mac: str, ifname: str = "eth0") -> None: ...

    @abc.abstractmethod
    def mac(self, ifname: str = "eth0") -> str: ...

    @abc.abstractmethod
    def break_(self, what: str, ifname: str = "eth0") -> None:
        """Remove the "interface", the "address" or the default "route" inside, or the "host route".

        The runtime in memory removes the host routes of all containers.
        """


class Runtime(abc.ABC):
    #: Whether an agent repairs damage, possibly before a test can see it.
    repairs = False

    @abc.abstractmethod
    def execute(self, environment: t.Mapping[str, str], stdin: bytes) -> Answer: ...

    @abc.abstractmethod
    def container(self) -> Container: ...

    @abc.abstractmethod
    def allocated(self) -> dict[str, str]:
        """Return {address: handle} of all allocations."""

    @abc.abstractmethod
    def labels(self, container: Container) -> t.Mapping[str, str]:
        """Return the labels of the container's workload. Raise ValueError unless it has exactly one."""

    @abc.abstractmethod
    def release(self, container: Container) -> None:
        """Free the container's address, which must be its only one, without a DEL."""

    @abc.abstractmethod
    def use_up(self) -> None:
        """Allocate every free address of BLOCK."""

    @abc.abstractmethod
    def bird(self, answers: bool) -> None:
        """Make the node part of a fleet with BGP whose BIRD does not answer.

        Raise AssertionError if `answers` is True, because the runtimes have no BIRD.
        """

    def configuration(self, version: str = "1.1.0", network: str = NETWORK, **fields: t.Any) -> dict[str, t.Any]:
        return {"cniVersion": version, "name": network, "type": "calico", **fields}

    def run(
        self,
        command: str,
        container: Container | None = None,
        ifname: str = "eth0",
        args: str = "",
        environment: t.Mapping[str, str | None] | None = None,
        stdin: bytes | None = None,
        **fields: t.Any,
    ) -> Answer:
        """Execute the plugin with CNI_COMMAND `command`, and return its answer, also if it failed.

        Without a container, CNI_CONTAINERID, CNI_NETNS and CNI_IFNAME are not set. `args` is CNI_ARGS, left out if it
        is "". `environment` adds or replaces variables, and None removes one. `fields` are those of `configuration`;
        `stdin` replaces that configuration as a whole.
        """
        variables: dict[str, str | None] = {"CNI_COMMAND": command, "CNI_PATH": "/opt/cni/bin"}
        if container is not None:
            variables |= {"CNI_CONTAINERID": container.id, "CNI_NETNS": container.netns, "CNI_IFNAME": ifname}
        if args:
            variables["CNI_ARGS"] = args
        variables |= environment or {}
        if stdin is None:
            stdin = json.dumps(self.configuration(**fields)).encode()
        return self.execute({name: value for name, value in variables.items() if value is not None}, stdin)

    def add(self, container: Container, *more: t.Any, **fields: t.Any) -> Answer:
        return self.run("ADD", container, *more, **fields)

    def delete(self, container: Container, *more: t.Any, **fields: t.Any) -> Answer:
        return self.run("DEL", container, *more, **fields)

    def check(self, container: Container, added: Answer, **fields: t.Any) -> Answer:
        return self.run("CHECK", container, **{"prevResult": added.result, **fields})

    def collect(self, *valid: tuple[Container, str], **fields: t.Any) -> Answer:
        attachments = [{"containerID": container.id, "ifname": ifname} for container, ifname in valid]
        return self.run("GC", **{"cni.dev/valid-attachments": attachments, **fields})
