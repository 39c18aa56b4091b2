# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of IP sets.

Ours are named `cali40...` (IPv6: `cali60...`), and `cali4t...` or `cali6t...` while being filled. Two steps enclose the
writing of a node's chains: `fill` makes sets and adds members before it, `drain` removes members after it. So chains
find the sets that they refer to, and a member that moves from one set to another is in one of them at every moment. If
many members are removed, more than half of the set, or it is too small, a second set is filled and swapped in.

Each step is a few messages to the kernel, or one `ipset restore`, repeated without a set that was refused. All other
sets are written then, unless ipset failed without naming a set, or refused more than 50: one change of the ApplyError
stands for all that are left. A text that cannot be a member (ipset_encoding.py) is left out, which a change `=`
reports.
"""

from __future__ import annotations

import hashlib
import re
import socket
import time
import typing as t

from ...base.not_encodable import NotEncodable
from ...state.node_state import IpSet
from ..change import ApplyError, Change, Failures, ObserveError
from ..driver import DriverStep
from ..encoding import ipset_encoding
from ..kernel.port import Completed, Kernel, KernelError, MemberWrite, NewSet, SetRemoval, SetWrite

PREFIX = "cali40"
PREFIX_IPV6 = "cali60"
TEMPORARY = "cali4t"
TEMPORARY_IPV6 = "cali6t"
_OURS = (PREFIX, PREFIX_IPV6, TEMPORARY, TEMPORARY_IPV6)

_MAX_ELEMENTS = 1048576  # members for which a new set has room, at least; fleets reach ipset's default of 65536
_FEW = 64  # up to so many removed members alone need no second set
_MESSAGES = 4000  # up to so many writes are messages to the kernel, sent together: 3 microseconds each
_MOST_REFUSED = 50  # sets that may be refused; at the next one, the rest is no longer tried

#: Seconds between the attempts to delete a set. The kernel releases it some time after the rule that referred to it.
PATIENCE = (0.01, 0.04, 0.15)

_ERROR_LINE = re.compile(r"Error in line (\d+): ?(.*)")
_NAMED = 5  # omitted members that a message names


class Observed(t.NamedTuple):
    """A set. `refused` are the texts that were wanted as members and cannot be; it is empty for a set that was read."""

    type: str
    members: frozenset[str]
    max_elements: int = _MAX_ELEMENTS
    refused: tuple[str, ...] = ()


def canonical(member: str, ipv6: bool = False) -> str:
    """Return a member without the prefix length of a single address: `/32`, or `/128` if `ipv6`.

    With `ipv6` the address is also brought to its shortest form. A suffix such as `,tcp:80` or `,cali1` stays, and so
    do a prefix length directly before an option (`nomatch`) and an IPv6 address that cannot be read.
    """
    address, comma, rest = member.partition(",")
    if not ipv6:
        return address[:-3] + comma + rest if address.endswith("/32") else member
    host, _slash, length = address.partition("/")
    try:
        host = socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, host))
    except OSError:
        return member  # It has an option behind it, as in `fd00::1 nomatch`, or is invalid.
    return host + (f"/{length}" if length not in ("", "128") else "") + comma + rest


def is_ours(name: str) -> bool:
    """Return whether a set's name is one of those that we give."""
    return name.startswith(_OURS)


def is_ipv6(name: str) -> bool:
    return name.startswith((PREFIX_IPV6, TEMPORARY_IPV6))


def wanted(ipset: IpSet, known: frozenset[str] = frozenset()) -> Observed:
    """Return the desired content of the set in canonical form, with the texts that cannot be members in `refused`.

    A set of networks gets two halves in place of 0.0.0.0/0 or ::/0, which it cannot contain. `max_elements` is
    1,048,576, doubled until the members fit. `known` are members of an earlier result for a set of this name and type;
    they are not checked again. Raise NotEncodable for a name or type that ipset_encoding.py refuses.
    """
    ipset_encoding.name(ipset.name)
    found = ipset_encoding.members(ipset_encoding.type_of(ipset.type), is_ipv6(ipset.name), ipset.members, known)
    return Observed(ipset.type, found.good, _maximum(found.good), found.refused)


def left_out(name: str, want: Observed) -> str:
    """Return sentences about the members that were left out of a set, "" if none was; at most five are named."""
    if not want.refused:
        return ""
    named = [str(ipset_encoding.refusal(want.type, is_ipv6(name), one)) for one in want.refused[:_NAMED]]
    more = len(want.refused) - len(named)
    rest = f" And {more} more." if more else ""
    count = f"{len(want.refused)} member{'' if len(want.refused) == 1 else 's'}"
    return f"{count} left out: {' '.join(named)}{rest} Correct what has that address; the rest of the set is in force."


def observe(kernel: Kernel, desired: t.Sequence[IpSet]) -> dict[str, Observed]:
    """Return our sets by name; {} without the program ipset. Raise ObserveError if it fails and sets are desired."""
    done = kernel.run(["ipset", "save"])
    if done.code != 0:
        # A host without the program (127) counts as without sets, and `apply` says what to install. If no sets are
        # desired, another failure does not matter.
        if done.code == 127 or not desired:
            return {}
        raise ObserveError(
            f"IP sets cannot be read (ipset save): {done.first_line}. The fleet's firewall rules need them."
            " Install a kernel with the module ip_set (Debian: linux-image-amd64), then run again."
        )
    return parse(done.output)


def parse(output: str) -> dict[str, Observed]:
    """Return our sets by name, from the output of `ipset save`; `max_elements` is 0 for a set without `maxelem`.

    Output of another form may raise KeyError, ValueError or IndexError.
    """
    created: dict[str, tuple[str, int]] = {}
    members: dict[str, list[str]] = {}
    for line in output.splitlines():
        command, name, rest = (line.split(None, 2) + [""] * 3)[:3]
        if not is_ours(name):
            continue
        if command == "create":
            kind, *options = rest.split()
            most = options[options.index("maxelem") + 1] if "maxelem" in options else "0"
            created[name] = kind, int(most)
            members[name] = []
        elif command == "add":
            members[name].append(canonical(rest, is_ipv6(name)))
    return {name: Observed(kind, frozenset(members[name]), most) for name, (kind, most) in created.items()}


def _text(kind: str, count: int) -> str:
    return f"{kind}  {count} member{'' if count == 1 else 's'}"


def diff(
    desired: t.Iterable[IpSet],
    observed: t.Mapping[str, Observed],
    want: t.Callable[[IpSet], Observed] = wanted,
) -> list[Change]:
    """Return the changes that lead to the desired sets; observed sets that are not desired are deleted.

    `want` is `wanted`, or a cache of it. A set that cannot be encoded is left as it is, and such a member is left out
    of its set; a change `=` reports either.
    """
    changes: list[Change] = []
    names = set()
    for ipset in desired:
        names.add(ipset.name)
        try:
            new = want(ipset)
        except NotEncodable as error:
            note = f"left out: {error} Rules that refer to it are refused, too. Correct it, then run again."
            changes.append(Change("ipset", "=", ipset.name, None, None, note))
            continue
        if new.refused:
            changes.append(Change("ipset", "=", ipset.name, None, None, left_out(ipset.name, new)))
        have = observed.get(ipset.name)
        if have is None:
            after = _text(ipset.type, len(new.members))
            changes.append(Change("ipset", "+", ipset.name, None, after, "", None, (ipset.name, new)))
        elif have is not new and (have[:2] != new[:2] or have.max_elements < len(new.members)):
            gone, come = sorted(have.members - new.members), sorted(new.members - have.members)
            detail = "\n".join([f"-{member}" for member in gone] + [f"+{member}" for member in come])
            before, after = _text(have.type, len(have.members)), _text(new.type, len(new.members))
            note = f"{len(come)} in, {len(gone)} out"
            if have.type != new.type:
                note = "deleted and made anew, for the type of a set cannot change"
            elif have.max_elements < len(new.members):
                note += f", made anew with room for {new.max_elements}"
            changes.append(Change("ipset", "~", ipset.name, before, after, note, have, (ipset.name, new), detail))
    for name, have in observed.items():
        if name not in names:
            changes.append(Change("ipset", "-", name, _text(have.type, len(have.members)), None, "", (name, have)))
    return changes


#: A write, or a line of `ipset restore` for what no message is known for.
_Write = t.Union[SetWrite, str]


class _Step(t.NamedTuple):
    write: _Write
    change: Change

    @property
    def line(self) -> str:
        return self.write if isinstance(self.write, str) else self.write.line


def apply(
    kernel: Kernel,
    changes: t.Sequence[Change],
    sleep: t.Callable[[float], None] = time.sleep,
    patience: t.Sequence[float] = PATIENCE,
) -> None:
    """Make all of these changes: fill, drain, then delete. Raise ApplyError with each set that was refused.

    Refused deletions are tried again after each of the pauses `patience`, in seconds, which `sleep` makes.
    """
    failures = Failures()
    for step in (fill, drain):
        try:
            step(kernel, changes)
        except ApplyError as error:
            failures.extend(error)
    refused = _destroy(kernel, [(change, "") for change in changes if change.action == "-"])
    for pause in patience:
        if not refused:
            break
        sleep(pause)
        refused = _destroy(kernel, refused)
    for change, words in refused:
        failures.add(
            change,
            f"The set {change.old[0]} could not be deleted: {words}."
            " A rule that is not ours may refer to it (iptables-save | grep it); the next run tries again.",
        )
    failures.raise_if_any()


def fill(kernel: Kernel, changes: t.Sequence[Change], installed: bool = False) -> None:
    """Make sets, and add members to those of changes `~`. Nothing is removed from sets that stay.

    With `installed`, the program ipset is known to be there, so that new sets can be made without it. Otherwise a
    missing program is an error even where a few messages would do, because nothing could read the sets again.

    A set of another type than the desired one is deleted and made anew. One without room for old and new members is
    replaced by a larger one with all of them. Raise ApplyError with each set that was refused; a new one of these is
    deleted again if possible.
    """
    failures = Failures()
    filling = [change for change in changes if change.action in ("+", "~")]
    by_messages = installed or all(change.action == "~" for change in filling)
    for change in _write(kernel, filling, _fill, failures, by_messages):
        kernel.run(["ipset", "destroy", _made(change)])
    failures.raise_if_any()


def drain(kernel: Kernel, changes: t.Sequence[Change]) -> None:
    """Remove surplus members from the sets of changes `~`, after `fill`. Raise ApplyError with each refused set."""
    failures = Failures()
    _write(kernel, [change for change in changes if change.action == "~"], _drain, failures, True)
    failures.raise_if_any()


def finish(
    kernel: Kernel,
    changes: t.Sequence[Change],
    failed: bool,
    drain: t.Callable[[Kernel, t.Sequence[Change]], None] = drain,
) -> list[Change]:
    """Remove surplus members from the sets of changes `~` by `drain`; return those of these changes that are left out.

    After a failure of sets or chains (`failed`) all that change sets of workloads' interfaces are left out: a member
    may not be in another set yet, or the chains that use that set may not be written yet. Otherwise none is.
    """
    kept: list[Change] = []
    to_remove: list[Change] = []
    for change in changes:
        if change.action == "~":
            (kept if failed and "iface" in change.new[1].type else to_remove).append(change)
    drain(kernel, to_remove)
    return kept


def filled(change: Change) -> Observed:
    """Return what the changed set must hold after `fill`: the old and the new members, or a set made anew."""
    _name, want = change.new
    have: t.Optional[Observed] = change.old
    if have is None or have.type != want.type:
        return t.cast(Observed, want)
    return Observed(have.type, have.members | want.members, _room(have, want))


def drained(change: Change) -> Observed:
    """Return what the changed set must hold after `drain`: the new members alone."""
    _name, want = change.new
    have: t.Optional[Observed] = change.old
    if have is None or have.type != want.type or _room(have, want) == want.max_elements:
        return t.cast(Observed, want)
    return t.cast(Observed, want._replace(max_elements=_room(have, want)))


def _room(have: Observed, want: Observed) -> int:
    """Return the maximum of elements that the set gets: the present one, or else one for the members of both."""
    if len(have.members) + len(want.members) <= have.max_elements:
        return have.max_elements
    both = have.members | want.members
    return have.max_elements if len(both) <= have.max_elements else _maximum(both)


def _maximum(members: t.Sized) -> int:
    most = _MAX_ELEMENTS
    while most < len(members):
        most *= 2
    return most


def _write(
    kernel: Kernel,
    changes: t.Sequence[Change],
    writes_of: t.Callable[[Change], list[_Write]],
    failures: Failures,
    by_messages: bool,
) -> list[Change]:
    """Make the writes of these changes, again without a set at which the kernel refused, until the rest is accepted.

    A few writes need no program if `by_messages` is true. Writes may be repeated without harm. Add refused changes to
    `failures`. Return the changes that may be half written, [] if all were accepted or the program is missing.
    """
    left = list(changes)
    halves: list[Change] = []
    while left:
        steps = [_Step(write, change) for change in left for write in writes_of(change)]
        if not steps or (by_messages and _by_messages(kernel, [step.write for step in steps])):
            break
        # With -exist, adding a present member and deleting an absent one is no error.
        done = kernel.run(["ipset", "-exist", "restore"], stdin="".join(f"{step.line}\n" for step in steps))
        if done.code == 0:
            break
        number, words = _bad_line(done)
        if not 0 < number <= len(steps) or len(changes) - len(left) >= _MOST_REFUSED:
            failures.add(left[-1], _reason(done, len(steps)), left[:-1])
            return [*halves, *left] if done.code != 127 else halves
        bad = steps[number - 1]
        failures.add(bad.change, _refused(bad, words))
        halves.append(bad.change)
        left = [change for change in left if change is not bad.change]
    return halves


def _by_messages(kernel: Kernel, writes: t.Sequence[_Write]) -> bool:
    """Return whether these writes, at most 4000, were made by messages to the kernel, without the program.

    If it returns False, some of them may have been made. The caller then runs the program ipset, which gives a reason.
    """
    messages = [write for write in writes if not isinstance(write, str)]
    if len(messages) < len(writes) or len(writes) > _MESSAGES:
        return False
    try:
        kernel.ipset_write(messages)
    except (KernelError, ValueError):
        return False
    return True


def _fill(change: Change) -> list[_Write]:
    name, want = change.new
    have: t.Optional[Observed] = change.old
    if have is None:
        return [_create(name, want), *_add(name, want.type, want.members)]
    if have.type != want.type:
        return [SetRemoval(name), _create(name, want), *_add(name, want.type, want.members)]
    if _room(have, want) != have.max_elements:
        return _swap(name, filled(change))
    return _add(name, want.type, want.members - have.members)


def _drain(change: Change) -> list[_Write]:
    name, want = change.new
    have: Observed = change.old
    if have.type != want.type:
        return []
    gone = have.members - want.members
    if len(gone) > _FEW and len(gone) * 2 > len(have.members):
        return _swap(name, drained(change))
    try:
        addresses = {ipset_encoding.saved(member) for member in gone}
    except NotEncodable:
        return _swap(name, drained(change))
    # `add -exist` has removed the option `nomatch` from a member that had it: that member stays.
    return [MemberWrite("del", name, want.type, address) for address in sorted(addresses - want.members)]


def _made(change: Change) -> str:
    """Return the name of the set that `fill` may have made for a change before it failed.

    The kernel refuses to delete it if a rule refers to it, as to a set of another type that could not be replaced.
    """
    name, want = change.new
    have: t.Optional[Observed] = change.old
    return name if have is None or have.type != want.type else _temporary(name)


def _temporary(name: str) -> str:
    return (TEMPORARY_IPV6 if is_ipv6(name) else TEMPORARY) + hashlib.sha256(name.encode()).hexdigest()[:16]


def _swap(name: str, want: Observed) -> list[_Write]:
    temporary = _temporary(name)
    return [
        _create(temporary, want),
        f"flush {temporary}",
        *_add(temporary, want.type, want.members),
        f"swap {temporary} {name}",
        SetRemoval(temporary),
    ]


def _create(name: str, want: Observed) -> NewSet:
    return NewSet(ipset_encoding.name(name), want.type, is_ipv6(name), want.max_elements)


def _add(name: str, kind: str, members: t.Iterable[str]) -> list[_Write]:
    return [MemberWrite("add", name, kind, member) for member in sorted(members)]


def _destroy(kernel: Kernel, left: t.Sequence[tuple[Change, str]]) -> list[tuple[Change, str]]:
    """Delete the sets of these changes, and return (change, reason) of those that could not be deleted.

    A set that does not exist is ignored; the texts beside the changes are not used. Each line takes effect by itself,
    and the first refused one ends the program, which is then run again with the rest. If it fails without naming a
    line, all of the rest is returned.
    """
    removals = [SetRemoval(change.old[0]) for change, _words in left]
    if _by_messages(kernel, removals):
        return []
    refused: list[tuple[Change, str]] = []
    while left:
        text = "".join(f"{SetRemoval(change.old[0]).line}\n" for change, _words in left)
        done = kernel.run(["ipset", "restore"], stdin=text)
        if done.code == 0:
            break
        number, words = _bad_line(done)
        if not 0 < number <= len(left):
            return [*refused, *((change, done.first_line) for change, _words in left)]
        if "does not exist" not in words:
            refused.append((left[number - 1][0], words))
        left = left[number:]
    return refused


def _bad_line(done: Completed) -> tuple[int, str]:
    """Return (number of the line that ipset refused, why); (0, "") if it names none."""
    found = _ERROR_LINE.search(done.errors)
    return (int(found.group(1)), found.group(2).rstrip(".")) if found else (0, "")


def _refused(step: _Step, words: str) -> str:
    name, want = step.change.new
    if step.write == SetRemoval(name):
        return (
            f"The set {name} exists with type {step.change.old.type}, and {want.type} is needed; the kernel cannot"
            f" change a type in place, and the set is in use: {words}. Delete what refers to the set and the set"
            f" (ipset destroy {name}), then run again."
        )
    module = "ip_set_" + want.type.replace(":", "_").replace(",", "")
    return (
        f"ipset restore refused {step.line!r}: {words}. The set is not as it should be, all others are."
        f" See that the kernel has the modules ip_set and {module}, then run again."
    )


def _reason(done: Completed, lines: int) -> str:
    if done.code == 127:
        return (
            "The program ipset is not installed, and the fleet's firewall rules need its sets."
            " Install it with `apt-get install ipset` (Debian), then run again."
        )
    return (
        f"ipset restore refused the sets: {done.first_line}. Its input had {lines} lines."
        " See that the kernel has the modules ip_set and ip_set_hash_net, then run again."
    )


STEP: DriverStep[t.Sequence[IpSet], dict[str, Observed]] = DriverStep(
    name="ipset",
    kinds=("ipset",),
    stage="firewall",
    desired=lambda state: state.ipsets,
    followers=("iptables",),
    needs=("ipset", "iptables"),
    guard=True,
    add=fill,
    finish=finish,
)
