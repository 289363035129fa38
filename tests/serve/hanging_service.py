"""`vitreous` with a service that reads some files for ever."""

from tests.serve.jobs import read_or_hang
from vitreous.cli import main
from vitreous.serve import service

if __name__ == "__main__":
    service.read_upload = read_or_hang
    main()
