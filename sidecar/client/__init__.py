"""The sidecar as a Python program sees it that is not a Spark job."""
