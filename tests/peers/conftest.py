"""Makes the peers importable."""

from tests.peers.path import add_peers

add_peers()
