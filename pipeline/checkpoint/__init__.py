"""What a checkpoint holds besides runs, and what is done to one while no query runs."""
