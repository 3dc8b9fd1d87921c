"""Snapshots of keyed state: held at one moment, written later, restored anywhere."""
