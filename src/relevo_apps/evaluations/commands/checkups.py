"""What `relevo doctor` looks at for evaluation cycles: whether mail could go out from here."""

import os
from typing import Final

from relevo.cli import Checkup
from relevo.cli import gettext as _


def _mail() -> tuple[str, str | None]:
    try:
        # An extra; only who sends mail needs it.
        from relevo.integrations.smtp import BadMailSetting, settings_from_environment  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        return (
            _("mail cannot be sent from here, the package %(package)s is missing")
            % {"package": missing.name},
            _("install relevo[mail] wherever a worker runs"),
        )
    try:
        settings = settings_from_environment()
    except BadMailSetting as unready:
        values = {"name": unready.name, "problem": _(str(unready.problem))}
        return (
            _("mail cannot be sent from here: %(name)s %(problem)s") % values,
            _(str(unready.remedy)),
        )
    return _("mail goes to %(host)s") % {"host": f"{settings.host}:{settings.port}"}, None


def _has_mail_settings() -> bool:
    return any(name.startswith(("RELEVO_SMTP_", "RELEVO_MAIL_")) for name in os.environ)


CHECKUPS: Final = (Checkup("mail", "mail", _mail, _has_mail_settings),)
