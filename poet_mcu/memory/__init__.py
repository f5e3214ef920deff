"""Level 3: lifetimes, offsets in the arena, block ranges on the card."""
