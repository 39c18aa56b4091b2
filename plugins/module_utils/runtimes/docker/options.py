# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a network (`docker network create -o KEY=VALUE`) and of one container (`driver-opt=KEY=VALUE`).

Both know `mtu` and `label.KEY`, and any other key is a label. Those of a container stand in place of its network's.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...resources.errors import Refused
from ...resources.metadata import LABELS
from .refusal import RefusedRequest, shown

MTU_OPTION = "mtu"
LABEL = "label."
#: Bytes of an MTU: the least of RFC 791, and the greatest that a veth accepts.
MTU_LIMITS = (68, 65535)
#: Options that the driver cannot have, or that podman's networks have, by key: what to do instead.
_INSTEAD = {
    "pool": "Choose IP pools for the whole network: docker network create --ipam-opt pool=NAME.",
    "dns": "Use --dns of docker run.",
    "dns_search": "Use --dns-search of docker run.",
}
_NAME_INSTEAD = "It is an option of one container: --network name=NETWORK,driver-opt=name=NAME."
_DOCKERS = "com.docker."  # the beginning of options that belong to Docker's own drivers


@dataclasses.dataclass(frozen=True)
class ContainerOptions:
    """What a network gives to its containers, or a container asks for: labels, and an MTU in bytes, None for any."""

    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    mtu: t.Optional[int] = None

    @classmethod
    def from_texts(cls, given: t.Mapping[str, t.Any], word: str) -> ContainerOptions:
        """Return the options in `given`. `word` names one of them for people: "-o" or "driver-opt".

        Raise RefusedRequest for a value that is no text, an option that is not possible, or a wrong label or MTU.
        """
        labels: dict[str, t.Any] = {}
        mtu = None
        for key, value in given.items():
            if key == MTU_OPTION:
                mtu = _mtu(word, value)
            elif key in _INSTEAD:
                raise RefusedRequest(
                    f"{word} {key}=... is not possible with the driver calico. {_INSTEAD[key]} A label of this key is"
                    f" {LABEL}{key}=VALUE."
                )
            elif key.startswith(_DOCKERS):
                raise RefusedRequest(
                    f"{word} {shown(key)} is an option of Docker's own drivers. The driver calico has: {MTU_OPTION},"
                    f" and labels."
                )
            else:
                labels[key[len(LABEL) :] if key.startswith(LABEL) else key] = value
        try:
            return cls(LABELS.read(labels), mtu)
        except Refused as error:
            raise RefusedRequest(
                f"A {word} is a label, and {shown(error.value)} {error.rule} {error.remedy}"
            ) from error

    @classmethod
    def of_network(cls, given: t.Mapping[str, t.Any]) -> ContainerOptions:
        """Return the options of a network. Raise RefusedRequest as `from_texts` does, and for a name."""
        if "name" in given:
            raise RefusedRequest(f"-o name=... is not possible with the driver calico. {_NAME_INSTEAD}")
        return cls.from_texts(given, "-o")

    def overridden_by(self, other: ContainerOptions) -> ContainerOptions:
        """Return these options with those of `other` in place of the same ones; labels are merged by key."""
        return ContainerOptions({**self.labels, **other.labels}, self.mtu if other.mtu is None else other.mtu)


def is_mtu(value: t.Any) -> bool:
    """Return whether `value` is an integer that an MTU may be."""
    return isinstance(value, int) and not isinstance(value, bool) and MTU_LIMITS[0] <= value <= MTU_LIMITS[1]


def _mtu(word: str, text: t.Any) -> t.Optional[int]:
    """Return the MTU in `text`, None for "" and "0". Raise RefusedRequest for anything else that is no MTU."""
    if text in ("", "0"):
        return None
    digits = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 5
    mtu = int(text) if digits else 0
    if not is_mtu(mtu):
        raise RefusedRequest(
            f"{word} {MTU_OPTION}={shown(text)} is no MTU: a number of bytes from {MTU_LIMITS[0]} to {MTU_LIMITS[1]};"
            " 0, or left out, is that of the IP pool."
        )
    return mtu
