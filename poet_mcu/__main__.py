"""``python -m poet_mcu``."""

from poet_mcu.cli import run

if __name__ == "__main__":
    run()
