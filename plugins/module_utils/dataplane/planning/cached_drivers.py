# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers of iptables and IP sets for a long-running process: they cache what they last read and wrote.

Reading 30,000 rules again takes longer than writing the ten that changed. nftables numbers its generations: as long as
the number is the one after our own last read or write, no other process has written, and the cache is valid. If another
one has written, the kernel's notifications say which chains, and only these are read again. For legacy
tables the kernel only says their sizes, which do not show every change. These are read again after TRUSTED seconds
(later, if reading the tables takes long), and at the next look after `suspect`, which a caller uses when it learns by
other means that another process may have written.

update-alternatives may let `iptables` write the other backend at any time. The files of the programs show that; they
are compared before the cache is used, and before each table is written.

For sets the kernel says the number of members, which does not show a member that replaces another one. So a caller has
`CachedSets.is_doubtful` compare the numbers every few seconds, and the members themselves in a round of ROUND seconds.
Sets are read again when they differ, and TRUSTED seconds after the last comparison.

An existing chain that was refused is not tried again until its rules change, a set is new, or `retry` is called. A
deletion is also tried again after rules were changed or deleted: the kernel refuses it while a rule leads to the chain.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import time
import typing as t

from ...state.node_state import IpSet, IptablesTable, VethEndpoint
from ..change import ApplyError, Change, SetAside
from ..driver import Desired, DriverRegistry, DriverStep, Observed
from ..drivers import ipset, iptables, iptables_backend
from ..drivers.iptables_restore import ChainDelete, ChainWrite, Write
from ..drivers.iptables_saved import Chains, ComparedChains, SavedRule, TablePlace, commented
from ..kernel.port import Kernel, MemberWrite, SetHeader
from .registry import REGISTRY

#: Seconds, at least, after which content is read again, if the kernel does not show whether another process has changed
#: it.
TRUSTED = 10.0
_SHARE = 100.0  # Reading legacy tables again and again takes at most a hundredth of the time.
#: Seconds in which the members of all sets are compared with the cache once, or fewer on a node with small sets.
ROUND = 90.0
_SET = 20  # What comparing a set costs without its members, in members.
_LEAST = 200.0  # Members a second that are compared however few there are: under a thousandth of a processor.
_HEADERS = 500.0  # Comparing numbers of members takes at most a 500th of the time,
_HEADERS_LATEST = 1.5  # and is repeated after so many seconds at the latest.
_FRESH = 1.0  # Seconds after which an add compares them itself: adds that follow each other need not do so each time.

Clock = t.Callable[[], float]


class _Refused(t.NamedTuple):
    """A refusal. `hashes` are those of the rules that were to be written, None if the chain was to be deleted."""

    hashes: t.Optional[tuple[str, ...]]
    reason: str


class CachedTables:
    """A caching driver of iptables for one kernel, to be used by one thread at a time.

    Methods raise what those of `iptables` raise. `clock` returns seconds of a clock that never goes back.
    """

    STEP = iptables.STEP

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._observed: t.Optional[iptables.Observed] = None
        self._sign: t.Hashable = None  # the tables' mark that belongs to `_observed`
        self._read = 0.0
        self._trusted = TRUSTED
        self._programs: t.Hashable = None  # the mark of the programs that the tables were last read by
        self._planned: t.Hashable = None  # the same of the tables that the last `diff` was given
        self.backend = ""  # that of the tables that are written; "" until tables were read, and without iptables
        self._as_saved = False  # whether `_observed` has the texts of iptables-save, in twice the memory
        self._compared = ComparedChains()
        self._refused: dict[str, _Refused] = {}  # by the chain's subject

    @property
    def set_aside(self) -> tuple[str, ...]:
        """A text for each refusal that is remembered: `iptables filter cali-INPUT: REASON`."""
        return tuple(f"iptables {subject}: {found.reason}" for subject, found in self._refused.items())

    def forget(self) -> None:
        """Discard the cache, so that the next `observe` reads the kernel."""
        self._observed = None

    def suspect(self) -> None:
        """Discard the cache, unless the generation of nftables will show whether another process has written."""
        if self.backend != "nft" or self._sign is None:
            self._observed = None

    def mark(self, kernel: Kernel) -> t.Hashable:
        """Return a token that changes when this or another process may have written; None while `backend` is "".

        It also changes when another backend is to be written. For legacy tables, whose sizes do not show every change,
        it changes every TRUSTED seconds as well, or less often if reading the tables takes long. It is cheap.
        """
        if not self.backend:
            return None
        period = None if self.backend == "nft" else int(self._clock() // self._trusted)
        return self._signed(kernel, self.backend), period, kernel.programs_mark(iptables_backend.PROGRAMS)

    def is_switched(self, kernel: Kernel) -> bool:
        """Return whether other programs would be run than those by which the last plan's tables were read."""
        return self._planned is not None and kernel.programs_mark(iptables_backend.PROGRAMS) != self._planned

    def _signed(self, kernel: Kernel, backend: str) -> t.Hashable:
        if backend == iptables_backend.BOTH:
            return kernel.ruleset_mark(), kernel.legacy_mark()
        return kernel.ruleset_mark() if backend == "nft" else kernel.legacy_mark()

    def retry(self) -> None:
        """Forget all refusals, so that refused chains are tried again."""
        self._refused = {}

    def observe(self, kernel: Kernel, desired: t.Sequence[IptablesTable]) -> iptables.Observed:
        """Return the tables as `iptables.observe` does, from the cache while it is valid.

        It is valid until the generation of nftables, or the sizes of legacy tables, show that another process has
        written, and until other programs write the tables. Legacy tables are valid for TRUSTED seconds at most, or
        longer if reading them takes long. With nftables, only the chains that were written are read, if that is known.
        """
        known, self._observed = self._observed, None
        if kernel.programs_mark(iptables_backend.PROGRAMS) != self._programs:
            self.retry()  # The other backend may accept what this one refused.
        elif known is not None:
            self._observed = self._current(kernel, known)
        if self._observed is not None:
            return self._observed
        # The marks are read first: if a write during the reading changes them, the cache is invalid.
        self._programs = kernel.programs_mark(iptables_backend.PROGRAMS)
        signs = {name: self._signed(kernel, name) for name in ("nft", "legacy", iptables_backend.BOTH)}
        self._read = self._clock()
        observed = iptables.observe(kernel, desired)
        self._observed, self.backend, self._as_saved = observed, observed.backend, True
        self._sign = signs.get(observed.backend)
        self._listen(kernel)
        self._trusted = max(TRUSTED, _SHARE * (self._clock() - self._read))
        return observed

    def _current(self, kernel: Kernel, known: iptables.Observed) -> t.Optional[iptables.Observed]:
        """Return the present content if it is known, or few chains have to be read for that, otherwise None."""
        if known.backend == "nft" and isinstance(self._sign, int):
            mark = kernel.ruleset_mark()
            if mark == self._sign:
                return known
            changed = kernel.ruleset_changes(self._sign, mark) if mark is not None else None
            self._sign = mark
            return None if changed is None else iptables_backend.refreshed(kernel, known, changed)
        fresh = self._clock() - self._read < self._trusted
        return known if fresh and (not known.backend or self._signed(kernel, known.backend) == self._sign) else None

    def _listen(self, kernel: Kernel) -> None:
        """Start to note which chains others write, and forget those that they wrote before."""
        if self.backend == "nft" and isinstance(self._sign, int):
            kernel.ruleset_changes(self._sign, self._sign)

    def diff(self, desired: t.Iterable[IptablesTable], observed: iptables.Observed) -> list[Change]:
        """Return the changes of `iptables.diff`, without those that were refused before in the same form.

        The form is the same if the change writes the same rules to an existing chain, or deletes the chain. All other
        refusals are forgotten. Comparing is fast for chains whose rules are the same tuple objects as in the last call.
        """
        self._planned = self._programs
        changes = iptables.diff(desired, observed, self._compared)
        if self._as_saved and observed is self._observed:
            self._observed = dataclasses.replace(observed, tables=self._compared.written(observed.tables))
            self._as_saved = False
        refused = {change.subject for change in changes if self._is_refused(change)}
        self._refused = {subject: found for subject, found in self._refused.items() if subject in refused}
        return [change for change in changes if change.subject not in refused]

    def differences(self, desired: t.Iterable[IptablesTable], observed: iptables.Observed) -> list[Change]:
        """Return the changes as `diff` does, for a state that is not to be applied: no refusal is forgotten."""
        changes = iptables.diff(desired, observed, self._compared)
        return [change for change in changes if not self._is_refused(change)]

    def _is_refused(self, change: Change) -> bool:
        """Return whether this change of an existing chain, with the same rules or a deletion, was refused before.

        It is False for a missing chain, because other chains depend on it: that one is always tried.
        """
        found = self._refused.get(change.subject)
        return found is not None and change.action != "+" and found.hashes == _wanted_hashes(change)

    def apply(self, kernel: Kernel, changes: t.Sequence[Change]) -> None:
        """Make the changes as `iptables.apply` does, and update the cache; remember refused single chains for `diff`.

        The cache is discarded after a failure, and if the marks show that another process has written.
        """
        if any(change.action in ("~", "-") for change in changes):
            self._refused = {subject: found for subject, found in self._refused.items() if found.hashes is not None}
        try:
            self._apply(kernel, changes)
        except SetAside as error:
            for change, reason in error.failures:
                self._refused[change.subject] = _Refused(_wanted_hashes(change), reason)
            raise

    def _apply(self, kernel: Kernel, changes: t.Sequence[Change]) -> None:
        observed, self._observed = self._observed, None  # After a failure the kernel's content is unknown.
        before = self._signed(kernel, self.backend)
        moved = observed is None or (bool(observed.backend) and before != self._sign)
        if moved:
            # Whole chains are written: the numbers of rules may have changed since the plan.
            changes = [_anew(change) for change in changes]
        tables = iptables.apply_each_table(kernel, changes, lambda: _SWITCHED if self.is_switched(kernel) else "")
        for change in changes:
            if isinstance(change.old, ChainDelete):
                self._compared.forget(change.old.place, change.old.chain)
        if moved or observed is None:
            return
        after = self._signed(kernel, self.backend)
        if observed.backend == "nft" and isinstance(before, int) and after != before + tables:
            return  # The cache stays empty: each table is one transaction, so another process has written as well.
        self._sign = after
        self._listen(kernel)
        self._observed = _after(observed, [iptables.written(change) for change in changes if change.action in "+~-"])


_SWITCHED = (
    "The host's iptables was changed to another backend after its rules were read (update-alternatives), so nothing was"
    " written. The rules from before stay in force, and the next attempt writes the other backend."
)


def _wanted_hashes(change: Change) -> t.Optional[tuple[str, ...]]:
    return tuple(digest for digest, _rule in change.new.rules) if isinstance(change.new, ChainWrite) else None


def _anew(change: Change) -> Change:
    if isinstance(change.new, ChainWrite):
        return change._replace(new=change.new._replace(delta=()))
    return change


def _after(observed: iptables.Observed, writes: t.Iterable[Write]) -> iptables.Observed:
    """Return the content of the tables after these writes."""
    tables: dict[TablePlace, Chains] = dict(observed.tables)
    own: set[TablePlace] = set()
    for write in writes:
        if write.place not in own:
            own.add(write.place)
            tables[write.place] = dict(tables.get(write.place, {}))
        chains = tables[write.place]
        if isinstance(write, ChainWrite):
            chains[write.chain] = tuple(SavedRule(digest, rule) for digest, rule in write.rules)
        elif isinstance(write, ChainDelete):
            del chains[write.chain]
        else:
            first, last = (
                [SavedRule(digest, commented(digest, rule)) for digest, rule in rules]
                for rules in (write.first, write.last)
            )
            theirs = [rule for rule in chains.get(write.chain, ()) if not rule.hash]
            chains[write.chain] = (*first, *theirs, *last)
    return dataclasses.replace(observed, tables=tables)


class CachedSets:
    """A caching driver of IP sets for one kernel, to be used by one thread at a time.

    Methods raise what those of `ipset` raise; the cache is discarded after a failed write. `clock` returns seconds of a
    clock that never goes back. `on_new` is called when `diff` finds that a set is missing.
    """

    def __init__(self, clock: Clock = time.monotonic, on_new: t.Callable[[], None] = lambda: None) -> None:
        self.STEP = dataclasses.replace(ipset.STEP, add=self.fill, finish=self._finish)
        self._clock = clock
        self._on_new = on_new
        self._observed: t.Optional[dict[str, ipset.Observed]] = None
        self._read = 0.0  # when the cache was last read, or its numbers of members found right
        self._wanted: dict[str, tuple[IpSet, ipset.Observed]] = {}
        self._rest = 0.0  # seconds after `_read` before which `is_doubtful` compares nothing
        self._seeds: dict[str, bytes] = {}  # of sets that were not made anew by a write of ours
        self._marks: dict[str, int] = {}  # of sets whose members were found right, and not written since
        self._next = ""  # the set after which, in alphabetical order, members are compared next
        self._credit, self._credited = 0.0, clock()  # how many members may be compared, and since when
        self._known_difference: t.Hashable = None  # what led to the last doubt, until a write

    @property
    def left_out(self) -> tuple[str, ...]:
        """A text for each set of the last `diff` for which some texts cannot be members: `ipset NAME: REASON`."""
        found = ((name, ipset.left_out(name, want)) for name, (_one, want) in self._wanted.items() if want.refused)
        return tuple(f"ipset {name}: {words}" for name, words in found)

    def forget(self) -> None:
        """Discard the cache, so that the next `observe` reads the kernel."""
        self._observed = None
        self._seeds, self._marks = {}, {}

    def observe(self, kernel: Kernel, desired: t.Sequence[IpSet]) -> dict[str, ipset.Observed]:
        """Return our sets as `ipset.observe` does, by name, from the cache while it is valid.

        It is valid for TRUSTED seconds after it was read, or after its numbers of members were last found right.
        """
        if self._observed is None or self._clock() - self._read >= TRUSTED:
            self.forget()
            read = self._clock()
            self._observed, self._read = ipset.observe(kernel, desired), read
        return self._observed

    def is_doubtful(self, kernel: Kernel) -> bool:
        """Return whether the kernel's sets are not those of the cache, which is then discarded.

        Compare the numbers of members of all sets, unless that was done a moment ago, and the members of some: of each
        set once in ROUND seconds. A difference that reading the sets again does not resolve is reported once. The
        result is False if nothing is cached. Raise KernelError if the kernel refuses.
        """
        if self._clock() - self._read < self._rest:
            return False
        return self._have_others_written(kernel) or self._is_member_wrong(kernel)

    def check(self, kernel: Kernel) -> None:
        """Discard the cache if the numbers of members differ from it, unless they were compared in the last second.

        Raise KernelError if the kernel refuses.
        """
        if self._clock() - self._read >= _FRESH:
            self._have_others_written(kernel)

    def write_memberships(
        self, kernel: Kernel, endpoints: t.Iterable[VethEndpoint], filled: t.Iterable[Change] = ()
    ) -> None:
        """Add the addresses of these workloads to the desired sets that have them, whatever the cache says.

        The desired sets are those of the last `diff`. Members that `fill` has just added for the changes `filled` are
        not written again. Raise KernelError if the kernel refuses.
        """
        pairs = [(address, f"{address},{one.interface}") for one in endpoints for address in one.addresses]
        just_now = {change.subject: change for change in filled if change.kind == "ipset"}
        writes = [
            MemberWrite("add", name, want.type, member)
            for name, (_one, want) in self._wanted.items()
            for member in _memberships(want, pairs)
            if name not in just_now or not _is_added(just_now[name], member)
        ]
        if writes:
            kernel.ipset_write(writes)

    def _have_others_written(self, kernel: Kernel) -> bool:
        observed = self._observed
        if observed is None:
            return False
        began = self._clock()
        found = {name: header for name, header in kernel.ipset_headers().items() if ipset.is_ours(name)}
        self._rest = min(_HEADERS_LATEST, _HEADERS * (self._clock() - began))
        wrong = {name for name, header in found.items() if not self._is_expected(name, header, observed)}
        wrong.update(observed.keys() - found.keys())
        self._seeds.update((name, header.seed) for name, header in found.items())
        if wrong:
            return self._doubt(frozenset((name, found.get(name)) for name in wrong))
        self._read = began
        return False

    def _is_expected(self, name: str, header: SetHeader, observed: t.Mapping[str, ipset.Observed]) -> bool:
        known = observed.get(name)
        if known is None or known.type != header.type or self._seeds.get(name, header.seed) != header.seed:
            return False
        return header.elements is None or header.elements == len(known.members)

    def _is_member_wrong(self, kernel: Kernel) -> bool:
        """Return whether the members of a set whose turn it is are not those of the cache, which is then discarded."""
        observed = self._observed or {}
        for name in self._turn(observed):
            mark = kernel.ipset_mark(name)
            if self._marks.get(name) == mark:
                continue
            if kernel.ipset_members(name) == observed[name].members:
                self._marks[name] = mark
            elif self._doubt((name, mark)):
                return True
        return False

    def _turn(self, observed: t.Mapping[str, ipset.Observed]) -> list[str]:
        """Return the names of the sets whose members to compare now."""
        now, costs = self._clock(), {name: len(known.members) + _SET for name, known in observed.items()}
        whole = sum(costs.values())
        self._credit += (now - self._credited) * max(whole / ROUND, _LEAST)
        self._credit, self._credited = min(self._credit, whole), now
        names, turn = sorted(costs), []
        first = bisect.bisect_right(names, self._next)
        for name in (*names[first:], *names[:first]):
            if costs[name] > self._credit:
                break
            self._credit -= costs[name]
            turn.append(name)
            self._next = name
        return turn

    def _doubt(self, difference: t.Hashable) -> bool:
        """Discard the cache and return True, unless this was the difference before, and nothing was written since."""
        if difference == self._known_difference:
            return False
        self._known_difference = difference
        self.forget()
        return True

    def differences(self, desired: t.Iterable[IpSet], observed: t.Mapping[str, ipset.Observed]) -> list[Change]:
        """Return the changes as `diff` does, for a state that is not to be applied: nothing is recorded."""

        def want(one: IpSet) -> ipset.Observed:
            known = self._wanted.get(one.name)
            if known is not None and (known[0] is one or known[0] == one):
                return known[1]
            return _wanted(one, known)

        return ipset.diff(desired, observed, want)

    def diff(self, desired: t.Iterable[IpSet], observed: t.Mapping[str, ipset.Observed]) -> list[Change]:
        """Return the changes of `ipset.diff`; fast for sets whose members are the same objects as in the last call."""
        before, self._wanted = self._wanted, {}

        def want(one: IpSet) -> ipset.Observed:
            known = before.get(one.name)
            if known is None or (known[0] is not one and known[0] != one):
                known = one, _wanted(one, known)
            self._wanted[one.name] = known
            return known[1]

        changes = ipset.diff(desired, observed, want)
        if any(change.action == "+" for change in changes):
            self._on_new()
        if observed is self._observed:
            self._know_again({change.subject for change in changes if change.action != "="})
        return changes

    def _know_again(self, different: t.Container[str]) -> None:
        """Store the desired members' object of each set that is as desired in place of the one that was read.

        The next `diff` then finds the same object; comparing thousands of members takes most of its time.
        """
        observed = t.cast("dict[str, ipset.Observed]", self._observed)
        for name, (_one, want) in self._wanted.items():
            if name not in different and observed[name].members is not want.members:
                observed[name] = observed[name]._replace(members=want.members)

    def fill(self, kernel: Kernel, changes: t.Sequence[Change]) -> None:
        """Make sets and add members as `ipset.fill` does, and update the cache."""
        fill = functools.partial(ipset.fill, installed=bool(self._observed))  # `ipset save` has listed them
        self._written(kernel, changes, fill, "+~", ipset.filled)

    def drain(self, kernel: Kernel, changes: t.Sequence[Change]) -> None:
        """Remove members as `ipset.drain` does, and update the cache."""
        self._written(kernel, changes, ipset.drain, "~", ipset.drained)

    def _finish(self, kernel: Kernel, changes: t.Sequence[Change], failed: bool) -> list[Change]:
        return ipset.finish(kernel, changes, failed, self.drain)

    def _written(
        self,
        kernel: Kernel,
        changes: t.Sequence[Change],
        step: t.Callable[[Kernel, t.Sequence[Change]], None],
        actions: str,
        after: t.Callable[[Change], ipset.Observed],
    ) -> None:
        observed, self._observed = self._observed, None  # After a failure the kernel's content is unknown.
        self._wrote(changes)
        step(kernel, changes)
        if observed is not None:
            known = {change.subject: after(change) for change in changes if change.action in actions}
            self._observed = {**observed, **known}

    def _wrote(self, changes: t.Iterable[Change]) -> None:
        """Forget what is known of the kernel's objects that these changes may replace, and the last difference."""
        for change in changes:
            self._known_difference = None
            self._seeds.pop(change.subject, None)
            self._marks.pop(change.subject, None)

    def apply(self, kernel: Kernel, changes: t.Sequence[Change]) -> None:
        """Make the changes as `ipset.apply` does, and update the cache, also if only deletions were refused.

        A refused deletion is not repeated here. The kernel releases a set some time after the rule that referred to it,
        and the caller may do other work until then.
        """
        observed, self._observed = self._observed, None
        self._wrote(changes)
        try:
            ipset.apply(kernel, changes, patience=())
        except ApplyError as error:
            if any(change.action != "-" for change, _reason in error.failures):
                raise
            # The kernel refused only deletions, mostly of sets in use. These sets still exist; the rest is done.
            kept = {change.subject for change, _reason in error.failures}
            self._observed = _sets_after(observed, changes, kept)
            raise
        self._observed = _sets_after(observed, changes, ())


def _sets_after(
    observed: t.Optional[t.Mapping[str, ipset.Observed]], changes: t.Iterable[Change], kept: t.Container[str]
) -> t.Optional[dict[str, ipset.Observed]]:
    if observed is None:
        return None
    after = dict(observed)
    for change in changes:
        if change.action in ("+", "~"):
            after[change.subject] = ipset.drained(change)
        elif change.action == "-" and change.subject not in kept:
            after.pop(change.subject, None)
    return after


def _memberships(want: ipset.Observed, pairs: t.Sequence[tuple[str, str]]) -> list[str]:
    """Return the members of a set that belong to these pairs (address, address with its interface)."""
    members = want.members
    if want.type != "hash:ip,port":
        return [member for pair in pairs for member in pair if member in members]
    begin = tuple(f"{address},{protocol}:" for address, _more in pairs for protocol in ("tcp", "udp", "sctp"))
    return [member for member in members if member.startswith(begin)]


def _is_added(change: Change, member: str) -> bool:
    """Return whether `ipset.fill` adds this member of the new set for the change."""
    have: t.Optional[ipset.Observed] = change.old
    return have is None or have.type != change.new[1].type or member not in have.members


def _wanted(one: IpSet, known: t.Optional[tuple[IpSet, ipset.Observed]]) -> ipset.Observed:
    """Return the result of `ipset.wanted`.

    `known` is the set as desired before, with that result; its members are validated again only for another type.
    """
    if known is None or known[0].type != one.type:
        return ipset.wanted(one)
    return ipset.wanted(one, known[1].members)


class CachedDrivers:
    """The drivers of a long-running process, those of iptables and IP sets cached, for one thread at a time."""

    def __init__(self, clock: Clock = time.monotonic, registry: DriverRegistry = REGISTRY) -> None:
        #: The drivers without caches.
        self.uncached = registry
        self.tables = CachedTables(clock)
        # A chain may have been refused because a set was missing: new sets make refused chains be tried again.
        self.sets = CachedSets(clock, self.tables.retry)
        #: The drivers for the state that is applied.
        self.registry = registry.replacing(self.sets, self.tables)
        #: The drivers for plans of other states, which are not applied.
        self.others = registry.replacing(
            _Comparing(ipset.STEP, self.sets.observe, self.sets.differences),
            _Comparing(iptables.STEP, self.tables.observe, self.tables.differences),
        )

    def forget(self) -> None:
        """Discard both caches, so that the next plan reads the kernel."""
        self.sets.forget()
        self.tables.forget()

    def suspect(self, kinds: t.Container[str]) -> None:
        """Discard the caches of the drivers named in `kinds` that a write of another process may have made invalid."""
        if ipset.STEP.name in kinds:
            self.sets.forget()
        if iptables.STEP.name in kinds:
            self.tables.suspect()


class _Comparing(t.Generic[Desired, Observed]):
    """A driver that only plans. It shares the cache of another one and records nothing."""

    def __init__(
        self,
        step: DriverStep[Desired, Observed],
        observe: t.Callable[[Kernel, Desired], Observed],
        diff: t.Callable[[Desired, Observed], list[Change]],
    ) -> None:
        self.STEP = step
        self._observe = observe
        self._diff = diff

    def observe(self, kernel: Kernel, desired: Desired) -> Observed:
        """Return the content of the kernel, from the cache while that is valid."""
        return self._observe(kernel, desired)

    def diff(self, desired: Desired, observed: Observed) -> list[Change]:
        """Return the changes, and record nothing of them."""
        return self._diff(desired, observed)

    def apply(self, kernel: Kernel, changes: t.Sequence[Change]) -> None:
        """Raise AssertionError: a plan for comparison must not be applied."""
        raise AssertionError("a plan for comparison is not applied")
