# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options that describe the fleet to a task. Actions read them on the controller; no module sees them.

    A module that needs one of them adds `required: true` to it under its own `options:`.
    """

    FOLDER = r"""
options:
  fleet:
    description:
      - Folder on the controller that M(baremetal.host_routing.fleet) returned. Used on the controller.
    type: str
"""

    OBSERVED = r"""
options:
  observed:
    description:
      - Name of the variable in which M(baremetal.host_routing.node_info) was registered. Used on the controller.
    type: str
"""

    PHASE = r"""
options:
  phase:
    description:
      - The step on the way to the state, when a pool changes its mode. Used on the controller.
      - V(converge) is the state itself; V(prepare), V(links), V(divert), V(flip) and V(retire) are phases for
        all nodes in step.
    type: str
    choices: [converge, prepare, links, divert, flip, retire]
    default: converge
"""

    POOL_MODE = r"""
options:
  pool:
    description:
      - Pool whose mode differs from the inventory in this run. Needs O(mode). Used on the controller.
    type: str
  mode:
    description:
      - The mode of O(pool). Used on the controller.
    type: str
    choices: [ipip, ipip-crosssubnet, vxlan, vxlan-crosssubnet, direct]
"""

    ANSWER = r"""
options:
  output:
    description:
      - How to print the answer.
    type: str
    choices: [text, json, none]
    default: text
  answer_file:
    description:
      - File on the controller to write the answer to as JSON, with RV(lines), and the rest in an C(answer).
    type: path
"""

    PROBES = r"""
options:
  endpoint:
    description:
      - Send from the network namespace C(calico-probe) of the node's probe endpoint, as a workload does. Used by the
        action.
    type: bool
    default: false
  secret:
    description:
      - The secret of the run, 16 bytes in hexadecimal digits. Probes of other nodes that were made with it are counted
        in C(heard). Made by the action.
    type: str
"""

    LOST_PROBES = r"""
options:
  max_lost_probes:
    description:
      - The number of lost probes of all hosts together, on paths that answered others, up to which the run has not
        failed.
    type: int
    default: 0
"""
