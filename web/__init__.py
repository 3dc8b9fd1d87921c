"""HTTP and sockets: a small server that withstands hostile and broken clients, and its helpers."""
