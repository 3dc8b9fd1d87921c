"""HTTP and sockets: a small server for hostile and broken clients, and what it needs."""
