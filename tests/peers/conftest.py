"""timm imports torchvision, whose operators must be defined before."""

from tests.peers.torchvision_shim import install

install()
