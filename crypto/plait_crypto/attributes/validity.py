"""Time inside an epoch (thesis 5.5.7): an epoch is halved into slots, and the slot of an event is one more attribute.

So a key may be issued for an hour of a month's epoch, at the price of a few credentials. Epochs overlap: for a while
after one begins, events of the previous one are still accepted, and for a while before it ends, keys of the next are
issued.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plait_core.space.cells import Side
from plait_core.space.dz_text import bits_text

from ..errors import SealInvalid
from ..limits import SLOT_BITS_MAX
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

    def __post_init__(self) -> None:
        if any(type(each) is not int for each in (self.start_us, self.length_us, self.overlap_us, self.slot_bits)):
            raise SealInvalid("the times of epochs are whole numbers of microseconds")
        if not 0 <= self.slot_bits <= SLOT_BITS_MAX or self.length_us < 1 << self.slot_bits:
            raise SealInvalid(
                f"an epoch cut into 2**{self.slot_bits} slots", hint=f"0 to {SLOT_BITS_MAX} (SLOT_BITS_MAX)"
            )
        if not 0 <= 2 * self.overlap_us <= self.length_us:
            raise SealInvalid("epochs that overlap by more than half", hint="overlap_us is at most half of length_us")

    @property
    def places(self) -> int:
        """Credentials on the path of a slot."""
        return self.slot_bits + 1

    def epoch_at(self, now_us: int) -> int:
        """Return the epoch of a time."""
        epoch = (now_us - self.start_us) // self.length_us
        if not 0 <= epoch <= _EPOCH_MAX:
            raise SealInvalid("a time before the first epoch, or after the last")
        return epoch

    def slot_at(self, now_us: int) -> int:
        """Return the slot of a time in its epoch."""
        return (((now_us - self.start_us) % self.length_us) << self.slot_bits) // self.length_us

    def slot_end_us(self, epoch: int, slot: int) -> int:
        """Return the end of a slot."""
        return self.start_us + epoch * self.length_us - (-(slot + 1) * self.length_us >> self.slot_bits)

    def issued_at(self, now_us: int) -> tuple[int, ...]:
        """Return the epochs that keys are issued for: the present one, and near its end the next."""
        epoch = self.epoch_at(now_us)
        soon = self.start_us + (epoch + 1) * self.length_us - now_us <= self.overlap_us
        return (epoch, epoch + 1) if soon else (epoch,)

    def taken_at(self, now_us: int) -> tuple[int, ...]:
        """Return the epochs whose events are accepted: the present one, and near its start and end its neighbours."""
        epoch = self.epoch_at(now_us)
        since = now_us - self.start_us - epoch * self.length_us
        before = (epoch - 1,) if epoch and since < self.overlap_us else ()
        after = (epoch + 1,) if self.length_us - since <= self.overlap_us else ()
        return (*before, epoch, *after)

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

    def fields(self) -> Mapping[str, object]:
        """Return the constructor's arguments."""
        return {
            "start_us": self.start_us,
            "length_us": self.length_us,
            "overlap_us": self.overlap_us,
            "slot_bits": self.slot_bits,
        }
