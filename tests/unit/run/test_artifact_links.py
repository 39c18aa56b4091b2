# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which links of a page artifact_links.py finds, and which of them it calls broken."""

from __future__ import annotations

import pathlib

from tests.run import artifact_links

PAGE = """\
# Nobody's `fault`: a page

[the same page](#nobodys-fault-a-page), [another one](docs/other.md#a-heading), [its folder](docs), `[code](code.md)`,
[an anchor](docs/other.md#an-anchor)

```
[an example](example.md)
# no heading
```
[a site](https://example.com/missing.md)
"""


def write(folder: pathlib.Path, more: str = "") -> pathlib.Path:
    root = folder / "collection"
    (root / "docs").mkdir(parents=True)
    (root / "README.md").write_text(PAGE + more)
    (root / "docs" / "other.md").write_text('## A heading\n<a id="an-anchor"></a>\n[back](../README.md)\n')
    (folder / "tests.md").write_text("")
    return root


def test_good_links(tmp_path: pathlib.Path) -> None:
    """Links to files, folders and headings of the collection are good, and so are all links to other sites."""
    assert artifact_links.broken(write(tmp_path)) == []


def test_broken_links(tmp_path: pathlib.Path) -> None:
    """Links to missing files and headings are broken, and so are links to files outside of the collection."""
    wanted = ["none.md", "docs/other.md#none", "#no-heading", "../tests.md"]
    root = write(tmp_path, "".join(f"[a link]({link})\n" for link in [*wanted, "docs/other.md"]))
    assert artifact_links.broken(root) == [f"README.md: {link}" for link in wanted]
