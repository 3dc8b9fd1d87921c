"""Changes the policy of a running query.

The policy is added to the checkpoint's journal with a batch time some seconds ahead, from which it
applies. Tasks read the journal, never a configuration file. A task of a batch planned before that
time uses the old policy, and a task of a later batch finds the new one in the journal. A retry or a
replay uses the same policy as the first attempt.
"""

from pathlib import Path

from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import newest_batch, read_batch_times
from idlestate.config.loading import load_config
from idlestate.config.policy_argument import choose_policy
from idlestate.errors import RefusedError
from idlestate.pipeline.policy_plans import refuse_shrink, refuse_unfit, right_policy_of
from idlestate.retention.policy import Policy
from idlestate.retention.policy_version import PolicyVersion
from idlestate.sidecar.protocol.connection import Address
from idlestate.timers.clock import Clock, SystemClock

POLICY_DELAY_MS = 10_000
"""How far ahead a new version takes effect: no batch of that time may be planned before the
journal is written, however slow the file system."""


def reload(
    checkpoint: str | Path,
    *,
    uid: str,
    policy: str | Policy | None = None,
    config: str | Path | None = None,
    sidecar: str | Address | None = None,
    right_policy: str | Policy | None = None,
) -> PolicyVersion:
    """Change the policy of an operator of a running query, without a restart or rewriting state.

    Call it in the query's driver, or on any machine that can write the checkpoint and whose clock
    agrees with the driver's. A later start of the query uses the policy passed to `retain` then.

    Args:
        checkpoint: the query's checkpoint folder.
        uid: the operator.
        policy: the name of a policy in `config`, or a `Policy`; None uses the policy that the
            selectors of `config` assign to this uid.
        config: the policy file.
        sidecar: the address of the operator's sidecar, if it changed since the last start.
        right_policy: for a join, the policy of right rows. None: `policy` if it is passed, else
            the policy of the operator's pipeline in `config`.

    Returns:
        The version, its policy, and the batch time (ms) from which it applies. If the current or
        announced version already has the same policy, that version.

    Raises:
        RefusedError: no such operator, another time domain, or more keys would be removed at once
            than the policy's `max_shrink` allows; the old policy stays in effect.
        ConfigError: the file is invalid; the old policy stays in effect.
        UnavailableError: the sidecar does not answer, or is busy; the old policy stays in effect.
    """
    if policy is None and config is None:
        raise RefusedError("reload needs a policy: policy=Policy(...), or config='...yaml'")
    chosen = choose_policy(policy, config, uid)
    address = Address(sidecar) if isinstance(sidecar, str) else sidecar
    right = None
    if right_policy is not None:
        right = choose_policy(right_policy, config, uid)
    elif policy is None and config is not None:
        right = load_config(config).right_policy_for(uid)
    folder = Folder(str(checkpoint))
    return change_policy(folder, uid, chosen, SystemClock(), address=address, right=right)


def change_policy(
    checkpoint: Folder,
    uid: str,
    policy: Policy,
    clock: Clock,
    delay_ms: int = POLICY_DELAY_MS,
    address: Address | None = None,
    right: Policy | None = None,
) -> PolicyVersion:
    """Append a policy to an operator's journal, unless it is already the newest one.

    Args:
        checkpoint: the query's checkpoint.
        uid: the operator.
        policy: the new policy.
        clock: the driver's.
        delay_ms: how far ahead of now it takes effect; 0 only while no batch is being planned.
        address: the operator's sidecar; None: the one in the checkpoint.
        right: for a join, the policy of right rows; None: the same as `policy`.

    Raises:
        RefusedError: there is no such operator, it has windows, the policy uses another time domain
            or would remove too many keys at once, or the journal took longer to be written than the
            delay.
        UnavailableError: the sidecar does not answer, or is busy.
    """
    definition = read_layout(checkpoint, uid).definitions[-1].definition
    right = right_policy_of(uid, policy, right, definition)
    refuse_unfit(uid, policy, definition, right)
    refuse_shrink(checkpoint, uid, policy, clock.now_ms(), address, right=right)
    began_ms = clock.now_ms()
    effective_ms = max(began_ms + delay_ms, after_planned(checkpoint))
    version = PolicyJournal(checkpoint, uid).append(policy, effective_ms, right)
    took_ms = clock.now_ms() - began_ms
    if took_ms > delay_ms:
        raise RefusedError(
            f"writing the new policy to checkpoint {checkpoint} took {took_ms / 1000:.0f} s, "
            "longer than the lead time of policy changes: a batch may have used both policies; "
            "stop the query, check its storage, and restart it"
        )
    return version


def after_planned(checkpoint: Folder) -> int:
    """The first millisecond after the time of the newest planned batch; 0 before the first."""
    planned = newest_batch(checkpoint, "offsets")
    return 0 if planned is None else read_batch_times(checkpoint, planned).time_ms + 1
