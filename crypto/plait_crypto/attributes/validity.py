"""Time inside an epoch (thesis 5.5.7): an epoch is halved into slots, and the slot of an event is one more attribute.

So a key may be issued for an hour of a month's epoch, at the price of a few credentials. Epochs overlap: for a while
after one begins, events of the previous one are still accepted, and for a while before it ends, keys of the next are
issued.

The calendar divides time into epochs of one length. The key server may end an epoch early: the next one then begins at
once, and lasts until the calendar's boundary. Early ends are no part of the schema; members learn them from the server.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from plait_core.space.cells import Side
from plait_core.space.dz_text import bits_text

from ..errors import SealInvalid
from ..limits import EARLY_ENDS_MAX, SLOT_BITS_MAX
from .credentials import Credential
from .numeric import dz_credential, prefixes

_EPOCH_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Epochs:
    """Start and length of epochs, on the calendar, in microseconds. With 0 slot bits an epoch is one slot."""

    start_us: int
    length_us: int
    overlap_us: int
    slot_bits: int = 0
    early_ends_us: tuple[int, ...] = ()
    """Times at which the key server ended the epoch of that time, ascending."""

    def __post_init__(self) -> None:
        if any(type(each) is not int for each in (self.start_us, self.length_us, self.overlap_us, self.slot_bits)):
            raise SealInvalid("the times of epochs are whole numbers of microseconds")
        if not 0 <= self.slot_bits <= SLOT_BITS_MAX or self.length_us < 1 << self.slot_bits:
            raise SealInvalid(
                f"an epoch cut into 2**{self.slot_bits} slots", hint=f"0 to {SLOT_BITS_MAX} (SLOT_BITS_MAX)"
            )
        if not 0 <= 2 * self.overlap_us <= self.length_us:
            raise SealInvalid("epochs that overlap by more than half", hint="overlap_us is at most half of length_us")
        ends = self.early_ends_us
        if type(ends) is not tuple or not all(type(each) is int and each >= self.start_us for each in ends):
            raise SealInvalid("early ends of epochs are times after the first epoch begins")
        if len(ends) > EARLY_ENDS_MAX or list(ends) != sorted(ends):
            raise SealInvalid(f"{len(ends)} early ends", hint=f"{EARLY_ENDS_MAX} (EARLY_ENDS_MAX), ascending")

    @property
    def places(self) -> int:
        """Credentials on the path of a slot."""
        return self.slot_bits + 1

    def epoch_at(self, now_us: int) -> int:
        """Return the epoch of a time."""
        epoch = self._number(now_us)
        if not 0 <= epoch <= _EPOCH_MAX:
            raise SealInvalid("a time before the first epoch, or after the last")
        return epoch

    def begin_us(self, epoch: int) -> int:
        """Return the begin of an epoch."""
        period, before = self._period(epoch)
        begin_us = self.start_us + period * self.length_us
        return max(begin_us, self.early_ends_us[before - 1]) if before else begin_us

    def slot_at(self, now_us: int) -> int:
        """Return the slot of a time in its epoch."""
        return (((now_us - self.start_us) % self.length_us) << self.slot_bits) // self.length_us

    def slot_end_us(self, epoch: int, slot: int) -> int:
        """Return the end of a slot: that of its part of the calendar, or an early end of its epoch."""
        period, _ = self._period(epoch)
        end_us = self.start_us + period * self.length_us - (-(slot + 1) * self.length_us >> self.slot_bits)
        return min(end_us, self.begin_us(epoch + 1))

    def issued_at(self, now_us: int) -> tuple[int, ...]:
        """Return the epochs that keys are issued for: the present one, and those that begin within the overlap."""
        return tuple(range(self.epoch_at(now_us), self._number(now_us + self.overlap_us) + 1))

    def taken_at(self, now_us: int) -> tuple[int, ...]:
        """Return the epochs whose events are accepted: the present one, and near its start and end its neighbours."""
        assert self.epoch_at(now_us) >= 0
        first = self._number(max(self.start_us, now_us - self.overlap_us))
        return tuple(range(first, self._number(now_us + self.overlap_us) + 1))

    def path(self, slot: int) -> tuple[bytes, ...]:
        """Return the labels of a slot, one for each place."""
        if not 0 <= slot < 1 << self.slot_bits:
            raise SealInvalid(f"slot {slot} of 2**{self.slot_bits}")
        return prefixes(bits_text(slot, self.slot_bits))

    def cover(self, slots: tuple[int, int] | None) -> tuple[Credential, ...]:
        """Return the credentials of the slots from the first up to, not including, the second; for None, of all."""
        first, end = slots or (0, 1 << self.slot_bits)
        if not 0 <= first < end <= 1 << self.slot_bits:
            raise SealInvalid(
                f"no slots from {first} to {end}", hint=f"0 to {1 << self.slot_bits}, the second excluded"
            )
        return tuple(dz_credential(piece) for piece in Side(((first, end),)).pieces(self.slot_bits))

    def _number(self, at_us: int) -> int:
        """Return the number of an epoch: that of its period on the calendar, and one for each early end before."""
        if at_us < self.start_us:
            return -1
        return (at_us - self.start_us) // self.length_us + bisect_right(self.early_ends_us, at_us)

    def _period(self, epoch: int) -> tuple[int, int]:
        """Return the period of the calendar that an epoch is in, and the number of early ends before the epoch."""
        begun = (
            (end_us - self.start_us) // self.length_us + before for before, end_us in enumerate(self.early_ends_us, 1)
        )
        before = sum(number <= epoch for number in begun)
        return epoch - before, before

    def fields(self) -> Mapping[str, object]:
        """Return the constructor's arguments that a schema fixes."""
        return {
            "start_us": self.start_us,
            "length_us": self.length_us,
            "overlap_us": self.overlap_us,
            "slot_bits": self.slot_bits,
        }
