"""The control socket's messages and errors: newline-delimited JSON, many requests per connection.

Every request carries an `id` of the caller's choice; its reply repeats it. A lease belongs to the
connection that took it. docs/control-socket.md has one example per operation.
"""

from __future__ import annotations

from .errors import ERRORS as ERRORS
from .errors import ErrorKind as ErrorKind
from .errors import Refused as Refused
from .errors import retry_after as retry_after
from .live_states import Ended as Ended
from .live_states import Explained as Explained
from .live_states import Failure as Failure
from .live_states import Happened as Happened
from .live_states import HoldupName as HoldupName
from .live_states import InstanceState as InstanceState
from .live_states import PriorityName as PriorityName
from .live_states import QueueEntry as QueueEntry
from .live_states import RemoteState as RemoteState
from .live_states import SavesState as SavesState
from .live_states import SnapshotState as SnapshotState
from .live_states import Upcoming as Upcoming
from .live_states import Victim as Victim
from .live_states import Waiter as Waiter
from .live_states import WaitersPage as WaitersPage
from .memory_states import DeviceInstance as DeviceInstance
from .memory_states import DevicesState as DevicesState
from .memory_states import DeviceState as DeviceState
from .memory_states import FitAnswer as FitAnswer
from .memory_states import Fitting as Fitting
from .memory_states import PlacementKind as PlacementKind
from .memory_states import PlacementWish as PlacementWish
from .messages.base import CONVERSATION_TEXT as CONVERSATION_TEXT
from .messages.base import LINE_LIMIT as LINE_LIMIT
from .messages.base import REQUEST_TEXT as REQUEST_TEXT
from .messages.base import UNREADABLE_ID as UNREADABLE_ID
from .messages.base import ConversationText as ConversationText
from .messages.base import Count as Count
from .messages.base import RequestText as RequestText
from .messages.calls import DEVICE_NAME as DEVICE_NAME
from .messages.calls import LAST_SHOWN as LAST_SHOWN
from .messages.calls import Apply as Apply
from .messages.calls import DeviceBytes as DeviceBytes
from .messages.calls import DeviceName as DeviceName
from .messages.calls import Devices as Devices
from .messages.calls import Explain as Explain
from .messages.calls import Fit as Fit
from .messages.calls import Ladder as Ladder
from .messages.calls import Load as Load
from .messages.calls import Measured as Measured
from .messages.calls import Ping as Ping
from .messages.calls import Reload as Reload
from .messages.calls import Shutdown as Shutdown
from .messages.calls import Snapshot as Snapshot
from .messages.calls import Subscribe as Subscribe
from .messages.calls import Unload as Unload
from .messages.calls import Waiters as Waiters
from .messages.conversations import MOST_LOOKED_UP as MOST_LOOKED_UP
from .messages.conversations import Detach as Detach
from .messages.conversations import Seen as Seen
from .messages.conversations import Stop as Stop
from .messages.conversations import Stream as Stream
from .messages.conversations import Streams as Streams
from .messages.conversations import StreamsState as StreamsState
from .messages.conversations import StreamState as StreamState
from .messages.conversations import StreamStateName as StreamStateName
from .messages.figures import Figures as Figures
from .messages.figures import FiguresState as FiguresState
from .messages.figures import Tell as Tell
from .messages.leases import LONGEST_AGE as LONGEST_AGE
from .messages.leases import NO_OWN_NAMES as NO_OWN_NAMES
from .messages.leases import Abandon as Abandon
from .messages.leases import Acquire as Acquire
from .messages.leases import Cancel as Cancel
from .messages.leases import Drains as Drains
from .messages.leases import Filters as Filters
from .messages.leases import Granted as Granted
from .messages.leases import Heard as Heard
from .messages.leases import Keep as Keep
from .messages.leases import OwnNames as OwnNames
from .messages.leases import Release as Release
from .messages.leases import Remote as Remote
from .messages.leases import TimeLimits as TimeLimits
from .messages.leases import Weight as Weight
from .messages.limits import MOST_LIMITS as MOST_LIMITS
from .messages.limits import Counted as Counted
from .messages.limits import CountedState as CountedState
from .messages.limits import CounterState as CounterState
from .messages.limits import Forgo as Forgo
from .messages.limits import Left as Left
from .messages.limits import Limit as Limit
from .messages.limits import Rate as Rate
from .messages.replies import ErrorBody as ErrorBody
from .messages.replies import Reply as Reply
from .messages.replies import ReplyLine as ReplyLine
from .messages.trials import TRIAL as TRIAL
from .messages.trials import Try as Try

Operation = (
    Acquire
    | Cancel
    | Release
    | Abandon
    | Heard
    | Forgo
    | Detach
    | Stop
    | Stream
    | Streams
    | Seen
    | Try
    | Load
    | Unload
    | Apply
    | Keep
    | Reload
    | Measured
    | Snapshot
    | Devices
    | Fit
    | Waiters
    | Explain
    | Subscribe
    | Counted
    | Tell
    | Figures
    | Ping
    | Shutdown
)
