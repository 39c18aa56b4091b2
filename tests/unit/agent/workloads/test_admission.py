# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that an add is answered when policy contains the workload, which is unreachable before."""

from __future__ import annotations

import asyncio
import dataclasses
import errno

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads import failpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Completed, KernelError
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    WORKLOAD_ENDPOINT,
    Endpoint,
    Entity,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState, allow_all
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.unit.agent.gate import Gate
from tests.unit.agent.node_under_test import Killed, Node, with_state
from tests.unit.agent.virtual_time import run


def to(app):
    return Policy(
        app, selector=f'app == "{app}"', ingress=(PolicyRule("Allow", source=Entity(selector='app == "app"')),)
    )


POLICY = PolicyState(policy_set([], [to("db"), to("web")], [allow_all()]))


async def started(tmp_path, policy=POLICY):
    node = Node(tmp_path, with_state(policy=policy), cleanup_grace=0.0)
    await node.start()
    await node.settle()
    return node


def members(node, prefix):
    """Return {name: members} of the IPv4 sets of the kind `prefix`: w: for workloads, s: for selectors, "" for all."""
    return {
        name: set(found.members)
        for name, found in node.kernel.netfilter.sets.items()
        if name.startswith(f"cali40{prefix}")
    }


def known(node):
    """Return the IPv4 addresses in the sets of workloads that rules look up, as a set.

    A set of workloads is left out if a chain to which its rules lead is missing.
    """
    tables = node.kernel.netfilter.tables["nft", "iptables"].get("filter", {})
    rules = [rule for chain, found in tables.items() if chain.startswith("cali-") for rule in found]
    found = set()
    for name, pairs in members(node, "w:").items():
        looked_up = [rule.partition(" -g ")[2].split()[0] for rule in rules if f"--match-set {name} " in rule]
        if looked_up and all(chain in tables for chain in looked_up):
            found |= {pair.partition(",")[0] for pair in pairs}
    return found


def unguarded(node):
    """Return the set of IPv4 addresses that have a /32 route and are not in `known(node)`."""
    reached = {route.partition("/")[0] for route in node.routes if route.endswith("/32")}
    return reached - known(node)


def test_a_workload_is_unreachable_until_policy_contains_it(tmp_path):
    async def scenario():
        node = await started(tmp_path)
        seen = set()
        node.kernel.watch(lambda dummy: seen.update(unguarded(node)))
        for name in ("db", "app", "web", "other"):
            address = await node.add(name, labels={"app": name})
            assert address in known(node)
            # All of policy is in the kernel, not only this workload's part.
            assert [line for line in node.differences() if line.split()[1] in ("ipset", "iptables")] == []
        await node.settle()
        assert seen == set()
        assert node.agent.status.in_sync and node.agent.drift.to_dict()["total"] == 0

    run(scenario())


def test_only_the_sets_are_written_for_a_workload_of_a_known_group(tmp_path):
    async def scenario():
        node = await started(tmp_path)
        await node.add("first", labels={"app": "db"})
        await node.settle()
        ran, programs = node.kernel.run, []

        def watch(argv, stdin="", timeout=60.0):
            programs.append(argv[0])
            return ran(argv, stdin, timeout)

        node.kernel.run = watch
        before = members(node, "")
        workload = await node.agent.transactions.add(node.request("second", labels={"app": "db"}))
        await node.settle()
        assert programs == []  # a member is added by a netlink message
        after = members(node, "")
        assert {name: found - before[name] for name, found in after.items() if found != before[name]} == {
            name: {f"{workload.addresses[0]},{workload.interface}"} for name in members(node, "w:")
        }

    run(scenario())


def test_many_adds_at_once_share_the_writing(tmp_path):
    async def scenario():
        node = await started(tmp_path)
        ran, programs = node.kernel.run, []

        def watch(argv, stdin="", timeout=60.0):
            programs.append(argv[0])
            return ran(argv, stdin, timeout)

        node.kernel.run = watch
        addresses = await asyncio.gather(*(node.add(f"w{n}", labels={"app": "db"}) for n in range(5)))
        assert known(node) == set(addresses)
        assert programs.count("ipset") <= 3

    run(scenario())


def test_an_answered_workload_stays_in_sets_that_are_written_later(tmp_path):
    """A workload stays in the sets although it is answered while the sets for the next one wait to be written.

    The first workload is half added when the second one's sets are requested, and attached when these are written.
    """

    async def scenario():
        node = Node(tmp_path, with_state(policy=POLICY), cleanup_grace=0.0)
        plumbing, drivers = node.threads["plumbing"], node.threads["drivers"] = Gate(), Gate()
        await node.start()
        await node.settle()
        plumbing.shut = True
        first = asyncio.ensure_future(node.add("web", labels={"app": "web"}))
        await node.settle()  # policy contains the first workload, which has no link yet
        drivers.shut = True
        second = asyncio.ensure_future(node.add("db", labels={"app": "db"}))
        await node.settle()
        assert not first.done() and len(drivers) == 1
        plumbing.open()
        address = await first
        assert address in known(node) and not second.done()
        seen = set()
        node.kernel.watch(lambda dummy: seen.update(unguarded(node)))
        drivers.open()
        await second
        await node.settle()
        assert seen == set()
        assert node.agent.status.in_sync and node.agent.drift.to_dict()["total"] == 0

    run(scenario())


def test_an_address_is_in_no_set_of_its_former_owner_when_it_has_the_next(tmp_path):
    async def scenario():
        node = await started(tmp_path)
        await node.add("db", labels={"app": "db"})
        address = await node.add("app", labels={"app": "app"})
        (name,) = members(node, "s:")
        assert members(node, "s:") == {name: {address}}
        await node.agent.transactions.delete("default/app")
        assert await node.add("other", labels={"app": "other"}, address=address) == address
        assert members(node, "s:") == {name: set()}
        pairs = [pair for found in members(node, "w:").values() for pair in found if pair.startswith(f"{address},")]
        assert len(pairs) == 1

    run(scenario())


def refusing(node, program, word, said):
    """Make `program` fail at its first input line that contains `word`; return the kernel's former `run`.

    The line is replaced by `said`, which must be invalid, and later lines are dropped. Netlink messages that change a
    member of a set raise KernelError (EINVAL), also after `run` is restored, so the agent has to use the program.
    """
    ran = node.kernel.run

    def refuse(argv, stdin="", timeout=60.0):
        lines = stdin.splitlines()
        if argv[0] == program:
            for number, line in enumerate(lines, start=1):
                if word in line:
                    return ran(argv, "".join(f"{text}\n" for text in [*lines[: number - 1], said]), timeout)
        return ran(argv, stdin, timeout)

    def no_message(*dummy):
        raise KernelError(errno.EINVAL, "change a member")

    node.kernel.run = refuse
    node.kernel.ipset_write = no_message
    return ran


def lose_member(kernel, name, address):
    """Replace the members with this address by others, so that their number stays."""
    found = kernel.netfilter.sets[name].members
    for member in [member for member in found if member.partition(",")[0] == address]:
        del found[member]
        found[member.replace(address, "10.99.0.1")] = None


def flush(kernel, name, dummy):
    kernel.netfilter.sets[name].members.clear()


@pytest.mark.parametrize("damage", [lose_member, flush])
def test_an_add_writes_all_its_memberships_whatever_others_did(tmp_path, damage):
    """Another program removes the address from all sets right before an add, which puts policy in force all the same.

    The sets had the address already: a workload with it was added, but its answer was lost.
    """

    async def scenario():
        node = await started(tmp_path)
        await node.add("db", labels={"app": "db"})
        await node.add("other", labels={"app": "app"})
        admit = node.agent.passes.stages.admit
        gate = []

        async def sabotaged(state, written, adding):
            first = await admit(state, written, adding)
            for name in list(node.kernel.netfilter.sets):
                damage(node.kernel, name, adding[0].address)
            gate.append(len(adding))
            await admit(state, written, adding)
            return first

        node.agent.passes.stages.admit = sabotaged
        address = await node.add("app", labels={"app": "app"})
        assert gate == [1]
        (selected,) = members(node, "s:").values()
        assert address in known(node) and address in selected

    run(scenario())


@pytest.mark.parametrize("before", ["filled", "written"])
def test_an_add_makes_sets_anew_that_are_deleted_while_it_writes(tmp_path, before):
    """The set goes before its member is added, or before the memberships are written that the plan did not have."""

    async def scenario():
        node = await started(tmp_path)
        await node.add("db", labels={"app": "db"})
        await node.add("app", labels={"app": "app"})
        plain, sets = dict(node.kernel.netfilter.sets), node.agent.passes.stages.drivers.sets
        (name,) = members(node, "s:")
        write, fill, calls = node.kernel.ipset_write, sets.STEP.add, []

        def once_deleted(writes):
            calls.append(writes)
            if len(calls) == 1:
                del node.kernel.netfilter.sets[name]
            write(writes)

        def behind_our_back(kernel, changes):
            fill(kernel, changes)
            node.kernel.ipset_write, sets.write_memberships = once_deleted, all_memberships

        def all_memberships(kernel, endpoints, dummy):
            type(sets).write_memberships(sets, kernel, endpoints)

        if before == "filled":
            node.kernel.ipset_write = once_deleted
        else:
            sets.STEP = dataclasses.replace(sets.STEP, add=behind_our_back)
        address = await node.add("second", labels={"app": "app"})
        assert calls
        assert plain.keys() == node.kernel.netfilter.sets.keys()
        assert address in known(node) and address in members(node, "s:")[name]

    run(scenario())


def test_a_workload_that_policy_cannot_know_is_not_added(tmp_path):
    async def scenario():
        node = await started(tmp_path)
        await node.add("db", labels={"app": "db"})
        before = node.kernel.netfilter.snapshot(), node.on_disk(), node.records
        ran = refusing(node, "ipset", "add cali40s:", "add nowhere 10.0.0.1")
        with pytest.raises(AgentError) as caught:
            await node.add("app", labels={"app": "app"})
        assert caught.value.code == "kernel"
        (name,) = members(node, "s:")
        assert caught.value.message == (
            f"policy for workload default/app cannot be put in force: ipset {name}: ipset restore refused"
            f" 'add {name} 10.244.1.1': The set with the given name does not exist. The set is not as it should be, all"
            " others are. See that the kernel has the modules ip_set and ip_set_hash_net, then run again."
        )
        assert node.routes & {"10.244.1.1/32"} == set()
        # A workload that does not need the refused set is added.
        web = await node.add("web", labels={"app": "web"})
        assert web in known(node)
        node.kernel.run = ran
        await node.agent.transactions.delete("default/web")
        await node.settle()
        assert node.agent.status.in_sync
        assert (node.kernel.netfilter.snapshot(), node.on_disk(), node.records) == before
        assert await node.add("app", labels={"app": "app"}) in known(node)

    run(scenario())


def test_adds_fail_and_leave_nothing_if_sets_cannot_be_written(tmp_path):
    """One failed change stands for all sets; the adds whose addresses are only in the others fail, too."""

    async def scenario():
        node = await started(tmp_path)
        links, ran, member = node.links, node.kernel.run, node.kernel.ipset_write

        def missing(argv, stdin="", timeout=60.0):
            return Completed(127, "", "ipset: not found") if argv[0] == "ipset" else ran(argv, stdin, timeout)

        def no_message(*dummy):
            raise KernelError(errno.EINVAL, "change a member")

        node.kernel.run, node.kernel.ipset_write = missing, no_message
        names = ("db", "app", "web", "other")
        added = (node.add(name, labels={"app": name}) for name in names)
        for name, error in zip(names, await asyncio.gather(*added, return_exceptions=True)):
            assert isinstance(error, AgentError) and error.code == "kernel"
            text = f"policy for workload default/{name} cannot be put in force: ipset cali40"
            assert error.message.startswith(text) and "The program ipset is not installed" in error.message
        assert node.on_disk() == {} and node.records == set() and node.links == links
        node.kernel.run, node.kernel.ipset_write = ran, member
        await asyncio.sleep(15)
        assert node.agent.status.in_sync
        assert await node.add("db", labels={"app": "db"}) in known(node)

    run(scenario())


def test_an_add_fails_and_leaves_nothing_if_rules_cannot_be_written(tmp_path):
    async def scenario():
        node = await started(tmp_path)
        links = node.links
        ran = node.kernel.run

        def locked(argv, stdin="", timeout=60.0):
            if argv[0] == "iptables-restore":
                return Completed(4, "", "Another app is currently holding the xtables lock.\n")
            return ran(argv, stdin, timeout)

        node.kernel.run = locked
        with pytest.raises(
            AgentError, match=r"policy for workload default/db cannot be put in force: iptables .* lock"
        ):
            await node.add("db", labels={"app": "db"})
        assert node.on_disk() == {} and node.records == set() and node.links == links
        node.kernel.run = ran
        await asyncio.sleep(15)
        assert node.agent.status.in_sync
        assert await node.add("db", labels={"app": "db"}) in known(node)

    run(scenario())


def test_rules_that_cannot_be_read_are_no_reason_to_let_anybody_in(tmp_path):
    async def scenario():
        node = await started(tmp_path)
        ran, failures = node.kernel.run, [0]

        def busy(argv, stdin="", timeout=60.0):
            if argv[0] == "iptables-save" and failures[0]:
                failures[0] -= 1
                return Completed(2, "", "iptables-save v1.8.9 (nf_tables): the rules changed while they were read\n")
            return ran(argv, stdin, timeout)

        node.kernel.run = busy
        node.kernel.netfilter.generation += 1  # so the agent has to read the rules
        failures[0] = 2  # as if another program wrote during two reads: the agent reads the rules again
        assert await node.add("app", labels={"app": "app"}) in known(node)
        node.kernel.netfilter.generation += 1
        failures[0] = 10**6
        with pytest.raises(AgentError) as caught:
            await node.add("db", labels={"app": "db"})
        assert caught.value.message == (
            "policy for workload default/db cannot be put in force: The iptables rules cannot be read (iptables-save):"
            " iptables-save v1.8.9 (nf_tables): the rules changed while they were read. See that the kernel has"
            " nf_tables or iptables (Debian: linux-image-amd64), then run again."
        )
        assert set(node.on_disk()) == {"default/app"}
        failures[0] = 0
        await asyncio.sleep(15)
        assert node.agent.status.in_sync

    run(scenario())


def test_a_workload_is_added_although_iptables_refuses_one_policy(tmp_path):
    async def scenario():
        node = await started(tmp_path)
        refusing(node, "iptables-restore", "--match-set cali40s:", "-A nowhere -j ACCEPT")
        address = await node.add("db", labels={"app": "db"})
        assert address in known(node)
        await node.settle()
        (problem,) = node.agent.status.problems
        assert "db, ingress (chain cali-pi-" in problem and "what they leave it drops" in problem
        assert not node.agent.status.in_sync

    run(scenario())


def test_an_invalid_set_member_is_a_problem_and_blocks_no_add(tmp_path):
    """Another node reported an invalid address: it is named, workloads are added, and the node is in sync."""

    async def scenario():
        bad = Endpoint(WORKLOAD_ENDPOINT, "default/x", "n9", addresses=("10.9.9.9\nquit",), labels=(("app", "app"),))
        policy = dataclasses.replace(POLICY, endpoints=(*POLICY.endpoints, bad))
        node = await started(tmp_path, policy)
        address = await node.add("db", labels={"app": "db"})
        await node.settle()
        assert address in known(node)
        (problem,) = node.agent.status.problems
        assert "1 member left out: '10.9.9.9\\nquit' cannot be a member of a hash:net for ipset restore" in problem
        assert node.agent.status.in_sync

    run(scenario())


@pytest.mark.parametrize("point", ["add.linked", "add.written", "add.guarded", "add.routed"])
def test_an_add_that_a_kill_interrupted_leaves_nothing_in_the_sets(tmp_path, monkeypatch, point):
    async def scenario():
        node = await started(tmp_path)
        await node.add("db", labels={"app": "db"})
        await node.settle()
        before = members(node, "")

        monkeypatch.setattr(failpoints, "point", node.process.killed_at(point))
        with pytest.raises(Killed):
            await node.add("app", labels={"app": "app"})
        monkeypatch.undo()
        if point == "add.guarded":
            assert members(node, "") != before and unguarded(node) == set()
        await node.restart()
        assert members(node, "") == before and node.agent.status.in_sync
        assert await node.add("app", labels={"app": "app"}) in known(node)

    run(scenario())


def test_an_add_that_was_given_up_leaves_nothing_in_the_sets(tmp_path):
    async def scenario():
        node = await started(tmp_path)
        await node.add("db", labels={"app": "db"})
        await node.settle()
        before = members(node, "")
        for moment in range(1, 12):
            adding = asyncio.ensure_future(node.add("app", labels={"app": "app"}))
            for _step in range(moment):
                await asyncio.sleep(0)
            adding.cancel()
            await asyncio.gather(adding, return_exceptions=True)
            if not adding.cancelled():
                await node.agent.transactions.delete("default/app")
            await node.settle()
            assert members(node, "") == before and node.agent.status.in_sync, moment

    run(scenario())
