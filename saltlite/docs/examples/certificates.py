"""
certificates: how long the certificates of this machine are valid.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all

Put this file into `_modules` of a folder of `file_roots`, and send it with `saltlite '*' saltutil.sync_modules`.
"""

import datetime
import glob

from cryptography import x509


def __virtual__():
    return "certificates"


def days_left(pattern="/etc/ssl/*.pem"):
    """
    Return the days that each certificate is valid for, by its file.

    CLI Example::

        saltlite '*' certificates.days_left '/etc/nginx/*.pem'
    """
    now = datetime.datetime.now(datetime.UTC)
    found = {}
    for path in sorted(glob.glob(pattern)):
        with open(path, "rb") as file:
            found[path] = (x509.load_pem_x509_certificate(file.read()).not_valid_after_utc - now).days
    return found
