# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selectors of policies, which differ in whether they accept global(), and in the length of labels."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..base import selectors
from ..base.naming import NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX
from .errors import Refused
from .fields import SelectorText

_GLOBAL_ALONE = re.compile(r"[ \t]*global\([\t\n\f\r ]*\)[ \t]*")
#: The most characters of a label of a namespace or service account, which gets a prefix among an endpoint's labels.
_SCOPED_LABEL_LIMIT = selectors.LABEL_LIMIT - max(len(NAMESPACE_PREFIX), len(SERVICE_ACCOUNT_PREFIX))


@dataclasses.dataclass(frozen=True)
class EndpointSelector(SelectorText):
    """A selector over labels of endpoints. It refuses global(), even in quotes: that is for namespaces."""

    def read(self, value: t.Any) -> str:
        return _without_global(super().read(value))


@dataclasses.dataclass(frozen=True)
class ScopedSelector(SelectorText):
    """A selector over labels of namespaces or service accounts.

    `read` also raises Refused for a label that is too long with the prefix that it gets among an endpoint's labels.
    """

    def read(self, value: t.Any) -> str:
        text = super().read(value)
        longest = max(map(len, selectors.parse(text).labels), default=0)
        if longest > _SCOPED_LABEL_LIMIT:
            raise Refused(
                text,
                f"has a label of {longest} characters, while those of namespaces and service accounts have at most "
                f"{_SCOPED_LABEL_LIMIT}.",
                "Write the name of a label that they have.",
            )
        return text


@dataclasses.dataclass(frozen=True)
class PolicyScopeSelector(ScopedSelector):
    """A ScopedSelector that limits a whole policy. It refuses global(), even in quotes."""

    def read(self, value: t.Any) -> str:
        return _without_global(super().read(value))


@dataclasses.dataclass(frozen=True)
class NamespaceSelector(ScopedSelector):
    """A selector over labels of namespaces, or global() for endpoints and sets without a namespace.

    `read` also raises Refused for global() together with anything else, even if it is in quotes.
    """

    def read(self, value: t.Any) -> str:
        text = super().read(value)
        if "global(" in text and not _GLOBAL_ALONE.fullmatch(text):
            raise Refused(
                text,
                "combines global() with something else.",
                "Write global() alone, or a rule for each of both.",
            )
        return text


def _without_global(text: str) -> str:
    # Calico refuses the text "global()" even inside quotes. It accepts `global( )` with a blank, which would mean
    # all() here, so the parsed selector is searched as well.
    if "global(" not in text:
        return text
    leaves = selectors.leaves(selectors.parse(text).root)
    if "global()" in text or any(isinstance(leaf, selectors.Global) for leaf in leaves):
        raise Refused(
            text,
            "uses global(), which is for the namespaceSelector of a rule's source or destination.",
            "Write all() for everything.",
        )
    return text
