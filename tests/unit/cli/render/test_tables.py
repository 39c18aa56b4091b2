# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables look as in Calico's documents."""

from __future__ import annotations

import re

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import tables
from hypothesis import given
from hypothesis import strategies as st


def test_columns_are_those_of_a_tabwriter() -> None:
    """Columns are those of a tabwriter, copied from Calico's documents without spaces at the ends of lines."""
    heading = ("NAME", "CIDR", "NAT", "IPIPMODE", "VXLANMODE", "DISABLED", "SELECTOR")
    row = ("default-ipv4-ippool", "10.244.0.0/16", "true", "Always", "Never", "false", "all()")
    assert tables.columns(heading, [row]) == (
        "NAME                  CIDR            NAT    IPIPMODE   VXLANMODE   DISABLED   SELECTOR\n"
        "default-ipv4-ippool   10.244.0.0/16   true   Always     Never       false      all()\n"
    )


def test_a_heading_alone_and_an_empty_cell() -> None:
    assert tables.columns(("NAME", "IPV6"), []) == "NAME   IPV6\n"
    assert tables.columns(("A", "B", "C"), [("x", "", "y")]) == "A    B    C\nx         y\n"


def test_boxes_are_those_of_node_status() -> None:
    """Boxes are those of `node status`, copied from Calico's documents."""
    heading = ("PEER ADDRESS", "PEER TYPE", "STATE", "SINCE", "INFO")
    row = ("192.168.56.100", "node-to-node mesh", "up", "16:13:35", "Established")
    assert tables.boxed(heading, [row]) == (
        "+----------------+-------------------+-------+----------+-------------+\n"
        "|  PEER ADDRESS  |     PEER TYPE     | STATE |  SINCE   |    INFO     |\n"
        "+----------------+-------------------+-------+----------+-------------+\n"
        "| 192.168.56.100 | node-to-node mesh | up    | 16:13:35 | Established |\n"
        "+----------------+-------------------+-------+----------+-------------+\n"
    )


def test_numbers_are_right_aligned() -> None:
    """Numbers are right-aligned, as copied from Calico's documents."""
    heading = ("GROUPING", "CIDR", "IPS TOTAL", "IPS IN USE", "IPS FREE")
    row = ("IP Pool", "10.244.0.0/16", "65536", "8 (0%)", "65528 (100%)")
    assert tables.boxed(heading, [row]) == (
        "+----------+---------------+-----------+------------+--------------+\n"
        "| GROUPING |     CIDR      | IPS TOTAL | IPS IN USE |   IPS FREE   |\n"
        "+----------+---------------+-----------+------------+--------------+\n"
        "| IP Pool  | 10.244.0.0/16 |     65536 | 8 (0%)     | 65528 (100%) |\n"
        "+----------+---------------+-----------+------------+--------------+\n"
    )


def test_a_table_that_fits_is_one_of_columns() -> None:
    heading, rows = ("NAME", "PORTS"), [("web", "8080:80/tcp, 53:53/udp"), ("db", "-")]
    assert tables.fitted(heading, rows) == tables.columns(heading, rows)
    assert tables.fitted(heading, []) == "NAME   PORTS\n"


def test_a_fitted_table_breaks_lists_first_and_then_the_longest_cells() -> None:
    heading = ("NAME", "ADDRESS", "PORTS")
    rows = [("web", "10.244.3.1,fd00:10:244::1", "8080:80/tcp, 53:53/udp"), ("db", "10.244.3.2", "-")]
    assert tables.fitted(heading, rows, 40) == (
        "NAME  ADDRESS           PORTS\n"
        "web   10.244.3.1,       8080:80/tcp,\n"
        "      fd00:10:244::1    53:53/udp\n"
        "db    10.244.3.2        -\n"
    )
    assert tables.fitted(("NAME", "BY"), [("0123456789abcdef", "docker")], 20) == (
        "NAME          BY\n0123456789ab  docker\ncdef\n"
    )


_CELLS = st.text("ab:,/ ", max_size=40).map(lambda text: re.sub(" +", "", text))


@given(st.lists(st.tuples(_CELLS, _CELLS, _CELLS), max_size=4), st.integers(30, 140))
def test_a_fitted_table_is_narrow_and_loses_nothing(rows: list[tuple[str, str, str]], width: int) -> None:
    lines = tables.fitted(("A", "B", "C"), rows, width).splitlines()
    assert all(len(line) <= width for line in lines)
    assert sorted("".join(lines[1:]).replace(" ", "")) == sorted("".join(map("".join, rows)))
