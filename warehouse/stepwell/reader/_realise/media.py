"""Images and the like in prefix merging: equal placeholders are not equal images."""

from __future__ import annotations

from typing import Any

from stepwell.errors import InvalidRecord
from stepwell.reader._media import with_keys
from stepwell.reader._sequences import Sequences


def keyed_by_media(sequences: Sequences, media: Any) -> Sequences:
    """The same sequences to compare prefixes by: for each placeholder, an id that stands for its content.

        merge(sequences, prefixes=prefix_order(keyed_by_media(sequences, table["media"])))

    Steps then share a prefix as far as both ids and images are the same. The ids are made up, and for this comparison only.

    Args:
        media: A list column [N] of position and hash, as `Realiser.realise` gives it.

    Raises:
        InvalidRecord: not one row for each sequence, or a position outside of its prompt.
    """
    rows = media.to_pylist()
    if len(rows) != len(sequences):
        raise InvalidRecord("media", f"has {len(rows)} rows where there are {len(sequences)} steps")
    places, digests = [], []
    for row, found in enumerate(rows):
        for one in found or ():
            if not 0 <= one["position"] < sequences.prompt_lengths[row]:
                raise InvalidRecord("media", f"{sequences.name(row)} has none of its prompt at {one['position']}")
            places.append(int(sequences.offsets[row]) + one["position"])
            digests.append(one["hash"])
    return with_keys(sequences, places, digests)
