"""Kernels measured one by one: which calls, their C, and prices fitted to what they took."""
