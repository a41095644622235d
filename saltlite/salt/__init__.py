"""Salt's library as plug-in files import it: `salt.utils.files` is `saltlite.salt.utils.files`.

`saltlite.loader.salt_names` serves these modules under Salt's names, where no Salt is installed. Each function has the
name, the arguments and the behaviour of Salt's; its code is ours. What belongs here: functions that need neither
daemons nor a loader. What talks to Salt's daemons does not exist here.
"""
