# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs write rules and sets while policy changes: no rule is lost, and no program waits forever.

They write for CALICO_SOAK_SECONDS seconds: 8 by default, and 60 in `make soak`.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.agent.policy.policed_daemon import (
    BASE,
    CLOSED,
    OPEN,
    Datagrams,
    add,
    closed_for,
    ours,
    policed,
    web,
)
from tests.integration.host_under_test import HOST

SECONDS = float(os.environ.get("CALICO_SOAK_SECONDS", "8"))
_CHAIN = ":THEIRS-{0} - [0:0]\n-A THEIRS-{0} -s 192.0.2.{0}/32 -j ACCEPT\n"


class Writer:
    """Another program that writes rules and members of a set, until an event is set.

    `rules` has the rules of the chain FORWARD that it has added and not removed, if no command failed. `failed` has
    the commands that did, with their errors.
    """

    def __init__(self, daemon: Daemon, number: int) -> None:
        folder = daemon.folder
        self.kernel = LinuxKernel(HOST, netns_folder=str(folder / "netns"), marker_folder=str(folder / "markers"))
        self.rules: set[str] = set()
        self.failed: list[str] = []
        self.rounds = 0
        self._random = random.Random(number)
        self._number = number

    def run(self, end: threading.Event) -> None:
        self._do(["iptables-restore", "-w", "30", "-n"], f"*filter\n{_CHAIN.format(self._number)}COMMIT\n")
        self._do(["ipset", "create", f"theirs-{self._number}", "hash:ip"])
        while not end.is_set():
            self.rounds += 1
            rule = f"-A FORWARD -s 192.0.2.{self._number}/32 -d 198.51.100.{self._random.randrange(256)}/32 -j ACCEPT"
            if rule in self.rules:
                self._do(["iptables", "-w", "30", "-D", *rule.split()[1:]])
                self.rules.remove(rule)
            elif self._random.random() < 0.5:
                self._do(["iptables", "-w", "30", *rule.split()])
                self.rules.add(rule)
            else:
                self._do(["iptables-restore", "-w", "30", "-n"], f"*filter\n{rule}\nCOMMIT\n")
                self.rules.add(rule)
            member = f"198.51.100.{self._random.randrange(256)}"
            self._do(["ipset", "-exist", self._random.choice(("add", "del")), f"theirs-{self._number}", member])

    def _do(self, command: list[str], stdin: str = "") -> None:
        done = self.kernel.run(command, stdin)
        if done.code != 0:
            self.failed.append(f"{command}: {done.errors}")


@contextlib.contextmanager
def at_once(*work: t.Callable[[threading.Event], None]) -> t.Iterator[threading.Event]:
    """Run each work in a thread, with an event that is set at the end of the with block; yield the event.

    The block ends when all threads have. An exception of a work ends only its thread.
    """
    end = threading.Event()
    threads = [threading.Thread(target=one, args=(end,)) for one in work]
    for thread in threads:
        thread.start()
    try:
        yield end
    finally:
        end.set()
        for thread in threads:
            thread.join()


def test_concurrent_writers_lose_no_rule_and_do_not_block_each_other(stopped_daemon: Daemon) -> None:
    daemon = stopped_daemon
    daemon.desire(policed(web(OPEN)))
    daemon.settings(cooldown=0.0, cleanup_grace=0.0)
    daemon.start()
    daemon.in_sync()
    add(daemon, "client"), add(daemon, "web")
    daemon.until(lambda: not closed_for(daemon, "client", "web", OPEN), "it is open")
    others = [Writer(daemon, number) for number in (1, 2)]
    states = [policed(web(OPEN, *more)) for more in ((), range(6000, 6040), (7000, 7001))]
    applied, until = 0, time.monotonic() + SECONDS

    with (
        Datagrams(daemon, "client", "web", OPEN) as open_,
        Datagrams(daemon, "client", "web", CLOSED) as closed,
        at_once(*(one.run for one in others)),
    ):
        while time.monotonic() < until:
            applied += 1
            daemon.desire(states[applied % len(states)])
            daemon.call("node.apply", removals=True)
            add(daemon, "guest", labels={"app": ("web", "client", "db")[applied % 3]})
            daemon.delete("guest")
    daemon.settled()
    daemon.in_sync()
    assert applied >= SECONDS / 4 and all(one.rounds > 5 for one in others)
    assert [one.failed for one in others] == [[], []]
    assert open_.lost() == [] and closed.arrived() == []
    saved = set(daemon.kernel.run(["iptables-save"]).output.splitlines())
    for number, one in enumerate(others, 1):
        assert one.rules <= saved and f"-A THEIRS-{number} -s 192.0.2.{number}/32 -j ACCEPT" in saved
        assert {line for line in saved if line.startswith(f"-A FORWARD -s 192.0.2.{number}/32")} == one.rules
        one.kernel.close()
    assert daemon.call("resync")["changes"] == []
    # Without policy no rule or set of the collection is left. With the same policy again, all are as before.
    before = ours(daemon.kernel)
    daemon.desire(BASE)
    daemon.call("node.apply", removals=True)
    daemon.in_sync()
    assert ours(daemon.kernel) == []
    daemon.desire(states[applied % len(states)])
    daemon.call("node.apply", removals=True)
    daemon.in_sync()
    assert ours(daemon.kernel) == before
