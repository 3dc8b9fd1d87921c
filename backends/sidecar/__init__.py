"""The sidecar's core and its client: tables of operators kept outside of a query."""
