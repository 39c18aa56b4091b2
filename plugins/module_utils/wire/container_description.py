# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What calico-runtimes.service tells the agent about a container: its name and labels, and to whom they belong."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..base import container_labels
from ..base.terminal_text import cut
from ..base.typed_json import by_name, items, matching, one_of, table, text
from ..state.attachment import AttachedWorkload
from . import protocol
from .protocol import AgentError

#: The methods of the socket for runtimes.
WATCH, DESCRIBE = "containers.watch", "containers.describe"
DOCKER, PODMAN = "docker", "podman"
#: The most endpoints that one container has, which are networks that it is in.
ENDPOINTS_LIMIT = 64
_ID = matching(re.compile(r"[0-9a-f]{64}"), "an id of 64 hex digits")
READS = table(
    {"runtime": one_of(DOCKER, PODMAN), "container": _ID, "name": text(253)},
    {"endpoints": items(_ID, ENDPOINTS_LIMIT), "labels": by_name(text(63), container_labels.LABELS_LIMIT, text(317))},
)


@dataclasses.dataclass(frozen=True)
class ContainerDescription:
    """A container's name and labels. `runtime` is docker or podman; `endpoints` are Docker's ids of its interfaces."""

    runtime: str
    container: str
    name: str
    endpoints: tuple[str, ...] = ()
    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_params(cls, params: t.Mapping[str, t.Any], prefixes: t.Collection[str]) -> ContainerDescription:
        """Return the description in parameters that `READS` has read.

        Raise AgentError (invalid_params) if the name is none that a runtime gives, or a label is not valid, is Calico's
        own, or has a key that none of `prefixes` begins.
        """
        if not container_labels.is_name(params["name"]):
            raise _invalid(f"name {cut(params['name'])!r} is not the name of a container.", "name")
        labels = params.get("labels", {})
        for key, value in labels.items():
            if not container_labels.is_label(key, value) or not container_labels.is_chosen(key, prefixes):
                raise _invalid(f"the label {cut(key)!r} is not one that is taken from containers.", "labels")
        endpoints = tuple(params.get("endpoints", ()))
        return cls(params["runtime"], params["container"], params["name"], endpoints, labels)

    def to_params(self) -> dict[str, t.Any]:
        return {**self.__dict__, "endpoints": list(self.endpoints), "labels": dict(self.labels)}

    def is_about(self, workload: AttachedWorkload) -> bool:
        """Return whether a workload is an interface of this container, by the ids that runtimes gave both."""
        if self.runtime == DOCKER:
            return workload.attached_by == DOCKER and workload.id.partition("/")[2] in self.endpoints
        return workload.attached_by in (PODMAN, "cni") and workload.container == self.container


def _invalid(why: str, field: str) -> AgentError:
    return AgentError(protocol.INVALID_PARAMS, f"{DESCRIBE}: {why}", {"field": field})
