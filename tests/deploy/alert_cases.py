"""For every alert, series that make it fire and series that must not.

Values are in promtool's notation, one a minute (`DAILY`: one each half hour): `1x5` is six times 1,
`0+10x5` counts up in steps of 10.
"""

from dataclasses import dataclass

OF = '{job="idlestate", instance="a", operator="u"}'
OF_PROCESS = '{job="idlestate", instance="a"}'
HALF_HOURS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Series by name, and the time in minutes at which the alert fires or does not."""

    alert: str
    fires: dict[str, str]
    silent: tuple[dict[str, str], ...]
    at_minutes: int = 60
    step_minutes: int = 1


def of(name: str, values: str) -> dict[str, str]:
    """A series of the operator."""
    return {f"idlestate_{name}{OF}": values}


def due(within: str, values: str) -> dict[str, str]:
    """The keys of the operator that are due within a time."""
    return {f'idlestate_keys_due{OF.replace("}", "")}, within="{within}"}}': values}


def process(name: str, values: str) -> dict[str, str]:
    """A series of the process."""
    return {f"{name}{OF_PROCESS}": values}


def waves(*lows: int) -> str:
    """Days that rise from `low` to three times as much, and fall again."""
    up = HALF_HOURS // 2 - 1
    days = []
    for low in lows:
        step = 2 * low // up
        days.append(f"{low}+{step}x{up} {low + step * up}-{step}x{up}")
    return " ".join(days)


EXPIRED = {f'idlestate_keys_expired_total{OF[:-1]}, reason="idle"}}': "5+1x400"}
NO_RULES = of("retention_ttl_seconds", "0x90") | of("retention_max_lifetime_seconds", "0x90")
DAILY = {"at_minutes": 4 * 1440 + 90, "step_minutes": 30}

CASES = (
    Case(
        alert="IdlestateDown",
        fires=process("up", "0x90"),
        silent=(process("up", "1x90"), process("up", "1x58 0 0")),
    ),
    Case(
        alert="IdlestateNoRetention",
        fires=of("live_keys", "1001x90")
        | of("retention_max_seconds", "0x90")
        | NO_RULES
        | due("24h", "0x90"),
        silent=(
            of("live_keys", "1001x90") | of("retention_max_seconds", "60x90") | NO_RULES,
            of("live_keys", "1001x90") | of("retention_ttl_seconds", "60x90"),
            of("live_keys", "1001x90") | of("retention_max_lifetime_seconds", "60x90"),
            of("live_keys", "1000x90") | of("retention_max_seconds", "0x90") | NO_RULES,
            # Rows of an interval join end by themselves.
            of("live_keys", "1001x90") | NO_RULES | due("24h", "7x90"),
        ),
    ),
    Case(
        alert="IdlestateStateGrowsWithoutBound",
        fires=of("live_keys", waves(6000, 8000, 10000, 13000, 16000)) | EXPIRED,
        silent=(
            of("live_keys", waves(6000, 6000, 6000, 6000, 6000)) | EXPIRED,  # a flat daily wave
            of("live_keys", waves(6000, 8000, 10000, 13000, 16000)),  # younger than its window
            of("live_keys", waves(6000, 6000, 6000, 9000, 9000)) | EXPIRED,  # a step
            of("live_keys", waves(60, 80, 100, 130, 160)) | EXPIRED,  # small
        ),
        **DAILY,
    ),
    Case(
        alert="IdlestateBudgetSoonFull",
        fires=of("budget_full_seconds", "86399x90"),
        silent=(of("budget_full_seconds", "86400x90"), of("budget_full_seconds", "1e9x90")),
    ),
    Case(
        alert="IdlestateBudgetFull",
        fires=of("live_keys", "10x90") | of("budget_keys", "10x90"),
        silent=(
            of("live_keys", "9x90") | of("budget_keys", "10x90"),
            of("live_keys", "9x90"),
            of("state_bytes", "9x90") | of("budget_bytes", "10x90"),
        ),
    ),
    Case(
        alert="IdlestateExpiryBehind",
        fires=of("expiry_lag_seconds", "301x90") | of("retention_min_seconds", "1800x90"),
        silent=(
            of("expiry_lag_seconds", "300x90") | of("retention_min_seconds", "1800x90"),
            of("expiry_lag_seconds", "3000x90") | of("retention_min_seconds", "86400x90"),
        ),
    ),
    Case(  # the keyed state library, which has no idle window to compare with
        alert="IdlestateExpiryBehind",
        fires=of("expiry_lag_seconds", "301x90"),
        silent=(of("expiry_lag_seconds", "300x90"),),
    ),
    Case(
        alert="IdlestateSweepStalled",
        fires=of("sweep_last_success_timestamp_seconds", "1x90") | of("expiry_lag_seconds", "1x90"),
        silent=(
            of("sweep_last_success_timestamp_seconds", "1+60x90")
            | of("expiry_lag_seconds", "1x90"),
            of("sweep_last_success_timestamp_seconds", "0x90") | of("expiry_lag_seconds", "1x90"),
            # Nothing is overdue: a query without input runs no batches.
            of("sweep_last_success_timestamp_seconds", "1x90") | of("expiry_lag_seconds", "0x90"),
        ),
    ),
    Case(
        alert="IdlestateWatermarkStuck",
        fires=of("input_rows_total", "0+9x90") | of("watermark_timestamp_seconds", "5x90"),
        silent=(
            of("input_rows_total", "0+9x90") | of("watermark_timestamp_seconds", "5+60x90"),
            of("input_rows_total", "9x90") | of("watermark_timestamp_seconds", "5x90"),
            of("input_rows_total", "0+9x90") | of("watermark_timestamp_seconds", "0x90"),
        ),
    ),
    Case(
        alert="IdlestateBatchesStopped",
        fires=of("last_batch_timestamp_seconds", "1x90"),
        silent=(
            of("last_batch_timestamp_seconds", "1+60x90"),
            of("last_batch_timestamp_seconds", "0x90"),  # no query
        ),
    ),
    Case(
        alert="IdlestateReturningKeysHigh",
        fires=of("returning_keys_total", "0+2x600") | of("keys_created_total", "0+10x600"),
        silent=(of("returning_keys_total", "0+1x600") | of("keys_created_total", "0+10x600"),),
        at_minutes=500,
    ),
    Case(
        alert="IdlestateExpiredRecordsPileUp",
        fires=of("expired_records_kept", "1000001+100x600"),
        silent=(
            of("expired_records_kept", "1000001x600"),
            of("expired_records_kept", "0+100x600"),
        ),
        at_minutes=500,
    ),
    Case(
        alert="IdlestateReloadRefused",
        fires=process("idlestate_config_last_reload_successful", "0x90"),
        silent=(process("idlestate_config_last_reload_successful", "1x90"),),
    ),
    Case(
        alert="IdlestateOperatorStopped",
        fires=of("operator_stopped", "1x90"),
        silent=(of("operator_stopped", "0x90"),),
    ),
    Case(
        alert="IdlestateClockStepped",
        fires=process("idlestate_sidecar_clock_stepped", "1x90"),
        silent=(process("idlestate_sidecar_clock_stepped", "0x90"),),
    ),
    Case(
        alert="IdlestateStoreStalls",
        fires=process("idlestate_rocksdb_is_write_stopped", "2x90"),  # those of two workers
        silent=(
            process("idlestate_rocksdb_is_write_stopped", "0x90")
            | process("idlestate_rocksdb_background_errors", "0x90"),
        ),
    ),
    Case(
        alert="IdlestateQuarantinedWrites",
        fires=of("quarantined_rows", "1x90"),
        silent=(of("quarantined_rows", "0x90"),),
    ),
    Case(
        alert="IdlestateScrapeSlow",
        fires=process("scrape_duration_seconds", "2.1x90"),
        silent=(
            process("scrape_duration_seconds", "2x90")
            | process("idlestate_overflowed_series_total", "0x90"),
        ),
    ),
)
