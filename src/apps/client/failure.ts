/**
 * The failure of a command as the user sees it: what happened and why (`message`), what to do next (`hint`), and the
 * exit code for scripts.
 */
import { isObject } from '../../contract/is-object.ts'

/** Exit codes of every command that connects to a daemon. */
export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  auth: 4,
  conflict: 5,
  nothingToDo: 6,
  unreachable: 7,
  /** `upgrade --check`: there is a newer release. */
  upgradeAvailable: 8,
  interrupted: 130,
  /** The code of a program that SIGPIPE ended. */
  readerGone: 141,
} as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** An expected failure. `message` is one line: what happened, and why. `hint` is the next step. */
export class Failure extends Error {
  readonly exitCode: ExitCode
  readonly hint: string

  constructor(exitCode: ExitCode, message: string, hint: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'Failure'
    this.exitCode = exitCode
    this.hint = hint
  }
}

/** A command line that cannot be executed. Nothing was done. */
export function usageFailure(message: string, hint: string, cause?: unknown): Failure {
  return new Failure(exitCodes.usage, message, hint, cause)
}
export function commandFailure(message: string, hint: string, cause?: unknown): Failure {
  return new Failure(exitCodes.failed, message, hint, cause)
}
export function notFoundFailure(message: string, hint: string): Failure {
  return new Failure(exitCodes.notFound, message, hint)
}
export function nothingToDoFailure(message: string, hint: string): Failure {
  return new Failure(exitCodes.nothingToDo, message, hint)
}

/** The daemon responded with an error body. */
export class ApiFailure extends Failure {
  readonly status: number
  /** The code of the error catalogue, such as `pipe_not_found`. */
  readonly code: string
  readonly body: Record<string, unknown>
  /** From `Retry-After`. Null: the response had none. */
  readonly retryAfterMs: number | null

  /** `keySource`: the source of the rejected key, for a 401. */
  constructor(
    status: number,
    body: Record<string, unknown>,
    retryAfterMs: number | null,
    keySource: string | null = null,
  ) {
    const code = typeof body.error === 'string' ? body.error : `http_${status}`
    const source = status === 401 && keySource !== null ? `; the key came from ${keySource}` : ''
    super(exitCodeOf(status, code), describe(status, code, body) + source, hintFor(status, code, body))
    this.name = 'ApiFailure'
    this.status = status
    this.code = code
    this.body = body
    this.retryAfterMs = retryAfterMs
  }
}

const startHint =
  'start the daemon with `pipectl serve`, or name another address with --server, PIPECTL_URL or a profile'

/**
 * There is no usable response: no connection, a timeout, an unknown name, a broken connection, or a server that is
 * not pipectl.
 */
export class UnreachableFailure extends Failure {
  constructor(url: string, why: string, cause?: unknown, hint = startHint) {
    super(exitCodes.unreachable, `cannot reach pipectl at ${url}: ${why}`, hint, cause)
    this.name = 'UnreachableFailure'
  }
}

function exitCodeOf(status: number, code: string): ExitCode {
  if (code === 'no_blocking_message') return exitCodes.nothingToDo
  if (code === 'validation_error') return exitCodes.usage
  if (status === 401 || status === 403) return exitCodes.auth
  if (status === 404) return exitCodes.notFound
  if (status === 409 || status === 412) return exitCodes.conflict
  return exitCodes.failed
}

function describe(status: number, code: string, body: Record<string, unknown>): string {
  const said = typeof body.message === 'string' ? body.message : 'no further explanation'
  const errors = body.errors
  if (code !== 'validation_error' || errors === null || typeof errors !== 'object') {
    return `${said}${reasonOf(body)} (${code}, HTTP ${status})`
  }
  const lines = Object.entries(errors).map(
    ([path, text]) => `\n  ${path === '' ? 'the body' : path}: ${String(text)}`,
  )
  return `the request is not valid:${lines.join('')}`
}

/** The user's next step for each error code. docs/errors.md shows them too. */
export const errorHints: Readonly<Record<string, string>> = {
  validation_error: 'correct the values named above; --help shows what the command accepts',
  unauthorized:
    'give an active API key with PIPECTL_API_KEY, --api-key-file, --api-key-stdin or `pipectl profile add`',
  forbidden:
    'use a key with the scope and the pipes that this needs (`pipectl keys list`), or allow the origin with `pipectl origins add`',
  pipe_not_found: '`pipectl pipes list` shows the pipes of this workspace; ingest also needs the pipe active',
  message_not_found: '`pipectl messages PIPE` lists the messages that are kept',
  destination_not_found: '`pipectl destinations list` shows the destinations of this workspace',
  origin_not_found: '`pipectl origins list PIPE` shows the allowed origins',
  api_key_not_found: '`pipectl keys list` shows the keys; a revoked key cannot be revoked again',
  user_not_found: '`pipectl users list` shows the users',
  last_admin: '`pipectl users role EMAIL admin` makes another user an admin',
  alerts_not_set_up: '`pipectl alerts set` sets them up',
  no_blocking_message: 'nothing to do: `pipectl lanes list` shows the state of every lane',
  parked_not_found: '`pipectl parked list DEST` shows what is parked now',
  parked_full: '`pipectl parked list DEST` shows what you can replay or discard',
  changed_meanwhile: 'it was changed in the meantime: check it, then run the command again',
  not_queryable:
    '`pipectl destinations list` shows the types; a SQLite file is created with its first table: `--create-table`, or the first delivery',
  query_failed: 'let the query read or return less, or allow it more time with --timeout',
  query_concurrency_exceeded: 'wait until one of the running queries is done, then try again',
  replay_not_found: '`pipectl lanes replays DEST` lists them',
  replay_finished: '`pipectl lanes replays DEST` shows its result',
  too_many_replays: 'cancel one (`pipectl lanes cancel-replay DEST REPLAY_ID`), or wait until one is done',
  privacy_job_not_found: '`pipectl privacy jobs` lists them',
  privacy_job_finished: '`pipectl privacy jobs` shows its result',
  too_many_privacy_jobs: 'cancel one (`pipectl privacy cancel JOB`), or wait until one is done',
  privacy_unavailable: 'docs/personal-data.md describes what to do in a cluster',
  parked_mismatch:
    '`pipectl pipes parked edit PIPE PARKED_ID` changes the record; --force stores it as it is',
  parked_replaying: 'wait for the result: `pipectl parked show DEST PARKED_ID` shows it',
  duplicate_pipe_name: 'choose another name, or change the existing pipe with `pipectl pipes update`',
  duplicate_destination_name: 'choose another name, or change the destination that has it',
  duplicate_origin: 'nothing to do: the origin is allowed already',
  duplicate_user_email: '`pipectl users password` sets a new password for that user',
  duplicate_api_key_name: 'choose another name, or revoke the key of that name first',
  workspace_full: 'delete what is not needed, or raise the setting that the message names on the daemon',
  cannot_revoke_current_key:
    '`pipectl keys rotate` creates a new key and switches to it; the old one expires',
  batch_too_large: 'send fewer records in a request, or raise the limit with `pipectl limits set`',
  payload_too_large: 'send fewer records in a request; the message says which limit it was',
  rate_limit_exceeded: 'wait a moment, or raise the limit with `pipectl limits set`',
  tail_concurrency_exceeded:
    'close a live tail (`pipectl tail` or in the dashboard) that is no longer needed, then try again',
  pull_concurrency_exceeded: 'stop a program that pulls and is no longer needed, then try again',
  too_many_requests: 'wait a moment, then run the command again',
  daily_quota_exceeded: 'wait until midnight UTC, or raise the quota with `pipectl limits set`',
  configuration_error:
    'add an origin with `pipectl origins add PIPE ORIGIN`, or require a key: `pipectl pipes update PIPE --key-required`',
  schema_mismatch: 'correct the records, or change the schema of the pipe: docs/schemas.md',
  missing_required_fields: 'add the missing keys, or make the columns nullable on the destination',
  buffer_unavailable: 'it is safe to send again; `pipectl doctor` on the daemon host shows disk space',
  storage_unavailable: 'free disk space on the daemon host (`pipectl doctor` shows it there), then try again',
  cursor_ahead:
    'this pipe has no message that new: is it the cursor of another destination, or from before a restore?',
  cursor_expired:
    'messages were dropped by retention, or lost when a backup was restored; continue after them with --accept-gap',
  server_error: 'try again; the cause is in the log of the daemon',
}

/** `details.reason` of a 503: why nothing is stored. A test compares them with the API's document. */
export const unavailableReasons: Readonly<Record<string, string>> = {
  low_disk_space: "The daemon's disk is almost full: the operator has to free space.",
  over_quota:
    'The buffer has reached buffer.max_bytes: a destination has to catch up, or the operator raises it.',
  pipe_share: 'The buffer is almost full, and this pipe holds more than its share of it.',
  idempotency_full: 'The space for idempotency keys is full; requests without a key are accepted.',
  too_many_bytes_in_flight: 'The daemon has as many requests in memory as it can hold.',
  write_failed: 'The daemon could not write to its disk.',
  not_in_cluster: 'The node has no connection to its cluster.',
  not_replicated:
    'The replica does not answer: the records are possibly stored. Send them again with their Idempotency-Key.',
  closing: 'The daemon is stopping.',
}

function reasonOf({ details }: Record<string, unknown>): string {
  const reason = isObject(details) ? details.reason : undefined
  if (typeof reason !== 'string') return ''
  return ` ${unavailableReasons[reason] ?? `Reason: ${reason}.`}`
}

/** A 403 has several causes. The message tells which one it is. */
function forbiddenHint(message: string): string | undefined {
  const [, scope] = /lacks the scope (\w+)/.exec(message) ?? []
  if (scope !== undefined)
    return `use a key with the scope ${scope}: \`pipectl keys create NAME --scope ${scope}\` creates one`
  if (/(for|limited to) (other|some) pipes/.test(message))
    return 'use a key of this pipe, or of the whole workspace; `pipectl keys list` shows the pipes of each key'
  return /origin/i.test(message) ? 'allow it with `pipectl origins add PIPE ORIGIN`' : undefined
}

function hintFor(status: number, code: string, { message }: Record<string, unknown>): string {
  const cause = code === 'forbidden' ? forbiddenHint(String(message)) : undefined
  if (cause !== undefined) return cause
  const known = errorHints[code]
  if (known !== undefined) return known
  if (status >= 500) return 'try again; the cause is in the log of the daemon'
  return 'the versions of this program and of the daemon can differ: compare `pipectl --version` on both'
}
