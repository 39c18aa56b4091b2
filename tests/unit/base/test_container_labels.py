# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What containers say of themselves: which labels are taken, and which are left out."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import container_labels
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.errors import Refused
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.metadata import LABELS
from hypothesis import given
from hypothesis import strategies as st

PREFIXES = ("example.org/", "app")
CHARACTERS = "aZ0-_./$ \x1b"


@pytest.mark.parametrize(
    ("labels", "prefixes", "taken", "left_out"),
    [
        ({"example.org/tier": "front", "other": "x"}, PREFIXES, {"example.org/tier": "front"}, 0),
        ({"app": "", "application": "web"}, PREFIXES, {"app": "", "application": "web"}, 0),
        ({"example.org/tier": "front"}, (), {}, 0),
        # Compose's names of services come with any prefix, and with none they do not.
        ({"com.docker.compose.service": "db"}, PREFIXES, {"com.docker.compose.service": "db"}, 0),
        ({"io.podman.compose.service": "db"}, PREFIXES, {"io.podman.compose.service": "db"}, 0),
        ({"com.docker.compose.service": "db"}, (), {}, 0),
        ({"com.docker.compose.project": "shop"}, PREFIXES, {}, 0),
        # What Calico says itself of an endpoint, no container says.
        ({"projectcalico.org/namespace": "prod"}, ("projectcalico.org/", "p"), {}, 1),
        ({"x.projectcalico.org/a": "b", "pcns.role": "admin", "pcsa.a": "b"}, ("x", "pc"), {}, 3),
        ({"app\x1b[2J": "x", "app": "\x1b[2J", "app.": "x", "app/b/c": "x", "App/b": "x"}, PREFIXES, {}, 4),
        ({"app": "x" * 63, "app.b": "x" * 64, "a" * 64: "x"}, ("app", "a"), {"app": "x" * 63}, 2),
    ],
)
def test_labels_with_a_chosen_prefix_are_taken(labels, prefixes, taken, left_out) -> None:
    assert container_labels.chosen(labels, prefixes) == (taken, left_out)


def test_ten_thousand_labels_are_thirty_two() -> None:
    labels = {f"app{number:05d}": "x" for number in range(10_000)}
    taken, left_out = container_labels.chosen(labels, PREFIXES)
    assert (list(taken), left_out) == ([f"app{number:05d}" for number in range(32)], 10_000 - 32)


@given(st.dictionaries(st.text(CHARACTERS, max_size=70), st.text(CHARACTERS, max_size=70), max_size=5))
def test_what_is_taken_is_a_label_in_documents_too(labels) -> None:
    taken, dummy = container_labels.chosen(labels, ("a", "Z", "0"))
    assert LABELS.read(taken) == taken


@given(st.text(CHARACTERS, max_size=70), st.text(CHARACTERS, max_size=70))
def test_a_label_is_valid_by_the_rules_of_documents(key, value) -> None:
    try:
        LABELS.read({key: value})
    except Refused:
        assert not container_labels.is_label(key, value)
    else:
        assert container_labels.is_label(key, value)


@pytest.mark.parametrize("name", ["", "-web", "web\n", "w\x1b[31m", "docker/ab", "a" * 254, "wéb"])
def test_names_that_no_runtime_gives(name) -> None:
    assert not container_labels.is_name(name)


@pytest.mark.parametrize("prefix", ["", "/a", "a b", "projectcalico.org/", "projectcalico.org/a", "pcns.x", "a" * 318])
def test_prefixes_that_cannot_be_chosen(prefix) -> None:
    assert not container_labels.is_prefix(prefix)
    assert container_labels.is_prefix("com.docker.compose.") and container_labels.is_name("web_1.x-2")
