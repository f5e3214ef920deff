"""From schedule and placement to the program: kernel calls with resolved addresses."""
