"""Hints for failed connections: from an error text of the system to what a user can do about it."""

from __future__ import annotations

from typing import Final

from ..options.addresses import Address

NO_LISTENER: Final = "is a broker running there?"
NOT_TRUSTED: Final = (
    "no authority trusted here has signed the broker's certificate: give its authority by "
    "tls=ssl.create_default_context(cafile=...), or by SSL_CERT_FILE"
)
OTHER_NAME: Final = "the certificate is for another name: connect by a name that it contains"
OUT_OF_DATE: Final = "the broker's certificate is expired or not valid yet; or the clock of this machine is wrong"
NO_TLS: Final = "is TLS enabled on this port of the broker? plait:// connects without TLS"
PERHAPS_TLS: Final = "is TLS enabled on this port of the broker? plaits:// connects with TLS"
NO_BROKER: Final = "the server at this address is no Plait broker; a broker's HTTP side is one port above the broker"
BROKER_GONE: Final = "has the broker stopped, or the network between?"
NEEDS_CERTIFICATE: Final = (
    "the broker may require a client certificate: give a context that has one by tls=; see the broker's log"
)

_VERIFICATION: Final = (
    (("Hostname mismatch", "IP address mismatch"), OTHER_NAME),
    (("expired", "not yet valid"), OUT_OF_DATE),
    (("CERTIFICATE_VERIFY_FAILED",), NOT_TRUSTED),
    (("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"), NO_TLS),
    (("ALERT", "certificate required"), NEEDS_CERTIFICATE),
)
"""Substrings of OpenSSL's messages, in the order in which they are tested, with the hint for each."""


def hint(address: Address, reason: str, *, worked: bool = False) -> str:
    """Return the hint for a connection to `address` that failed with this reason.

    `worked` means that this client was connected to a broker before, so its address and its use of TLS are right.
    """
    for signs, sentence in _VERIFICATION:
        if any(sign in reason for sign in signs):
            return sentence
    if worked:
        return BROKER_GONE
    if "closed by the other end" in reason or "reset by peer" in reason:
        return NEEDS_CERTIFICATE if address.tls else PERHAPS_TLS
    return NO_LISTENER
