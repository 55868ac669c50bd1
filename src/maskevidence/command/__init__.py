"""The commands: each is a function of words and options, whose result the application prints or dumps."""
