"""A referee for masked models: checks of the protocol that every number of this package rests on."""
