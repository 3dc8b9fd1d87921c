"""The advice as JSON."""

import json

from idlestate.advisor.advice import Advice


def json_report(advice: Advice) -> str:
    """The complete advice as a JSON object, on several lines."""
    return json.dumps(advice.to_json(), indent=2)
