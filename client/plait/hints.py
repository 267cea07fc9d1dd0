"""Why there is no connection: from what the system said to what one can do about it."""

from __future__ import annotations

from typing import Final

from .options.addresses import Address

NOBODY: Final = "is a broker running there?"
NOT_TRUSTED: Final = (
    "nobody trusted here has signed the broker's certificate: give its authority by "
    "tls=ssl.create_default_context(cafile=...), or by SSL_CERT_FILE"
)
OTHER_NAME: Final = "the certificate is for another name: connect by a name that it has"
OUT_OF_DATE: Final = "the broker's certificate is out of date; the clock of this machine may be wrong, too"
NO_TLS: Final = "does the broker speak TLS there? plait:// is without"
PERHAPS_TLS: Final = "does the broker speak TLS there? plaits:// is with"
NO_BROKER: Final = "something answers there that is no Plait broker; a broker's HTTP side is one port above it"
WANTS_CERTIFICATE: Final = (
    "the broker may ask for a client certificate that it trusts: give a context that has one by tls=; its log says more"
)

_VERIFICATION: Final = (
    (("Hostname mismatch", "IP address mismatch"), OTHER_NAME),
    (("expired", "not yet valid"), OUT_OF_DATE),
    (("CERTIFICATE_VERIFY_FAILED",), NOT_TRUSTED),
    (("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"), NO_TLS),
    (("ALERT", "certificate required"), WANTS_CERTIFICATE),
)
"""What OpenSSL says, in the order in which it is looked for."""


def hint(address: Address, reason: str) -> str:
    """One sentence for one whose connection to `address` failed for this reason."""
    for signs, sentence in _VERIFICATION:
        if any(sign in reason for sign in signs):
            return sentence
    if "closed by the other end" in reason or "reset by peer" in reason:
        return WANTS_CERTIFICATE if address.tls else PERHAPS_TLS
    return NOBODY
