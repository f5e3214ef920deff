"""Talking to a board: serial protocol, client, emulators."""
