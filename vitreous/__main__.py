"""`python -m vitreous` is the command `vitreous`."""

from vitreous.cli import main

main()
