# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action fleet_lint, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_lint
short_description: Find settings of an inventory that cannot work or are probably a mistake
version_added: 0.2.0
description:
  - Reads the whole inventory and reports all problems, not only the first one, each with its place in the inventory and
    the remedy.
  - Reports impossible settings, which every run refuses, and what the rules in docs/reference/validate.md find in the
    rest of the inventory. Rules whose findings may follow from a refused setting are applied when nothing is refused.
    An error is a setting that does not work. A warning is a setting that works but breaks easily or is probably a
    mistake.
  - Connects to no host, and uses only facts that are cached.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.answer
options:
  strict:
    description:
      - Whether a warning is a failure, too.
    type: bool
    default: false
notes:
  - The fleet variable C(calico_lint_ignore) switches rules off whose findings are intended.
seealso:
  - module: baremetal.host_routing.fleet
"""

EXAMPLES = r"""
- name: Accept an inventory only without errors and warnings
  baremetal.host_routing.fleet_lint:
    strict: true
  run_once: true
"""

RETURN = r"""
good:
  description: Whether there is no error, and with O(strict) no warning.
  returned: success
  type: bool
errors:
  description: Number of errors.
  returned: success
  type: int
warnings_found:
  description: Number of warnings.
  returned: success
  type: int
findings:
  description: The findings, errors first, at most 20 of a kind.
  returned: success
  type: list
  elements: dict
  contains:
    severity: {description: V(error) or V(warning)., type: str}
    rule: {description: Name of the rule; V(refused) for an impossible setting., type: str}
    variable: {description: The variable concerned., type: str}
    origin: {description: 'File and line, empty if unknown.', type: str}
    what: {description: The problem., type: str}
    remedy: {description: The remedy., type: str}
left_out:
  description: Numbers of further findings, by kind.
  returned: success
  type: list
  elements: dict
  contains:
    severity: {description: V(error) or V(warning)., type: str}
    rule: {description: Name of the rule; V(refused) for an impossible setting., type: str}
    subject: {description: 'For rule V(refused), the variable or kind of resource; empty for others.', type: str}
    count: {description: Number of findings of this kind that are left out of RV(findings)., type: int}
notes:
  description: What was not looked at, such as live documents with C(calico_live_policy).
  returned: success
  type: list
  elements: str
lines:
  description: The findings as printed for people.
  returned: success
  type: list
  elements: str
"""
