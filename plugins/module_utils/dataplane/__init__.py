# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drivers: one module per kind of kernel object, all behind the `Kernel` port.

    kernel.py     the port: what a kernel can be asked and told, as values (Link, Address, RouteAttributes, ...)
    rtnetlink.py  packed rtnetlink messages: dumps and bulk routes, standard library alone
    links_packed.py, conntrack.py
                  the same for the links and addresses of workloads, and for tracked connections
    linux.py      LinuxKernel: the port on a real kernel
    fake.py, fake_netfilter.py
                  FakeKernel: the port in memory, with the kernel's rules, for tests

    change.py     Change, and ApplyError, which names every change that failed and why
    tunnel.py neighbor.py workload.py route.py rule.py sysctl.py ipset.py iptables.py file.py
                  drivers: observe(kernel, desired), diff(desired, observed), apply(kernel, changes)
    iptables_saved.py iptables_backend.py iptables_restore.py
                  what iptables-save prints; nft and legacy; one table written, bad chains set aside
    remembered.py the drivers of iptables and sets for a process that stays
    node.py       all drivers for one NodeState, or some of them: plan_node, apply_node
    attach.py     one workload attached and detached, as the drivers would do it, in a few system calls

Observing and workloads need the standard library alone; writing tunnel devices, neighbours and rules needs pyroute2,
imported when the first such write is made. What does not carry our mark is never changed (see docs/architecture.md).
"""
