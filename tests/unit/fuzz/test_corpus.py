# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of bytes that others send: each raises for the kept inputs only what it documents.

fuzz.py, in `make soak`, looks for more of them. A file of corpus/TARGET is one input for the reader TARGET, and a line
of kept/TARGET.txt is one that the fuzzer has found, in base64.
"""

from __future__ import annotations

import pathlib

import pytest

from tests.unit.fuzz.fuzz import KEPT, kept
from tests.unit.fuzz.targets import TARGETS

CORPUS = pathlib.Path(__file__).parent / "corpus"


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_raises_only_what_it_documents(name: str) -> None:
    inputs = {str(path): path.read_bytes() for path in sorted((CORPUS / name).iterdir())}
    assert inputs, f"corpus/{name} has no input"
    inputs.update({f"kept/{name}.txt:{line}": content for line, content in enumerate(kept(name), 1)})
    for where, content in inputs.items():
        try:
            TARGETS[name](content)
        except Exception as error:
            raise AssertionError(f"{where}: {error!r}") from error


def test_each_folder_of_the_corpus_has_a_reader() -> None:
    assert {path.name for path in CORPUS.iterdir()} == TARGETS.keys()
    assert {path.stem for path in KEPT.iterdir()} <= TARGETS.keys()
