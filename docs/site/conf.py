# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of Sphinx for the site that `make docs-site` builds (docs/site/build.py)."""

from __future__ import annotations

import pathlib
import re
import typing as t

import yaml
from docutils import nodes
from sphinx.transforms import SphinxTransform

HERE = pathlib.Path(__file__).resolve().parent
GALAXY = yaml.safe_load((HERE.parents[1] / "galaxy.yml").read_text("utf-8"))

project = f"{GALAXY['namespace']}.{GALAXY['name']}"
version = release = GALAXY["version"]
author = GALAXY["authors"][0]
project_copyright = f"2026, {author}"
root_doc = "index"
language = "en"

extensions = ["myst_parser", "sphinx_antsibull_ext"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
# Links to headings are those of GitHub, at every level.
myst_heading_anchors = 6
nitpicky = True
# The captions of code blocks name their language; a console's output is not always of the language.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"{project} {version}"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_favicon = str(HERE / "static" / "icon.svg")
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_theme_options = {"source_repository": "", "footer_icons": []}
# Both have a contrast of at least 4.5 on furo's backgrounds, which tests/docs_site measures.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
# site.css has the colours of option tables, light and dark.
antsibull_ext_color_scheme = "none"

#: Characters of a table's cell from which its column is one of sentences, which site.css gives room.
_SENTENCES = 100


def mark_columns_of_sentences(_app: t.Any, doctree: nodes.document, _page: str) -> None:
    """Give the cells of each column of sentences the class `sentences`."""
    for table in doctree.findall(nodes.tgroup):
        for column in zip(*(row.children for row in table.findall(nodes.row))):
            if max(len(cell.astext()) for cell in column) >= _SENTENCES:
                for cell in column:
                    cell["classes"].append("sentences")


class AnchorsOfHtml(SphinxTransform):
    """A transform that lets links lead to `<a id="name"></a>` in Markdown: GitHub allows them, myst-parser does not."""

    default_priority = 800  # myst-parser resolves links within a page at 879

    def apply(self, **_named: t.Any) -> None:
        """Add the document's HTML anchors to the names that myst-parser knows, which are those of its headings."""
        slugs = getattr(self.document, "myst_slugs", None)
        for raw in self.document.findall(nodes.raw) if slugs else ():
            for name in re.findall(r'<a (?:id|name)="([^"]+)"', raw.astext()):
                slugs.setdefault(name, (raw.line, name, name))


def setup(app: t.Any) -> dict[str, t.Any]:
    """Make Sphinx find the anchors that pages write in HTML, and mark the table columns that hold sentences."""
    app.add_transform(AnchorsOfHtml)
    app.connect("doctree-resolved", mark_columns_of_sentences)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
