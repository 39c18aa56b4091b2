# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels of containers that become labels for policy, and the names of containers that are shown.

The user who starts a container chooses both. The unit that reads them and the agent that accepts them use these rules.
"""

from __future__ import annotations

import re
import typing as t

from .naming import NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX

#: The labels by which Compose names a container's service. They are taken as soon as any prefix is chosen.
COMPOSE = ("com.docker.compose.service", "io.podman.compose.service")
#: The most labels of one container that are taken, and the most prefixes that can be chosen.
LABELS_LIMIT, PREFIXES_LIMIT = 32, 32
#: A name as Docker and podman accept it.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}", re.ASCII)
#: The parts of a label by Kubernetes' rules: the key's optional DNS prefix, the key's name, and the value.
_DOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_WORD = re.compile(r"(?=.{1,63}\Z)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_./]{0,316}", re.ASCII)
#: The domain of labels by which Calico itself names namespaces and owners.
_RESERVED = "projectcalico.org"


def is_name(text: str) -> bool:
    """Return whether `text` can be a container's name: 1 to 253 letters, digits, "_", "." and "-"."""
    return _NAME.fullmatch(text) is not None


def is_prefix(text: str) -> bool:
    """Return whether `text` can begin the key of a label that is taken: it is not empty, and not of Calico's keys."""
    return _PREFIX.fullmatch(text) is not None and not _is_reserved(text)


def is_label(key: str, value: str) -> bool:
    """Return whether a label obeys Kubernetes' rules, and its key is none of those that Calico sets itself."""
    domain, slash, name = key.rpartition("/")
    if slash and not _DOMAIN.fullmatch(domain):
        return False
    return _WORD.fullmatch(name) is not None and (not value or bool(_WORD.fullmatch(value))) and not _is_reserved(key)


def _is_reserved(key: str) -> bool:
    domain, slash, _name = key.partition("/")
    if slash and (domain == _RESERVED or domain.endswith(f".{_RESERVED}")):
        return True
    return key.startswith((NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX))


def is_chosen(key: str, prefixes: t.Collection[str]) -> bool:
    """Return whether a label of this key is to be taken: one of `prefixes` begins it, or Compose sets it.

    Without prefixes, none is.
    """
    return bool(prefixes) and (key in COMPOSE or key.startswith(tuple(prefixes)))


def chosen(labels: t.Mapping[str, str], prefixes: t.Collection[str]) -> tuple[dict[str, str], int]:
    """Return the labels that are taken, by key, and how many chosen ones are left out.

    A label is left out if it is not valid or Calico's own, or if 32 others come before it in the order of keys.
    """
    wanted = sorted(key for key in labels if is_chosen(key, prefixes))
    valid = [key for key in wanted if is_label(key, labels[key])][:LABELS_LIMIT]
    return {key: labels[key] for key in valid}, len(wanted) - len(valid)
