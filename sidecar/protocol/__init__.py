"""What clients, sidecar and workers say to each other, and how."""
