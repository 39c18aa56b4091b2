# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of iptables: our chains `cali-*`, and our rules in chains of others (hooks), kept first or last there.

Only differences are written: chains whose hashes differ, and only the differing lines of a chain that just grows, or of
a long one with few differences. See iptables_saved for the hashes, iptables_backend for nft and legacy,
iptables_restore for the writing. After a write of the table nat, iptables_nat deletes tracked connections that still
have another translation.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from ...state.node_state import Hook, IptablesTable
from ...state.published_ports import UNORDERED
from ..change import ApplyError, Change, Failures, SetAside
from ..driver import DriverStep
from ..kernel.port import Kernel, KernelError
from . import iptables_nat
from .iptables_backend import Backends, Observed, backends, observe
from .iptables_restore import ChainDelete, ChainWrite, HookWrite, Reached, RestoreOutcome, Rules, Write, restore
from .iptables_saved import (
    COMMENT,
    PREFIX,
    Chains,
    ComparedChains,
    SavedRule,
    TablePlace,
    as_ours,
    bare,
    commented,
    hashes,
)

__all__ = [
    "COMMENT",
    "PREFIX",
    "STEP",
    "Backends",
    "Observed",
    "apply",
    "backends",
    "bare",
    "delete_stale",
    "diff",
    "hashes",
    "observe",
]

_LONG = 16  # rules; in a chain of this length or more, a few changed rules are written singly: the others keep counters
_FEW = 4  # A few lines are at most a quarter of the number of the chain's rules.

_JUMP = re.compile(r"-[jg] (\S+)")


def _count(rules: t.Sized) -> str:
    return f"{len(rules)} rule{'' if len(rules) == 1 else 's'}"


def _subject(place: TablePlace, chain: str) -> str:
    """Return the name of a chain for people: `filter cali-INPUT`, or `filter cali-INPUT (IPv6, legacy)`."""
    words = ["IPv6"] if place.program.startswith("ip6") else []
    words += place.program.split("-")[1:]
    return f"{place.table} {chain}" + (f" ({', '.join(words)})" if words else "")


def diff(
    desired: t.Iterable[IptablesTable], observed: Observed, compared: t.Optional[ComparedChains] = None
) -> list[Change]:
    """Return the changes that lead to the desired tables, and delete what else is ours, in both backends.

    `compared` is what the last comparison of this process found; it is brought up to date. Desired tables of an IP
    version that the kernel lacks are ignored.
    """
    compared = ComparedChains() if compared is None else compared
    wanted = {
        TablePlace(observed.programs[table.family], table.name): table
        for table in desired
        if table.family in observed.families
    }
    both = {place: (wanted.get(place), observed.tables.get(place)) for place in (*wanted, *observed.tables)}
    left = {place: pair for place, pair in both.items() if not compared.is_known_equal(place, *pair)}
    changes: list[Change] = []
    for place, (table, have) in left.items():
        if table is not None:
            changes += _chains(place, table, have or {}, compared)
    for place, (table, have) in left.items():
        changes += _hook_changes(place, table, have or {}, compared)
    for place in observed.tables:
        if place in left:
            elsewhere = _same_table(wanted, place).chains if place not in wanted else {}
            changes += _superfluous(place, *left[place], elsewhere)
    compared.keep_tables(wanted, observed.tables)
    different = {written(change).place for change in changes}
    for place, pair in left.items():
        if place not in different:
            compared.note_equal(place, *pair)
    return changes


def _chains(place: TablePlace, table: IptablesTable, have: Chains, compared: ComparedChains) -> list[Change]:
    """Return the changes that give the table's chains their desired rules."""
    changes = []
    hooked = {name for hook in table.hooks for name in _JUMP.findall(hook.rule)}
    for chain in compared.maybe_different(place, table.chains, have):
        ordered = place.table != iptables_nat.TABLE or chain not in UNORDERED
        different = compared.compare(place, chain, table.chains[chain], have.get(chain), ordered)
        if different is not None:
            rules, present = tuple(zip(different.hashes, table.chains[chain])), different.have
            known = {rule.hash: at for at, rule in enumerate(present or ())}
            if not ordered:  # New rules come last: to insert one, the program reads the whole chain.
                rules = tuple(sorted(rules, key=lambda rule: known.get(rule[0], len(known))))
            change = _chain(place, chain, rules, present)
            new = [rule for digest, rule in change.new.rules if digest not in known]
            reached = _reached(place, table, _leading(new, present or (), table), compared)
            write = change.new._replace(
                hooked=chain in hooked,
                title=table.titles.get(chain, ""),
                reached=reached,
                left=_left(table, present or (), set(different.hashes), have),
            )
            changes.append(change._replace(new=write, note=write.title))
    compared.keep(place, table.chains)
    return changes


def _leading(new: t.Iterable[str], before: t.Iterable[SavedRule], table: IptablesTable) -> list[str]:
    """Return the `new` rules of a chain that lead to a chain of the table to which none of ours has led before.

    That chain gets packets by the new rule; another one gets packets by its own new rules alone.
    """
    targets = {rule: [target for target in _JUMP.findall(rule) if target in table.chains] for rule in new}
    found = {rule: leads for rule, leads in targets.items() if leads}
    if not found:
        return []
    sought = set().union(*found.values())
    # Most rules are not searched for jumps: none of the names is in their texts.
    texts = (rule.text for rule in before if rule.hash and any(target in rule.text for target in sought))
    led = {target for text in texts for target in _JUMP.findall(text)}
    return [rule for rule, leads in found.items() if not led.issuperset(leads)]


def _hook_changes(
    place: TablePlace, table: t.Optional[IptablesTable], have: Chains, compared: ComparedChains
) -> list[Change]:
    """Return the changes to our rules in chains of others; all of them go if `table` is None."""
    changes = []
    for change in _hooks(place, table.hooks if table is not None else (), have):
        if change.action != "-" and table is not None:
            leading = [rule for _digest, rule in (*change.new.first, *change.new.last)]
            reached = _reached(place, table, leading, compared)
            change = change._replace(new=change.new._replace(reached=reached))
        changes.append(change)
    return changes


def _same_table(wanted: t.Mapping[TablePlace, IptablesTable], place: TablePlace) -> IptablesTable:
    """Return the desired table of `place`'s name and IP version in any backend, one without chains if there is none."""
    for other, table in wanted.items():
        if other.table == place.table and other.program.split("-")[0] == place.program.split("-")[0]:
            return table
    return IptablesTable(place.table)


def _superfluous(
    place: TablePlace,
    table: t.Optional[IptablesTable],
    have: t.Optional[Chains],
    elsewhere: t.Container[str],
) -> list[Change]:
    """Return the deletions of chains that are ours and not in `table`.

    Those in `elsewhere` are desired in the other backend.
    """
    changes = []
    keep = table.chains if table is not None else {}
    for chain, found in (have or {}).items():
        if chain in keep or not chain.startswith(PREFIX):
            continue
        # A chain with our prefix belongs to a real Calico if it has rules, all without our mark.
        if not found or any(rule.hash for rule in found):
            detail = "\n".join(f"--A {chain} {rule.text}" for rule in found)
            delete = ChainDelete(place, chain, found, chain in elsewhere)
            subject = _subject(place, chain)
            changes.append(Change("iptables", "-", subject, _count(found), None, "", delete, None, detail))
    return changes


def _reached(place: TablePlace, table: IptablesTable, rules: t.Iterable[str], compared: ComparedChains) -> Reached:
    """Return the chains of table nat that these rules lead to, also through others, with their rules; () elsewhere."""
    if table.name != iptables_nat.TABLE:
        return ()
    found: dict[str, Rules] = {}
    todo = list(rules)
    while todo:
        for chain in _JUMP.findall(todo.pop()):
            if chain in table.chains and chain not in found:
                found[chain] = tuple(zip(compared.hashes(place, chain, table.chains[chain]), table.chains[chain]))
                todo += table.chains[chain]
    return tuple(found.items())


def _left(table: IptablesTable, before: t.Iterable[SavedRule], remain: t.Container[str], have: Chains) -> Reached:
    """Return the superfluous chains of table nat that a chain leads to no longer, with their rules; () elsewhere.

    `before` are the present rules of the chain; those with hashes in `remain` stay in it.
    """
    if table.name != iptables_nat.TABLE:
        return ()
    gone = [target for rule in before if rule.hash not in remain for target in _JUMP.findall(rule.text)]
    return tuple((chain, have[chain]) for chain in dict.fromkeys(gone) if chain in have and chain not in table.chains)


def _chain(place: TablePlace, chain: str, rules: Rules, have: t.Optional[tuple[SavedRule, ...]]) -> Change:
    """Return the change that gives a chain these rules; it is missing, or has others."""
    write = ChainWrite(place, chain, rules, exists=have is not None)
    found = have or ()
    present, remain = {rule.hash for rule in found}, {digest for digest, _rule in rules}
    lines = [f"--A {chain} {rule.text}" for rule in found if rule.hash not in remain]
    lines += [f"+-A {chain} {rule}" for digest, rule in write.rules if digest not in present]
    subject, detail = _subject(place, chain), "\n".join(lines)
    if have is None:
        return Change("iptables", "+", subject, None, _count(rules), "", None, write, detail)
    write = write._replace(delta=_delta(chain, write.rules, [rule.hash for rule in have]))
    return Change("iptables", "~", subject, _count(have), _count(rules), "", have, write, detail)


def _delta(chain: str, wanted: Rules, have: t.Sequence[str]) -> tuple[str, ...]:
    """Return iptables-restore lines that turn a chain into the wanted one, or () if the chain must be written whole.

    `have` are the hashes of its present rules. Lines pay where rules are only added or only deleted, and in a long
    chain with a few differences. When a rule is deleted, the kernel waits until no packet uses it any more (nf_tables:
    10 to 20 ms, whatever the size). So emptying and refilling a chain takes ten times as long as adding a rule. When a
    rule is added, nf_tables follows all jumps of the table, which takes it 20 ms of processor time for 30,000 rules. A
    transaction that only deletes saves that.
    """
    if len(wanted) > len(have):
        insertions = _insertions(chain, wanted, have)
        if insertions:
            return insertions
    if 0 < len(wanted) < len(have):
        deletions = _deletions(chain, wanted, have)
        if deletions:
            return deletions
    most = len(wanted) // _FEW
    if len(wanted) < _LONG or abs(len(wanted) - len(have)) > most:
        return ()
    digests = [digest for digest, _rule in wanted]
    # `ends` counts the equal rules at the beginning, `tail` those at the end. Both are cut off from the comparison:
    # usually only one place between them differs.
    ends = 0
    shorter = min(len(have), len(digests))
    while ends < shorter and have[ends] == digests[ends]:
        ends += 1
    tail = 0
    while tail < shorter - ends and have[-1 - tail] == digests[-1 - tail]:
        tail += 1
    old, new = have[ends : len(have) - tail], digests[ends : len(digests) - tail]
    if len(set(new).difference(old)) > most:
        return ()
    # From here on the chain is changed from its end to its beginning, so that rule numbers in later lines stay right.
    lines: list[str] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, end, begin, stop in reversed(matcher.get_opcodes()):
        if tag == "equal":
            continue
        first, end, begin, stop = first + ends, end + ends, begin + ends, stop + ends
        both = min(end - first, stop - begin)
        lines += [f"-D {chain} {number + 1}" for number in range(end - 1, first + both - 1, -1)]
        for offset in range(stop - begin):
            command = "-R" if offset < both else "-I"
            lines.append(f"{command} {chain} {first + offset + 1} {commented(*wanted[begin + offset])}")
        if len(lines) > most:
            return ()
    return tuple(lines)


def _insertions(chain: str, wanted: Rules, have: t.Sequence[str]) -> tuple[str, ...]:
    """Return the lines that insert the missing rules in order; () for none, or if others must be deleted or moved."""
    lines: list[str] = []
    known = 0
    for number, (digest, rule) in enumerate(wanted, start=1):
        if known < len(have) and have[known] == digest:
            known += 1
        else:
            command = f"-A {chain}" if known == len(have) else f"-I {chain} {number}"
            lines.append(f"{command} {commented(digest, rule)}")
    return tuple(lines) if known == len(have) else ()


def _deletions(chain: str, wanted: Rules, have: t.Sequence[str]) -> tuple[str, ...]:
    """Return the lines that delete superfluous rules, () if others must be added or moved, or if most of them go."""
    if len(have) > 2 * len(wanted):
        return ()
    numbers: list[int] = []
    known = 0
    for number, digest in enumerate(have, start=1):
        if known < len(wanted) and wanted[known][0] == digest:
            known += 1
        else:
            numbers.append(number)
    # From the end to the beginning, so that numbers in later lines stay right.
    return tuple(f"-D {chain} {number}" for number in reversed(numbers)) if known == len(wanted) else ()


def _hooks(place: TablePlace, hooks: t.Sequence[Hook], have: Chains) -> list[Change]:
    changes: list[Change] = []
    stale = [chain for chain, rules in have.items() if not chain.startswith(PREFIX) and any(r.hash for r in rules)]
    for chain in dict.fromkeys([*(hook.chain for hook in hooks), *stale]):
        first = _hashed(f"hook {chain}", [hook.rule for hook in hooks if hook.chain == chain and not hook.last])
        last = _hashed(f"hook {chain} last", [hook.rule for hook in hooks if hook.chain == chain and hook.last])
        ours = [rule for rule in have.get(chain, ()) if rule.hash]
        found = [rule.hash for rule in as_ours(have.get(chain, ()), (*first, *last))]
        wanted = [digest for digest, _rule in (*first, *last)]
        same = [digest for digest in found if digest] == wanted
        theirs = len(found) - len(ours)
        if same and found == [*wanted[: len(first)], *[""] * theirs, *wanted[len(first) :]]:
            continue
        write = HookWrite(place, chain, first, last, tuple(rule.text for rule in ours))
        before = "; ".join(bare(rule.text) for rule in ours)
        after = "; ".join(rule for _digest, rule in (*first, *last))
        where = " and ".join(name for name, rules in (("first", first), ("last", last)) if rules)
        subject = _subject(place, chain)
        if not ours:
            changes.append(Change("iptables", "+", subject, None, after, f"{where} in the chain", None, write))
        elif not wanted:
            changes.append(Change("iptables", "-", subject, before, None, "", None, write))
        else:
            note = f"{where} in the chain again" if same else ""
            changes.append(Change("iptables", "~", subject, before, after, note, None, write))
    return changes


def _hashed(chain: str, rules: t.Sequence[str]) -> Rules:
    return tuple(zip(hashes(chain, rules), rules))


def written(change: Change) -> Write:
    """Return the write that applying this change makes."""
    return t.cast(Write, change.new if change.new is not None else change.old)


def apply(kernel: Kernel, changes: t.Sequence[Change]) -> None:
    """Make all of these changes, those of one table in one transaction, which is repeated if single chains are refused.

    Raise ApplyError with the changes that failed; a table in which nothing was written is named by its first change.
    See iptables_restore.py for what becomes of refused chains. The error is SetAside if only single chains were
    refused, and everything else was written. It is also SetAside, with a change of the subject "connections by table
    nat", if the rules were written and connections with a translation that they do not give could not be deleted.
    """
    apply_each_table(kernel, changes)


def apply_each_table(kernel: Kernel, changes: t.Sequence[Change], hindrance: t.Callable[[], str] = lambda: "") -> int:
    """Make all of these changes as `apply` does, with its errors. Return the number of tables that were written.

    A table before which `hindrance` returns a reason is not written: its changes fail for that reason.
    """
    tables: dict[TablePlace, list[Change]] = {}
    for change in changes:
        if change.action in ("+", "~", "-"):
            tables.setdefault(written(change).place, []).append(change)
    failures = Failures()
    whole = False
    for place, group in tables.items():
        reason = hindrance()
        if reason:
            outcome = RestoreOutcome({}, reason)
        else:
            outcome = restore(kernel, place, [written(change) for change in group])
        if outcome.failure:
            whole = True
            failures.add(group[0], outcome.failure, group[1:])
        for position, reason in outcome.refused.items():
            failures.add(group[position], reason)
        if place.table == iptables_nat.TABLE and not outcome.failure:
            _delete_stale(kernel, place, [one for at, one in enumerate(group) if at not in outcome.refused], failures)
    failures.raise_if_any(ApplyError if whole else SetAside)
    return len(tables)


def _delete_stale(kernel: Kernel, place: TablePlace, changes: t.Sequence[Change], failures: Failures) -> None:
    """Delete the connections that the changes made to table nat left stale. Add what is refused to `failures`."""
    family = 6 if place.program.startswith("ip6") else 4
    chains: dict[str, iptables_nat.ChainRules] = {}
    for change in changes:
        write = written(change)
        if isinstance(write, ChainWrite):
            chains[write.chain] = iptables_nat.ChainRules(write.chain, change.old or (), write.rules)
        elif isinstance(write, ChainDelete) and not write.moved:
            chains[write.chain] = iptables_nat.ChainRules(write.chain, write.rules, ())
    for change in changes:
        write = written(change)
        for chain, rules_before in write.left if isinstance(write, ChainWrite) else ():
            # The chain itself may be deleted later, but packets do not reach it any more.
            chains.setdefault(chain, iptables_nat.ChainRules(chain, rules_before, ()))
    for change in changes:
        write = written(change)
        for chain, rules in () if isinstance(write, ChainDelete) else write.reached:
            # Packets are led to these rules only now, so none of them counts as in force before.
            former = chains[chain].before if chain in chains else ()
            removed = [rule for rule in former if rule[0] not in dict(rules)]
            chains[chain] = iptables_nat.ChainRules(chain, removed, rules)
    try:
        iptables_nat.delete_stale(kernel, list(chains.values()), family)
    except KernelError as error:
        failures.add(_CONNECTIONS, _still_translated(error, family))


def delete_stale(kernel: Kernel, tables: t.Iterable[IptablesTable]) -> int:
    """Delete the connections whose translation is not what the rules of these tables say; return their number.

    It is for rules that are in force, also those that this process did not write.
    """
    return sum(
        iptables_nat.delete_stale(
            kernel,
            [
                iptables_nat.ChainRules(chain, (), tuple(zip(hashes(chain, rules), rules)))
                for chain, rules in table.chains.items()
            ],
            table.family,
        )
        for table in tables
        if table.name == iptables_nat.TABLE
    )


_CONNECTIONS = Change("iptables", "~", "connections by table nat")


def _still_translated(error: KernelError, family: int) -> str:
    return (
        f"The rules are written, but flows of IPv{family} that go on without a pause may keep the translation that they"
        f" had before, because the kernel refused to {error.operation}: {error.said}. Their clients may get no answer"
        " until then. Look at dmesg, then delete such flows with the program conntrack, for example"
        f" `conntrack -D -f ipv{family} -p udp --orig-port-dst PORT` for a published port."
    )


STEP: DriverStep[t.Sequence[IptablesTable], Observed] = DriverStep(
    name="iptables",
    kinds=("iptables",),
    stage="firewall",
    desired=lambda state: state.iptables,
    needs=("ipset", "iptables"),
    guard=True,
    transaction=True,
)
