# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory's part of live policy: what a run publishes of it, and what it means for live documents. Pure.

    inventory/<plural>/<name>   the policy documents of the inventory, as `calicoctl get` prints them
    settings/fleet              {"policy": true, "live": true, "failsafe_inbound": [...], ..., "release": "0.2.0"}

Operators plan by both, and nodes may read them. Without live policy neither exists.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ...base import selectors
from ...base.release import VERSION
from ...dataplane.change import Change
from ...policy import model
from ...policy.documents import from_resources, to_resources
from ...policy.model import Failsafe, NamedPortKey, Policy, PolicyNetworkSet, PolicySet, PolicyTier
from ...policy.sets import needed_sets
from ...resources import api as resources
from ...state import live_policy
from ...state.live_policy import Unresolved, Value
from ...state.policy_state import PolicySettings
from .. import documents, keys
from ..keys import DocumentKey
from ..live import live_documents
from ..live.live_documents import LiveValue

#: The most documents that a message names.
_NAMED = 8
_STAGED = "Staged"


class OversizedDocument(Exception):
    """A document of the inventory that is too large to be published. `name` has its kind and name."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(f"{name} has {size} bytes as JSON, and at most {keys.DOCUMENT_BYTES} are published")
        self.name, self.size = name, size


class TierInUse(Exception):
    """A change of the inventory that takes a tier from live documents. The text has the remedy."""


class InventoryPolicy(t.NamedTuple):
    """What a run publishes of the inventory's policy: the values by key, and a PolicySet that has only names."""

    values: t.Mapping[str, bytes]
    names: PolicySet


@dataclasses.dataclass(frozen=True)
class LiveReview:
    """The live documents that a run of Ansible brings into force, hides or refuses to lose.

    `changes` are for people: no run makes them. `notices` are sentences.
    """

    changes: tuple[Change, ...] = ()
    notices: tuple[str, ...] = ()


NO_REVIEW = LiveReview()


def of_inventory(policy: PolicySet, settings: PolicySettings) -> InventoryPolicy:
    """Return what is published of an inventory with live policy. Raise OversizedDocument or InvalidKey."""
    found: list[resources.Resource] = [
        *map(to_resources.tier, policy.tiers),
        *map(to_resources.policy, policy.policies),
        *map(to_resources.network_set, policy.network_sets),
    ]
    values = {}
    for resource in found:
        key = DocumentKey(resource.KIND, getattr(resource.metadata, "namespace", ""), resource.name)
        value = documents.encoded(resource.to_document())
        if len(value) > keys.DOCUMENT_BYTES:
            raise OversizedDocument(str(key), len(value))
        values[keys.inventory_key(key)] = value
    values[keys.FLEET_SETTINGS] = documents.encoded(
        {
            "policy": True,
            "live": settings.live,
            "failsafe_inbound": list(map(_failsafe, settings.failsafe_inbound)),
            "failsafe_outbound": list(map(_failsafe, settings.failsafe_outbound)),
            "release": VERSION,
        }
    )
    names = PolicySet(
        tuple(PolicyTier(one.name) for one in policy.tiers),
        tuple(Policy(one.name) for one in policy.policies),
        (),
        tuple(PolicyNetworkSet(one.name) for one in policy.network_sets),
    )
    return InventoryPolicy(values, names)


def review(
    before: t.Mapping[str, bytes],
    after: t.Optional[InventoryPolicy],
    live: t.Mapping[DocumentKey, bytes],
    stored: bool = False,
) -> LiveReview:
    """Return what a run means for the documents `live`. Raise TierInUse if it takes a tier from some of them.

    `before` is what the cluster has below inventory/ and settings/, and `after` what the run publishes, None if it
    switches live policy off. Values of `live` need not be valid. `stored` says that `after` is of stored states.
    """
    was_on = keys.FLEET_SETTINGS in before
    if not live or (after is None and not was_on):
        return NO_REVIEW
    if after is None:
        return LiveReview((_switched("-", len(live)),))
    known = {key: _value(key, live[key]) for key in live}
    had = _names(before)
    notices = _check_tiers(had, after.names, known, stored)
    notices += tuple(_without_sets(before, after, live, stored))
    if not was_on:
        return LiveReview((_switched("+", len(live)),), notices)
    values = live_policy.LivePolicy(
        tuple(one for one in known.values() if isinstance(one, PolicyTier)),
        tuple(one for one in known.values() if isinstance(one, Policy)),
        tuple(one for one in known.values() if isinstance(one, PolicyNetworkSet)),
    )
    hidden_before = set(live_policy.without_effect(had, values))
    hidden_after = set(live_policy.without_effect(after.names, values))
    changes = []
    for key, value in known.items():
        pair = (_KINDS[type(value)], value.name)
        if pair in hidden_after - hidden_before:
            changes.append(_change(key, "has no effect any more: the inventory's is in force in its place"))
        elif pair in hidden_before - hidden_after:
            changes.append(_change(key, "comes into force: the inventory has none of this name any more"))
    return LiveReview(tuple(changes), notices)


_KINDS: t.Mapping[type, str] = {PolicyTier: "Tier", Policy: "policy", PolicyNetworkSet: "network set"}


def _check_tiers(had: PolicySet, has: PolicySet, known: t.Mapping[DocumentKey, Value], stored: bool) -> tuple[str, ...]:
    """Return a notice about policies whose tiers did not exist before. Raise TierInUse for those that did."""
    try:
        live_policy.resolve(has, known.values())
    except Unresolved as unresolved:
        missing = unresolved.tiers
    else:
        return ()
    lost = {name: tier for name, tier in missing.items() if tier in {one.name for one in had.tiers}}
    keys_of = {value.name: str(key) for key, value in known.items() if isinstance(value, Policy)}
    for tier in sorted(set(lost.values())):
        users = _listed(keys_of[name] for name in lost if lost[name] == tier)
        lacks, instead = ("The inventory no longer has", "Keep it")
        if stored:
            lacks, instead = ("The generation does not have", "Choose another one")
        raise TierInUse(
            f"{lacks} the Tier {tier}, and live documents are in it: {users}. {instead}, move them to another tier or "
            f"delete them (calicoctl apply, calicoctl delete), or write a live Tier {tier} first."
        )
    tiers = ", ".join(sorted(set(missing.values()))[:_NAMED])
    return (f"Live documents are in tiers that do not exist ({tiers}): {_listed(keys_of[name] for name in missing)}.",)


def _without_sets(
    before: t.Mapping[str, bytes], after: InventoryPolicy, live: t.Mapping[DocumentKey, bytes], stored: bool
) -> t.Iterator[str]:
    """Yield at most one notice: rules of live documents selected network sets that go, and select none any more.

    A network set counts as gone if it has other labels.
    """
    sets_after = _sets(after.values)
    labels = {name: one.labels for name, one in sets_after.items()}
    gone = [one for one in _sets(before).values() if labels.get(one.name) != one.labels]
    if not gone:
        return
    values = {key: value for key, value in _readable(live) if value is not None}
    there = [
        *sets_after.values(),
        *(one for one in values.values() if isinstance(one, PolicyNetworkSet) and one.name not in sets_after),
    ]
    hidden = {one.name for one in after.names.policies}
    users, lost = [], set[str]()
    for key, policy in values.items():
        if not isinstance(policy, Policy) or policy.name in hidden:
            continue
        for text in _selectors(policy):
            selected = [one for one in gone if _selects(text, one)]
            if selected and not any(_selects(text, one) for one in there):
                lost |= {one.name for one in selected}
                users.append(str(key))
    if users:
        lacks = "The generation does not have" if stored else "The inventory no longer has"
        yield (
            f"Rules of live documents select no network set any more: {_listed(set(users))}. {lacks} {_listed(lost)}, "
            "or with other labels. Keep it, or write a live network set with these labels first (calicoctl apply)."
        )


def _sets(published: t.Mapping[str, bytes]) -> dict[str, PolicyNetworkSet]:
    """Return the network sets among published values, by name."""
    documents_of = {key: value for key, value in _by_key(published) if key.kind.endswith("Set")}
    return {one.name: one for dummy, one in _readable(documents_of) if isinstance(one, PolicyNetworkSet)}


def _by_key(published: t.Mapping[str, bytes]) -> t.Iterator[tuple[DocumentKey, bytes]]:
    for text, value in published.items():
        key = keys.parse_inventory_key(text)
        if key is not None:
            yield key, value


def _readable(values: t.Mapping[DocumentKey, bytes]) -> t.Iterator[tuple[DocumentKey, LiveValue]]:
    """Yield what each document is for policy, without those that nodes leave out."""
    for key, value in values.items():
        with contextlib.suppress(documents.RefusedDocument):
            yield key, live_documents.value_of(live_documents.decode(key, value))


def _selectors(policy: Policy) -> set[str]:
    """Return the selectors of sources and destinations in the rules of a policy, also those that exclude."""
    return {key.selector if isinstance(key, NamedPortKey) else key for key in needed_sets.of_rules(policy)} - {""}


def _selects(selector: str, network_set: PolicyNetworkSet) -> bool:
    return selectors.parse(selector).matches(dict(network_set.labels))


def _listed(names: t.Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return f"{', '.join(listed[:_NAMED])}{more}"


def _names(before: t.Mapping[str, bytes]) -> PolicySet:
    """Return the names of what an earlier run published, as a PolicySet."""
    values = [_value(key, b"") for key in map(keys.parse_inventory_key, before) if key is not None]
    return PolicySet(
        tuple(one for one in values if isinstance(one, PolicyTier)),
        tuple(one for one in values if isinstance(one, Policy)),
        (),
        tuple(one for one in values if isinstance(one, PolicyNetworkSet)),
    )


def _value(key: DocumentKey, value: bytes) -> Value:
    """Return a value of the policy model with the name of a document, and with its tier for a policy."""
    if key.kind == "Tier":
        return PolicyTier(key.name)
    prefix = f"{key.namespace}/" if key.namespace else ""
    if key.kind.endswith("Set"):
        return PolicyNetworkSet(f"{prefix}{key.name}", namespace=key.namespace)
    staged = from_resources.STAGED_PREFIX if key.kind.startswith(_STAGED) else ""
    return Policy(f"{prefix}{staged}{key.name}", tier=_tier(value))


def _tier(value: bytes) -> str:
    """Return the tier in the JSON of a policy, the default one for anything that has none."""
    try:
        spec = documents.decoded(value, keys.DOCUMENT_BYTES).get("spec")
    except documents.RefusedDocument:
        return model.DEFAULT_TIER
    found = spec.get("tier") if isinstance(spec, dict) else None
    return found if isinstance(found, str) and found else model.DEFAULT_TIER


def _failsafe(port: Failsafe) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {"protocol": port.protocol, "port": port.port}
    return {**found, "net": port.net} if port.net else found


def _switched(action: t.Literal["+", "-"], count: int) -> Change:
    """Return the change of all live documents by a run that switches live policy on or off."""
    one, several = {"+": ("comes into force", "come into force"), "-": ("has no effect", "have no effect")}[action]
    ending, what = ("", one) if count == 1 else ("s", several)
    return Change(
        "live", action, f"{count} live document{ending}", note=f"{what}{'' if action == '+' else ' any more'}"
    )


def _change(key: DocumentKey, what: str) -> Change:
    return Change("live", "~", str(key), note=what)
