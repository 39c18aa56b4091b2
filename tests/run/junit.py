# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JUnit files: the one form in which every suite reports its tests."""

from __future__ import annotations

import dataclasses
import pathlib
import xml.etree.ElementTree as ET


@dataclasses.dataclass
class Case:
    """The result of one test. `outcome` is passed, failed or skipped; `text` is why it did not pass."""

    name: str
    outcome: str
    text: str = ""
    seconds: float = 0.0


def read(folder: pathlib.Path) -> list[Case]:
    """Return all cases of all *.xml below `folder`, [] if it does not exist.

    A file that cannot be read is a failed case of its own.
    """
    cases: list[Case] = []
    for path in sorted(folder.rglob("*.xml")):
        try:
            root = ET.parse(path).getroot()
        except (ET.ParseError, OSError) as error:
            cases.append(Case(path.name, "failed", f"unreadable report: {error}"))
            continue
        cases.extend(_case(element) for element in root.iter("testcase"))
    return cases


def _case(element: ET.Element) -> Case:
    name = "::".join(part for part in (element.get("classname"), element.get("name")) if part)
    seconds = float(element.get("time") or 0)
    for tag, outcome in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = element.find(tag)
        if found is not None:
            return Case(name, outcome, (found.get("message") or found.text or "").strip(), seconds)
    return Case(name, "passed", "", seconds)


def write(path: pathlib.Path, suite: str, cases: list[Case]) -> None:
    root = ET.Element("testsuite", name=suite, tests=str(len(cases)))
    for case in cases:
        element = ET.SubElement(root, "testcase", classname=suite, name=case.name, time=f"{case.seconds:.3f}")
        if case.outcome != "passed":
            tag = "failure" if case.outcome == "failed" else "skipped"
            ET.SubElement(element, tag, message=_printable(case.text))
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """Return `text` without its unprintable characters except line feeds and tabs.

    XML 1.0 cannot hold some of them, such as those of a coloured log.
    """
    return "".join(char for char in text if char in "\n\t" or char.isprintable())
