/** Facts about the command line that the program does not state itself: for the man page and for docs/cli.md. */

/** [variable, meaning]. The variables of the settings are in their own table. */
export const environment = [
  ['PIPECTL_CONFIG', 'The settings file.'],
  ['PIPECTL_URL', 'The address of the daemon. Default: http://127.0.0.1:8080.'],
  ['PIPECTL_DATA_URL', 'The address for ingest and pull, if it is a different one.'],
  ['PIPECTL_API_KEY', 'The API key.'],
  ['PIPECTL_PROFILE', 'The stored profile to use.'],
  [
    'PIPECTL_DESTINATION_PASSWORD, PIPECTL_DESTINATION_SECRET_KEY, PIPECTL_DESTINATION_AUTH_HEADER, …',
    'Secrets of the destination that is created, updated or tested.',
  ],
  ['PIPECTL_FORWARD_AUTH_HEADER', 'The Authorization header that pull --forward-to sends.'],
  ['PIPECTL_RELEASES_URL', 'The address that upgrade --check reads.'],
  ['VISUAL, EDITOR', 'The editor that parked edit opens. Default: vi.'],
  ['NO_COLOR', 'Disables colors when it is set to any value.'],
  [
    'XDG_CONFIG_HOME, XDG_STATE_HOME',
    'The directories for profiles and for the state of resumable commands.',
  ],
]

/** [path, content]. */
export const files = [
  ['/etc/pipectl/pipectl.toml', 'Settings of the service, if a package installed it.'],
  ['~/.config/pipectl/profiles.toml', 'Profiles: addresses with their API keys. Mode 0600.'],
  ['~/.local/state/pipectl/', 'The progress of pull and ingest, so that they can resume.'],
  ['DATA_DIR/metadata.db', 'Workspaces, pipes, destinations, users, lanes, parked records, the audit log.'],
  ['DATA_DIR/buffer/', 'The messages.'],
  [
    'DATA_DIR/tables/',
    'The files of [SQLite destinations](sqlite.md), by workspace. Deleting a destination keeps its file.',
  ],
  ['DATA_DIR/sealing.key', 'The key that seals stored secrets, unless secrets.key_file names another file.'],
  [
    'DATA_DIR/first-key, DATA_DIR/first-link',
    'The first API key and the first setup link, if serve --init had no terminal to print them on. Store the key elsewhere and delete both files.',
  ],
  ['DATA_DIR/quarantine/', 'Damaged data, and files that repair moved aside.'],
]

/** [exit code, meaning] of src/apps/client/failure.ts and src/apps/cli/failure.ts. */
export const exits = [
  ['0', 'Success. serve: stopped as requested.'],
  ['1', 'The command failed.'],
  ['2', 'Wrong usage.'],
  ['3', 'Not found.'],
  ['4', 'Not authorized.'],
  ['5', 'Conflict.'],
  ['6', 'Nothing to do.'],
  ['7', 'The daemon cannot be reached.'],
  ['8', 'upgrade --check: there is a newer release.'],
  [
    '70',
    'serve: a component failed and the daemon stopped, or a shutdown step failed. The log names it; no acknowledged record is lost.',
  ],
  [
    '75',
    'The data directory or an address is in use, or a required server does not respond. Try again later.',
  ],
  [
    '78',
    'A setting is invalid: the message names it and the values it accepts. Or this platform cannot run the command: the message names what is supported.',
  ],
  ['130', 'Interrupted.'],
  ['141', 'The reader of the output closed the pipe.'],
]
