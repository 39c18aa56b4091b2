# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random series of steps for a node with an agent, and their reduction to a short one that fails as well.

A step stands for itself: it does nothing where its object is missing. So each part of a series is a series.
"""

from __future__ import annotations

import random
import typing as t

from tests.unit.agent.series.foreign_writes import FOREIGN
from tests.unit.agent.workloads.model import ASKED, NAMES, SABOTAGE, Add, Delete, Killed, Restart, Resync, Sabotage
from tests.unit.policy.random_policies import LABELS


class Label(t.NamedTuple):
    """A change of a workload's labels: (key, value) pairs, None for a label to remove."""

    name: str
    labels: tuple[tuple[str, t.Optional[str]], ...]


class Change(t.NamedTuple):
    """A change of the stored state (inventory.py), which the agent is given (`reload` False) or reads by itself."""

    seed: int
    reload: bool


class Elsewhere(t.NamedTuple):
    """A change of the workloads of other nodes: in the datastore, or in the reports that a run of Ansible writes."""

    seed: int
    report: bool


class Foreign(t.NamedTuple):
    """A write of another program to rules, sets or routes (foreign_writes.py)."""

    what: str
    seed: int


class Address(t.NamedTuple):
    """An address of the host that comes to another interface, or goes."""

    number: int


class Fail(t.NamedTuple):
    """The next call of a method of the kernel fails: `operation` with this `match`, see FakeKernel.fail_next."""

    operation: str
    match: str


class Settle(t.NamedTuple):
    """Wait until the node is in order, and compare it with one that was made from nothing."""


#: Calls of the kernel that can fail.
FAILURES = (
    ("run", "iptables-restore"),
    ("run", "iptables-restore"),
    ("run", "ip6tables-restore"),
    ("run", "ipset"),
    ("run", "ipset"),
    ("ipset_write", ""),
    ("route_batch", ""),
    ("sysctl_write", ""),
    ("link_add", ""),
    ("link_set", ""),
    ("link_delete", ""),
)

Step = t.Union[Add, Delete, Label, Change, Elsewhere, Foreign, Address, Fail, Settle, Killed, Restart, Resync, Sabotage]


def series(seed: int, length: int, moments: int, kills: float = 0.06) -> list[Step]:
    """Return a random series; `moments` is the largest moment of a kill, and `kills` the share of kills.

    It begins with some workloads. Half of the steps follow at once, without a comparison before them.
    """
    rng = random.Random(f"series {seed}")
    found: list[Step] = [Add(name, None, _labels(rng)) for name in rng.sample(NAMES, 2)]
    while len(found) < length:
        if rng.random() < 0.04:
            found += _again(rng)
        else:
            found.append(_step(rng, moments, kills))
        if rng.random() < 0.5:
            found.append(Settle())
    return [*found, Settle()]


def _again(rng: random.Random) -> list[Step]:
    """Return steps by which a workload goes and comes at once, with a write of others to sets between."""
    name, address = rng.choice(NAMES), rng.choice((None, *ASKED))
    add = Add(name, address, _labels(rng))
    return [add, Settle(), Delete(name), Foreign("lose ours", 0), add]


def _step(rng: random.Random, moments: int, kills: float) -> Step:
    chance = rng.random()
    if chance < kills:
        calls = tuple(call(rng) for dummy in range(rng.randint(1, 3)))
        return Killed(rng.randint(0, moments), calls)
    if chance < 0.55:
        return call(rng)
    if chance < 0.72:
        return Foreign(rng.choice(FOREIGN), rng.randrange(1 << 30))
    if chance < 0.78:
        return Sabotage(rng.choice(SABOTAGE), rng.randrange(6))
    if chance < 0.84:
        return Fail(*rng.choice(FAILURES))
    if chance < 0.93:
        return Elsewhere(rng.randrange(1 << 30), rng.random() < 0.15)
    if chance < 0.96:
        return Address(rng.randrange(2))
    return Restart() if chance < 0.98 else Resync()


def call(rng: random.Random) -> t.Union[Add, Delete, Label, Change]:
    chance, name = rng.random(), rng.choice(NAMES)
    if chance < 0.35:
        return Add(name, rng.choice((None, None, None, *ASKED)), _labels(rng))
    if chance < 0.55:
        return Delete(name)
    if chance < 0.68:
        return Label(name, tuple((key, rng.choice((None, *values))) for key, values in LABELS.items()))
    return Change(rng.randrange(1 << 30), rng.random() < 0.5)


def _labels(rng: random.Random) -> tuple[tuple[str, str], ...]:
    return tuple((key, rng.choice(values)) for key, values in LABELS.items() if rng.random() < 0.6)


def reduced(steps: t.Sequence[Step], fails: t.Callable[[t.Sequence[Step]], bool], most: int = 60) -> t.Sequence[Step]:
    """Return a shorter series for which `fails` is true as well. `fails` is called at most `most` times."""
    size = len(steps) // 2
    while size and most:
        at = 0
        while at < len(steps) and most:
            shorter = [*steps[:at], *steps[at + size :]]
            most -= 1
            if shorter and fails(shorter):
                steps = shorter
            else:
                at += size
        size //= 2
    return steps
