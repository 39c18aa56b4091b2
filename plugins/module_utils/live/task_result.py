# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of live documents as the result of a task of Ansible."""

from __future__ import annotations

import typing as t

from ..cli.connection.datastore_ways import DatastoreWays
from ..editing.live import differences
from ..editing.live.live_plan import Data
from . import outcome
from .fleet_answer import FleetAnswer
from .outcome import WriteOptions

_NOTHING = FleetAnswer((), {}, {}, {})


def result_of(config: str, request: Data, options: WriteOptions) -> dict[str, t.Any]:
    """Return the result of a task that makes the change of a request, with what differs under `differences`.

    `config` is the path of an operator's calicoctl.cfg. The result has `failed` and `msg` if nodes do not have the
    change in force, or would not in a dry run that asks them. Raise CommandError.
    """
    said: list[str] = []
    ways = DatastoreWays(config, "", "", {}, said.append)
    made = outcome.make(ways, outcome.request_change(request), options, said.append)
    plan = made.change.plan
    said += [*plan.warnings, *outcome.lines_of(made.change, False)]
    result: dict[str, t.Any] = {"changed": bool(plan.changes), "lines": said}
    result.update(change=made.change.change, revision=made.change.revision, documents=plan.documents())
    result["differences"] = "".join(f"{line}\n" for line in differences.lines_of(plan.changes))
    if made.waited is not None:
        complaints = outcome.complaints_of(made.waited)
        said += [*complaints, outcome.effect_of(made.waited)]
        if not made.is_everywhere:
            result.update(failed=True, msg=" ".join(complaints) or said[-1])
    if options.dry_run and options.ask:
        asked = made.asked or _NOTHING
        result["asked"] = {**asked.to_dict(), "plan": asked.hash if made.asked else ""}
        if made.asked is not None:
            complaints = asked.problems()
            said += [*complaints, *asked.text().splitlines(), f"This is plan {asked.hash}."]
            if not asked.is_complete:
                result.update(failed=True, msg=" ".join(complaints) or said[-1])
    return result
