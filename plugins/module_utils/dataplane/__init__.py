# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dataplane: the code that programs a node's kernel, with one driver for each kind of kernel object.

    kernel/       the `Kernel` port, and LinuxKernel, which implements it
    drivers/      observe(kernel, desired), diff(desired, observed), apply(kernel, changes)
    encoding/     encoders of the text protocols that drivers write
    planning/     all drivers together: plan_node, apply_node, and attach for one workload
    change.py     Change, and ApplyError, which names every change that failed and the reason
    driver.py     the interface of a driver, and its place among the others
    hardening.py  settings by which a device accepts its neighbours' advertisements: off on devices that we make
    underlay.py   the underlay's device and gateways, which only the node knows

Observing, and writing workloads, need the standard library alone. Writing tunnel devices, neighbours and rules needs
pyroute2, which is imported at the first such write. Functions that take a Kernel pass its KernelError on, unless they
say otherwise. docs/contributing/architecture.md says by which marks an object is ours.
"""
