# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of an inventory that are not YAML. Ansible's own errors about variables in such a file do not name it."""

from __future__ import annotations

import os
import typing as t

import yaml
from ansible.errors import AnsibleError
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import terminal_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ..lines.shown_path import shown_path

_FOLDERS = (("group_vars", "groups"), ("host_vars", "hosts"))
_YAML = (".yml", ".yaml", ".json", "")
_VAULT = "$ANSIBLE_VAULT"


def check_variables(loader: t.Any, variables: t.Mapping[str, t.Any], sources: t.Sequence[str]) -> None:
    """Raise FleetError if a file of variables of a group or host is not YAML.

    They are those of the groups and hosts in `variables`, beside `sources`, paths of inventories, and the playbook.
    What `loader` of Ansible reads stays in its cache, so that Ansible does not read it again.
    """
    groups = variables.get("groups") or {}
    names = {"groups": sorted(map(str, groups)), "hosts": sorted(map(str, groups.get("all") or ()))}
    folders = [source if os.path.isdir(source) else os.path.dirname(source) for source in sources if "," not in source]
    for folder in dict.fromkeys([*map(os.path.abspath, folders), str(variables.get("playbook_dir") or "")]):
        for kind, whose in _FOLDERS:
            path = os.path.join(folder, kind)
            if folder and os.path.isdir(path):
                for name in names[whose]:
                    _check(loader, path, name)


def _check(loader: t.Any, folder: str, name: str) -> None:
    try:
        found = loader.find_vars_files(folder, name)
    except AnsibleError:
        return  # Ansible itself says what is wrong, with the path.
    for file in found:
        path = file.decode("utf-8", "surrogateescape") if isinstance(file, bytes) else str(file)
        try:
            loader.load_from_file(path, cache="all", unsafe=True, trusted_as_template=True)
        except AnsibleError:
            error = not_yaml(path)
            if error is not None:
                raise error from None


def not_yaml(path: str) -> t.Optional[FleetError]:
    """Return the error about a file that should be YAML by its name and is not; None for any other file."""
    if os.path.splitext(path)[1] not in _YAML:
        return None
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        if not text.startswith((_VAULT, "#!")):
            yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        why = terminal_text.line(getattr(error, "problem", None) or str(error).partition("\n")[0])
        return FleetError("document", None, f"is not YAML: {why}.", "Correct it.", f"{shown_path(path)}{line}")
    except UnicodeDecodeError as error:
        return FleetError(
            "document", None, f"is not UTF-8 at byte {error.start}.", "Save it as UTF-8.", shown_path(path)
        )
    except OSError:
        pass
    return None
