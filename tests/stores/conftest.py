"""The servers, for the tests of the servers."""

from tests.stores.fixtures import faulty, localbucket_endpoint, moto_endpoint

__all__ = ["faulty", "localbucket_endpoint", "moto_endpoint"]
