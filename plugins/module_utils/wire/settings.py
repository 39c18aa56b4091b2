# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's settings: /etc/calico/agent.json, written by the role. Without the file all have their defaults."""

from __future__ import annotations

import dataclasses
import hashlib
import typing as t

from ..base.container_labels import PREFIXES_LIMIT, is_prefix
from ..base.typed_json import Unreadable, items, number, one_of, parse, refuse, table, text, whole
from ..files import bounded

PATH = "/etc/calico/agent.json"
_REMEDY = "Correct it, then start the agent again."
_SIZE_LIMIT = 1 << 20  # bytes of the file
#: The levels of the log.
LEVELS = ("debug", "info", "warning", "error")


class SettingsError(Exception):
    """The error for a file that cannot be used. Its text says what is wrong in it."""


@dataclasses.dataclass(frozen=True)
class AgentSettings:
    """The settings, named as in agent.json. Times are in seconds."""

    group: str = "calico"  # the group whose members may read through the API; "": only root may
    metrics_address: str = "127.0.0.1"
    metrics_port: int = 9091  # the default is Felix's port; 0: no metrics by HTTP
    log_level: str = "info"
    resync_interval: float = 90.0  # seconds between two resyncs, give or take 10 %
    cleanup_grace: float = 60.0  # seconds from the start until objects may be removed without a run
    leak_grace: float = 900.0  # seconds that an address is seen without a workload until it is freed (Calico: the same)
    cooldown: float = 30.0  # seconds from an address's release until it may be assigned again
    sticky: float = 30.0  # seconds from an address's release for which it is kept for its workload; 0: none is kept
    runtime_labels: t.Tuple[str, ...] = ()  # what begins the keys of those labels of containers that policy selects by

    @classmethod
    def from_dict(cls, data: t.Any, path: str = PATH) -> AgentSettings:
        """Return the settings in `data`, the parsed content of the file `path`; those that are not in it are defaults.

        Raise SettingsError if `data` is not a dict, or has an unknown name or a value of another type or range.
        """
        try:
            found = _SETTINGS(data)
            if "runtime_labels" in found:
                found["runtime_labels"] = tuple(found["runtime_labels"])
            return cls(**found)
        except Unreadable as error:
            raise SettingsError(f"{path}: {error}. {_REMEDY}") from None


def _prefix(value: t.Any) -> str:
    """Return `value` if it can begin the key of a container's label. Raise Unreadable if it is anything else."""
    if not isinstance(value, str) or not is_prefix(value):
        refuse(value, "the beginning of a label's key, such as example.org/")
    return str(value)


_READERS = {
    **{name: number() for name in ("resync_interval", "cleanup_grace", "leak_grace", "cooldown", "sticky")},
    "group": text(),
    "metrics_address": text(),
    "metrics_port": whole(0, 65535),
    "log_level": one_of(*LEVELS),
    "runtime_labels": items(_prefix, PREFIXES_LIMIT),
}
_SETTINGS = table({}, {field.name: _READERS[field.name] for field in dataclasses.fields(AgentSettings)})


class Loaded(t.NamedTuple):
    """The settings and the digest of their file: the first 16 hex digits of its SHA-256, or "" without a file."""

    settings: AgentSettings
    digest: str


def load(path: str = PATH) -> Loaded:
    """Read the settings from the file `path`; return the defaults and "" if there is no such file.

    Raise SettingsError if it cannot be read, is not JSON, or has settings that `AgentSettings.from_dict` refuses.
    """
    try:
        content = bounded.read(path, _SIZE_LIMIT)
        data = parse(content)
    except FileNotFoundError:
        return Loaded(AgentSettings(), "")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: it cannot be read: {error}. {_REMEDY}") from error
    return Loaded(AgentSettings.from_dict(data, path), hashlib.sha256(content).hexdigest()[:16])
