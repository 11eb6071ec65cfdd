"""List every limit in one table: sizes, counts, pages, waiting times and default exclusions.

Every other module imports its limits from here. Constants that only tune an algorithm stay beside it.
"""

from __future__ import annotations

# -- Requests and pages of the server

MAX_BODY_BYTES = 32 * 1024 * 1024
DEFAULT_PAGE = 100
MAX_PAGE = 1000
DEFAULT_OUTPUT_PAGE_BYTES = 64 * 1024
MAX_OUTPUT_PAGE_BYTES = 1024 * 1024
MAX_OUTPUT_OFFSET = 2**53 - 1
MAX_CLAIM_CHARACTERS = 200
MAX_IDEMPOTENCY_KEY_CHARACTERS = 200
MAX_REASON_CHARACTERS = 2000
MAX_WAIT_SECONDS = 3600
DEFAULT_WAIT_SECONDS = 60.0
"""Seconds, where a request does not say how long it waits."""
MAX_JSON_PARTS = 20_000
MAX_JSON_STRINGS = 4 * MAX_JSON_PARTS
MAX_JSON_FIELDS = 100
MAX_REPORTED_PROBLEMS = 20

# -- WAP

WAP_DEFAULT_DEPTH = 3
WAP_DEFAULT_CONTEXT_LINES = 2

# -- Agent Spaces

AGENT_SPACES_MAX_ID_CHARACTERS = 200
AGENT_SPACES_MAX_PATH_CHARACTERS = 255
AGENT_SPACES_MAX_COMMAND_CHARACTERS = 4096
AGENT_SPACES_MAX_MESSAGE_CHARACTERS = 100_000
AGENT_SPACES_MAX_CONTENT_BYTES = 10 * 1024 * 1024
"""In bytes, as they will be in the file."""
AGENT_SPACES_MAX_OPERATIONS = 1_000

# -- Coding Environment

CODING_MAX_READ_BYTES = 10 * 1024 * 1024
"""Bytes of a file that is answered whole, whatever more a policy allows."""
CODING_MAX_EDIT_BYTES = 1024 * 1024
"""Bytes that one write or edit brings; a policy may allow fewer."""
CODING_DEFAULT_TIMEOUT_SECONDS = 300
"""Seconds."""
CODING_MAX_COMMAND_CHARACTERS = 100_000
CODING_MAX_ARGUMENTS = 5_000
CODING_MAX_EDITS = 1_000
CODING_MAX_WAIT_SECONDS = 600
CODING_DEFAULT_WAIT_SECONDS = 60
MAX_INTEGER = 2**31
CODING_MAX_PROMPT_CHARACTERS = 20_000
"""Characters. What is longer is cut, and says so: the user may well say no to what they cannot see."""
CODING_MAX_ERROR_CHARACTERS = 2_000
"""Characters."""

# -- workspace-tool-interface

INTERFACE_MAX_STREAM_BYTES = 50 * 1024
"""Bytes of each of a command's two streams."""
INTERFACE_DEFAULT_TIMEOUT_MS = 120_000
INTERFACE_MAX_READ_LINES = 2_000
INTERFACE_MAX_LINE_CHARACTERS = 2_000
"""Characters."""
INTERFACE_MAX_MATCHES = 1_000
"""Of glob and of grep."""
INTERFACE_MAX_GIT_FILES = 5_000
"""They stand on a command line, and bubblewrap takes 9,000 words, its own among them."""
INTERFACE_MAX_GIT_WORD_CHARACTERS = 4_096

# -- MCP

MCP_MAX_SESSIONS = 1000
MCP_MAX_SESSIONS_PER_CREDENTIAL = 100
MCP_MAX_STORED_EVENTS = 20_000
MCP_MAX_STORED_EVENT_BYTES = 64 * 1024 * 1024
MCP_RESOURCE_PAGE = 500
MCP_MAX_RESOURCES = 10_000
"""Files that are listed; the others can be read by the template."""
MCP_MAX_LISTENERS = 100
"""Streams of one credential."""
MCP_MAX_SUBSCRIPTIONS = 1000
"""Files of one client."""
MCP_MAX_PROMPT_CHARACTERS = 50_000
"""Characters of a run."""
MCP_MAX_TOOL_NAME_CHARACTERS = 100
"""So much is told again of a name that no tool has."""
MCP_MAX_ERROR_CHARACTERS = 500
"""Characters of what the SDK says, which may quote what was sent."""
MCP_MAX_COMPLETIONS = 100
"""Values of one answer, as the protocol has it."""

# -- Paths and globs

MAX_PATH_BYTES = 4095
MAX_NAME_BYTES = 255
MAX_GLOBS = 1000
MAX_GLOB_CHARACTERS = 1000
MAX_GLOB_BRACES = 20
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

# -- Files, edits and search

MAX_RANGE_FILE_BYTES = 256 * 1024 * 1024
"""A larger file is not read at all, not even by range: finding the lines would read it through."""
MAX_HASHED_BYTES = 256 * 1024 * 1024
MAX_SEARCHED_FILE_BYTES = 256 * 1024 * 1024
"""Bigger files are never searched; a policy may set a lower bound."""
MAX_SEARCH_PATHS = 100
MAX_QUERY_CHARACTERS = 10_000
MAX_CONTEXT_LINES = 100
MAX_MATCHES = 10_000
"""In an answer, whatever the caller's own limit is."""
MAX_MATCH_LINE_CHARACTERS = 2000
"""Where a line is cut in an answer."""
MAX_SEARCH_RESULT_CHARACTERS = 4 * 1024 * 1024
"""Of text in one answer. A hundred matches with all the context that may be asked for can be ten times that."""
MAX_LISTED_ENTRIES = 100_000
"""In an answer, whatever the caller's own limit is."""
MAX_DIFF_CHARACTERS = 64 * 1024
MAX_REGEX_CHARACTERS = 10_000
REGEX_TIMEOUT_SECONDS = 2.0
MAX_NOTEBOOK_BYTES = 16 * 1024 * 1024
MAX_NOTEBOOK_PARTS = 200_000
"""Bytes, and lists and objects: other threads stand still while JSON is parsed."""
MAX_CELL_OUTPUT_CHARACTERS = 4000
"""Characters of one output; its end is kept as well as its beginning."""
MAX_CELL_OUTPUTS = 50
"""Of one cell."""

# -- Git

MAX_GIT_NAME_BYTES = 200
MAX_COMMIT_MESSAGE_BYTES = 64 * 1024
MAX_GIT_FILE_BYTES = 1024 * 1024
MAX_LOG_COMMITS = 1000
MAX_GIT_OUTPUT_BYTES = 16 * 1024 * 1024
MAX_PREVIEWED_COMMITS = 20
MAX_BUNDLE_BYTES = 1024 * 1024 * 1024

# -- Policy and sandboxes

MAX_POLICY_BYTES = 1024 * 1024
MAX_PARSED_COMMAND_CHARACTERS = 128 * 1024
"""With the heredocs."""
MAX_MASKS = 200
MAX_READ_ONLY_MOUNTS = 600
"""With what is read-only and what is pinned."""

# -- Runs and approvals

APPROVAL_SECONDS = 15 * 60.0
MAX_PENDING_OPERATION_CHARACTERS = 64 * 1024 * 1024
"""Characters of operations of one agent's runs that have not ended: they are kept on disk."""
MAX_PENDING_APPROVALS = 100
"""Runs of one agent token that may wait for a person: nobody answers more questions than that."""
MAX_RUN_EVENT_BYTES = 64 * 1024 * 1024
"""Characters of all events of a run; what would be more is refused with a hint to read in parts."""
MAX_SPILLED_BYTES = 64 * 1024 * 1024
"""Bytes that are kept of one stream; what comes after them is counted and not kept."""

# -- Notebooks and the command line

MAX_MAGIC_LINE_CHARACTERS = 100_000
"""`shlex` takes twenty seconds for a word of a million characters."""
MAX_MAGIC_WAIT_SECONDS = 86_400
MAX_MAGIC_COMMAND_SECONDS = 3_600
"""Seconds; the protocol has no longer ones, and policy may allow less."""
