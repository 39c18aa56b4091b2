# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of the last switch beside the lockfile, for the report of a later status."""

from __future__ import annotations

import dataclasses
import json
import os
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import (
    flag,
    items,
    maybe,
    number,
    open_table,
    text,
    whole,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import bounded
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import Loss, LossyPath, SwitchPhase
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.shown_text import cut
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from . import report_file

NAME = ".calico.switch.json"
_LARGEST = 4_000_000  # bytes
_TEXT = text(20_000)
_COUNT = whole(0, 10**15)
_SIZE = number(0.0, 1e12)
_PHASE = open_table({"name": _TEXT, "line": _TEXT, "ok": flag, "at": _TEXT, "seconds": maybe(_SIZE)})
_PATH = open_table({"path": _TEXT, "sent": _COUNT, "lost": _COUNT, "gap": _SIZE, "why": _TEXT}, {"pool": _TEXT})
_LOSS = open_table(
    {
        **dict.fromkeys(("subject", "when", "worst"), _TEXT),
        **dict.fromkeys(("switched", "proof"), flag),
        **dict.fromkeys(("sent", "lost", "paths", "lossy_more"), _COUNT),
        **dict.fromkeys(("gap", "resolution", "watched"), _SIZE),
        "phases": items(_PHASE, 16),
        "lossy": items(_PATH, 1000),
        "by_second": items(items(_COUNT, 2), 200_000),
        "unwatched": items(_TEXT, 1000),
    }
)


def path_beside(lockfile: str) -> str:
    """Return the path of the record in the folder of the lockfile."""
    return os.path.join(os.path.dirname(lockfile), NAME)


def write(lockfile: str, loss: Loss) -> None:
    """Replace the record. Raise FleetError if it cannot be written."""
    report_file.write(path_beside(lockfile), json.dumps(_bounded(dataclasses.asdict(loss)), indent=1) + "\n")


def _bounded(value: t.Any) -> t.Any:
    """Return a copy of plain values with all texts cut, because nodes write some of them."""
    if isinstance(value, dict):
        return {key: _bounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_bounded(one) for one in value]
    return cut(value) if isinstance(value, str) else value


def read(lockfile: str) -> t.Optional[Loss]:
    """Return the last switch, None if none is recorded. Raise FleetError if the record cannot be read."""
    path = path_beside(lockfile)
    try:
        found = _LOSS(bounded.read_json(path, _LARGEST))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FleetError(
            "record of the last switch", path, "cannot be read.", "The next switch replaces it."
        ) from error
    return Loss(
        **{
            **found,
            "phases": tuple(SwitchPhase(**one) for one in found["phases"]),
            "lossy": tuple(LossyPath(**one) for one in found["lossy"]),
            "by_second": tuple((pair[0], pair[1]) for pair in found["by_second"] if len(pair) == 2),
            "unwatched": tuple(found["unwatched"]),
        }
    )
