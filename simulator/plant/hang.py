"""Hung collective as the host sees it: the driver's kernel threads spin on a processor."""

from simulator.plant.chance import stream

RENEWED_MS = 1000  # assumption: shares of a CPU as a program shows them that looks once a second
QUIET_QUEUE = (0.001, 0.02)  # assumption: nv_queue while all is well
QUIET_IRQ = (0.0, 0.01)  # assumption: the interrupt thread while all is well
SPINNING = (0.95, 1.0)  # field report: nv_queue takes a whole CPU, then irq/57-nvidia hangs too
IRQ_DELAY_S = (5.0, 30.0)  # assumption: from the one to the other


class HangSigns:
    """The CPU shares of nv_queue and of irq/NN-nvidia over time.

    Attributes
    ----------
    nv_queue_ratio, nv_irq_ratio
        Share of one CPU, 0 to 1.
    """

    def __init__(self, seed: int) -> None:
        self._share_chance = stream(seed, "hang shares")
        self._delay_chance = stream(seed, "hang delay")
        self._irq_at_ms: int | None = None
        self._renew_at_ms = 0
        self.nv_queue_ratio = 0.0
        self.nv_irq_ratio = 0.0

    def advance(self, start_ms: int, n_ms: int, *, hung: bool) -> None:
        """Move on by a block in which the job hangs, or does not; give values that hold at its end."""
        end_ms = start_ms + n_ms
        if hung != (self._irq_at_ms is not None):
            delay_ms = round(1000.0 * self._delay_chance.uniform(*IRQ_DELAY_S)) if hung else 0
            self._irq_at_ms = start_ms + delay_ms if hung else None
            self._renew_at_ms = start_ms
        while self._renew_at_ms < end_ms:
            spinning = self._irq_at_ms is not None and self._renew_at_ms >= self._irq_at_ms
            self.nv_queue_ratio = float(self._share_chance.uniform(*(SPINNING if hung else QUIET_QUEUE)))
            self.nv_irq_ratio = float(self._share_chance.uniform(*(SPINNING if spinning else QUIET_IRQ)))
            self._renew_at_ms += RENEWED_MS
