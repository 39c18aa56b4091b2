# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables look as in Calico's documents."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import tables


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
