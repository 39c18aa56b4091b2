# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory whose nodes answer what a test says, run by Ansible with its default configuration."""

from __future__ import annotations

import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import typing as t

import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import engine_module
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import engine_start

from tests import prepared_ansible
from tests.integration.ansible_playbook import BIN, ROOT

Answer = t.Union[str, t.Mapping[str, t.Any]]

_FORGER = """\
#!{python}
import json, os, re, sys
head = ""
if sys.argv[1] == "-I":  # the start of a module by the installed engine
    sys.stdin.buffer.read()
    if not {engine}:
        sys.exit({absent})
    module, head = sys.argv[-1], {head!r}
else:
    module = re.search(r"(?:AnsiballZ_)?(\\w+)\\.py$", sys.argv[1]).group(1)
if module.startswith("async_"):  # runs the module, or reads its answer
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with open({answers!r}) as stream:
    answers = json.load(stream)
answer = answers.get(module, answers["*"])
print(head + (json.dumps({{"changed": False, **answer}}) if isinstance(answer, dict) else answer))
"""


class Fleet:
    """An inventory of two nodes, n1 and n2. Each module answers {"changed": False} until `answers` says otherwise.

    Its files are in `folder`. With `engine`, nodes answer as engines do that they have installed, otherwise as modules
    of Ansible's archive.
    """

    def __init__(self, folder: pathlib.Path, engine: bool = False) -> None:
        self.folder, self.engine = folder, engine
        self.inventory = folder / "inventory" / "hosts.yml"
        self.inventory.parent.mkdir()
        (folder / "default.cfg").touch()
        hosts = {
            name: {"calico_node_address": f"10.0.0.{number}/24", "ansible_python_interpreter": self._forger(name)}
            for number, name in enumerate(("n1", "n2"), 1)
        }
        deny = {
            "kind": "GlobalNetworkPolicy",
            "metadata": {"name": "closed"},
            "spec": {"selector": "app == 'w2'", "types": ["Ingress"], "ingress": []},
        }
        fleet = {
            "ansible_connection": "local",
            "calico_ip_pools": [{"name": "pool", "cidr": "10.244.0.0/16"}],
            "calico_workloads": [{"name": w, "node": n, "labels": {"app": w}} for w, n in (("w1", "n1"), ("w2", "n2"))],
            "calico_policies": [deny],
        }
        groups = {"rack_a": {"hosts": {"n1": {}}}, "rack_b": {"hosts": {"n2": {}}}}
        self.inventory.write_text(yaml.safe_dump({"calico_nodes": {"vars": fleet, "hosts": hosts, "children": groups}}))
        self.answers({})
        self.answers({}, "n2")

    def _forger(self, name: str) -> str:
        path = self.folder / f"python-{name}"
        path.write_text(
            _FORGER.format(
                python=sys.executable,
                answers=str(self.folder / f"answers-{name}.json"),
                engine=self.engine,
                absent=engine_start.ABSENT,
                head=f"\n{engine_module.STARTED}\n{engine_module.ANSWER}",
            )
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def answers(self, answer: Answer, host: str = "n1", **by_module: Answer) -> None:
        """Replace the answers of `host`: those of `by_module` are from these modules, and `answer` is from all others.

        A mapping is the answer, with `changed` False if it has none. A text is what the module prints in place of JSON.
        Modules whose names begin with async_ are really run.
        """
        (self.folder / f"answers-{host}.json").write_text(json.dumps({"*": answer, **by_module}))

    def run(self, program: str, *words: t.Union[str, pathlib.Path]) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        environment = {
            **kept,
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_CONFIG": str(self.folder / "default.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build" / "collections"),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_NOCOLOR": "1",
        }
        command = [BIN / program, *words, "-i", self.inventory]
        return prepared_ansible.run(command, self.folder, environment, timeout=300)

    def play(self, *tasks: t.Mapping[str, t.Any], gather: bool = False, more: t.Sequence[t.Any] = ()) -> str:
        """Run a play with these tasks on both nodes, and then the plays `more`; return stdout and stderr as one line.

        Each run of white space is one space. With `gather` the first play gathers facts. The run need not succeed.
        Raise subprocess.TimeoutExpired after 300 seconds.
        """
        first = {"hosts": "calico_nodes", "gather_facts": gather, "tasks": list(tasks)}
        path = self.folder / "play.yml"
        path.write_text(json.dumps([first, *more]))
        return re.sub(r"\s+", " ", self.printed(path))

    def printed(self, playbook: pathlib.Path, *words: str) -> str:
        """Run ansible-playbook with these further words; return its stdout and then its stderr, unchanged.

        The run need not succeed. Raise subprocess.TimeoutExpired after 300 seconds.
        """
        done = self.run("ansible-playbook", playbook, *words)
        return done.stdout + done.stderr
