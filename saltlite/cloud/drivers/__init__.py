"""Drivers of clouds: plug-ins, one file a driver, loaded by name.

What belongs here: what one kind of provider needs, by the contract that authors know from Salt. What does not: what
drivers share (`cloudapi`), events' redaction, join tokens, the normal form of listings (`core.cloud`).
"""
