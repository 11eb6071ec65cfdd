"""The table of limits: sizes, counts, pages, waiting times and default exclusions.

Every other module imports its limits from here. Constants that only tune an algorithm stay in its module.
"""

from __future__ import annotations

# -- Requests and pages of the server

MAX_BODY_BYTES = 32 * 1024 * 1024
"""Bytes of a request's body."""
DEFAULT_PAGE = 100
"""Items of a page where the request names no number."""
MAX_PAGE = 1000
"""Items of a page."""
DEFAULT_OUTPUT_PAGE_BYTES = 64 * 1024
"""Bytes of a page of a command's output where the request names no number."""
MAX_OUTPUT_PAGE_BYTES = 1024 * 1024
"""Bytes of a page of a command's output."""
MAX_OUTPUT_OFFSET = 2**53 - 1
"""The largest offset in a command's output, in bytes; a JavaScript number holds it exactly."""
MAX_CLAIM_CHARACTERS = 200
"""Characters of a name that a client claims; longer names are truncated."""
MAX_IDEMPOTENCY_KEY_CHARACTERS = 200
"""Characters of an idempotency key."""
MAX_REASON_CHARACTERS = 2000
"""Characters of the reason that a person gives with a decision."""
MAX_WAIT_SECONDS = 3600
"""Seconds that a request may wait for a run."""
DEFAULT_WAIT_SECONDS = 60.0
"""Seconds that a request waits for a run where it names no number."""
MAX_JSON_PARTS = 20_000
"""Fields and items of a JSON body."""
MAX_JSON_STRINGS = 4 * MAX_JSON_PARTS
"""Strings of a JSON body."""
MAX_JSON_FIELDS = 100
"""Fields of one JSON object that is validated."""
MAX_REPORTED_PROBLEMS = 20
"""Problems that one validation error lists."""

MAX_STREAMS_PER_TOKEN = 32
"""Streams of server-sent events that one agent token may have open on one server."""

# -- WAP

WAP_DEFAULT_DEPTH = 3
"""Levels of a recursive listing where the call names no depth."""
WAP_DEFAULT_CONTEXT_LINES = 2
"""Lines before and after a match where the call names no number."""

# -- Agent Spaces

AGENT_SPACES_MAX_ID_CHARACTERS = 200
"""Characters of an operation's id."""
AGENT_SPACES_MAX_PATH_CHARACTERS = 255
"""Characters of a path."""
AGENT_SPACES_MAX_COMMAND_CHARACTERS = 4096
"""Characters of a command."""
AGENT_SPACES_MAX_MESSAGE_CHARACTERS = 100_000
"""Characters of a message."""
AGENT_SPACES_MAX_EVENT_MESSAGE_CHARACTERS = 2_000
"""Characters of a message that its event holds."""
AGENT_SPACES_MAX_CONTENT_BYTES = 10 * 1024 * 1024
"""Bytes of one content, counted as they will be in the file."""
AGENT_SPACES_MAX_OPERATIONS = 1_000
"""Operations of one batch."""

# -- Coding Environment

CODING_MAX_READ_BYTES = 10 * 1024 * 1024
"""Bytes of a file that is returned whole, even where a policy allows more."""
CODING_MAX_TEXT_BYTES = 256 * 1024
"""Bytes of a file's text in one answer; the rest is read by lines."""
CODING_MAX_IMAGE_BYTES = 1024 * 1024
"""Bytes of one image in an answer."""
CODING_MAX_IMAGE_PIXELS = 1568
"""Pixels of the longest side of an image in an answer; models scale larger ones down."""
CODING_MAX_EDIT_BYTES = 1024 * 1024
"""Bytes of new content in one write or edit; a policy may allow fewer."""
CODING_DEFAULT_TIMEOUT_SECONDS = 300
"""Seconds that a command may run where the call names no number."""
CODING_MAX_COMMAND_CHARACTERS = 100_000
"""Characters of a command."""
CODING_MAX_ARGUMENTS = 5_000
"""Arguments of a command."""
CODING_MAX_EDITS = 1_000
"""Edits of one call."""
CODING_MAX_WAIT_SECONDS = 600
"""Seconds that a call may wait for the end of a run."""
CODING_DEFAULT_WAIT_SECONDS = 60
"""Seconds that a call waits for the end of a run where it names no number."""
MAX_INTEGER = 2**31
"""The largest integer that a parameter takes."""
CODING_MAX_PROMPT_CHARACTERS = 20_000
"""Characters of a confirmation prompt; a longer one is truncated and says so, and the user may refuse it."""
CODING_MAX_ERROR_CHARACTERS = 2_000
"""Characters of an error message."""

# -- workspace-tool-interface

INTERFACE_MAX_STREAM_BYTES = 50 * 1024
"""Bytes of each of a command's two streams."""
INTERFACE_DEFAULT_TIMEOUT_MS = 120_000
"""Milliseconds that a command may run where the call names no number."""
INTERFACE_MAX_READ_LINES = 2_000
"""Lines of one read."""
INTERFACE_MAX_LINE_CHARACTERS = 2_000
"""Characters of one line; longer lines are truncated."""
INTERFACE_MAX_MATCHES = 1_000
"""Matches of glob and of grep."""
INTERFACE_MAX_GIT_FILES = 5_000
"""Files of a git call: they become words of a command line, of which bubblewrap takes 9,000 in all."""
INTERFACE_MAX_GIT_WORD_CHARACTERS = 4_096
"""Characters of one word of a git call."""

# -- MCP

MCP_MAX_SESSIONS = 1000
"""Sessions of the server."""
MCP_MAX_SESSIONS_PER_CREDENTIAL = 100
"""Sessions of one credential."""
MCP_MAX_CALLS = 1000
"""Requests of one client that are under way."""
MCP_IDLE_SECONDS = 30 * 60.0
"""Seconds after which an idle session ends."""
MCP_MAX_QUEUED_MESSAGES = 1000
"""Messages that wait for a client which does not read; further notifications are dropped."""
MCP_MAX_QUEUED_BYTES = 4 * 1024 * 1024
"""Bytes of these messages: a notification repeats the client's own token, which may be long."""
MCP_MAX_STORED_EVENTS = 20_000
"""Events that the server stores to resume streams."""
MCP_MAX_STORED_EVENT_BYTES = 64 * 1024 * 1024
"""Bytes of the events that the server stores to resume streams."""
MCP_RESOURCE_PAGE = 500
"""Resources of a page."""
MCP_MAX_RESOURCES = 10_000
"""Files that are listed as resources; the others can be read by the template."""
MCP_MAX_LISTENERS = 100
"""Streams of one credential."""
MCP_MAX_SUBSCRIPTIONS = 1000
"""Files that one client subscribes to."""
MCP_MAX_PROMPT_CHARACTERS = 50_000
"""Characters of a run in a prompt."""
MCP_MAX_TOOL_NAME_CHARACTERS = 100
"""Characters that an error quotes of the name of an unknown tool."""
MCP_MAX_COMPLETIONS = 100
"""Values of one completion, as the protocol has it."""

# -- Paths and globs

MAX_PATH_BYTES = 4095
"""Bytes of a path."""
MAX_NAME_BYTES = 255
"""Bytes of one name in a path."""
MAX_GLOBS = 1000
"""Globs of one operation, after braces are expanded."""
MAX_GLOB_CHARACTERS = 1000
"""Characters of a glob."""
MAX_GLOB_BRACES = 20
"""Braces of a glob."""
DEFAULT_EXCLUSIONS = (
    "**/node_modules/**",
    "**/.git/**",
    "**/dist/**",
    "**/build/**",
    "**/.venv/**",
    "**/target/**",
    "**/__pycache__/**",
    "**/vendor/**",
)
"""Globs that recursive listings and searches exclude where the call names none."""

# -- Files, edits and search

MAX_RANGE_FILE_BYTES = 256 * 1024 * 1024
"""Bytes of a file that is read by range: finding the lines reads all of it."""
MAX_HASHED_BYTES = 256 * 1024 * 1024
"""Bytes of a file that is hashed."""
MAX_SEARCHED_FILE_BYTES = 256 * 1024 * 1024
"""Bytes of a file that is searched; a policy may set a lower bound."""
MAX_SEARCH_PATHS = 100
"""Paths of one search."""
MAX_QUERY_CHARACTERS = 10_000
"""Characters of a search query."""
MAX_CONTEXT_LINES = 100
"""Lines before and after a match."""
MAX_MATCHES = 10_000
"""Matches of one result, even where the call names a larger limit."""
MAX_MATCH_LINE_CHARACTERS = 2000
"""Characters of a line in a search result; of a longer line the part around the match is shown."""
MAX_SEARCH_RESULT_CHARACTERS = 4 * 1024 * 1024
"""Characters of text in one search result: matches with all their context may have ten times that."""
MAX_LISTED_ENTRIES = 100_000
"""Entries of one listing, even where the call names a larger limit."""
MAX_DIFF_CHARACTERS = 64 * 1024
"""Characters of a diff."""
MAX_REGEX_CHARACTERS = 10_000
"""Characters of a regular expression."""
REGEX_TIMEOUT_SECONDS = 2.0
"""Seconds that the replacements of one regular expression may take."""
MAX_NOTEBOOK_BYTES = 16 * 1024 * 1024
"""Bytes of a notebook whose cells are parsed: other threads stand still meanwhile."""
MAX_NOTEBOOK_PARTS = 200_000
"""Lists and objects of a notebook whose cells are parsed."""
MAX_CELL_OUTPUT_CHARACTERS = 4000
"""Characters of one output of a cell; a longer one loses its middle."""
MAX_CELL_OUTPUTS = 50
"""Outputs of one cell."""

# -- Git

MAX_GIT_NAME_BYTES = 200
"""Bytes of the name of a branch or a revision."""
MAX_COMMIT_MESSAGE_BYTES = 64 * 1024
"""Bytes of a commit message."""
MAX_GIT_FILE_BYTES = 1024 * 1024
"""Bytes of a file at a commit; a longer one is truncated."""
MAX_LOG_COMMITS = 1000
"""Commits of one log."""
MAX_GIT_OUTPUT_BYTES = 16 * 1024 * 1024
"""Bytes of the output of one git command."""
MAX_PREVIEWED_COMMITS = 20
"""Commits that the preview of a transfer lists."""
MAX_BUNDLE_BYTES = 1024 * 1024 * 1024
"""Bytes of the commits of one transfer."""
MAX_TRANSFERRED_FILE_BYTES = 1280 * 1024 * 1024
"""Bytes of a file that git may write during a transfer: a remote can send without end."""
MAX_GIT_MESSAGE_BYTES = 64 * 1024
"""Bytes of the messages of one git command; earlier ones are left out."""
TRANSFER_LOCK_SECONDS = 60.0
"""Seconds that a transfer waits for another one with the same remote."""

# -- Policy and sandboxes

MAX_POLICY_BYTES = 1024 * 1024
"""Bytes of a policy file."""
MAX_PARSED_COMMAND_CHARACTERS = 128 * 1024
"""Characters of a command line that is analysed, with its heredocs."""
MAX_STRICT_TREE_CHARACTERS = 16 * 1024
MAX_LOOSE_TREE_CHARACTERS = 4 * 1024
"""Characters that tree-sitter parses where the strict lexer has read the text, and where it has not.

Its time can grow with the square of the length.
"""
MAX_SHELL_DEPTH = 60
"""Levels of nested syntax of a command line that is analysed."""
MAX_MASKS = 200
"""Paths that a sandbox hides."""
MAX_READ_ONLY_MOUNTS = 600
"""Paths that a sandbox hides, mounts read-only or pins, together."""

MAX_LAYER_BYTES = 16 * 1024**3
"""Bytes that one command may write; at most half of the free space as well."""
MAX_LAYER_FILES = 1_000_000
MAX_RETAINED_LAYERS = 100
"""Layers that were not applied and are kept for a while; older ones are removed."""
MAX_RETAINED_BYTES = 8 * 1024**3
"""Bytes of such layers together, except for the last one; and of all layers that wait for approvals."""
LAYER_RETENTION_SECONDS = 24 * 3600.0
"""Seconds for which a layer that was not applied is kept."""
MAX_CHANGED_PATHS = 500_000
"""Paths of a ChangeSet; a command that changes more is refused as a whole."""
MAX_CHANGED_DEPTH = 200
"""Folders in one another that a command changes. Each is open while those below it are read."""
MAX_CHANGED_PATH_BYTES = 3072
"""Bytes of a path that a command changes, so that it can be named below any folder: the kernel takes 4,095."""

# -- Runs and approvals

APPROVAL_SECONDS = 15 * 60.0
"""Seconds that an approval waits for a decision."""
MAX_PENDING_OPERATION_CHARACTERS = 64 * 1024 * 1024
"""Characters of the operations, stored on disk, of one agent's runs that have not ended."""
MAX_PENDING_APPROVALS = 100
"""Runs of one agent token that may wait for an approval: no person decides more."""
MAX_RUN_EVENT_CHARACTERS = 64 * 1024 * 1024
"""Characters of all events of a run; a further read fails with a hint to read in parts."""
MAX_SPILLED_BYTES = 64 * 1024 * 1024
"""Bytes of one stream that the store keeps; later bytes are only counted."""

# -- Undo

MAX_COPIED_FILE_BYTES = 16 * 1024 * 1024
"""Bytes of the largest file that is copied from another filesystem."""
MAX_COPIED_BYTES = 512 * 1024 * 1024
"""Bytes that are copied from another filesystem for one operation."""

# -- Agent tokens

DEFAULT_TOKEN_DAYS = 7
"""Days that an agent token is valid where the request names no time."""
MAX_TOKEN_DAYS = 366
"""Days that an agent token may be valid."""

# -- Notebooks and the command line

MAX_ANSWER_BYTES = 128 * 1024 * 1024
"""Bytes of an answer; the largest file that a policy allows takes half of them when every character is escaped."""
MAX_CELL_BYTES = 100_000
"""Bytes of a bundle in the file of a notebook."""

MAX_MAGIC_LINE_CHARACTERS = 100_000
"""Characters of a magic's line: `shlex` takes twenty seconds for a word of a million characters."""
MAX_MAGIC_WAIT_SECONDS = 86_400
"""Seconds that a magic waits for a run."""
PERSON_COMMAND_SECONDS = 600
"""Seconds that a command of a person may run where the line names no number; a policy may allow fewer."""
MAX_MAGIC_COMMAND_SECONDS = 3_600
"""Seconds that a command may run, as the protocol has it; a policy may allow fewer."""
