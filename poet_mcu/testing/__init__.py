"""Hardware in the loop: a pytest plugin, a rig file, and a suite that runs on any board.

``poet-mcu hil`` runs the suite and writes a report. In tests of one's own the plugin (it is there
as soon as poet-mcu is installed) gives the fixtures ``board`` and ``firmware``.
"""
