"""The reference interpreter: runs a program in numpy over a poisoned arena and a fake card."""
