# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of bird.cfg, rendered from the role's template bird.cfg.j2 and its parts in bird/."""

from __future__ import annotations

import functools
import pathlib
import typing as t

import jinja2
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import family_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import encoding

_TEMPLATES = pathlib.Path(__file__).resolve().parents[2] / "roles" / "calico_node" / "templates"


def render(bird: t.Mapping[str, t.Any]) -> str:
    """Return the text of bird.cfg for `bird`, a bgp.bird_state.Bird as NodeState.to_dict has it.

    Raise NotEncodable for an unknown field, and for a value that is not of its field's kind in bird.encoding.KINDS:
    each is one token. Raise jinja2.UndefinedError for a missing field: it could be a session without an option.
    """
    return _environment().get_template("bird.cfg.j2").render(calico_node_bird=encoding.checked(bird))


def prepare() -> None:
    """Read all templates into a cache, which `render` uses in this process and in those that it forks later."""
    environment = _environment()
    for name in environment.list_templates(["j2"]):
        environment.get_template(name)


@functools.lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    # This is Jinja itself, not Ansible's templar: the templates use nothing of Ansible's, and values are data in which
    # no template may be evaluated.
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
    """Return the CIDRs, or the mappings with a `cidr`, of one IP version (4 or 6)."""
    return [entry for entry in entries if family_of(entry if isinstance(entry, str) else entry["cidr"]) == family]
