# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dataplane: what a node programs into its kernel, one driver for each kind of object.

    kernel/       the `Kernel` port, and LinuxKernel, which implements it
    drivers/      observe(kernel, desired), diff(desired, observed), apply(kernel, changes)
    encoding/     encoders of the text protocols that drivers write

    change.py     Change, and ApplyError, which names every change that failed and why
    driver.py     what a driver is, and where it belongs among the others
    registry.py   the drivers in their order: what only reads does not import it
    plan.py       plan_node: what all drivers, or some of them, have to change for a NodeState
    apply.py      apply_node: the changes of a plan, in an order that cuts nothing off
    bird_routes.py
                  how BIRD's routes will differ, for those who only ask
    cached_drivers.py
                  the drivers of iptables and sets for a process that stays
    attach.py     one workload attached and detached, as the drivers would do it, in a few system calls
    hardening.py  settings by which a device takes what its neighbours advertise: off on devices that we make
    underlay.py   the underlay's device and gateways, which only the node knows

Observing and workloads need the standard library alone; writing tunnel devices, neighbours and rules needs pyroute2,
imported when the first such write is made. What does not carry our mark is never changed (see docs/architecture.md).
"""
