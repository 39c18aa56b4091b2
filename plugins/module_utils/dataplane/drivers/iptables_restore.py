# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One table written by one `iptables-restore --noflush`: one transaction, so no packet meets half of it.

If the table is refused, the chain that causes this is set aside, if possible, and the others are written: one bad
policy must not prevent all others from being enforced. In most cases the program names the line. Otherwise (the legacy
kernel refuses a table as a whole) the rules are tried in halves, in a chain that nothing refers to.

An existing chain that is set aside keeps its former rules. A new one gets the rules before the bad one and, except in
table nat, drops packets that reach its end; one with an invalid name is left out. The chain of a text that would not be
one rule (iptables_encoding.py) is set aside in the same way, and the program never gets that text. Nothing of the table
is written if a hook is refused, or a new chain that one leads to, or more than 50 chains.
"""

from __future__ import annotations

import re
import typing as t

from ...base import iptables_encoding as encoding
from ...base.not_encodable import NotEncodable, shown
from ..kernel.port import Completed, Kernel
from .iptables_saved import TablePlace, commented

_LOCK_WAIT = 10  # seconds for the lock of the legacy tables (/run/xtables.lock)
_TIMEOUT = 120.0  # seconds for one run of the program
_ATTEMPTS = 3  # runs in all, if another process wrote the table between the program's reading and its writing
# Chains that the program refuses and that are set aside; at the next one the table is given up, because each of them
# costs another run. Chains that the program never gets, for a text or a name that is not valid, cost none.
_MOST_REFUSED = 50
_MOST_TRIALS = 400  # trials, at most, in one search for refused rules
_TRIAL = "cali-trial"

_NAMED_LINE = re.compile(r"\bline:? (\d+)")
_PROGRAM = re.compile(r"^ip6?tables\S*(?: v[\d.]+ \(\w+\))?: ?")

#: The rules of a chain in their order, each as (hash, rule).
Rules = tuple[tuple[str, str], ...]
#: Chains of ours, each as (name, rules).
Reached = tuple[tuple[str, Rules], ...]


class ChainWrite(t.NamedTuple):
    """A chain of ours with its rules.

    `delta` are the lines that change the present chain into it. If there are none, the chain is emptied and refilled in
    the same transaction. `hooked` says that rules in chains of others refer to it, or that a refusal has already
    reduced a new chain. `title` names the chain for people, "" if there is no better name. In table nat, `reached` has
    the rules of each chain that it leads to, and `left` those of superfluous chains that it leads to no longer.
    """

    place: TablePlace
    chain: str
    rules: Rules
    exists: bool = False
    delta: tuple[str, ...] = ()
    hooked: bool = False
    title: str = ""
    reached: Reached = ()
    left: Reached = ()

    @property
    def set_aside(self) -> bool:
        """Whether the table can be written without it, or with a new chain reduced to the rules before a bad one.

        A new chain that all packets pass must not drop what reaches its end.
        """
        return self.exists or not self.hooked


class ChainDelete(t.NamedTuple):
    """The end of a chain of ours; `rules` are those that it has, as iptables-save prints them.

    `moved` says that the chain is desired in the same table of the other backend.
    """

    place: TablePlace
    chain: str
    rules: Rules = ()
    moved: bool = False

    @property
    def set_aside(self) -> bool:
        return True


class HookWrite(t.NamedTuple):
    """Our rules at the beginning (`first`) and the end (`last`) of a chain of others.

    `old` are those to delete before. In table nat, `reached` has the rules of each chain that ours lead to.
    """

    place: TablePlace
    chain: str
    first: Rules = ()
    last: Rules = ()
    old: tuple[str, ...] = ()  # our rules that are in the chain, as iptables-save prints them without -A and the chain
    reached: Reached = ()

    @property
    def set_aside(self) -> bool:
        return False


Write = t.Union[ChainWrite, ChainDelete, HookWrite]


class RestoreOutcome(t.NamedTuple):
    """The result of writing one table.

    `refused` maps positions of writes that were set aside to reasons; it is empty if nothing was written (`failure`).
    """

    refused: t.Mapping[int, str]
    failure: str = ""


class _Line(t.NamedTuple):
    text: str
    write: int = -1  # position among the writes; -1: none


def restore(kernel: Kernel, place: TablePlace, writes: t.Sequence[Write]) -> RestoreOutcome:
    """Write one table, `place`, in one transaction, and set aside the writes that are refused, if possible.

    The module's docstring says how. Texts and names that the program never gets do not count among the 50 refusals.
    Each run of the program may take 120 seconds.
    """
    current: dict[int, Write] = dict(enumerate(writes))
    refused: dict[int, str] = {}
    by_program = 0  # the number of writes that the program refused
    tried = False
    try:
        refused.update(_without_bad_names(place, current))
    except _NothingWritten as error:
        return RestoreOutcome({}, str(error))
    while current:
        lines = _input(place, current)
        unfit = _unfit(lines)
        if unfit:
            try:
                for line, unencodable in unfit:
                    refused[line.write] = _set_aside(current, line, place, unencodable.allowed, given=False)
            except _NothingWritten as failure:
                return RestoreOutcome({}, str(failure))
            continue
        done = _run(kernel, place, [line.text for line in lines])
        if done.code == 0:
            return RestoreOutcome(refused)
        named = [lines[number - 1] for number in _numbers(done) if 0 < number <= len(lines)]
        bad = [line for line in named if line.write >= 0 and current[line.write].set_aside]
        if not bad and not tried and all(line.write < 0 for line in named) and _about_the_input(done):
            tried = True
            bad = _search(kernel, place, current)
        elif bad:
            bad = bad[-1:]  # The kernel names the jumps to a chain that it refuses before the bad rule itself.
        by_program += len(bad)
        if not bad or by_program > _MOST_REFUSED:
            return RestoreOutcome({}, _reason(done, place, named))
        for line in bad:
            if line.write in current:
                refused[line.write] = _set_aside(current, line, place, said(done))
    return RestoreOutcome(refused)


def _input(place: TablePlace, writes: t.Mapping[int, Write]) -> list[_Line]:
    """Return the lines of iptables-restore's input: chains are declared before rules refer to them, and deleted last.

    `writes` are by position. Each line has the position of its write, -1 for the first and the last line.
    """
    declare: list[_Line] = []
    rules: list[_Line] = []
    unhook: list[_Line] = []
    hook: list[_Line] = []
    flush: list[_Line] = []
    delete: list[_Line] = []
    for number, write in writes.items():
        if isinstance(write, HookWrite):
            # Rules are deleted by their text, not by number: others insert rules between reading and writing.
            unhook += [_Line(f"-D {write.chain} {text}", number) for text in write.old]
            for position, (digest, rule) in enumerate(write.first, start=1):
                hook.append(_Line(f"-I {write.chain} {position} {commented(digest, rule)}", number))
            hook += [_Line(f"-A {write.chain} {commented(digest, rule)}", number) for digest, rule in write.last]
        elif isinstance(write, ChainDelete):
            flush.append(_Line(f"-F {write.chain}", number))
            delete.append(_Line(f"-X {write.chain}", number))
        elif write.delta:
            rules += [_Line(text, number) for text in write.delta]
        else:
            declare.append(_Line(f":{write.chain} - [0:0]", number))  # This also empties an existing chain.
            rules += [_Line(f"-A {write.chain} {commented(digest, rule)}", number) for digest, rule in write.rules]
    return [_Line(f"*{place.table}"), *declare, *rules, *unhook, *hook, *flush, *delete, _Line("COMMIT")]


class _NothingWritten(Exception):
    """An indispensable part of a table cannot be encoded, so nothing of it was written. The text is for people."""


def _without_bad_names(place: TablePlace, writes: dict[int, Write]) -> dict[int, str]:
    """Remove from `writes` those to chains with invalid names; return a mapping from their positions to the reasons.

    Raise _NothingWritten if the table's name or the name of a chain of others is invalid.
    """
    reasons: dict[int, str] = {}
    for number, write in list(writes.items()):
        try:
            encoding.check_table(place.table)
            encoding.check_chain(write.chain, ours=not isinstance(write, HookWrite))
        except NotEncodable as error:
            if place.table not in encoding.TABLES or isinstance(write, HookWrite):
                words = f"Nothing of table {place.table} was changed: {error} Correct it, then run again."
                raise _NothingWritten(words) from error
            del writes[number]
            reasons[number] = f"{error} The chain was left out, everything else is applied. Correct it, then run again."
    return reasons


def _unfit(lines: t.Sequence[_Line]) -> list[tuple[_Line, NotEncodable]]:
    """Return [(line, error)] with the first line of each write that `check_line` refuses; [] if it refuses none."""
    if encoding.are_good([line.text for line in lines]):
        return []
    found: dict[int, tuple[_Line, NotEncodable]] = {}
    for line in lines:
        try:
            encoding.check_line(line.text)
        except NotEncodable as error:
            found.setdefault(line.write, (line, error))
    return list(found.values())


def _run(kernel: Kernel, place: TablePlace, lines: t.Sequence[str]) -> Completed:
    command = [f"{place.program}-restore", "--noflush", "-w", str(_LOCK_WAIT)]
    text = "\n".join([*lines, ""])
    for _attempt in range(_ATTEMPTS):
        done = kernel.run(command, stdin=text, timeout=_TIMEOUT)
        if done.code == 0 or "temporarily unavailable" not in done.errors:
            break
    return done


def _numbers(done: Completed) -> list[int]:
    return [int(number) for number in _NAMED_LINE.findall(done.errors)]


def said(done: Completed) -> str:
    """Return what the program, or through it the kernel, said: the last message that begins with a line's number.

    If there is none, return its first error that is no warning, or its exit status in words.
    """
    found = [line for line in done.errors.splitlines() if _NAMED_LINE.match(line)]
    if not found:
        found = [_PROGRAM.sub("", line) for line in done.errors.splitlines() if "Warning" not in line]
    words = [line.strip().rstrip(".") for line in found if line.strip()]
    if not words:
        return f"it ended with status {done.code}"
    return words[-1] if _NAMED_LINE.match(words[-1]) else words[0]


def _about_the_input(done: Completed) -> bool:
    """Return whether a failure may be due to the input, not to a program that cannot start, the lock or the timeout."""
    return done.code not in (124, 126, 127) and "xtables lock" not in done.errors


def _search(kernel: Kernel, place: TablePlace, writes: t.Mapping[int, Write]) -> list[_Line]:
    """Return the first refused line of each chain that can be set aside, found by trying rules in halves.

    The result is [] if no rule is refused by itself. After 400 trials (_MOST_TRIALS) the rules that are left count as
    accepted. The chains made for trying are removed again.
    """
    chains = {number: write for number, write in writes.items() if isinstance(write, ChainWrite)}
    new = [write.chain for write in chains.values() if not write.exists]
    declared = [f"*{place.table}", f":{_TRIAL} - [0:0]", *(f":{chain} - [0:0]" for chain in new)]
    trials = 0

    def refused(rules: t.Sequence[_Line]) -> list[_Line]:
        nonlocal trials
        trials += 1
        text = [*declared, *(f"-A {_TRIAL} {line.text}" for line in rules), "COMMIT"]
        if trials > _MOST_TRIALS or _run(kernel, place, text).code == 0:
            return []
        if len(rules) == 1:
            return list(rules)
        half = len(rules) // 2
        return refused(rules[:half]) + refused(rules[half:])

    everything = [
        _Line(commented(digest, rule), number)
        for number, write in chains.items()
        if write.set_aside
        for digest, rule in write.rules
    ]
    try:
        found = refused(everything) if everything else []
    finally:
        for chain in (_TRIAL, *new):
            _run(kernel, place, [f"*{place.table}", f"-F {chain}", f"-X {chain}", "COMMIT"])
    first: dict[int, _Line] = {}
    for line in found:
        first.setdefault(line.write, line)
    return [line._replace(text=f"-A {chains[line.write].chain} {line.text}") for line in first.values()]


def _set_aside(writes: dict[int, Write], line: _Line, place: TablePlace, words: str, given: bool = True) -> str:
    """Remove the write of `line`, or reduce a new chain to the rules before that line; return the reason.

    `words` is what was said about the line. `given` is False if iptables-restore did not get the line: raise
    _NothingWritten then if the table must not be written without that write.
    """
    write = writes[line.write]
    words = words.rstrip(".")
    if not given and not write.set_aside:
        raise _NothingWritten(
            f"Nothing of table {place.table} was changed, for chain {write.chain} cannot be written: {words}."
            " Correct it, then run again."
        )
    del writes[line.write]
    if isinstance(write, ChainDelete):
        return (
            f"The chain {write.chain} of table {place.table} could not be deleted: {words}."
            f" A rule that is not ours may refer to it ({place.program}-save | grep it); the next run tries again."
        )
    if not isinstance(write, ChainWrite):  # A hook is never set aside: its table fails as a whole.
        raise TypeError(f"{write!r} cannot be set aside")
    name = f"{write.title} (chain {write.chain})" if write.title else f"chain {write.chain}"
    rule = shown(encoding.without_refused(line.text))
    doing = "refused" if given else "was not given"
    text = f"{place.program}-restore {doing} {name} of table {place.table} at {rule}: {words}."
    if write.exists:
        return f"{text} Its former rules stay in force, and everything else is applied. Correct it, then run again."
    bodies = [f"-A {write.chain} {commented(digest, rule)}" for digest, rule in write.rules]
    good = write.rules[: bodies.index(line.text)] if line.text in bodies else ()
    end: Rules = () if place.table == "nat" else (("0" * 16, "-j DROP"),)
    writes[line.write] = write._replace(rules=good + end, hooked=True)
    fate = "it changes nothing" if place.table == "nat" else "it drops"
    return (
        f"{text} Until that is right the chain has the {len(good)} rules before it, and what they leave {fate};"
        " everything else is applied. Correct it, then run again."
    )


def _reason(done: Completed, place: TablePlace, named: t.Sequence[_Line]) -> str:
    if done.code == 127:
        return (
            f"The program {place.program}-restore is not installed; NAT and the guard of the tunnels need it."
            " Install it with `apt-get install iptables` (Debian), then run again."
        )
    if "xtables lock" in done.errors:
        return (
            f"Another program has held the lock of iptables (/run/xtables.lock) for {_LOCK_WAIT} s, so table"
            f" {place.table} was not written. See which one it is (lsof /run/xtables.lock), then run again."
        )
    where = f" at {shown(named[-1].text)}" if named else ""
    return (
        f"{place.program}-restore refused table {place.table}{where}: {said(done)}. Nothing of the table was changed."
        " See that the kernel has the modules which the rule names (xt_set, xt_comment, nf_nat), then run again."
    )
