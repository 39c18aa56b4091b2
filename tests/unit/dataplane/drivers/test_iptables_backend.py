# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice between the two backends of iptables, and what is said about them."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ObserveError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import iptables_backend
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.iptables_backend import (
    FAMILIES,
    Backends,
    Observed,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.iptables_saved import (
    COMMENT,
    TablePlace,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    ChangedChain,
    Completed,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import IptablesTable


def saved(rules: int, ours: int = 0) -> str:
    """Return the output of iptables-save for a table with `rules` rules of others, and `ours` with our mark."""
    marked = [f'-A cali-x -m comment --comment "{COMMENT}0123456789abcdef" -j DROP'] * ours
    return "\n".join(
        ["*filter", ":INPUT ACCEPT [0:0]", ":cali-x - [0:0]", *["-A INPUT -j DROP"] * rules, *marked, "COMMIT", ""]
    )


class Programs:
    """A kernel whose `iptables -V` prints `version`, and whose other programs print `texts`, by name.

    `iptables -V` fails if `version` is "", and a program that is not in `texts` fails, both with status 127. Without
    `ipv6` the kernel has no IPv6.
    """

    def __init__(self, version: str, texts: t.Mapping[str, str], ipv6: bool = True) -> None:
        self.version = version
        self.texts = texts
        self.ipv6 = ipv6

    def run(self, argv: list[str]) -> Completed:
        if argv == ["iptables", "-V"]:
            return Completed(0 if self.version else 127, self.version, "")
        if argv[0] in self.texts:
            return Completed(0, self.texts[argv[0]], "")
        return Completed(127, "", "not installed")

    def sysctl_read(self, _key: str) -> t.Optional[str]:
        return "0" if self.ipv6 else None


NFT, LEGACY = "iptables v1.8.9 (nf_tables)", "iptables v1.8.9 (legacy)"


def observed(version: str, texts: t.Mapping[str, str], ipv6: bool = True) -> Observed:
    return iptables_backend.observe(t.cast(t.Any, Programs(version, texts, ipv6)), [])


@pytest.mark.parametrize(("version", "used", "other"), [(NFT, "nft", "legacy"), (LEGACY, "legacy", "nft")])
@pytest.mark.parametrize(
    ("here", "there", "there6", "elsewhere"),
    [
        (0, 0, 0, False),
        (0, 9, 0, False),
        (0, 10, 0, True),
        (0, 5, 5, True),
        (0, 4, 5, False),
        (9, 10, 0, True),
        (10, 10, 0, False),
        (10, 11, 0, True),
        (20, 20, 0, False),
        (20, 21, 0, True),
    ],
)
def test_the_backend_with_clearly_more_rules_of_others_is_written(
    version: str, used: str, other: str, here: int, there: int, there6: int, elsewhere: bool
) -> None:
    """The other backend is written if it has at least ten rules of others, and more than the one of `iptables`.

    IPv4's and IPv6's count together, and rules with our mark do not count. The tables of both backends are read.
    """
    texts = {
        "iptables-save": saved(here),
        f"iptables-{other}-save": saved(there, ours=20),
        f"ip6tables-{other}-save": saved(there6),
    }
    found = observed(version, texts)
    assert found.backend == (other if elsewhere else used)
    suffix = f"-{other}" if elsewhere else ""
    assert found.programs == {4: f"iptables{suffix}", 6: f"ip6tables{suffix}"}
    assert len(found.tables[TablePlace("iptables", "filter")]["INPUT"]) == here
    assert len(found.tables[TablePlace(f"iptables-{other}", "filter")]["INPUT"]) == there


def test_our_own_rules_do_not_make_a_backend_the_host_s() -> None:
    """Rules with our mark do not count, however many the other backend has."""
    assert observed(NFT, {"iptables-legacy-save": saved(9, ours=100)}).backend == "nft"


def test_a_host_without_iptables_or_without_ipv6() -> None:
    """A host without iptables has no backend, and one without IPv6 has IPv4 as its only IP version."""
    assert observed("", {}) == Observed()
    assert (Observed().programs, Observed().backend, Observed().families) == (FAMILIES, "", (4, 6))
    assert observed(NFT, {"iptables-save": saved(1)}, ipv6=False).families == (4,)
    assert observed(NFT, {"iptables-save": saved(1)}).families == (4, 6)


def test_a_table_is_that_of_the_program_which_is_written() -> None:
    """A table is looked up by name and IP version, IPv4 unless said otherwise, in the backend that is written."""
    texts = {"iptables-save": saved(1), "iptables-legacy-save": saved(11), "ip6tables-legacy-save": saved(2)}
    found = observed(NFT, texts)
    assert len(found.table("filter")["INPUT"]) == 11
    assert len(found.table("filter", 6)["INPUT"]) == 2
    assert found.table("nat") == {}
    assert set(found.only("filter").tables) == {
        TablePlace("iptables", "filter"),
        TablePlace("iptables-legacy", "filter"),
    }
    assert set(found.only("filter", 6).tables) == {TablePlace("ip6tables-legacy", "filter")}
    assert found.only("nat").tables == {}


class Failing(Programs):
    """A kernel with nft, whose `iptables-save` fails with `code` the first `times` times that it runs."""

    def __init__(self, code: int, times: int) -> None:
        super().__init__(NFT, {"iptables-save": saved(2)})
        self.code = code
        self.left = times

    def run(self, argv: list[str]) -> Completed:
        if argv == ["iptables-save"] and self.left:
            self.left -= 1
            return Completed(self.code, "", "Another app holds the lock.\n")
        return super().run(argv)


@pytest.mark.parametrize("times", [1, 2])
def test_a_program_that_fails_for_a_moment_is_run_again(times: int) -> None:
    """The rules are read if `iptables-save` succeeds at its third attempt at the latest."""
    found = iptables_backend.observe(t.cast(t.Any, Failing(4, times)), [IptablesTable("filter")])
    assert len(found.table("filter")["INPUT"]) == 2


def test_a_program_that_fails_matters_only_to_tables_of_its_ip_version() -> None:
    """After three failures of iptables-save, a desired IPv4 table is an error; without one, IPv4 has no rules."""
    with pytest.raises(ObserveError, match=r"iptables-save\): Another app holds the lock\. See that"):
        iptables_backend.observe(t.cast(t.Any, Failing(4, 3)), [IptablesTable("filter")])
    found = iptables_backend.observe(t.cast(t.Any, Failing(4, 3)), [IptablesTable("filter", family=6)])
    assert found.table("filter") == {}


def test_the_other_backend_is_the_host_s_but_cannot_be_read_for_ipv6() -> None:
    """A desired IPv6 table is an error if legacy is written and ip6tables-legacy-save fails; IPv4 tables are read."""
    kernel = t.cast(t.Any, Programs(NFT, {"iptables-save": saved(0), "iptables-legacy-save": saved(11)}))
    with pytest.raises(ObserveError) as caught:
        iptables_backend.observe(kernel, [IptablesTable("filter"), IptablesTable("filter", family=6)])
    assert str(caught.value) == (
        "The ip6tables-legacy rules cannot be read (ip6tables-legacy-save): not installed."
        " See that the kernel has nf_tables or iptables (Debian: linux-image-amd64), then run again."
    )
    found = iptables_backend.observe(kernel, [IptablesTable("filter")])
    assert len(found.table("filter")["INPUT"]) == 11


def test_a_program_that_is_not_installed_is_run_once() -> None:
    """No second attempt is made after status 127, with which a shell reports a missing program."""
    kernel = Failing(127, 3)
    assert iptables_backend.observe(t.cast(t.Any, kernel), [IptablesTable("filter")]).table("filter") == {}
    assert kernel.left == 2


@pytest.mark.parametrize(
    ("done", "words"),
    [
        (Completed(1, "", "first.\nsecond.\n"), "first"),
        (Completed(1, "out\n", "error\n"), "error"),
        (Completed(1, "out\nmore\n", ""), "out"),
        (Completed(1, "", "# Warning: tables\n\nthen this\nand that"), "then this"),
        (Completed(3, "", ""), "it ended with status 3"),
        (Completed(4, "x", "Warning: only\n"), "it ended with status 4"),
    ],
)
def test_the_first_line_that_is_no_warning_is_shown(done: Completed, words: str) -> None:
    """The first line of the errors that is neither blank nor a warning is shown without its full stop.

    It is of the output if there are no errors. Without such a line, the exit status is shown.
    """
    assert done.first_line == words


def test_backends_are_reported_with_version_and_rule_counts() -> None:
    """The result has the backend in use, the version of iptables, and for each backend the number of its IPv4 rules.

    The number is None if the rules cannot be read. The version is "" if iptables prints none. The result as a whole is
    None if `iptables -V` fails.
    """
    both = Programs(NFT, {"iptables-nft-save": saved(2, ours=1), "iptables-legacy-save": saved(0)})
    assert iptables_backend.backends(t.cast(t.Any, both)) == Backends("nft", "1.8.9", {"nft": 3, "legacy": 0})
    one = Programs(LEGACY, {"iptables-legacy-save": saved(1)})
    assert iptables_backend.backends(t.cast(t.Any, one)) == Backends("legacy", "1.8.9", {"nft": None, "legacy": 1})
    assert iptables_backend.backends(t.cast(t.Any, Programs("iptables", {}))) == Backends(
        "legacy", "", {"nft": None, "legacy": None}
    )
    assert iptables_backend.backends(t.cast(t.Any, Programs("", {}))) is None


def test_an_observed_is_immutable() -> None:
    """An Observed is immutable, because drivers keep it between runs and share it."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Observed().backend = "nft"  # type: ignore[misc]


@pytest.mark.parametrize("name", ["-F", "-X a", "--flush", "", "a b", "a\nb", "\ufffd", "x" * 29])
def test_a_chain_is_not_named_to_a_program_if_its_name_could_be_an_option(name: str) -> None:
    """Nftables takes any name. The table of such a chain is read whole, so that it is seen all the same."""
    place = TablePlace("iptables", "filter")
    ran: list[list[str]] = []

    class Kernel(Programs):
        def run(self, argv: list[str]) -> Completed:
            ran.append(argv)
            return super().run(argv)

    kernel = Kernel(NFT, {"iptables-save": saved(3)})
    known = Observed(tables={place: {"INPUT": ()}}, backend="nft")
    found = iptables_backend.refreshed(t.cast(t.Any, kernel), known, {ChangedChain(4, "filter", name)})
    assert ran == [["iptables-save", "-t", "filter"]]
    assert found is not None and len(found.tables[place]["INPUT"]) == 3


def test_a_changed_table_that_cannot_be_read_leaves_the_rest_to_a_whole_reading() -> None:
    known = Observed(tables={TablePlace("iptables", "filter"): {"INPUT": ()}}, backend="nft")
    changed = {ChangedChain(4, "filter", "INPUT")}
    assert iptables_backend.refreshed(t.cast(t.Any, Programs(NFT, {})), known, changed) is None
    incompatible = "# Table `filter' is incompatible, use 'nft' tool.\n"
    kernel = Programs(NFT, {"iptables-save": incompatible})
    assert iptables_backend.refreshed(t.cast(t.Any, kernel), known, changed) is None
