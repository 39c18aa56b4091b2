# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose agent can be killed at any moment: between two writes to the kernel, or at a failpoint."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import pathlib
import shutil
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent import Agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads import failpoints

from tests.fakes.kernel import FakeKernel
from tests.unit.agent.node_under_test import STATE, Node, NodeState


class KillableNode(Node):
    """A node whose agent `killed` kills after so many writes and failpoints.

    The kernel and the files of that moment are saved. When all calls have ended, they are restored and an agent starts.
    Failpoints count inside the context of `counting_failpoints`.
    """

    def __init__(self, folder: pathlib.Path, state: t.Optional[NodeState] = STATE, **settings: t.Any) -> None:
        super().__init__(folder / "node", state, **settings)
        self._kept = folder / "kept"
        self._kept_kernel: t.Optional[FakeKernel] = None
        self._moments = -1

    async def start(self) -> Agent:
        self.kernel.watch(self.written)
        return await super().start()

    @contextlib.contextmanager
    def counting_failpoints(self) -> t.Iterator[None]:
        point, failpoints.point = failpoints.point, self.moment
        try:
            yield
        finally:
            failpoints.point = point

    def moment(self, *dummy: object) -> None:
        """Count a moment at which the agent may be killed, and save kernel and files if it is the one chosen."""
        if self._moments == 0:
            shutil.copytree(self.folder, self._kept)
            self.kernel.watch(None)
            self._kept_kernel = copy.deepcopy(self.kernel)
            self.kernel.watch(self.written)
        self._moments -= 1

    def written(self, kernel: FakeKernel) -> None:
        """Count a write to a kernel as a moment."""
        self.moment()

    async def killed(self, moment: int, work: t.Awaitable[t.Any]) -> None:
        """Kill the agent at a moment of `work`, or at its end if it has fewer moments; start the next agent.

        `work` goes on to its end, which leaves no trace.
        """
        self._moments = moment
        await asyncio.gather(work, return_exceptions=True)
        self._moments = -1
        await self.kill()
        if self._kept_kernel is not None:
            shutil.rmtree(self.folder)
            self._kept.rename(self.folder)
            self.kernel, self._kept_kernel = self._kept_kernel, None
            self.machine.kernel = self.kernel
        await self.start()
