# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selectors of policies, which differ in whether they accept global()."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..base import selectors
from .errors import Refused
from .fields import SelectorText

_GLOBAL_ALONE = re.compile(r"[ \t]*global\([\t\n\f\r ]*\)[ \t]*")


@dataclasses.dataclass(frozen=True)
class EndpointSelector(SelectorText):
    """A selector over labels of endpoints. It refuses global(), even in quotes: that is for namespaces."""

    def read(self, value: t.Any) -> str:
        text = super().read(value)
        # Calico refuses the text "global()" even inside quotes. It accepts `global( )` with a blank, which would mean
        # all() here, so the parsed selector is searched as well.
        if "global()" in text or any(isinstance(leaf, selectors.Global) for leaf in _leaves(text)):
            raise Refused(
                text,
                "uses global(), which is for the namespaceSelector of a rule's source or destination.",
                "Write all() for everything.",
            )
        return text


@dataclasses.dataclass(frozen=True)
class NamespaceSelector(SelectorText):
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


def _leaves(text: str) -> t.Iterator[selectors.Leaf]:
    return selectors.leaves(selectors.parse(text).root)
