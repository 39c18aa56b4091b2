# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bird.cfg as text, out of what BIRD is to do: the role's template bird.cfg.j2 and its parts in bird/."""

from __future__ import annotations

import functools
import pathlib
import typing as t

import jinja2
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import family_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import encoding

_TEMPLATES = pathlib.Path(__file__).resolve().parents[2] / "roles" / "calico_node" / "templates"


def render(bird: t.Mapping[str, t.Any]) -> str:
    """The text for `bird`, a bgp.bird_state.Bird as NodeState.to_dict has it. A field that is missing there raises
    jinja2.UndefinedError: silence would be a session without an option. Raises NotEncodable for a value that would not
    be one token of bird.cfg."""
    return _environment().get_template("bird.cfg.j2").render(calico_node_bird=encoding.checked(bird))


def prepare() -> None:
    """Reads all of the templates, which takes a hundred times as long as `render` does then. For who renders in
    processes that fork from this one."""
    environment = _environment()
    for name in environment.list_templates(["j2"]):
        environment.get_template(name)


@functools.lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    # Jinja itself and not Ansible's templar: the parts use nothing of Ansible's, and values are data that no template
    # in them may be looked for.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(_TEMPLATES)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["of_family"] = _of_family
    return environment


def _of_family(entries: t.Iterable[t.Any], family: int) -> list[t.Any]:
    """Those CIDRs, or mappings with a `cidr`, that are of IPv4 (4) or IPv6 (6)."""
    return [entry for entry in entries if family_of(entry if isinstance(entry, str) else entry["cidr"]) == family]
