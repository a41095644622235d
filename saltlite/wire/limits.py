"""Every limit of the protocol, by name, with its unit and what happens at the limit.

These are defaults and ceilings, not settings: the enforcing class takes a rate or a budget as a constructor argument,
so that tests can start a thousand minions from one address. Both sides must agree on the sizes of frames and messages;
a change of one is a new protocol version.
"""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

# Frames and messages ------------------------------------------------------------------------------

FRAME_MAX_BEFORE_AUTH = 512
"""Bytes of one whole frame of the handshake. A longer one is refused and costs the sender its connection."""

PROOF_BYTES = 72
"""Bytes of the proof of a join token: the id of the token and a signature. Empty without a token."""

SUCCESSION_BYTES = 209
"""Bytes of one succession record."""

FLEET_CHAIN_RECORDS = 32
"""Succession records that one minion gets: after more changes of the fleet key it needs a new pin."""

FLEET_CHAIN_BYTES = FLEET_CHAIN_RECORDS * SUCCESSION_BYTES
"""Bytes of these records. A minion refuses a reply with more."""

REPLY_MAX = FRAME_MAX_BEFORE_AUTH + FLEET_CHAIN_BYTES
"""Bytes of the master's frame of the handshake, the only one that carries records of successions. A longer one is
refused; the minion ends the connection."""

FRAME_MAX = 128 * KIB
"""Bytes of one whole DATA frame, header and tag included. A longer one is refused; the session ends."""

CHUNK = 64 * KIB
"""Bytes of one piece of a file or of a large return; larger data is cut into these."""

JOB_BODY_MAX = 64 * KIB
"""Bytes of one signed job body. A publish above it is refused with a sentence for the caller."""

RETURN_MAX = 16 * MIB
"""Bytes of one encoded return value. The minion truncates a larger one, and marks the return."""

SEGMENT_MAX = RETURN_MAX + 16 * KIB
"""Bytes of one encoded segment: results of resources, or a single one of any size with the words around it."""

MESSAGE_DEPTH = 16
"""Levels of maps and arrays inside each other in a protocol message. Deeper is refused; the session ends."""

MESSAGE_MAP = 256
"""Entries of one map in a protocol message. More is refused; the session ends."""

MESSAGE_ARRAY = 4096
"""Items of one array in a protocol message. More is refused; the session ends."""

MESSAGE_STRING = 64 * KIB
"""Bytes of one string or one binary value in a protocol message. More is refused; the session ends."""

MESSAGE_CONTAINERS = 8192
"""Maps and arrays in one protocol message: an empty map is one byte on the wire and 64 in memory."""

MASTER_NAME_MAX = 64
"""Bytes of the name of a master, UTF-8."""

MASTERS_MAX = 64
"""Entries in a directory of masters, one of which is its number. The first masters by name are kept."""

MASTER_WEIGHT = 100
"""The default weight of a master. Minions choose masters by weight."""

MASTER_WEIGHT_MAX = 10_000
"""The highest weight of a master. A directory with a higher one is refused; the session ends."""

DIRECTORY_BYTES = 32 * KIB
"""Bytes of the content of a directory of masters. A larger one is refused; the session ends."""

# Handshakes and keys ------------------------------------------------------------------------------

HANDSHAKE_TIMEOUT_S = 10
"""Seconds from HELLO to AUTH. A longer handshake is dropped."""

HANDSHAKES_PER_S = 1000
"""Handshakes started each second on one master. Above it the answer is BUSY."""

HANDSHAKES_PER_S_PER_ADDRESS = 10
"""Handshakes started each second from one network. Above it the answer is BUSY."""

OPEN_HANDSHAKES = 4096
"""Unfinished handshakes on one master. When full, a new one replaces the oldest of the network that has the most; from
that network the answer is BUSY."""

OPEN_HANDSHAKES_PER_ADDRESS = 32
"""Unfinished handshakes from one network. Above it the answer is BUSY."""

UNAUTHENTICATED_MAX = 8192
"""Connections without a session on one master, which raises its descriptor limit to 20,000. When full, a new one
replaces the oldest of the network that has the most; from that network it is closed."""

UNAUTHENTICATED_PER_NETWORK = 256
"""Connections without a session from one network. A further one is closed."""

UNAUTHENTICATED_S = 45.0
"""Seconds that a connection may stay without a session, then it is closed: longer than a handshake, and an MWorker's
decision about its key, take."""

PENDING_KEYS = 1000
"""Keys that wait for an operator. When full, one that was not seen for two days is replaced, else the newest one of the
network that has the most."""

PENDING_KEYS_PER_NETWORK = 16
"""Keys from one network that wait for an operator. A further one is refused."""

# Sessions -----------------------------------------------------------------------------------------

SESSION_MAX_AGE_S = 86_400
"""Seconds; the minion varies it by a quarter either way, then starts a new handshake."""

SESSION_MAX_FRAMES = 2**40
"""Frames in one direction under one key. The session refuses more; start a new handshake."""

# Flow and memory ----------------------------------------------------------------------------------

SEND_WINDOW = 256 * KIB
"""Bytes sent to one minion that its link has not taken yet. Above it the rest waits in the store."""

RETURN_CREDIT = 1 * MIB
"""Bytes of returns of one minion in flight. It waits for a grant before it sends more."""

RETURN_MEMORY = 256 * MIB
"""Bytes of returns in flight in one master. Above it there are no further grants; minions keep their spool."""

SPOOL_BYTES = 256 * MIB
"""Bytes of results that a minion keeps while the master is away. When full it refuses new jobs."""

SPOOL_RESULTS = 10_000
"""Results that a minion keeps while the master is away. When full it refuses new jobs."""

# Jobs and heartbeats ------------------------------------------------------------------------------

JOBS_QUEUED_PER_MINION = 1000
"""Jobs that wait on the master for one minion. A publish to it is then refused as a whole; targets of a batch count
from their turn on."""

JOBS_RUNNING_PER_MINION = 16
"""Job processes of one minion at once. Further jobs wait in its journal, in order."""

HEARTBEAT_MIN_S = 15
"""Seconds between two heartbeats of one minion, at least. The master sets the interval in WELCOME."""

HEARTBEATS_PER_S = 250
"""Heartbeats each second on one master; with more minions the interval grows."""

PARTS_RUNNING_PER_MINION = 64
"""Parts of jobs that run on resources of one minion at once. Further ones wait in its journal, in order."""

# Files --------------------------------------------------------------------------------------------

FILE_ASKS_MAX = 4
"""Open file requests of one minion: 256 KiB of answers. A further one ends the session."""

FILE_ASKS_AT_ONCE = 256
"""File requests that MWorkers have at once: 16 MiB of answers. The others wait, and minions take turns."""

FILE_PUT_MEMORY = 16 * MIB
"""Bytes of files from minions that wait for an MWorker. Above it a piece is refused as `busy`, and sent again."""

FILE_NAMES = 1000
"""Names in one answer; a longer list is marked, and the minion requests the rest."""

FILE_NAMES_BYTES = 64 * KIB
"""Bytes of all names in one answer."""

# Events of minions --------------------------------------------------------------------------------

EVENT_TAG_MAX = 256
"""Characters of the tag of an event. A longer one is refused with an error."""

EVENT_DATA_MAX = 32 * KIB
"""Bytes of the encoded data of one event of a minion. More is refused with an error."""

EVENTS_AT_ONCE = 50
"""Burst of events of one minion. Above it they are refused as `busy`, and sent again ..."""

EVENT_EVERY_S = 0.1
"""... at this interval."""

# Documents ----------------------------------------------------------------------------------------

DOC_MAX = 64 * MIB
"""Bytes of one document: the grains of a minion, its pillar, or its resources. A larger one is refused with an error,
and the old one stays."""

RESOURCE_GRAINS_TOTAL_MAX = 16 * MIB
"""Encoded bytes of the grains of all resources of one minion. The grains of further ones are refused."""
