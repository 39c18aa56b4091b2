# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/contributing/figures.md. With --check it writes nothing, and fails if that page is out of date.

The figures and their counts are those of tests/run/figures.py.
"""

from __future__ import annotations

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "contributing" / "figures.md"
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from generate_variables import opening, written  # noqa: E402

from tests.run import figures  # noqa: E402

HEAD = f"""\
{opening("tests/run/figures.py")}\
# Figures of the code

This page is for people who make the code simpler. It says how far the code is from its goals, and what is counted.

```
.venv/bin/python tests/run/figures.py             # the exact counts
.venv/bin/python tests/run/figures.py --measure   # and processor times, on a quiet machine
```

Each count is a function of `tests/run/figures.py`, whose docstring says what it counts. Here, large counts are rounded
up, so that the page changes only when the code has changed much.

## Counted

"""


def page() -> str:
    return f"{HEAD}{figures.table(figures.counted(), page=True)}\n## Measured\n\n{figures.measured_table()}"


if __name__ == "__main__":
    sys.exit(written(PAGE, page()))
