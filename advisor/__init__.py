"""The advisor: what idle windows would have kept of a log of events, and which one to choose."""
