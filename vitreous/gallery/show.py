"""The gallery as a table."""

from rich.table import Table

from vitreous.gallery import ENTRIES
from vitreous.zoo.show import console


def print_gallery() -> None:
    """Print each entry: its recipe, its question and what there is to choose from."""
    table = Table(title="The physics gallery", caption="vitreous train RECIPE --out RUN [--model M] [--system S]")
    for heading in ("recipe", "data", "question", "models", "systems"):
        table.add_column(heading)
    for entry in ENTRIES.values():
        name = f"{entry.recipe}\n(vitreous\\[{entry.needs}])" if entry.needs else entry.recipe
        table.add_row(name, entry.title, entry.question, "\n".join(entry.models), "\n".join(entry.systems))
    console().print(table)
