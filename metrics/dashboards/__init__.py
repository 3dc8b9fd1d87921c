"""The Grafana dashboards: typed code, and the JSON that it generates (`make dashboards`)."""
