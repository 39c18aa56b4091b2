# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of an action that runs on the controller; the code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_lint
short_description: Look for what does not work in an inventory, or is hardly meant
version_added: 0.3.0
description:
  - Reads the whole inventory and says of all that is wrong with it, not only of the first thing, what it is, where it
    is written and how to go on.
  - What cannot be at all is refused by every run as well; then nothing else is told. Else the rules are asked, which
    docs/validate.md lists. An error does not work, a warning works and breaks easily or is hardly meant.
  - No host is touched. Of facts only those that are cached are known.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
options:
  strict:
    description:
      - Whether a warning is a failure, too.
    type: bool
    default: false
  output:
    description:
      - How to print what was found.
    type: str
    choices: [text, json, none]
    default: text
  answer_file:
    description:
      - File on the controller into which it is written as well, as JSON. RV(lines), and an C(answer) with the rest.
    type: path
notes:
  - Rules whose findings are meant can be left out with the fleet variable C(calico_lint_ignore).
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
  description: How many errors there are.
  returned: success
  type: int
warnings_found:
  description: How many warnings there are.
  returned: success
  type: int
findings:
  description: All of them, errors first.
  returned: success
  type: list
  elements: dict
  contains:
    severity: {description: V(error) or V(warning)., type: str}
    rule: {description: Its name; V(refused) for what cannot be at all., type: str}
    variable: {description: What it is about., type: str}
    origin: {description: 'File and line, empty where they are not known.', type: str}
    what: {description: What is odd., type: str}
    remedy: {description: How to go on., type: str}
lines:
  description: The same as it is printed for people.
  returned: success
  type: list
  elements: str
"""
