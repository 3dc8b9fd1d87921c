"""Checkpoint: what it stores about its operators (layout, policies, folders of runs), and its
lock.
"""
