# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/reference/variables.md. With --check it writes nothing and fails if the file is not what it would write.

Fleet and node variables come from plugins/module_utils/fleet/variables.py, which the compiler reads its defaults from;
variables of roles come from their meta/argument_specs.yml. Nothing is described anywhere else.
"""

from __future__ import annotations

import difflib
import json
import pathlib
import sys
import typing as t

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "variables.md"
sys.path.insert(0, str(ROOT))

HEAD = """\
<!--
Copyright (c) 2026, baremetal.host_routing contributors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
-->
<!-- Written by `make docs` from plugins/module_utils/fleet/variables.py and roles/*/meta/argument_specs.yml. -->
# Variables

All that can be set in an inventory. Only `calico_ip_pools` and each node's `calico_node_address` must be set.

The `vars` of a play, role or task, `vars_files`, `include_vars`, `set_fact` and `-e` set them, too. Facts that modules
return do not, nor does a `set_fact` that an earlier run cached. A template reads facts as `ansible_facts.default_ipv4`,
never as `ansible_default_ipv4`.
"""


def page() -> str:
    from plugins.module_utils.fleet.variables import FLEET, GROUP, NODE, VARIABLES

    parts = [HEAD]
    parts.append(
        section(
            "Of the fleet",
            "One value for all nodes, in `group_vars/all/`. Two hosts with different values stop the run.",
            [fleet_row(variable) for variable in VARIABLES if variable.scope == FLEET],
        )
    )
    parts.append(
        section(
            "Of a group",
            "In `group_vars/<group>.yml`, with the group's name in their own: a host has those of all its groups.",
            [fleet_row(variable) for variable in VARIABLES if variable.scope == GROUP],
        )
    )
    parts.append(
        section(
            "Of a node",
            "In `host_vars/<node>.yml` or beside the host's name.",
            [fleet_row(variable) for variable in VARIABLES if variable.scope == NODE],
        )
    )
    for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        specs = yaml.safe_load(path.read_text("utf-8"))["argument_specs"]
        for entry, spec in specs.items():
            rows = [role_row(key, option) for key, option in (spec.get("options") or {}).items()]
            title = f"Of the role `{path.parts[-3]}`" + ("" if entry == "main" else f", entry point `{entry}`")
            if rows:
                parts.append(section(title, sentence(spec.get("short_description", "")), rows))
    return "\n".join(parts)


def section(title: str, about: str, rows: list[tuple[str, str, str, str]]) -> str:
    lines = [f"## {title}", "", about, "", "| variable | type | default | what it is |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {default} | {text} |" for name, kind, default, text in rows]
    return "\n".join(lines) + "\n"


def fleet_row(variable: t.Any) -> tuple[str, str, str, str]:
    if variable.required:
        default = "**required**"
    elif variable.default_text:
        default = cell(variable.default_text)
    else:
        default = literal(variable.default)
    text = cell(variable.description)
    if variable.choices:
        text += f" One of {', '.join(f'`{choice}`' for choice in variable.choices)}."
    if variable.minimum is not None and variable.maximum is not None:
        text += f" From {variable.minimum} to {variable.maximum}."
    if variable.example:
        text += f" Example: `{cell(variable.example)}`"
    return variable.name, variable.type, default, text


def role_row(name: str, option: dict[str, t.Any]) -> tuple[str, str, str, str]:
    description = option.get("description", "")
    text = cell(" ".join(description) if isinstance(description, list) else description)
    if option.get("choices"):
        text += f" One of {', '.join(f'`{choice}`' for choice in option['choices'])}."
    default = "**required**" if option.get("required") else literal(option.get("default"))
    return name, option.get("type", "str"), default, text


def literal(value: t.Any) -> str:
    return "" if value is None else f"`{cell(json.dumps(value))}`"


def cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def sentence(text: str) -> str:
    text = cell(text)
    return text if not text or text.endswith(".") else f"{text}."


def written(path: pathlib.Path, wanted: str) -> int:
    """Write the page `wanted` to `path`, or with --check in sys.argv only print how the file differs.

    Return the exit status: 1 if --check is given and the file differs or is missing, 0 otherwise.
    """
    if "--check" not in sys.argv[1:]:
        path.write_text(wanted, "utf-8")
        return 0
    present = path.read_text("utf-8") if path.is_file() else ""
    if present == wanted:
        return 0
    name = str(path.relative_to(ROOT))
    print("\n".join(difflib.unified_diff(present.splitlines(), wanted.splitlines(), name, "generated", lineterm="")))
    print(f"{name} is not what its sources say. Write it anew with `make docs`.")
    return 1


if __name__ == "__main__":
    sys.exit(written(PAGE, page()))
