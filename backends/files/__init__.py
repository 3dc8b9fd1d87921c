"""Files: the bytes of runs, in a checkpoint's folder or in a remote store."""
