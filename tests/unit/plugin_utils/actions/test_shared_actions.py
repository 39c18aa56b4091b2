# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that share an action by meta/runtime.yml, as Ansible runs them.

No host is there: Ansible's own action would find it unreachable, and the collection's refuse the arguments first.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import typing as t

import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import registry

ROOT = pathlib.Path(__file__).resolve().parents[4]
BIN = pathlib.Path(sys.executable).parent
OURS = "baremetal.host_routing"
ROUTING = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text("utf-8"))["plugin_routing"]["modules"]
SHARED = sorted(name for name, entry in ROUTING.items() if "action_plugin" in entry)
#: Ansible reads a task of the collection: what each host's process would read is read now.
READ_A_TASK = f"""
import sys
from ansible.plugins import loader
loader.init_plugin_loader([{str(ROOT / ".build" / "collections")!r}])
assert loader.action_loader.find_plugin_with_context("{OURS}.route").resolved
from ansible_collections.{OURS}.plugins.plugin_utils.actions import engine_call
assert "ansible_collections.{OURS}.plugins.plugin_utils.actions.guarded_action" in sys.modules
assert engine_call.engine_digest.cache_info().currsize == 1
"""


def messages(folder: pathlib.Path, play: t.Mapping[str, t.Any]) -> list[str]:
    """Run a play with one host that cannot be reached; return the message of each failed task, and Ansible's others."""
    (folder / "play.yml").write_text(
        json.dumps([{"hosts": "all", "gather_facts": False, "ignore_errors": True, **play}])
    )
    done = subprocess.run(
        [BIN / "ansible-playbook", folder / "play.yml", "-i", "host1,", "-e", "ansible_host=127.0.0.1 ansible_port=1"],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = re.findall(r'"msg": "((?:[^"\\]|\\.)*)"', done.stdout)
    assert found, done.stdout + done.stderr
    return found


def wrong(name: str) -> dict[str, t.Any]:
    """Return valid arguments of a module, and `nosuch`, which no module has."""
    spec = registry.spec(name)
    needed = [option for option, rules in spec.argument_spec.items() if rules.get("required")]
    needed += [options[-1] for options in spec.required_one_of]
    needed += ["address"] if spec.required_if else []
    return {"nosuch": 1, **{option: spec.argument_spec[option].get("choices", ["1"])[0] for option in needed}}


def test_each_module_has_the_collections_action_and_its_own_options(tmp_path: pathlib.Path) -> None:
    found = messages(tmp_path, {"tasks": [{f"{OURS}.{name}": wrong(name)} for name in SHARED]})
    expected = [f"Unsupported parameters for ({OURS}.{name}) module: nosuch" for name in SHARED]
    assert [text.partition(". ")[0] for text in found] == expected


def test_defaults_of_one_module_reach_no_other(tmp_path: pathlib.Path) -> None:
    """With redirects, `module_defaults` of any of these modules would be those of all."""
    defaults = {
        f"{OURS}.route_info": {"table": "many"},
        f"{OURS}.route": {"devise": "x"},
        f"group/{OURS}.host_routing": {"nosuch": 1},
    }
    tasks: list[t.Any] = [{f"{OURS}.{name}": wrong(name)} for name in ("route_info", "bgp_session_info", "route")]
    found = messages(tmp_path, {"module_defaults": defaults, "tasks": tasks})
    assert [text.partition(". ")[0].partition(": ")[0] for text in found] == [
        "argument 'table' is of type str and we were unable to convert to int",
        f"Unsupported parameters for ({OURS}.bgp_session_info) module",
        f"Unsupported parameters for ({OURS}.route) module",
    ]
    assert [re.findall(r"module: ([\w, ]+)\.", text) for text in found] == [[], ["nosuch"], ["devise, nosuch"]]


def test_loading_an_action_computes_the_engine_digest_beforehand() -> None:
    subprocess.run([sys.executable, "-c", READ_A_TASK], check=True, timeout=300)
