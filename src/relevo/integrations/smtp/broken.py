"""Say in a person's words how a connection went bad."""

import socket
import ssl

from aiosmtplib import SMTPException, SMTPServerDisconnected, SMTPTimeoutError

from relevo.integrations.smtp.text import readable


def say_broken(error: BaseException) -> str:  # noqa: PLR0911 -- one answer for each way to break
    """Continue the sentence "the server …" with what happened.

    The library wraps what the system reported; the cause tells more than the wrapper.
    """
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    match cause:
        case ssl.SSLCertVerificationError():
            return f"showed a certificate that is not trusted ({readable(cause.verify_message)})"
        case ssl.SSLError():
            return f"could not agree on TLS ({readable(cause.reason or str(cause))})"
        case socket.gaierror():
            return f"has no address ({readable(cause.strerror or str(cause))})"
        case ConnectionRefusedError():
            return "refused the connection"
        case SMTPTimeoutError() | TimeoutError():
            return "gave no answer in time"
        case SMTPServerDisconnected() | ConnectionError():
            return "closed the connection"
        case SMTPException():
            return f"cannot be used ({readable(cause.message)})"
        case _:
            return f"cannot be reached ({readable(str(cause))})"
