# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first seconds of the wait for a confirmation, with little code loaded.

In each phase of a change, on each node, a process waits for the confirmation, which nearly always comes within a
second. The code that reverts a change takes longer than that to load. So it is loaded only if the change still waits
after a few seconds, which is long before the deadline.
"""

from __future__ import annotations

import json
import os
import time

#: The node's store, and the file in it about the change that waits; see unconfirmed.py.
FOLDER, NAME = "/var/lib/calico", "unconfirmed.json"
#: The most seconds of this wait, and the most of it as a share of the time to confirm.
SECONDS, SHARE = 15.0, 0.25

_STEP = 0.1


def is_over(change: str, folder: str = FOLDER) -> bool:
    """Return True as soon as `change` does not wait any more, False if it still waits after the first seconds.

    These are 15 seconds, or a quarter of the time to confirm if that is less. A change that waits together with a later
    one counts as not waiting: the later one has a process of its own. `folder` is the node's store. Return False at
    once if its file about the change cannot be read.
    """
    began = time.monotonic()
    path = os.path.join(folder, NAME)
    seen, within = None, 0.0
    while True:
        try:
            status = os.stat(path)
            # The file has the node's whole previous state, so it is read only if it was replaced.
            if seen != (status.st_ino, status.st_mtime_ns):
                seen = (status.st_ino, status.st_mtime_ns)
                with open(path, encoding="utf-8") as stream:
                    found = json.load(stream)
                if found["changes"][-1] != change:
                    return True
                within = float(found["within"])
        except FileNotFoundError:
            return True
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return False
        if time.monotonic() - began >= min(SECONDS, within * SHARE):
            return False
        time.sleep(_STEP)
