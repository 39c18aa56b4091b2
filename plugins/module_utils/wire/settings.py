# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's settings: /etc/calico/agent.json, written by the role. Without the file all have their defaults."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import typing as t

from ..files import bounded

PATH = "/etc/calico/agent.json"
_REMEDY = "Correct it, then start the agent again."
_SIZE_LIMIT = 1 << 20  # bytes of the file


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

    @classmethod
    def from_dict(cls, data: t.Any, path: str = PATH) -> AgentSettings:
        """Return the settings in `data`, the parsed content of the file `path`; those that are not in it are defaults.

        Raise SettingsError if `data` is not a dict, or has an unknown name, null, a value of another type (a time may
        be an integer), a negative or infinite number, NaN, an unknown log level or a port above 65535.
        """
        if not isinstance(data, dict):
            raise SettingsError(f"{path}: it must hold a JSON object. {_REMEDY}")
        fields = {field.name: field.default for field in dataclasses.fields(cls)}
        for name, value in data.items():
            if name not in fields:
                raise SettingsError(f"{path}: {name} is not a setting. There are: {', '.join(fields)}. {_REMEDY}")
            default = fields[name]
            if not _fits(value, default):
                number = "a finite number" if isinstance(default, float) else "a number"
                kind = "a text" if isinstance(default, str) else f"{number} that is not negative"
                raise SettingsError(f"{path}: {name} {value!r} must be {kind}, such as {default!r}. {_REMEDY}")
        if data.get("log_level", cls.log_level) not in LEVELS:
            raise SettingsError(
                f"{path}: log_level {data['log_level']!r} must be one of {', '.join(LEVELS)}. {_REMEDY}"
            )
        if data.get("metrics_port", 0) > 65535:
            raise SettingsError(f"{path}: metrics_port {data['metrics_port']} must be at most 65535. {_REMEDY}")
        return cls(**data)


def _fits(value: t.Any, default: t.Any) -> bool:
    """Return whether a value may replace its default.

    A text may replace a text, an integer an integer, and any number a float. Numbers are finite and not negative, and a
    boolean is none.
    """
    if isinstance(default, str):
        return isinstance(value, str)
    kinds = (int,) if isinstance(default, int) else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < math.inf


LEVELS = ("debug", "info", "warning", "error")


class Loaded(t.NamedTuple):
    """The settings and the digest of their file: the first 16 hex digits of its SHA-256, or "" without a file."""

    settings: AgentSettings
    digest: str


def load(path: str = PATH) -> Loaded:
    """Read the settings from the file `path`; return them with the first 16 hex digits of the file's SHA-256.

    Return the defaults and "" if there is no such file. Raise SettingsError if it cannot be read, is not JSON, or has
    settings that `AgentSettings.from_dict` refuses.
    """
    try:
        content = bounded.read(path, _SIZE_LIMIT)
        data = json.loads(content)
    except FileNotFoundError:
        return Loaded(AgentSettings(), "")
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: it cannot be read: {error}. {_REMEDY}") from error
    return Loaded(AgentSettings.from_dict(data, path), hashlib.sha256(content).hexdigest()[:16])
