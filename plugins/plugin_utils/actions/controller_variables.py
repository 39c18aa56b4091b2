# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables as the controller has them: from inventory, options, plays, roles and set_fact, without facts.

By default Ansible makes variables of the facts that modules return, and prefers them to those of the inventory. Root on
a node writes the answers of all modules that run there. So it could set any variable of its own host, or pretend to be
another host. ``set_fact`` is no fact in this sense: Ansible keeps it apart, unless an earlier run cached it.
"""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import multiprocessing
import pathlib
import re
import typing as t

from ansible import constants
from ansible.vars.hostvars import HostVarsVars
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

_PREFIX = "calico_"
_COLLECTION = pathlib.Path(__file__).resolve().parents[3]
_DEFINED = re.compile(r"^(calico_\w+):", re.MULTILINE)
_REGISTERED = re.compile(r"^ +register: (calico_\w+)$", re.MULTILINE)
#: The files that define variables, and those whose tasks register them, in the collection's folder.
_DEFINING = ("roles/*/defaults/main.yml", "roles/*/vars/main.yml")
_REGISTERING = ("roles/*/tasks/*.yml", "playbooks/*.yml")
#: Variables that say which host this is, in which groups, and where its inventory lies. Ansible accepts them from
#: facts, too.
IDENTITY = frozenset(
    {"inventory_hostname", "inventory_hostname_short", "inventory_dir", "inventory_file", "group_names"}
)
_REMEDY = (
    "Remove the module, the local fact or the cached set_fact that it comes from and set it in the inventory; if there "
    "is none, look into who is root on this host. Facts that are cached go with --flush-cache."
)


def is_of_fleet(name: str) -> bool:
    """Return whether `name` is a variable of a fleet or its group lists, is in RENAMED, or is a likely misspelling."""
    # Ansible's names are texts with tags: as such, a cache would not find what it has for the same text without tags.
    return _is_of_fleet(str(name))


@functools.cache
def _is_of_fleet(name: str) -> bool:
    if name in variables.BY_NAME or name.startswith(variables.GROUP_LISTS):
        return True
    return name in variables.RENAMED or (name.startswith(_PREFIX) and any(True for dummy in variables.misspelt([name])))


def prepare() -> None:
    """Fill the cache of `is_of_fleet` with the variables of roles and playbooks, before Ansible forks.

    The search for a misspelling takes long for each name. Raise OSError if one of their files cannot be read.
    """
    for name in _of_collection():
        is_of_fleet(name)


@functools.cache
def _of_collection() -> frozenset[str]:
    """Return the names beginning with calico_ that the roles define, and that tasks of roles and playbooks register."""
    names: set[str] = set()
    for form, globs in ((_DEFINED, _DEFINING), (_REGISTERED, _REGISTERING)):
        for path in (path for pattern in globs for path in _COLLECTION.glob(pattern)):
            names.update(form.findall(path.read_text("utf-8")))
    return frozenset(names)


@contextlib.contextmanager
def without_facts() -> t.Iterator[None]:
    """Keep facts out of the variables that Ansible returns in this process, as inject_facts_as_vars=False does.

    Actions run in a process of their own, so that nothing else in the run sees the setting.
    """
    before = constants.INJECT_FACTS_AS_VARS
    constants.INJECT_FACTS_AS_VARS = False
    try:
        yield
    finally:
        constants.INJECT_FACTS_AS_VARS = before


class PlayVariables:
    """The variables of hosts, with those of the running play, role and task, which `hostvars` leaves out."""

    def __init__(self, hostvars: t.Any, task: t.Any) -> None:
        self._hostvars, self._task = hostvars, task
        self._play = task.get_play()

    def raw_get(self, host: str) -> dict[str, t.Any]:
        """Return the variables of `host` as a dict, with templates as they are written."""
        found = self._hostvars._inventory.get_host(host)
        manager = self._hostvars._variable_manager
        return t.cast(
            "dict[str, t.Any]",
            manager.get_vars(
                play=self._play, host=found, task=self._task, include_hostvars=False, _hosts=[], _hosts_all=[host]
            ),
        )

    def __getitem__(self, host: str) -> t.Any:
        return HostVarsVars(self.raw_get(host), loader=self._hostvars._loader, host=host)


def of_hosts(task_vars: t.Mapping[str, t.Any], task: t.Any) -> t.Any:
    """Return a mapping from host to its variables, for use within without_facts(): `hostvars`, or PlayVariables.

    PlayVariables takes longer for each host. It is returned if a variable of the fleet that begins with calico_ has
    another value in `task_vars` than `hostvars` has for this host: the play, a role, the task or a fact gives it.
    Without `inventory_hostname` in `task_vars`, `hostvars` is returned. The result is None if there are no hostvars.
    """
    hostvars: t.Any = task_vars.get("hostvars")
    if not hasattr(hostvars, "raw_get") or "inventory_hostname" not in task_vars:
        return hostvars
    own = hostvars.raw_get(task_vars["inventory_hostname"])
    for name, value in task_vars.items():
        if name.startswith(_PREFIX) and value is not own.get(name) and is_of_fleet(name) and value != own.get(name):
            return PlayVariables(hostvars, task)
    return hostvars


def raw(hostvars: t.Any) -> t.Callable[[str], t.Mapping[str, t.Any]]:
    """Return the function that returns a host's variables with templates as they are written.

    Each call of that function puts the variables together anew: call it once for each host.
    """
    return t.cast("t.Callable[[str], t.Mapping[str, t.Any]]", getattr(hostvars, "raw_get", hostvars.__getitem__))


def facts_of_fleet(own: t.Mapping[str, t.Any]) -> list[str]:
    """Return the sorted names of facts that are calico_ variables of the fleet, by `is_of_fleet`, with other values.

    `own` are a host's variables as HostVars.raw_get returns them within without_facts().
    """
    facts = own.get("ansible_facts")
    if not isinstance(facts, collections.abc.Mapping):
        return []
    names = [str(name) for name in facts if str(name).startswith(_PREFIX)]
    return sorted(name for name in names if is_of_fleet(name) and facts[name] != own.get(name))


def check_host(task_vars: t.Mapping[str, t.Any]) -> None:
    """Raise FleetError if facts of the host may give it another identity, or change variables of roles.

    Any fact with a name in IDENTITY may give another identity. A variable of roles begins with calico_ and is none of
    the fleet's. Nothing is checked if Ansible makes no variables of facts, or without Ansible's hostvars. Ansible has
    already evaluated the templates in a task's options with facts, so these names cannot be left out. Variables of the
    fleet can: no option is made of them.
    """
    hostvars: t.Any = task_vars.get("hostvars")
    if not constants.INJECT_FACTS_AS_VARS or not hasattr(hostvars, "raw_get"):
        return
    named = str(task_vars.get("inventory_hostname"))
    host = str(getattr(multiprocessing.current_process(), "_host", None) or named)
    if named != host:
        raise FleetError(f"host {host}", None, f"calls itself {named} by a fact inventory_hostname.", _REMEDY)
    with without_facts():
        own = hostvars.raw_get(host)
    facts = own.get("ansible_facts")
    for name in sorted(map(str, facts)) if isinstance(facts, collections.abc.Mapping) else ():
        of_role = name.startswith(_PREFIX) and not is_of_fleet(name) and task_vars.get(name) != own.get(name)
        if name in IDENTITY or of_role:
            raise FleetError(f"host {host}", None, f"has a fact {name}, which is a variable and no fact.", _REMEDY)
