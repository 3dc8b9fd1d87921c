"""What a served `/metrics` says."""

from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.patience import PATIENCE_S


def text_of(url: str) -> str:
    """All of it."""
    with urlopen(url, timeout=PATIENCE_S) as reply:
        text: str = reply.read().decode()
        return text


def scrape(url: str) -> dict[str, float]:
    """Samples by name, with the reason behind it where they have one."""
    found = {}
    for family in text_string_to_metric_families(text_of(url)):
        for sample in family.samples:
            reason = sample.labels.get("reason")
            found[f"{sample.name} {reason}" if reason else sample.name] = sample.value
    return found
