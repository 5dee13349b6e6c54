"""Runs compiled functions and artifacts; needs numpy and ctypes alone."""
