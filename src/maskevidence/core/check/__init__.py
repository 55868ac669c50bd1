"""Checks that a masked model follows the protocol, on which every number of this package rests."""
