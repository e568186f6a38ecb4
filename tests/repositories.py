"""What tests of software engineering share: a small git repository made on the spot."""

from coevolve.gallery.shop import CODE, TESTS, committed, shop

__all__ = ["CODE", "TESTS", "committed", "shop"]
