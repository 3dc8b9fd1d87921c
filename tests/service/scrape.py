"""What a served `/metrics` says."""

from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families


def scrape(url: str) -> dict[str, float]:
    """Samples by name, with the reason behind it where they have one."""
    with urlopen(url, timeout=30) as reply:
        text = reply.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            reason = sample.labels.get("reason")
            found[f"{sample.name} {reason}" if reason else sample.name] = sample.value
    return found
