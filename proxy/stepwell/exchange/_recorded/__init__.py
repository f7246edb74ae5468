"""Exchanges that others recorded, in the forms that recorders write them."""
