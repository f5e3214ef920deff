"""Renders a program to C and bundles the folder that a build leaves."""
