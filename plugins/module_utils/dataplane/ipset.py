# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IP sets. Ours are named `cali40...`; `cali4t...` are ours while they are being filled.

A new set is filled before anything refers to it. A set that changes gets its additions before its deletions; when most
of it changes, a second set is filled and swapped in, so that no packet meets a half of either.
"""

from __future__ import annotations

import hashlib
import typing as t

from ..fleet.node_state import IpSet
from .change import Change, Failures, ObserveError
from .kernel import Completed, Kernel

PREFIX = "cali40"
TEMPORARY = "cali4t"
_MAX_ELEMENTS = 1048576  # the default of 65536 is reached by fleets


class Observed(t.NamedTuple):
    type: str
    members: frozenset[str]


def canonical(member: str) -> str:
    """As `ipset save` prints it: a host without its prefix length."""
    return member[:-3] if member.endswith("/32") else member


def observe(kernel: Kernel, desired: t.Sequence[IpSet]) -> dict[str, Observed]:
    """Our sets. Raises ObserveError when sets are desired and the kernel or the program cannot do them."""
    done = kernel.run(["ipset", "save"])
    if done.code != 0:
        # A host without the program has no sets either; applying says what to install.
        if done.code == 127 or not desired:
            return {}
        raise ObserveError(
            f"IP sets cannot be read (ipset save): {_first_line(done)}. The fleet's firewall rules need them."
            " Install a kernel with the module ip_set (Debian: linux-image-amd64), then run again."
        )
    types: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for line in done.output.splitlines():
        words = line.split()
        if len(words) < 3 or not words[1].startswith((PREFIX, TEMPORARY)):
            continue
        if words[0] == "create":
            types[words[1]] = words[2]
            members[words[1]] = []
        elif words[0] == "add":
            members[words[1]].append(canonical(words[2]))
    return {name: Observed(kind, frozenset(members[name])) for name, kind in types.items()}


def _text(kind: str, count: int) -> str:
    return f"{kind}  {count} member{'' if count == 1 else 's'}"


def diff(desired: t.Iterable[IpSet], observed: t.Mapping[str, Observed]) -> list[Change]:
    changes: list[Change] = []
    wanted = {ipset.name: ipset for ipset in desired}
    for ipset in wanted.values():
        members = frozenset(canonical(member) for member in ipset.members)
        have = observed.get(ipset.name)
        after = _text(ipset.type, len(members))
        new = (ipset.name, Observed(ipset.type, members))
        if have is None:
            changes.append(Change("ipset", "+", ipset.name, None, after, "", None, new))
        elif have.type != ipset.type:
            note = (
                f"The set {ipset.name} exists with type {have.type}, and {ipset.type} is needed; the kernel cannot"
                f" change a type in place. Delete what refers to the set and the set (ipset destroy {ipset.name}),"
                " then run again."
            )
            before = _text(have.type, len(have.members))
            changes.append(Change("ipset", "!", ipset.name, before, after, note, have, new))
        elif have.members != members:
            gone, come = sorted(have.members - members), sorted(members - have.members)
            detail = "\n".join([f"-{member}" for member in gone] + [f"+{member}" for member in come])
            before = _text(have.type, len(have.members))
            note = f"{len(come)} in, {len(gone)} out"
            changes.append(Change("ipset", "~", ipset.name, before, after, note, have, new, detail))
    for name, have in observed.items():
        if name not in wanted:
            changes.append(Change("ipset", "-", name, _text(have.type, len(have.members)), None, "", (name, have)))
    return changes


def apply(kernel: Kernel, changes: t.Sequence[Change]) -> None:
    failures = Failures()
    lines: list[str] = []
    last = None
    for change in changes:
        if change.action == "!":
            failures.add(change, change.note)
        elif change.action in ("+", "~"):
            name, want = change.new
            lines += _fill(name, want, change.old)
            last = change
    if last is not None:
        done = kernel.run(["ipset", "restore"], stdin="\n".join(lines) + "\n")
        if done.code != 0:
            failures.add(last, _reason(done, lines))
    for change in changes:
        if change.action == "-":
            name = change.old[0]
            done = kernel.run(["ipset", "destroy", name])
            if done.code != 0 and "does not exist" not in done.errors:
                failures.add(
                    change,
                    f"The set {name} could not be deleted: {_first_line(done)}."
                    " A rule that is not ours may refer to it (iptables-save | grep it); the next run tries again.",
                )
    failures.raise_if_any()


def _create(name: str, kind: str) -> str:
    return f"create {name} {kind} family inet maxelem {_MAX_ELEMENTS}"


def _fill(name: str, want: Observed, have: t.Optional[Observed]) -> list[str]:
    if have is None:
        return [_create(name, want.type), *(f"add {name} {member}" for member in sorted(want.members))]
    come, gone = sorted(want.members - have.members), sorted(have.members - want.members)
    if len(gone) <= 64 or len(gone) * 2 <= len(have.members):
        # Both sides meet in the meantime: what is new is in before what is old leaves.
        return [*(f"add {name} {member}" for member in come), *(f"del {name} {member}" for member in gone)]
    temporary = TEMPORARY + hashlib.sha256(name.encode()).hexdigest()[:16]
    return [
        f"{_create(temporary, want.type)} -exist",
        f"flush {temporary}",
        *(f"add {temporary} {member}" for member in sorted(want.members)),
        f"swap {temporary} {name}",
        f"destroy {temporary}",
    ]


def _first_line(done: Completed) -> str:
    text = (done.errors or done.output).strip()
    return text.splitlines()[0].rstrip(".") if text else f"it ended with status {done.code}"


def _reason(done: Completed, lines: t.Sequence[str]) -> str:
    if done.code == 127:
        return (
            "The program ipset is not installed, and the fleet's firewall rules need its sets."
            " Install it with `apt-get install ipset` (Debian), then run again."
        )
    return (
        f"ipset restore refused the sets: {_first_line(done)}. Its input had {len(lines)} lines."
        " See that the kernel has the modules ip_set and ip_set_hash_net, then run again."
    )
