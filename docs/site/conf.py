# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of Sphinx for the site that `make docs-site` builds (docs/site/build.py)."""

from __future__ import annotations

import pathlib

import yaml

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
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_theme_options = {"source_repository": "", "footer_icons": []}
# Both have a contrast of at least 4.5 on furo's backgrounds, which tests/docs_site measures.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
# site.css has the colours of option tables, light and dark.
antsibull_ext_color_scheme = "none"
