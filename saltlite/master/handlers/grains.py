"""A minion sends its grains."""

from __future__ import annotations

from saltlite.errors import RefusedError, RemoteProtocolError, UsageError
from saltlite.master.processes.context import Master
from saltlite.model.ids import MinionId
from saltlite.targeting.bank_values import leaves_of
from saltlite.targeting.banks import GRAINS, KEY_NAMES_MAX, LEAVES_MAX
from saltlite.wire.document import decode_document, document_digest


def take_grains(master: Master, minion: MinionId, data: bytes) -> list[str]:
    """Keep the document in `data` as the grains of the minion; nothing is ever kept back of it.

    Raises RefusedError for what are no grains, and StoreError; then the old ones stay.
    """
    try:
        grains = decode_document(data)
    except RemoteProtocolError as error:
        raise RefusedError(f"the grains could not be read: {error}") from None
    if master.store.holder(minion) is None:
        raise RefusedError("the key is not accepted any more")
    strange = [name for name in grains if not isinstance(name, str)]
    if strange:
        raise RefusedError(f"{str(strange[0])[:40]!r} is not the name of a grain: it is no text")
    if len(grains) > KEY_NAMES_MAX:
        raise RefusedError(f"there are {len(grains)} grains, and there may be {KEY_NAMES_MAX}")
    try:
        leaves = leaves_of(grains)
        if leaves > LEAVES_MAX:
            raise RefusedError(f"the grains have {leaves} values, and there may be {LEAVES_MAX}")
        # What a minion is called is decided here, by its key, and not by what it says of itself.
        master.banks.bank(GRAINS).put(minion, {**grains, "id": minion}, document_digest(data))
    except UsageError as error:
        raise RefusedError(str(error)) from None
    return []
