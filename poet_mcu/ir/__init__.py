"""The four levels as immutable data, and a verifier for each."""
