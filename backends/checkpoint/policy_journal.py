"""The policy journal of an operator: `<checkpoint>/idlestate/<uid>/policies.json`.

It contains every version of the policy with the batch time from which it applies. While a query
runs, that time is at least `POLICY_DELAY_MS` ahead (`idlestate.pipeline.policy_change`).
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from idlestate.backends.checkpoint.operator_files import missing, read_json, valid
from idlestate.backends.checkpoint.operator_layout import journal_path
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import has_data, read_batch_times
from idlestate.backends.shards.json_fields import FieldError, read_fields
from idlestate.retention.policy import Policy
from idlestate.retention.policy_version import PolicyVersion
from idlestate.retention.setting_error import SettingError


@dataclass(frozen=True, slots=True)
class _Entry:
    """A version as stored in the journal."""

    version: int
    effective_ms: int
    policy: dict[str, Any]
    chosen_by: str
    right: dict[str, Any] | None = None

    @classmethod
    def of(cls, version: PolicyVersion) -> "_Entry":
        policy, right = version.policy, version.right
        return cls(
            version.version,
            version.effective_ms,
            policy.to_json(),
            policy.chosen_by,
            right.to_json() if right else None,
        )

    def version_at(self, at: int) -> PolicyVersion:
        """The version that this entry, the one at position `at`, describes.

        Raises:
            FieldError: its number or a policy is not valid.
        """
        if self.version != at + 1:
            raise FieldError(f"[{at}].version must be {at + 1}, not {self.version}")
        policy = _policy(self.policy, f"[{at}].policy")
        right = None if self.right is None else _policy(self.right, f"[{at}].right")
        policy = replace(policy, chosen_by=self.chosen_by)
        return PolicyVersion(self.version, self.effective_ms, policy, right)


def _policy(facts: dict[str, Any], path: str) -> Policy:
    try:
        return Policy.from_json(facts)
    except SettingError as error:
        raise FieldError(f"{path}: {error}") from error


class PolicyJournal:
    """The versions of an operator's policy, oldest first."""

    def __init__(self, checkpoint: Folder, uid: str) -> None:
        """Open the journal, which may still be missing.

        Raises:
            DamagedStateError: its file is damaged.
        """
        self._checkpoint = checkpoint
        self._name = journal_path(uid)
        self.versions: list[PolicyVersion] = []
        if checkpoint.exists(self._name):
            entries = read_json(checkpoint, self._name)
            with valid(checkpoint, self._name):
                written = read_fields(tuple[_Entry, ...], entries)
                if not written:
                    raise FieldError("it has no policy")
                self.versions = [each.version_at(at) for at, each in enumerate(written)]

    @property
    def newest(self) -> PolicyVersion:
        """The newest version.

        Raises:
            DamagedStateError: there is none, although the operator has a layout.
        """
        return self._known[-1]

    @property
    def _known(self) -> list[PolicyVersion]:
        if not self.versions:
            raise missing(self._checkpoint, self._name)
        return self.versions

    def at(self, time_ms: int) -> PolicyVersion:
        """The version in force at this batch time; the first one also applies earlier.

        Raises:
            DamagedStateError: see `newest`.
        """
        applied = (v for v in reversed(self.versions) if v.effective_ms <= time_ms)
        return next(applied, None) or self._known[0]

    def for_batch(self, batch_id: int) -> PolicyVersion:
        """The version for a planned batch.

        A version takes effect on all shards at once, but a batch without data visits only shards
        whose timer is due. So such a batch uses the version of the last batch with data.
        """
        if len(self.versions) > 1:
            while not has_data(self._checkpoint, batch_id):
                batch_id -= 1
        return self.at(read_batch_times(self._checkpoint, batch_id).time_ms)

    def has_newest(self, policy: Policy, right: Policy | None = None) -> bool:
        """Whether the newest version has this policy, and for a join, this policy of right rows."""
        newest = self.versions[-1] if self.versions else None
        return newest is not None and (newest.policy, newest.right) == (policy, right)

    def append(
        self, policy: Policy, effective_ms: int, right: Policy | None = None
    ) -> PolicyVersion:
        """Add a version, unless the newest one has this policy by that time; return the newest."""
        if self.has_newest(policy, right) and self.newest.effective_ms <= effective_ms:
            return self.newest
        version = PolicyVersion(len(self.versions) + 1, effective_ms, policy, right)
        self.versions.append(version)
        entries = [asdict(_Entry.of(each)) for each in self.versions]
        self._checkpoint.replace(self._name, json.dumps(entries, indent=1).encode())
        return self.newest
