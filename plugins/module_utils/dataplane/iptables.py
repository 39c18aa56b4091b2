# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iptables: our chains `cali-*`, and our rules in chains of others (hooks), kept first there.

Rules do not come back from the kernel as they went in, so their texts are never compared. Each carries a comment with a
hash over its chain, its position and all rules before it: equal hashes mean equal chains (Felix does the same). The
comment begins with another word than a real Calico's, which finds its own rules by `cali:`.

One table is written by one `iptables-restore --noflush`, which is one transaction: no packet meets half of it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import typing as t

from ..fleet.node_state import Hook, IptablesTable
from .change import Change, Failures, ObserveError
from .kernel import Completed, Kernel

PREFIX = "cali-"
COMMENT = "host-routing:"

_HASH = re.compile(r'--comment "?' + COMMENT + r"([A-Za-z0-9_-]{16})")


class Rule(t.NamedTuple):
    hash: str  # "" for a rule without our comment
    text: str  # as iptables-save prints it, with -A


#: {chain: its rules}; of chains that are not ours too
Chains = dict[str, tuple[Rule, ...]]
Observed = dict[str, Chains]


class Hooks(t.NamedTuple):
    """What a foreign chain must begin with, and which of our rules in it have to go."""

    chain: str
    rules: tuple[tuple[str, str], ...]  # (hash, text)
    old: tuple[str, ...] = ()


def hashes(chain: str, rules: t.Iterable[str]) -> list[str]:
    """One hash per rule, over the chain's name, the rules before it and the rule itself."""
    state = hashlib.sha224(chain.encode()).digest()
    found: list[str] = []
    for rule in rules:
        state = hashlib.sha224(state + rule.encode()).digest()
        found.append(base64.urlsafe_b64encode(state).decode()[:16])
    return found


def observe(kernel: Kernel, desired: t.Sequence[IptablesTable]) -> Observed:
    """{table: chains}. Raises ObserveError when the tables cannot be read, or not by the iptables of this host."""
    done = kernel.run(["iptables-save"])
    if done.code != 0:
        if done.code == 127:
            return {}  # not installed yet; applying says so
        if not desired:
            return {}
        raise ObserveError(
            f"The iptables rules cannot be read (iptables-save): {_first_line(done)}."
            " See that the kernel has nf_tables or iptables (Debian: linux-image-amd64), then run again."
        )
    tables: dict[str, dict[str, list[Rule]]] = {}
    current: dict[str, list[Rule]] = {}
    for line in done.output.splitlines():
        if line.startswith("*"):
            current = tables.setdefault(line[1:].strip(), {})
        elif line.startswith(":"):
            current.setdefault(line[1:].split()[0], [])
        elif line.startswith("-A "):
            chain = line.split(None, 2)[1]
            found = _HASH.search(line)
            current.setdefault(chain, []).append(Rule(found.group(1) if found else "", line))
        elif line.startswith("#") and "is incompatible" in line:
            name = line.split("`")[-1].split("'")[0]
            if name in {table.name for table in desired}:
                raise ObserveError(
                    f"Table {name} of iptables has rules that this host's iptables cannot read: {line.strip('# .')}."
                    " Something writes it with `nft` directly."
                    " Move those rules to a table of their own, then run again."
                )
    return {name: {chain: tuple(rules) for chain, rules in chains.items()} for name, chains in tables.items()}


def _count(rules: t.Sized) -> str:
    return f"{len(rules)} rule{'' if len(rules) == 1 else 's'}"


def diff(desired: t.Iterable[IptablesTable], observed: t.Mapping[str, Chains]) -> list[Change]:
    changes: list[Change] = []
    wanted = {table.name: table for table in desired}
    for table in wanted.values():
        have = observed.get(table.name, {})
        for chain, rules in table.chains.items():
            changes += _chain(table.name, chain, rules, have.get(chain))
    for name in dict.fromkeys([*wanted, *observed]):
        hooks = wanted[name].hooks if name in wanted else ()
        changes += _hooks(name, hooks, observed.get(name, {}))
    for name, chains in observed.items():
        keep = wanted[name].chains if name in wanted else {}
        for chain, found in chains.items():
            # A chain of this prefix with rules, none of them ours, belongs to a real Calico.
            ours = chain.startswith(PREFIX) and (not found or any(rule.hash for rule in found))
            if ours and chain not in keep:
                detail = "\n".join(f"-{rule.text}" for rule in found)
                subject = f"{name} {chain}"
                changes.append(Change("iptables", "-", subject, _count(found), None, "", (name, chain), None, detail))
    return changes


def _chain(table: str, chain: str, rules: tuple[str, ...], have: t.Optional[tuple[Rule, ...]]) -> list[Change]:
    wanted = hashes(chain, rules)
    if have is not None and [rule.hash for rule in have] == wanted:
        return []
    new = (table, chain, tuple(zip(wanted, rules)))
    lines = [f"-{rule.text}" for rule in have or () if rule.hash not in wanted]
    present = {rule.hash for rule in have or ()}
    lines += [f"+-A {chain} {rule}" for digest, rule in zip(wanted, rules) if digest not in present]
    subject, detail = f"{table} {chain}", "\n".join(lines)
    if have is None:
        return [Change("iptables", "+", subject, None, _count(rules), "", None, new, detail)]
    return [Change("iptables", "~", subject, _count(have), _count(rules), "", have, new, detail)]


def _hooks(table: str, hooks: t.Sequence[Hook], have: Chains) -> list[Change]:
    changes: list[Change] = []
    wanted: dict[str, list[str]] = {}
    for hook in hooks:
        wanted.setdefault(hook.chain, []).append(hook.rule)
    stale = [chain for chain, rules in have.items() if not chain.startswith(PREFIX) and any(r.hash for r in rules)]
    for chain in dict.fromkeys([*wanted, *stale]):
        rules = wanted.get(chain, [])
        digests = hashes(f"hook {chain}", rules)
        found = have.get(chain, ())
        ours = [rule for rule in found if rule.hash]
        if [rule.hash for rule in ours] == digests and list(found[: len(ours)]) == ours:
            continue
        new = Hooks(chain, tuple(zip(digests, rules)), tuple(rule.text for rule in ours))
        subject = f"{table} {chain}"
        before, after = "; ".join(_bare(rule.text) for rule in ours), "; ".join(rules)
        if not ours:
            changes.append(Change("iptables", "+", subject, None, after, "first in the chain", None, (table, new)))
        elif not rules:
            changes.append(Change("iptables", "-", subject, before, None, "", (table, new)))
        else:
            note = "first in the chain again" if [rule.hash for rule in ours] == digests else ""
            changes.append(Change("iptables", "~", subject, before, after, note, None, (table, new)))
    return changes


def _bare(text: str) -> str:
    """The rule without -A, its chain and our comment."""
    return re.sub(r'-m comment --comment "?' + COMMENT + r'[A-Za-z0-9_-]{16}"? ?', "", text.split(None, 2)[2])


class _Input(t.NamedTuple):
    """Lines for iptables-restore, in the order in which one may refer to the other."""

    declare: list[str]
    rules: list[str]
    unhook: list[str]
    hook: list[str]
    flush: list[str]
    delete: list[str]
    changes: list[Change]


def apply(kernel: Kernel, changes: t.Sequence[Change]) -> None:
    """One iptables-restore per table."""
    failures = Failures()
    tables: dict[str, _Input] = {}
    for change in changes:
        if change.action not in ("+", "~", "-"):
            continue
        table, *value = change.new if change.new is not None else change.old
        lines = tables.setdefault(table, _Input([], [], [], [], [], [], []))
        lines.changes.append(change)
        if isinstance(value[0], Hooks):
            hooks = value[0]
            # By the full text, not by number: others insert rules between reading and writing.
            lines.unhook.extend("-D" + text[2:] for text in hooks.old)
            lines.hook.extend(
                f"-I {hooks.chain} {position} {_commented(digest, rule)}"
                for position, (digest, rule) in enumerate(hooks.rules, start=1)
            )
        elif change.action == "-":
            lines.flush.append(f"-F {value[0]}")
            lines.delete.append(f"-X {value[0]}")
        else:
            chain, rules = value
            lines.declare.append(f":{chain} - [0:0]")  # which also empties it
            lines.rules.extend(f"-A {chain} {_commented(digest, rule)}" for digest, rule in rules)
    for table, lines in tables.items():
        body = [*lines.declare, *lines.rules, *lines.unhook, *lines.hook, *lines.flush, *lines.delete]
        text = "\n".join([f"*{table}", *body, "COMMIT", ""])
        done = kernel.run(["iptables-restore", "--noflush", "-w", "10"], stdin=text, timeout=120)
        if done.code != 0:
            failures.add(lines.changes[0], _reason(done, text, table))
    failures.raise_if_any()


def _commented(digest: str, rule: str) -> str:
    return f'-m comment --comment "{COMMENT}{digest}" {rule}'


def _first_line(done: Completed) -> str:
    lines = [line for line in (done.errors or done.output).splitlines() if line.strip() and "Warning" not in line]
    return lines[0].rstrip(".") if lines else f"it ended with status {done.code}"


def _reason(done: Completed, text: str, table: str) -> str:
    if done.code == 127:
        return (
            "The program iptables-restore is not installed; NAT and the guard of the tunnels need it."
            " Install it with `apt-get install iptables` (Debian), then run again."
        )
    found = re.search(r"line:? (\d+)", done.errors)
    lines = text.splitlines()
    where = ""
    if found and 0 < int(found.group(1)) <= len(lines):
        where = f" at {lines[int(found.group(1)) - 1]!r}"
    return (
        f"iptables-restore refused table {table}{where}: {_first_line(done)}. Nothing of the table was changed."
        " See that the kernel has the modules which the rule names (xt_set, xt_comment, nf_nat), then run again."
    )


class Backends(t.NamedTuple):
    """`used` is nft or legacy, as the host's iptables says; `rules` counts those in each backend, None: unknown."""

    used: str
    version: str
    rules: t.Mapping[str, t.Optional[int]]

    @property
    def mixed(self) -> bool:
        return all(self.rules.get(name) for name in ("nft", "legacy"))


def backends(kernel: Kernel) -> t.Optional[Backends]:
    """None where iptables is not installed."""
    done = kernel.run(["iptables", "-V"])
    if done.code != 0:
        return None
    used = "nft" if "nf_tables" in done.output else "legacy"
    rules: dict[str, t.Optional[int]] = {}
    for name in ("nft", "legacy"):
        saved = kernel.run([f"iptables-{name}-save"])
        rules[name] = None
        if saved.code == 0:
            rules[name] = sum(line.startswith("-A ") for line in saved.output.splitlines())
    return Backends(used, done.output.split()[1].lstrip("v") if len(done.output.split()) > 1 else "", rules)
