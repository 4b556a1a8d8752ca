from itertools import zip_longest

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import error_prefix


def check_agreement(items, rule, name):
    """Raises the same ValueError on all ranks unless they have the same list.

    Args:
        items: List of `(description, title)`: strings. Descriptions must be the same on all ranks,
            titles are for the message alone.
        rule: String: what the error begins with.
        name: String, what the items are elements of.
    """
    lists = gather_objects(list(items), f"check_agreement.{name}")
    for i, of_ranks in enumerate(zip_longest(*lists, fillvalue=("missing", ""))):
        ranks_by_item: dict[str, list[int]] = {}
        titles: dict[str, str] = {}
        for rank, (description, title) in enumerate(of_ranks):
            ranks_by_item.setdefault(description, []).append(rank)
            titles.setdefault(description, title)
        if len(ranks_by_item) > 1:
            received = "; ".join(
                f"{description}{titles[description] and ' '}{titles[description]} on rank "
                + ", ".join(map(str, ranks))
                for description, ranks in ranks_by_item.items()
            )
            raise ValueError(f"{error_prefix()}{rule}. Received: {name}[{i}]: {received}")
