"""Index files in processes, so that one that ends its process, for lack of memory or by a fault, is a row as well."""

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool

from vitreous.powder.batch.row import Row, Task, failed_row, index_row
from vitreous.powder.processes import WAITING, map_unordered

_ENDED = "the process that indexed it ended unexpectedly, perhaps for lack of memory"


def index_in_processes(tasks: Sequence[Task], processes: int) -> Iterator[Row]:
    """The rows, each as soon as it is ready.

    When a process dies, the files that were under way are indexed one after another in a process of their own.
    """
    left = {task.name: task for task in tasks}
    while left:
        try:
            for row in map_unordered(index_row, list(left.values()), processes):
                del left[row["file"]]
                yield row
        except BrokenProcessPool:
            if processes == 1:  # files are indexed in order: it was the first one without an answer
                yield failed_row(left.pop(next(iter(left))), _ENDED)
            else:
                under_way = list(itertools.islice(left.values(), WAITING * processes))
                for row in index_in_processes(under_way, 1):
                    del left[row["file"]]
                    yield row
