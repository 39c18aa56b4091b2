# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/README.md lists every page of the documentation once."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_every_page_is_in_the_index_once() -> None:
    entries = re.findall(r"^- \[[^\]]+\]\(([\w/-]+\.md)\): ", (DOCS / "README.md").read_text("utf-8"), re.MULTILINE)
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"README.md"}
    assert len(pages) > 20
    assert sorted(entries) == sorted(pages)
