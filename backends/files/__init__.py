"""Files: where the bytes of runs are, in a checkpoint's folder or in a store far away."""
