# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mirror: the content of the datastore that a node uses, read and checked key by key.

    /host-routing/v1/blocks/<node>       which addresses a node may have: the run's word
    /host-routing/v1/changes/open        a change of live policy that is tried or asked about
    /host-routing/v1/documents/…         live policy: the word of operators
    /host-routing/v1/endpoints/<node>/…  what that node says of its workloads

A workload counts if its addresses lie in blocks of the node below whose prefix it stands. It waits until those are
there. A value that is refused is named, and the last good one of its key stays in force. Its key stays counted, so that
the mirror can tell whether it has all keys of the store.

A live document is kept as text, which live/live_reader.py reads, and so is the open change.

A node may write as much as it likes below its prefix, and takes memory of all others. So the number of its keys and the
size of its documents are bounded, and so are all live documents together. Keys beyond that are counted alone, until the
next listing.
"""

from __future__ import annotations

import heapq
import typing as t
import zlib

from ..policy.model import Endpoint
from ..state.answers import details as of_people
from ..state.answers.endpoints import OwnBlocks, single_address
from . import documents, keys
from .client import DOCUMENT_LIMITS, ShareLimits
from .documents import PublishedEndpoint, RefusedDocument
from .gateway import KeyChange, KeyValue
from .keys import DocumentKey, EndpointKey

#: The most keys that one node may have, and the most bytes of all its documents. What is beyond them is left out.
KEYS_OF_NODE = 16_384
BYTES_OF_NODE = 16 << 20
_KEY_LIMIT = 512  # characters; the longest key of a workload has 296
_CHECKSUM_BITS = 32
_SIZE_BITS = 19  # a document has at most 256 KiB
_SIZE_MASK = (1 << _SIZE_BITS) - 1
_REVISION_SHIFT = _CHECKSUM_BITS + _SIZE_BITS
#: Workloads that are compared in one step after a listing: it takes about two milliseconds.
_STEP = 200
_READS_DETAILS = zlib.crc32(of_people.COMPLETE)
_NO_BLOCKS = "no run has published blocks of its node."
_OUTSIDE = "one of its addresses lies in none of its node's blocks."


class Position(t.NamedTuple):
    """How far a mirror has read: up to, and with, `revision`. `changed` is the last change's, or the listing's."""

    cluster: int
    revision: int
    changed: int


class KnownKey(t.NamedTuple):
    """A key that a mirror has, with the revision of its last change, and the CRC-32 of its value."""

    key: str
    mod_revision: int
    checksum: int


class _Share:
    """The keys with one prefix: `keys` are kept, `excess` are beyond `limits`. `size` is the bytes of what is kept."""

    __slots__ = ("excess", "keys", "limits", "size")

    def __init__(self, limits: ShareLimits) -> None:
        self.limits = limits
        self.keys = self.excess = self.size = 0

    def admits(self, key: str, created: bool) -> bool:
        """Count a key that is not known yet, and return whether it is kept. `created`: it is new in the store."""
        left_out = self.excess > 0 and not created  # The listing has left keys out.
        if left_out or self.keys >= self.limits.keys or len(key) > _KEY_LIMIT:
            self.excess += created
            return False
        self.keys += 1
        return True

    def drop(self, known: bool, size: int) -> None:
        """Count the removal of a key, `known` if it was kept, with a value of `size` bytes."""
        if known:
            self.keys -= 1
            self.size -= size
        elif self.excess:
            self.excess -= 1


class _OfNode(_Share):
    """What one node has published, and its blocks. `size` is the bytes of the documents in `published`."""

    __slots__ = ("blocks", "complete", "published", "reads_details")

    def __init__(self) -> None:
        super().__init__(ShareLimits(KEYS_OF_NODE, BYTES_OF_NODE))
        self.blocks: t.Optional[OwnBlocks] = None
        self.complete = self.reads_details = False
        self.published: dict[str, PublishedEndpoint] = {}  # by interface; valid but for the blocks

    def copy(self) -> _OfNode:
        """Return a copy that later changes do not alter."""
        copied = _OfNode()
        copied.blocks, copied.complete, copied.published = self.blocks, self.complete, dict(self.published)
        copied.keys, copied.excess, copied.size = self.keys, self.excess, self.size
        copied.reads_details = self.reads_details
        return copied

    @property
    def is_empty(self) -> bool:
        return self.blocks is None and not self.complete and not self.published and not self.keys and not self.excess


class _Documents(_Share):
    """The live documents: the text of each, compressed, by its key."""

    __slots__ = ("texts",)

    def __init__(self) -> None:
        super().__init__(DOCUMENT_LIMITS)
        self.texts: dict[DocumentKey, bytes] = {}

    def copy(self) -> _Documents:
        """Return a copy that later changes do not alter."""
        copied = _Documents()
        copied.texts = dict(self.texts)
        copied.keys, copied.excess, copied.size = self.keys, self.excess, self.size
        return copied


class _Content:
    """The content of the datastore: all keys, and what was read of them, with the `details` of workloads or not."""

    def __init__(self, details: bool = False) -> None:
        self.details = details
        #: The revision of each key's last change, the CRC-32 of its value, and the size of the document in force: in
        #: one number, which saves memory.
        self.marks: dict[str, int] = {}
        self.nodes: dict[str, _OfNode] = {}
        self.documents = _Documents()
        self.open_change: t.Optional[bytes] = None
        self.refused: dict[str, str] = {}

    def copy(self) -> _Content:
        """Return a copy that later changes do not alter."""
        copied = _Content(self.details)
        copied.marks, copied.refused = dict(self.marks), dict(self.refused)
        copied.nodes = {node: of_node.copy() for node, of_node in self.nodes.items()}
        copied.documents, copied.open_change = self.documents.copy(), self.open_change
        return copied

    def known(self, key: str) -> KnownKey:
        mark = self.marks[key] >> _SIZE_BITS
        return KnownKey(key, mark >> _CHECKSUM_BITS, mark & (1 << _CHECKSUM_BITS) - 1)

    def revision(self, key: str) -> int:
        """Return the revision of the last change of a key, 0 if there is none."""
        return self.marks.get(key, 0) >> _REVISION_SHIFT

    @property
    def count(self) -> int:
        """The number of keys, those in excess included."""
        return len(self.marks) + self.documents.excess + sum(of_node.excess for of_node in self.nodes.values())

    def put(self, key: str, value: bytes, revision: int, created: bool = True) -> t.Iterator[EndpointKey]:
        """Take the value of a key, and yield the workloads that this may change. `created`: the key is new.

        A value that is refused leaves the one before it in force.
        """
        prefix = keys.share_of(key)
        if prefix is not None and key not in self.marks and not self._share(prefix).admits(key, created):
            return
        self.mark(KnownKey(key, revision, zlib.crc32(value)))
        self.refused.pop(key, None)
        try:
            endpoint = keys.parse_endpoint_key(key)
            if endpoint is not None:
                published = documents.decode_endpoint(endpoint, value, None, self.details)
                of_node = self._of(endpoint.node)
                if of_node.size - self._size(key) + len(value) > BYTES_OF_NODE:
                    raise RefusedDocument(f"the documents of its node have more than {BYTES_OF_NODE} bytes.")
                self._resize(of_node, key, len(value))
                of_node.published[endpoint.interface] = published
                yield endpoint
            elif prefix == keys.DOCUMENTS:
                self._put_document(key, value)
            elif key == keys.OPEN_CHANGE:
                self.open_change = None
                if len(value) > keys.CHANGE_BYTES:
                    raise RefusedDocument(f"it has more than {keys.CHANGE_BYTES} bytes.")
                self.open_change = value or None  # The copy on the disk has no value of it.
            else:
                yield from self._put_for_node(key, value)
        except RefusedDocument as refusal:
            self.refused[key] = str(refusal)

    def _put_document(self, key: str, value: bytes) -> None:
        """Keep the text of a live document. Raise RefusedDocument for another key and for what is no text."""
        document = keys.parse_document_key(key)
        if document is None:
            raise RefusedDocument("no live document can have this key.")
        if len(value) > keys.DOCUMENT_BYTES:
            raise RefusedDocument(f"it has more than {keys.DOCUMENT_BYTES} bytes.")
        if self.documents.size - self._size(key) + len(value) > DOCUMENT_LIMITS.bytes:
            raise RefusedDocument(f"all live documents together have more than {DOCUMENT_LIMITS.bytes} bytes.")
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            raise RefusedDocument("it is not UTF-8.") from None
        self._resize(self.documents, key, len(value))
        self.documents.texts[document] = zlib.compress(value)

    def leave_out(self, prefix: str, count: int) -> None:
        self._share(prefix).excess += count

    def _share(self, prefix: str) -> _Share:
        """Return the share that the keys with a prefix of keys.share_of have."""
        return self.documents if prefix == keys.DOCUMENTS else self._of(keys.name_in(prefix))

    def mark(self, known: KnownKey) -> None:
        mark = known.mod_revision << _CHECKSUM_BITS | known.checksum
        self.marks[known.key] = mark << _SIZE_BITS | self._size(known.key)

    def _size(self, key: str) -> int:
        """Return the bytes of the document in force of a key, 0 without one."""
        return self.marks.get(key, 0) & _SIZE_MASK

    def _resize(self, share: _Share, key: str, size: int) -> None:
        before = self._size(key)
        share.size += size - before
        self.marks[key] += size - before

    def remove(self, key: str) -> t.Iterator[EndpointKey]:
        """Forget a key, and yield the workloads that this may change."""
        prefix = keys.share_of(key)
        if prefix is not None:
            self._share(prefix).drop(key in self.marks, self._size(key))
        self.marks.pop(key, None)
        self.refused.pop(key, None)
        document = keys.parse_document_key(key)
        if document is not None:
            self.documents.texts.pop(document, None)
        elif key == keys.OPEN_CHANGE:
            self.open_change = None
        yield from self._forget(key)
        node = keys.name_in(prefix) if prefix is not None and document is None else ""
        of_node = self.nodes.get(node)
        if of_node is not None and of_node.is_empty:
            del self.nodes[node]

    def _put_for_node(self, key: str, value: bytes) -> t.Iterator[EndpointKey]:
        """Read the value of a key about a whole node, such as its blocks. Raise RefusedDocument for any other key."""
        node = keys.parse_blocks_key(key)
        if node is not None:
            of_node = self._of(node)
            of_node.blocks = documents.decode_blocks(value)
            yield from [EndpointKey(node, interface) for interface in of_node.published]
            return
        node = keys.parse_complete_key(key)
        if node is None:
            raise RefusedDocument("this release knows no such key.")
        of_node = self._of(node)
        of_node.complete, of_node.reads_details = True, documents.reads_details(value)

    def _forget(self, key: str) -> t.Iterator[EndpointKey]:
        endpoint = keys.parse_endpoint_key(key)
        node = endpoint.node if endpoint else keys.parse_blocks_key(key) or keys.parse_complete_key(key)
        of_node = self.nodes.get(node) if node is not None else None
        if node is None or of_node is None:
            return
        changed = []
        if endpoint is not None:
            if of_node.published.pop(endpoint.interface, None) is not None:
                changed.append(endpoint)
        elif keys.parse_blocks_key(key) is not None:
            of_node.blocks = None
            changed += [EndpointKey(node, interface) for interface in of_node.published]
        else:
            of_node.complete = of_node.reads_details = False
        if of_node.is_empty:
            del self.nodes[node]
        yield from changed

    def has_good(self, key: str) -> bool:
        """Return whether a value of the key is in force, although its last one was refused."""
        document = keys.parse_document_key(key)
        if document is not None:
            return document in self.documents.texts
        endpoint = keys.parse_endpoint_key(key)
        node = endpoint.node if endpoint else keys.parse_blocks_key(key)
        known = self.nodes.get(node) if node is not None else None
        if known is None:
            return False
        return known.blocks is not None if endpoint is None else endpoint.interface in known.published

    def keep_good(self, before: _Content) -> None:
        """Leave what `before` has of the keys whose values are refused here in force."""
        for key in self.refused:
            document = keys.parse_document_key(key)
            if document is not None and document in before.documents.texts:
                self.documents.texts[document] = before.documents.texts[document]
                self._resize(self.documents, key, before._size(key))
                continue
            endpoint = keys.parse_endpoint_key(key)
            node = endpoint.node if endpoint else keys.parse_blocks_key(key)
            known = before.nodes.get(node) if node is not None else None
            if node is None or known is None:
                continue
            if endpoint is None:
                if known.blocks is not None:
                    self._of(node).blocks = known.blocks
            elif endpoint.interface in known.published:
                self._of(node).published[endpoint.interface] = known.published[endpoint.interface]
                self._resize(self._of(node), key, before._size(key))

    def _of(self, node: str) -> _OfNode:
        return self.nodes.setdefault(node, _OfNode())

    def refusal(self, key: EndpointKey) -> str:
        """Return why a workload that was read does not count, "" if it counts."""
        of_node = self.nodes[key.node]
        if of_node.blocks is None:
            return _NO_BLOCKS
        for text in of_node.published[key.interface].endpoint.addresses:
            address = single_address(text)
            if address is None or address not in of_node.blocks:
                return _OUTSIDE
        return ""


class Mirror:
    """The content of the range keys.WATCHED, which a feed keeps up to date. All calls come from the event loop.

    `endpoints` are the workloads that count, `complete` the nodes that have published all of theirs. `on_change` gets
    the keys of workloads that came, changed, went or began or ceased to count, and the nodes that `is_complete` has
    changed for. With `details`, the workloads have theirs. `on_documents` is called when the live documents
    or the open change may be other ones. It has whole revisions alone then, so that no transaction is half there.
    """

    def __init__(
        self,
        on_change: t.Callable[[t.AbstractSet[EndpointKey], t.AbstractSet[str]], None] = lambda keys, nodes: None,
        on_documents: t.Callable[[], None] = lambda: None,
        details: bool = False,
    ) -> None:
        self.position: t.Optional[Position] = None
        self.endpoints: dict[EndpointKey, PublishedEndpoint] = {}
        self._on_change = on_change
        self._on_documents = on_documents
        self._documents_changed = 0  # the revision of the last change for `on_documents`, 0 if it was told
        self._content = _Content(details)
        self._listing = _Content(details)
        self._complete: set[str] = set()

    # --- what a feed reads ---

    def newest(self, most: int) -> list[KnownKey]:
        """Return the keys that changed last, at most `most`, newest first, without refused ones, which may be large."""
        content = self._content
        good = (key for key in content.marks if key not in content.refused)
        found = heapq.nsmallest(most, good, key=lambda key: (-content.revision(key), key))
        return [content.known(key) for key in found]

    @property
    def count(self) -> int:
        """The number of keys of the store, refused ones and those in excess included."""
        return self._content.count

    @property
    def bounds(self) -> ShareLimits:
        return ShareLimits(KEYS_OF_NODE, BYTES_OF_NODE)

    @property
    def kept(self) -> int:
        """The number of keys that `entries` yields."""
        return len(self._content.marks)

    def list_part(self, entries: t.Sequence[KeyValue], first: bool) -> None:
        """Take a part of a new listing; `first` drops one that was begun before."""
        if first:
            self._listing = _Content(self._content.details)
        for entry in entries:
            for dummy in self._listing.put(entry.key, entry.value, entry.mod_revision):
                pass

    def leave_out(self, prefix: str, count: int) -> None:
        """Note that the listing leaves so many keys with a prefix of keys.share_of out."""
        self._listing.leave_out(prefix, count)

    def list_end(self, position: Position) -> t.Generator[None, None, None]:
        """Replace the content by the new listing, in steps of a few milliseconds; yield between two of them.

        If the iterator is closed before its end, the rest is one step.
        """
        self._listing.keep_good(self._content)
        self._content, self._listing = self._listing, _Content(self._content.details)
        self.position = position
        self._documents_changed = 0
        self._on_documents()
        found = {
            EndpointKey(node, interface)
            for node, of_node in self._content.nodes.items()
            for interface in of_node.published
        }
        left = list(found | self.endpoints.keys())
        try:
            while len(left) > _STEP:
                step = set(left[-_STEP:])
                del left[-_STEP:]
                self._take(step, frozenset())
                yield
        finally:
            self._take(set(left), self._content.nodes.keys() | self._complete)

    def change(self, changes: t.Sequence[KeyChange], position: Position) -> None:
        """Apply changes and take the new position. Some of them may have been applied before."""
        touched: set[EndpointKey] = set()
        nodes: set[str] = set()
        for one in changes:
            if one.mod_revision < self._content.revision(one.key):
                continue  # An older change of a key, from before the position.
            if one.value is None:
                touched.update(self._content.remove(one.key))
            else:
                touched.update(self._content.put(one.key, one.value, one.mod_revision, one.created))
            node = keys.parse_complete_key(one.key)
            if node is not None:
                nodes.add(node)
            if keys.share_of(one.key) == keys.DOCUMENTS or one.key == keys.OPEN_CHANGE:
                self._documents_changed = one.mod_revision
        self.position = position
        self._take(touched, nodes)
        if 0 < self._documents_changed <= position.revision:
            self._documents_changed = 0
            self._on_documents()

    def _take(self, touched: t.AbstractSet[EndpointKey], nodes: t.AbstractSet[str]) -> None:
        """Compare the workloads in `touched`, and `nodes`, with what counted before, and report those that differ."""
        changed = set()
        for key in touched:
            of_node = self._content.nodes.get(key.node)
            published = of_node.published.get(key.interface) if of_node is not None else None
            counts = published is not None and not self._content.refusal(key)
            if not counts:
                if self.endpoints.pop(key, None) is not None:
                    changed.add(key)
            elif published is not None and self.endpoints.get(key) != published:
                self.endpoints[key] = published
                changed.add(key)
        told = {node for node in nodes if self.is_complete(node) != (node in self._complete)}
        self._complete ^= told
        if changed or told:
            self._on_change(changed, told)

    # --- questions ---

    @property
    def complete(self) -> frozenset[str]:
        """The nodes that have published all of their workloads."""
        return frozenset(self._complete)

    def is_complete(self, node: str) -> bool:
        """Return whether a node has published all of its workloads."""
        of_node = self._content.nodes.get(node)
        return of_node is not None and of_node.complete

    def all_read_details(self, but: str) -> bool:
        """Return whether all nodes, `but` one, that have published their workloads read documents with details."""
        return all(
            of_node.reads_details
            for node, of_node in self._content.nodes.items()
            if of_node.complete and of_node.blocks is not None and node != but
        )

    def blocks(self, node: str) -> tuple[str, ...]:
        """Return the CIDRs of a node's blocks, () if no run has published them."""
        of_node = self._content.nodes.get(node)
        return of_node.blocks.cidrs if of_node is not None and of_node.blocks is not None else ()

    @property
    def documents(self) -> dict[DocumentKey, bytes]:
        """The texts of all live documents, each compressed by zlib: a copy that later changes do not alter.

        One that is refused has its last good text. The object of a text that has not changed stays the same.
        """
        return dict(self._content.documents.texts)

    @property
    def open_change(self) -> t.Optional[bytes]:
        """The value of keys.OPEN_CHANGE, None if there is none, or it was there before this agent started."""
        return self._content.open_change

    @property
    def refused_documents(self) -> dict[str, str]:
        """The keys of live documents that were refused before they were read, each with the reason."""
        found = {key: why for key, why in self._content.refused.items() if keys.share_of(key) == keys.DOCUMENTS}
        if self._content.documents.excess:
            most = f"{DOCUMENT_LIMITS.keys} documents of {DOCUMENT_LIMITS.bytes} bytes in all are the most"
            found[keys.DOCUMENTS] = f"{most}; {self._content.documents.excess} are left out."
        return found

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(self._content.nodes)

    def endpoint(self, key: EndpointKey) -> t.Optional[Endpoint]:
        """Return a workload that counts, None for another."""
        published = self.endpoints.get(key)
        return published.endpoint if published is not None else None

    @property
    def count_refused(self) -> int:
        """The number of keys that do not count. Refused live documents are among them."""
        published = sum(len(of_node.published) for of_node in self._content.nodes.values())
        return len(self._content.refused) + published - len(self.endpoints)

    @property
    def count_refused_documents(self) -> int:
        """The number of keys of live documents among those of `count_refused`."""
        return sum(keys.share_of(key) == keys.DOCUMENTS for key in self._content.refused)

    def refused(self, most: int = 64, with_documents: bool = True) -> list[tuple[str, str]]:
        """Return keys that do not count, each with the reason, sorted, at most `most` of them.

        Those of live documents are among them only `with_documents`.
        """
        documents_ = self.refused_documents
        refused = {**self._content.refused, **documents_}
        found = [one for one in refused.items() if with_documents or one[0] not in documents_]
        all_count = self.count_refused == len(self._content.refused)  # of those that were published
        for node, of_node in self._content.nodes.items():
            if of_node.excess:
                reason = (
                    f"a node has at most {KEYS_OF_NODE} keys of {BYTES_OF_NODE} bytes in all, none of them overlong; "
                    f"{of_node.excess} are left out."
                )
                found.append((keys.endpoints_of(node), reason))
            for interface in () if all_count else of_node.published:
                key = EndpointKey(node, interface)
                if key not in self.endpoints:
                    found.append((keys.endpoint_key(node, interface), self._content.refusal(key)))
        return sorted(found)[:most]

    # --- writing and reading the copy on the disk ---

    def restore_part(self, entries: t.Iterable[tuple[KnownKey, bytes]], first: bool) -> None:
        """Take a part of a copy that `entries` made, as `list_part` takes one of a listing."""
        if first:
            self._listing = _Content(self._content.details)
        for known, document in entries:
            for dummy in self._listing.put(known.key, document, known.mod_revision):
                pass
            self._listing.mark(known)
            node = keys.parse_complete_key(known.key)
            if node is not None and known.checksum == _READS_DETAILS:
                self._listing.nodes[node].reads_details = True  # The copy may be that of an agent that does not.

    def frozen(self) -> Mirror:
        """Return a copy for `entries` in a thread, which later changes do not alter. It has no `endpoints`."""
        copied = Mirror()
        copied.position, copied._content = self.position, self._content.copy()
        return copied

    def forget(self) -> None:
        """Forget everything, the position included, because the fleet has left this datastore."""
        self._listing = _Content(self._content.details)
        for dummy in self.list_end(Position(0, 0, 0)):
            pass
        self._content, self.position = _Content(self._content.details), None

    def entries(self) -> t.Iterator[tuple[KnownKey, bytes]]:
        """Yield all keys with the last valid documents that were read of them, for the copy on the disk.

        A refused key without a good value comes with an empty document, so that it is counted as before.
        """
        for node, of_node in self._content.nodes.items():
            blocks_key, complete_key = keys.blocks_key(node), keys.complete_key(node)
            if of_node.blocks is not None:
                yield self._content.known(blocks_key), documents.encode_blocks(of_node.blocks.cidrs)
            if of_node.complete:
                about = of_people.COMPLETE if of_node.reads_details else documents.COMPLETE
                yield self._content.known(complete_key), about
            for interface, published in of_node.published.items():
                key = keys.endpoint_key(node, interface)
                yield self._content.known(key), documents.encode_endpoint(published)
        for document, compressed in self._content.documents.texts.items():
            yield self._content.known(keys.document_key(document)), zlib.decompress(compressed)
        if self._content.open_change is not None:
            yield self._content.known(keys.OPEN_CHANGE), b""
        for key in self._content.refused:
            if not self._content.has_good(key):
                yield self._content.known(key), b""
