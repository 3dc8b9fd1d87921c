"""Checkpoint: what it says of its operators (layout, policies, folders of runs), and its lock."""
