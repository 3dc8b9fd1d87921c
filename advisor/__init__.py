"""The advisor: compares idle windows on a log of events, and suggests one."""
